"""ε of each device: what the sum of all signals reveals about one of them.

Three kinds of neighbours (docs/theory/guarantee.md §2): `zero-out`, the feature becomes 0; `replace`, it becomes any
other one; `remove`, the device is removed and its noise with it. Two kinds of participation: visible to the adversary
(the default), or hidden by cover noise, where silent devices still transmit their noise.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import comb, prod

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats, Integers, checked
from airpool.network.claim import Neighbours
from airpool.privacy import grid
from airpool.privacy.aggregate import Aggregate, ratio
from airpool.privacy.floor import EXACT_CELLS, Floor, floor
from airpool.privacy.law import Arrivals, alike, binomial, kinds
from airpool.privacy.leak import (
    Bounds,
    Either,
    Gaussian,
    Hidden,
    HiddenBoth,
    PerDevice,
    Removed,
    Seen,
    Signal,
    drawn,
    ends,
)
from airpool.privacy.sampled import sampled_floor
from airpool.privacy.unaligned import unaligned_floor


def epsilon(aggregate: Aggregate, delta: float, *, neighbours: Neighbours | str = Neighbours.ZERO_OUT) -> Bounds:
    """ε of each device when all transmit together (theory/guarantee §3; the paper's claim is account.theorem1).

        δ_k(ε) = p_k E[δ_G(ε; Δ_k/√(V_k + a_k))]            participation visible; zero-out, replace

    Holds for: ‖z‖ ≤ C, one inference, and every device that is neither absent nor colluding adds its noise.
    Differs from the paper: exact law of the aggregate noise instead of its mean less a tail bound, so no δ′; exact
    Gaussian curve; the true cost of removal.
    Edge cases: no noise at all → inf; weight or participation 0 → 0 (not for removal: missing noise is detectable).

    >>> twelve = Aggregate(np.full(12, 1 / 12), np.full(12, 0.05**2), np.full(12, 0.9))
    >>> float(epsilon(twelve, 1e-5).upper[0].round(6))
    2.063924
    """
    return ends(by_coin(aggregate, neighbours), delta)


def delta(aggregate: Aggregate, epsilon: ArrayLike, *, neighbours: Neighbours | str = Neighbours.ZERO_OUT) -> Floats:
    """δ of each device at ε (one value, or one per device), rounded up: the larger of both directions."""
    eps = checked("epsilon", epsilon, allowed="must be a number", ok=lambda x: ~np.isnan(x))
    eps = np.broadcast_to(eps, (aggregate.num_devices,))
    each = by_coin(aggregate, neighbours, of_device=np.arange(aggregate.num_devices))
    return each.worst(each.delta(eps[each.kind], each.cases))


def by_coin(aggregate: Aggregate, neighbours: Neighbours | str, *, of_device: Integers | None = None) -> PerDevice:
    """The leak of each device in one slot where coins decide who transmits (Scheme 1).

    Visible participation: two Gaussians of the same variance. Cover noise and removal (theory/guarantee.md §3, §5.1):
    the device's coin is hidden, so it is part of δ given the noise. An outage may be visible, so it is not. Who is on
    the air does not depend on the data.

    of_device: which kind each device is of, 0, 1, ...; devices of a kind must be alike in every column. By default
    alike ones are one kind.
    """
    neighbours, covered = Neighbours(neighbours), aggregate.cover_noise
    if of_device is None:
        columns = (aggregate.shift, aggregate.variance, aggregate.participation, aggregate.presence, aggregate.lent)
        of_device = alike(*columns, aggregate.kind_of_strength)[1]
    # Under cover all noise is there that is on the air, whether its device takes part or not.
    noise = surroundings(aggregate, 1.0 if covered else aggregate.participation).of_kinds(of_device)
    at, on_air = noise.device, np.ones_like(aggregate.presence) if aggregate.weakened else aggregate.presence
    shift, own, coin = aggregate.shift[at], aggregate.variance[at], aggregate.participation[at]
    exposed, signal = on_air[at], _signal(aggregate, neighbours, shift, own, coin)
    if isinstance(signal, Gaussian):
        exposed = exposed if covered else aggregate.exposed[at]
    if not neighbours.keeps_noise and aggregate.strength is not None:
        noise = replace(noise, high=noise.low)  # the noncentral tails of the upper law are too dear: no lower end
    return PerDevice(Seen(noise, signal, exposed), of_device[at], of_device)


def surroundings(aggregate: Aggregate, participation: Floats | float) -> Floor:
    """Law of the noise around every device, beside its own; `participation` is given that a device is present."""
    lent, strength = aggregate.lent, aggregate.strength
    if strength is not None and np.any(lent > 0):
        p = np.broadcast_to(participation, lent.shape)
        if isinstance(strength, Arrivals):
            found = sampled_floor(lent, p, strength, extra=aggregate.extra, absent=aggregate.absent)
        else:
            found = unaligned_floor(lent, p, strength, extra=aggregate.extra, absent=aggregate.absent)
        if found is not None:
            return found
        lent = np.zeros_like(lent)
    extra = aggregate.extra if strength is None else 0.0
    return floor(lent, participation * aggregate.presence, extra=extra, absent=aggregate.absent)


# Numbers of silent others that are told apart, over all kinds of devices; and those that are rarer than this are not.
_COUNTS, _PER_KIND, _RAREST = 64, 16, 1e-13
# Cells of a law of noise, of which there are many: about 0.2 % of ε.
_CELLS = 2**7
# Sets of silent others that are gone through, unless there are so many that the grid takes over at once.
_SETS = 2**13


def by_coin_of_those_heard(
    aggregate: Aggregate, neighbours: Neighbours | str
) -> tuple[Floats, tuple[PerDevice, ...]] | None:
    """The leak of each device in one slot given how many others are in outage, with coins and noise new in each.

        δ(ε) ≤ presence·Σ_j Pr(J = j)·δ(ε; the worst j others are silent)

    For the slots of one draw of the channel (docs/proofs/privacy.md, "One draw, many coins"). Returned: probabilities
    (leaks, kinds), and the leaks; None where there are too many kinds of devices. J is rounded up, to at most
    _PER_KIND numbers, of which the last is everybody.
    Holds for: zero-out and replace; outages that are independent of each other. Where gains vary as well, own noise
    alone counts.
    """
    of_device = alike(
        *(aggregate.shift, aggregate.variance, aggregate.participation, aggregate.presence),
        *(aggregate.lent, aggregate.kind_of_strength),
    )[1]
    first = np.unique(of_device, return_index=True)[1]
    if len(first) > _COUNTS:
        return None
    presence = np.ones_like(aggregate.presence) if aggregate.weakened else aggregate.presence
    given = replace(aggregate, presence=np.ones_like(presence))
    if aggregate.strength is not None:
        given = replace(given, alone=True, strength=None, extra=0.0)
    silent, mass = _silent_others(given, 1 - aggregate.presence, first)
    each = (by_coin(replace(given, absent=int(number)), neighbours, of_device=of_device) for number in silent)
    return mass * presence[first], tuple(replace(leak, cells=_CELLS) for leak in each)


def _silent_others(given: Aggregate, outage: Floats, first: Integers) -> tuple[Integers, Floats]:
    """Numbers of others who are absent or silent, rounded up, and their probabilities for the `first` of each kind."""
    lent, most = given.lent, given.num_devices - 1
    law = floor(np.ones_like(lent), np.where(lent > 0, outage, 0.0))
    number = np.minimum(np.floor(law.high.variance[law.row[first]] + 0.5) + given.absent, most).astype(np.int64)
    values, cell = np.unique(number, return_inverse=True)
    mass = np.zeros((len(values), len(first)))
    each = law.high.mass[law.row[first]] * (1 + 1e-9)  # what arithmetic may cost
    np.add.at(mass, (cell.reshape(number.shape), np.arange(len(first))[:, None]), each)
    reached = np.cumsum(mass[::-1], axis=0)[::-1]
    kinds, allowed = len(alike(lent, given.participation)[0]), min(_PER_KIND, _COUNTS // len(first))
    sets = np.array([float(comb(kinds + n - 1, n) * kinds) for n in values.tolist()])
    quick = (kinds == 1) | (sets <= _SETS) | (sets > EXACT_CELLS)
    told = np.flatnonzero((reached.max(axis=1) >= _RAREST) & quick)
    if len(told) >= allowed:
        beyond = (reached - mass).max(axis=1)[told]
        level = np.geomspace(0.3, max(float(beyond[-1]), _RAREST), allowed)[: allowed - 1]
        told = told[np.unique(np.argmax(beyond <= level[:, None] * (1 + 1e-9), axis=1))]
    ends = np.append(values[told][values[told] < most], most)
    out = np.zeros((len(ends), len(first)))
    np.add.at(out, np.searchsorted(ends, values), mass)
    out[-1] += law.slack
    some = np.any(out > 0, axis=1)
    return ends[some], out[some]


def _signal(aggregate: Aggregate, neighbours: Neighbours, shift: Floats, own: Floats, coin: Floats) -> Signal:
    """What a device that is on the air shows over known noise."""
    if not neighbours.keeps_noise:
        gone = Removed(shift, own, aggregate.dimension)
        if aggregate.cover_noise:  # the divergence is convex, so it is at most the mean over the device's coin
            return Either(coin, gone, replace(gone, shift=np.zeros_like(shift)))
        return Hidden(coin, gone)
    plain = Gaussian(shift * neighbours.sensitivity, own)
    if not aggregate.cover_noise or np.all(coin == 1):
        return plain
    return Hidden(coin, plain) if neighbours is Neighbours.ZERO_OUT else HiddenBoth(coin, plain)


# Outcomes of who takes part that are enumerated; beyond this a bound takes over.
_OUTCOMES = 2**16


def of_object(aggregate: Aggregate, neighbours: Neighbours | str = Neighbours.ZERO_OUT) -> PerDevice:
    """The leak of the object, in the place of a device: all features are zeroed (or replaced) together.

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
    return drawn(mu, mass, slack=slack)


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
