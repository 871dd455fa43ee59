"""Leakage of choosing devices by their scores: Schemes 2.1 (threshold) and 2.2 (ranking), docs/theory/selection.md.

A device's decision to transmit depends on its feature, so the decision itself leaks. The functions give the leak of
score and feature together; the paper's lemma, which adds two ε up, is paper.formulas.theorem3.
"""

from dataclasses import dataclass, replace

import numpy as np

from airpool._support.arrays import Floats, Integers, finite, not_negative
from airpool._support.special import log_ndtr
from airpool.network.claim import Neighbours
from airpool.privacy.aggregate import Aggregate, least_of_others, ratio
from airpool.privacy.device import surroundings
from airpool.privacy.law import alike
from airpool.privacy.leak import COMPOSED_CELLS, Decided, Gaussian, PerDevice, Seen, gaussians


@dataclass(frozen=True)
class Decision:
    """Scheme 2.1: a device transmits iff its score plus its own noise is at most `threshold`.

    Scores lie between `score_low` and `score_high`, one value per device or one for all; a zeroed or replaced feature
    may have any score in that range.
    """

    score_low: Floats
    score_high: Floats
    noise_std: Floats
    threshold: float

    def __post_init__(self) -> None:
        rules = {"score_low": finite, "score_high": finite, "noise_std": not_negative, "threshold": finite}
        for name, rule in rules.items():
            object.__setattr__(self, name, rule(name, getattr(self, name)))
        if np.any(self.score_low > self.score_high):
            raise ValueError("score_low must not exceed score_high")

    def log_participation(self, score: Floats) -> tuple[Floats, Floats]:
        """ln Pr(transmits) and ln Pr(stays silent), each accurate in its own tail."""
        with np.errstate(divide="ignore", invalid="ignore"):
            gap = (self.threshold - score) / self.noise_std
        # Without noise the comparison itself decides.
        gap = np.where(self.noise_std > 0, gap, np.where(self.threshold >= score, np.inf, -np.inf))
        return np.asarray(log_ndtr(gap)), np.asarray(log_ndtr(-gap))


def by_threshold(
    aggregate: Aggregate, scheme: Decision, neighbours: Neighbours | str = Neighbours.ZERO_OUT
) -> PerDevice:
    """The leak of each device in one slot of Scheme 2.1, exactly, for the worst pair of scores.

        δ(ε) = max_{π,π′} [(1−π) − e^ε(1−π′)]₊ + π·E[δ_G(ε − ln(π/π′); Δ/√v)]
        π, π′ ∈ {Φ((η−u_max)/σ₀), Φ((η−u_min)/σ₀)}

    Holds for: who transmits is visible; the others take part as rarely as their scores can make them. The curve is
    jointly convex in (π, π′), so it is largest at a vertex; the maximum over the vertices is one curve, which composes,
    and so do moments of the loss (renyi.py).
    Under cover noise the adversary is given who transmits all the same: an upper bound.
    Edge cases: a threshold far from every score gives 0 leakage by the decision, or inf without noise, never NaN.
    """
    # Every vertex is a case of its own. Equal scores matter most where devices transmit most often: a vertex less.
    return _between(aggregate, scheme, neighbours, np.array([(0, 1), (1, 0), (1, 1)]))


def by_public_score(aggregate: Aggregate, scheme: Decision, plain: PerDevice) -> PerDevice:
    """Scheme 2.1 against a device whose feature is 0 and whose score is public (odds.py); any score gives valid odds.

    plain: the leak of `by_threshold`, of which a stream is made.
    """
    score = _public_score(scheme, _mean_square(plain.coarse(COMPOSED_CELLS)))
    return _between(aggregate, scheme, Neighbours.ZERO_OUT, np.array([(0, 2), (1, 2)]), public=score)


def _mean_square(leak: PerDevice) -> Floats:
    """Mean μ² of each device where it transmits, of its worst case."""
    law, cases = leak.distances, leak.cases
    with np.errstate(invalid="ignore", over="ignore"):
        found = np.einsum("ij,ij->i", law.mass(cases), np.minimum(law.mu(cases), 1e6) ** 2)
    return leak.worst(found)[leak.of_device]


def _public_score(scheme: Decision, squares: Floats) -> Floats:
    """A public score of each device for a stream of Scheme 2.1: the largest mean loss of a view against it is least.

    squares: mean μ² of each device where it transmits.
    """
    shape = squares.shape
    low, high = (np.broadcast_to(u, shape) for u in (scheme.score_low, scheme.score_high))
    grid = low + np.linspace(0.0, 1.0, 65)[:, None] * (high - low)
    public = scheme.log_participation(grid)
    worst = np.zeros(grid.shape)
    for score in (low, high):
        own = scheme.log_participation(score)
        with np.errstate(invalid="ignore"):
            each = [np.where(a > -np.inf, np.exp(a) * (a - b), 0.0) for a, b in zip(own, public, strict=True)]
            worst = np.maximum(worst, each[0] + each[1] + np.exp(own[0]) * squares / 2)
    at: Integers = np.argmin(np.where(np.isnan(worst), np.inf, worst), axis=0)
    return np.take_along_axis(grid, at[None], axis=0)[0]


def _between(
    aggregate: Aggregate,
    scheme: Decision,
    neighbours: Neighbours | str,
    vertices: Integers,
    *,
    public: Floats | None = None,
) -> PerDevice:
    """Scheme 2.1 between given scores: 0 the highest, 1 the lowest, 2 the public one."""
    _reject_removal(neighbours)
    # [transmits, silent] × [highest score, lowest score, public score] × devices
    scores = (scheme.score_high, scheme.score_low, *(() if public is None else (public,)))
    ends = (np.broadcast_to(u, (aggregate.num_devices,)) for u in scores)
    chance = np.stack([scheme.log_participation(score) for score in ends], axis=1)
    # Under cover noise the others' noise is there whenever they are on the air, whether they transmit or not.
    rarest = 1.0 if aggregate.cover_noise else np.exp(chance[0, 0])
    columns = (aggregate.shift, aggregate.variance, aggregate.lent, aggregate.presence, aggregate.kind_of_strength)
    of_device = alike(*columns, *chance[0])[1]
    noise = surroundings(aggregate, rarest).of_kinds(of_device)
    here, there = np.repeat(vertices, len(noise.row), axis=0).T
    choice = None if public is not None else np.repeat(np.arange(len(vertices)), len(noise.row))
    at = np.tile(noise.device, len(vertices))
    noise = replace(noise, device=at, row=np.tile(noise.row, len(vertices)))
    on, off = (np.stack([x[here, at], x[there, at]]) for x in chance)
    plain = Gaussian(aggregate.distance(neighbours)[at], aggregate.variance[at])
    return PerDevice(Decided(on, off, Seen(noise, plain, np.ones(len(at))), choice), of_device[at], of_device)


def by_ranking(
    aggregate: Aggregate,
    *,
    score_range: Floats,
    score_noise_std: Floats,
    num_selected: int,
    neighbours: Neighbours | str = Neighbours.ZERO_OUT,
) -> PerDevice:
    """The leak of each device in Scheme 2.2: it sends a noisy score, and the `num_selected` lowest transmit.

        ε_G at μ = √((Δu/σ₀)² + (Δ_k/√v_sel)²)

    v_sel: the device's own variance and the (k̃ − 1 − absent)₊ smallest of the honest others'. A valid bound, nearly
    exact unless k̃ is small: the adversary sees every noisy score, and is then granted the least noise that a selection
    can leave. Two Gaussian releases, so it composes exactly. Where devices may be in outage, or
    strengths vary, no other device's noise counts.
    Edge cases: no noise on the scores → inf, unless the scores cannot differ.
    """
    _reject_removal(neighbours)
    if not 1 <= num_selected <= aggregate.num_devices:
        raise ValueError(f"num_selected={num_selected} must be from 1 to {aggregate.num_devices}")
    spread, std = not_negative("score_range", score_range), not_negative("score_noise_std", score_noise_std)
    # Under cover noise those who are not selected send their noise too.
    transmitting = aggregate.num_devices if aggregate.cover_noise else num_selected
    steady = bool(np.all(aggregate.presence == 1)) and aggregate.strength is None
    helpers = max(transmitting - 1 - aggregate.absent, 0) if steady else 0
    counted = least_of_others(aggregate.lent, helpers) + aggregate.variance + aggregate.extra
    mu = np.hypot(ratio(spread, std), ratio(aggregate.distance(neighbours), np.sqrt(counted)))
    return gaussians(mu)


def _reject_removal(neighbours: Neighbours | str) -> None:
    if not Neighbours(neighbours).keeps_noise:
        raise ValueError(
            f"neighbours={neighbours!r} is not accounted for with Schemes 2.1 and 2.2; use zero-out or replace"
        )
