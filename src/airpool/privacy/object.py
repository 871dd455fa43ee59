"""ε of the object itself: all views change at once. A device's ε does not bound it."""

from collections.abc import Sequence
from math import prod

import numpy as np

from airpool._support.arrays import Floats, Integers
from airpool.network.neighbours import Neighbours
from airpool.privacy import grid
from airpool.privacy.aggregate import Aggregate, ratio
from airpool.privacy.game import Game, gaussians
from airpool.privacy.law import alike, binomial, kinds

# Outcomes of who takes part that are enumerated; beyond this a bound takes over.
_OUTCOMES = 2**16


def object_game(aggregate: Aggregate, neighbours: Neighbours | str = Neighbours.ZERO_OUT) -> Game:
    """All features are zeroed (or replaced) together: one game, for the object.

        δ(ε) = E_τ[ δ_G(ε; Σ τ_i Δ_i / √(Σ τ_i a_i + extra)) ],    under cover noise Σ a_i instead

    Holds for: the same assumptions as the device's ε; the noise of dropouts does not count, but their views do (a
    bound). Exact for up to 65,536 outcomes of who takes part (many like devices, or sixteen heterogeneous ones); beyond
    that an upper bound, with all features in the shift. Under cover noise an upper bound (the adversary is given
    who took part).
    Edge cases: a colluder sees its own view change → inf; removal of all devices leaves no noise → inf.
    """
    if not Neighbours(neighbours).keeps_noise or aggregate.colluders or aggregate.colluding:
        mu, mass, slack = np.array([np.inf]), np.ones(1), 0.0
    elif aggregate.alone or aggregate.strength is not None:
        # Every signal by itself: squared distances, in standard deviations, add up. Dropouts only take some away.
        # Of any mixture of the signals this is a bound (Cauchy-Schwarz), if no other noise is counted.
        extra = aggregate.extra if aggregate.strength is None else 0.0
        each = ratio(aggregate.distance(neighbours), np.sqrt(aggregate.variance + extra))
        mu, mass, slack = np.array([np.sqrt(np.sum(each**2))]), np.ones(1), 0.0
    else:
        mu, mass, slack = _outcomes(aggregate, neighbours)
    return gaussians(mu[None], mass[None], np.zeros(1, dtype=np.int64), slack=slack)


def _outcomes(aggregate: Aggregate, neighbours: Neighbours | str) -> tuple[Floats, Floats, float]:
    """μ of every outcome of who takes part, its probability, and the slack of a bound."""
    lent, shift = aggregate.lent, aggregate.distance(neighbours)
    distinct, _, count = alike(shift, lent, aggregate.received)
    laws = [binomial(int(n), float(p)) for n, p in zip(count, distinct[:, 2], strict=True)]
    absent = min(aggregate.absent, aggregate.num_devices)
    # With outages the noise of silent devices is not always there: only that of those who transmit is counted then.
    covered = aggregate.cover_noise and bool(np.all(aggregate.presence == 1))
    always_there = float(np.sort(lent)[: len(lent) - absent].sum()) + aggregate.extra
    weak_but_heard = aggregate.weakened and bool(np.any(aggregate.presence < 1))
    if weak_but_heard or prod(len(m) for m, _ in laws) > _OUTCOMES:
        total = float(np.sum(shift))
        if covered:
            return ratio(np.array([total]), np.sqrt(always_there)), np.ones(1), 0.0
        by_kind = kinds(lent, aggregate.received)
        law = grid.without_the_largest(by_kind, absent)
        return ratio(total, np.sqrt(law.variance[0] + aggregate.extra)), law.mass[0], grid.slack(by_kind)
    taking_part, mass = _product(laws)
    if covered:
        variance = np.full(len(mass), always_there)
    else:
        variance = _variance_of(taking_part, distinct[:, 1], absent) + aggregate.extra
    return ratio(taking_part @ distinct[:, 0], np.sqrt(variance)), mass, 0.0


def _product(laws: Sequence[tuple[Integers, Floats]]) -> tuple[Floats, Floats]:
    """Every outcome of independent counts, (outcomes, laws), and its probability; numpy's own grids end at 32 laws."""
    total = prod(len(m) for m, _ in laws)
    counts, mass, after = np.empty((total, len(laws))), np.ones(total), total
    for i, (values, chances) in enumerate(laws):
        after //= len(values)
        which = np.arange(total) // after % len(values)
        counts[:, i] = values[which]
        mass *= chances[which]
    return counts, mass


def _variance_of(taking_part: Floats, variance: Floats, absent: int) -> Floats:
    """Noise in each outcome, less the `absent` largest contributions to it."""
    order = np.argsort(-variance)
    counted = taking_part[:, order]
    before = np.cumsum(counted, axis=1) - counted
    skipped = np.clip(absent - before, 0.0, counted)
    return (counted - skipped) @ variance[order]
