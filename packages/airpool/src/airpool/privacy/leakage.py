"""Leakage of choosing devices by their scores: Schemes 2.1 (threshold) and 2.2 (ranking), docs/theory/selection.md.

A device's decision to transmit depends on its feature, so the decision itself leaks. Both functions give the game for
score and feature together; the paper's lemma, which adds two ε up, is paper.formulas.lemma.
"""

from dataclasses import dataclass, replace
from typing import get_args

import numpy as np

from airpool._support.arrays import Floats, Integers, finite, not_negative
from airpool._support.special import log_ndtr
from airpool.network.neighbours import Neighbours
from airpool.privacy.aggregate import Aggregate, least_of_others, ratio
from airpool.privacy.game import Direction, Game, gaussians, mixture
from airpool.privacy.law import alike
from airpool.privacy.unaligned import surroundings

# e^ε beyond this is out of floating point's reach; a larger ε is reported as inf.
_CEILING = 700.0
# Relative error of δ as computed, where silence is nearly as likely under both features.
_ERROR = 1e-8


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


def threshold_game(
    aggregate: Aggregate,
    scheme: Decision,
    neighbours: Neighbours | str = Neighbours.ZERO_OUT,
    *,
    cells: int | None = None,
) -> Game:
    """Scheme 2.1, exactly, for the worst pair of scores.

        δ(ε) = max_{π,π′} [(1−π) − e^ε(1−π′)]₊ + π·E[δ_G(ε − ln(π/π′); Δ/√v)]
        π, π′ ∈ {Φ((η−u_max)/σ₀), Φ((η−u_min)/σ₀)}

    Holds for: who transmits is visible; the others take part as rarely as their scores can make them. The curve is
    jointly convex in (π, π′), so it is largest at a vertex; the maximum over the vertices is one curve, which composes,
    and so do moments of the loss (renyi.py).
    Under cover noise the adversary is given who transmits all the same: an upper bound.
    Edge cases: a threshold far from every score gives 0 leakage by the decision, or inf without noise, never NaN.
    """
    _reject_removal(neighbours)
    # Every vertex is a pair of its own. Equal scores matter most where devices transmit most often: a vertex less.
    vertices = np.array([(0, 1), (1, 0), (1, 1)])
    game = _threshold(aggregate, scheme, neighbours, vertices, cells=cells)
    return replace(game, choices=np.repeat(np.arange(3), len(game.kind) // 3))


def public_score_game(aggregate: Aggregate, scheme: Decision, score: Floats, *, cells: int | None = None) -> Game:
    """Scheme 2.1 against a device whose feature is 0 and whose score is public, one of each device (odds.py).

    Forward: any view against the public one. Backward: the public one against any view.
    """
    vertices = np.array([(0, 2), (1, 2), (2, 0), (2, 1)])
    game = _threshold(aggregate, scheme, Neighbours.ZERO_OUT, vertices, cells=cells, public=score)
    half = len(game.kind) // 2

    def low(eps: Floats, pair: Integers, direction: Direction) -> Floats:
        return game.low(eps, pair + half * (direction == "backward"), "forward")

    return replace(game, kind=game.kind[:half], low=low, directions=get_args(Direction), distances=None)


def _threshold(
    aggregate: Aggregate,
    scheme: Decision,
    neighbours: Neighbours | str,
    vertices: Integers,
    *,
    cells: int | None,
    public: Floats | None = None,
) -> Game:
    """Scheme 2.1 between given scores: 0 the highest, 1 the lowest, 2 the public one."""
    # [transmits, silent] × [highest score, lowest score, public score] × devices
    scores = (scheme.score_high, scheme.score_low, *(() if public is None else (public,)))
    ends = (np.broadcast_to(u, (aggregate.num_devices,)) for u in scores)
    chance = np.stack([scheme.log_participation(score) for score in ends], axis=1)
    # Under cover noise the others' noise is there whenever they are on the air, whether they transmit or not.
    rarest = 1.0 if aggregate.cover_noise else np.exp(chance[0, 0])
    around = surroundings(aggregate, rarest)
    columns = (aggregate.shift, aggregate.variance, aggregate.lent, aggregate.presence, aggregate.kind_of_strength)
    of_device = alike(*columns, *chance[0])[1]
    found = around.representatives(of_device, cells, None if aggregate.strength is None else aggregate.variance)
    here, there = np.repeat(vertices, len(found.row), axis=0).T
    found = replace(found, device=np.tile(found.device, len(vertices)), row=np.tile(found.row, len(vertices)))
    log_transmits, log_silent = (np.stack([x[here, found.device], x[there, found.device]]) for x in chance)
    game = mixture(
        found,
        of_device,
        distance=aggregate.distance(neighbours)[found.device],
        own=aggregate.variance[found.device],
        exposed=np.exp(log_transmits[0]),
        log_transmits=log_transmits,
        log_silent=log_silent,
        most=_CEILING,
        error=_ERROR,
    )
    return replace(game, gaussian=None)


def ranking_game(
    aggregate: Aggregate,
    *,
    score_range: Floats,
    score_noise_std: Floats,
    num_selected: int,
    neighbours: Neighbours | str = Neighbours.ZERO_OUT,
) -> Game:
    """Scheme 2.2: devices send noisy scores to a ranking server, and the `num_selected` lowest transmit.

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
    distinct, of_device, _ = alike(mu)
    return gaussians(distinct, np.ones_like(distinct), of_device)


def _reject_removal(neighbours: Neighbours | str) -> None:
    if not Neighbours(neighbours).keeps_noise:
        raise ValueError(
            f"neighbours={neighbours!r} is not accounted for with Schemes 2.1 and 2.2; use zero-out or replace"
        )
