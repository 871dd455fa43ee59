"""What choosing devices by their scores adds: Schemes 2.1 (threshold) and 2.2 (ranking), spec §4.

A device's decision to transmit depends on its feature, so the decision itself leaks. Both functions give the game for
score and feature together; the paper's lemma, which adds two ε up, is paper.lemma.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from airpool.arrays import Floats, Integers, checked, not_negative
from airpool.privacy import gaussian
from airpool.privacy.aggregate import Aggregate, Neighbours, ratio
from airpool.privacy.device import ceiling, curves, expected, ratios, representatives
from airpool.privacy.floor import floor
from airpool.privacy.game import Curve, Direction, Game
from airpool.privacy.law import Law, alike

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
        for name in ("score_low", "score_high"):
            finite = checked(name, getattr(self, name), allowed="must be finite", ok=np.isfinite)
            object.__setattr__(self, name, finite)
        object.__setattr__(self, "noise_std", not_negative("noise_std", self.noise_std))
        checked("threshold", self.threshold, allowed="must be finite", ok=np.isfinite)
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
    aggregate: Aggregate, scheme: Decision, neighbours: Neighbours = "zero-out", *, cells: int | None = None
) -> Game:
    """Scheme 2.1, exactly, for the worst pair of scores.

        δ(ε) = max_{π,π′} [(1−π) − e^ε(1−π′)]₊ + π·E[δ_G(ε − ln(π/π′); Δ/√v)]
        π, π′ ∈ {Φ((η−u_max)/σ₀), Φ((η−u_min)/σ₀)}

    Holds for: who transmits is visible; the others take part as rarely as their scores can make them. The curve is
    jointly convex in (π, π′), so it is largest at a vertex; the maximum over the vertices is one curve, which composes.
    Under cover noise the adversary is given who transmits all the same: an upper bound.
    Edge cases: a threshold far from every score gives 0 leakage by the decision, or inf without noise, never NaN.
    """
    _reject_removal(neighbours)
    shape = (aggregate.num_devices,)
    transmits = [np.broadcast_to(scheme.log_participation(u)[0], shape) for u in (scheme.score_high, scheme.score_low)]
    silent = [np.broadcast_to(scheme.log_participation(u)[1], shape) for u in (scheme.score_high, scheme.score_low)]
    rarest = np.exp(transmits[0]) * aggregate.presence
    lent, own = aggregate.lent, aggregate.variance
    # Under cover noise the others' noise is there whenever they are on the air, whether they transmit or not.
    sounding = aggregate.presence if aggregate.cover_noise else rarest
    around = floor(lent, sounding, extra=aggregate.extra, absent=aggregate.absent)
    of_device = alike(aggregate.shift, own, lent, aggregate.presence, *transmits)[1]
    found = representatives(around, of_device, cells)
    shift, own = aggregate.distance(neighbours)[found.device], own[found.device]
    log_transmits, log_silent = (np.stack(x)[:, found.device] for x in (transmits, silent))

    def make(law: Law, sign: int) -> Curve:
        mu = ratios(found, law, shift, own)

        def delta_of(eps: Floats, pair: Integers, _: Direction) -> Floats:
            worst = np.zeros(eps.shape)
            for a in (0, 1):
                for b in (0, 1):
                    moved = eps - _difference(log_transmits[a, pair], log_transmits[b, pair])
                    received = expected(found, law, gaussian.delta(moved[:, None], mu(pair)), pair) + sign * found.slack
                    with np.errstate(over="ignore"):
                        unseen = np.exp(log_silent[a, pair]) - np.exp(eps + log_silent[b, pair])
                    worst = np.maximum(worst, np.maximum(unseen, 0.0) + np.exp(log_transmits[a, pair]) * received)
            return np.clip(worst, 0.0, 1.0)

        return delta_of

    def upper_end(target: float) -> Floats:
        # Both log-ratios of the decision, and the feature at its dearest. The feature's share alone may be infinite.
        often = np.exp(log_transmits[1])
        feature = np.minimum(ceiling(ratios(found, found.low, shift, own), found, often, target / 2), _CEILING)
        decision = np.abs(_difference(log_transmits[1], log_transmits[0]))
        return np.minimum(feature + decision + _silence(log_silent) + 1e-6, _CEILING)

    low, high = curves(found, make)
    return Game(of_device[found.device], of_device, low, high, upper_end, ("forward",), error=_ERROR)


def _difference(log_a: Floats, log_b: Floats) -> Floats:
    """ln(a/b), with 0/0 = 1: where neither ever happens there is nothing to compare."""
    with np.errstate(invalid="ignore"):
        return np.where(log_a == log_b, 0.0, log_a - log_b)


def _silence(log_silent: Floats) -> Floats:
    return np.abs(_difference(log_silent[0], log_silent[1]))


def ranking_game(
    aggregate: Aggregate,
    *,
    score_range: Floats,
    score_noise_std: Floats,
    num_selected: int,
    neighbours: Neighbours = "zero-out",
) -> Game:
    """Scheme 2.2: devices send noisy scores to a ranking server, and the `num_selected` lowest transmit.

        ε_G at μ = √((Δu/σ₀)² + (Δ_k/√v_sel)²)

    v_sel: the device's own variance and the (k̃ − 1 − absent)₊ smallest of the honest others'. A valid bound, nearly
    exact unless k̃ is small: the adversary sees every noisy score, and is then granted the least noise that a selection
    can leave. Two Gaussian releases, so it composes exactly. Where devices may be in outage nobody else's noise counts.
    Edge cases: no noise on the scores → inf, unless the scores cannot differ.
    """
    _reject_removal(neighbours)
    if not 1 <= num_selected <= aggregate.num_devices:
        raise ValueError(f"num_selected={num_selected} must be from 1 to {aggregate.num_devices}")
    shape = (aggregate.num_devices,)
    spread = np.broadcast_to(not_negative("score_range", score_range), shape)
    std = np.broadcast_to(not_negative("score_noise_std", score_noise_std), shape)
    covered = aggregate.cover_noise and bool(np.all(aggregate.presence == 1))
    counted = aggregate.fixed_variance() if covered else _selected_variance(aggregate, num_selected)
    mu = np.hypot(ratio(spread, std), ratio(aggregate.distance(neighbours), np.sqrt(counted)))
    distinct, of_device, _ = alike(mu)
    mu = distinct[:, 0]

    def delta_of(eps: Floats, kind: Integers, _: Direction) -> Floats:
        return gaussian.delta(eps, mu[kind])

    def upper_end(target: float) -> Floats:
        return (mu**2 / 2 + mu * np.sqrt(-2 * np.log(target))) * (1 + 1e-9) + 1e-9

    return Game(np.arange(len(mu)), of_device, delta_of, delta_of, upper_end, ("forward",), gaussian=mu)


def _selected_variance(aggregate: Aggregate, num_selected: int) -> Floats:
    """Own noise plus the least that the other selected and honest devices can add."""
    lent = aggregate.lent
    helpers = max(num_selected - 1 - aggregate.absent, 0) if np.all(aggregate.presence == 1) else 0
    ascending = np.sort(lent)
    # The smallest `helpers` among the others: a device that is among them itself is replaced by the next one.
    least = float(ascending[:helpers].sum())
    own_among = lent < ascending[helpers] if helpers < len(lent) else np.ones_like(lent, dtype=bool)
    following = float(ascending[helpers]) if helpers < len(lent) else 0.0
    others = np.where(own_among, least - lent + following, least) if helpers else np.zeros_like(lent)
    return others + aggregate.variance + aggregate.extra


def _reject_removal(neighbours: Neighbours) -> None:
    if neighbours == "remove":
        raise ValueError("neighbours='remove' is not accounted for with Schemes 2.1 and 2.2; use zero-out or replace")
