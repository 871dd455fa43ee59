"""ε of each device: what the sum of all signals tells about one of them.

Three kinds of neighbours (spec §3.1): `zero-out`, the feature becomes 0; `replace`, it becomes any other one;
`remove`, the device vanishes and its noise with it. Two kinds of participation: visible to the adversary (the default),
or hidden by cover noise, where silent devices still send their noise.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from airpool.arrays import Floats, Integers, checked
from airpool.privacy import cover, gaussian, removal
from airpool.privacy.aggregate import Aggregate, Neighbours, ratio
from airpool.privacy.floor import Floor, floor
from airpool.privacy.game import CHUNK, Bounds, Curve, Direction, Game, in_chunks, solve
from airpool.privacy.law import Law, alike, coarsened

# The likelihood ratio of removal needs noncentral χ² tails, 100 times dearer than Gaussian ones.
_REMOVAL_BINS = 1024
# e^ε overflows beyond this; a removal that costs more is reported as inf.
_REMOVAL_CEILING = 700.0
# Relative errors of δ as computed, by differences of tails that nearly agree where a shift or a variance is small.
_COVER_ERROR, _REMOVAL_ERROR = 1e-10, 1e-8


def epsilon(aggregate: Aggregate, delta: float, *, neighbours: Neighbours = "zero-out") -> Bounds:
    """ε of each device when all transmit together (spec §3.3 to §3.5; the paper's claim is paper.theorem1).

        δ_k(ε) = p_k E[δ_G(ε; Δ_k/√(V_k + a_k))]            participation visible; zero-out, replace

    Holds for: ‖z‖ ≤ C, one inference, and every device that is neither absent nor colluding adds its noise.
    Differs from the paper: exact law of the aggregate noise instead of its mean less a tail bound, so no δ′; exact
    Gaussian curve; the true cost of removal.
    Edge cases: no noise at all → inf; weight or participation 0 → 0 (but not for removal, where noise shows).

    >>> twelve = Aggregate(np.full(12, 1 / 12), np.full(12, 0.05**2), np.full(12, 0.9))
    >>> float(epsilon(twelve, 1e-5).upper[0].round(6))
    2.063924
    """
    return solve(game(aggregate, neighbours), delta)


def delta(aggregate: Aggregate, epsilon: ArrayLike, *, neighbours: Neighbours = "zero-out") -> Floats:
    """δ of each device at ε (one value, or one per device), rounded up: the larger of both directions."""
    eps = checked("epsilon", epsilon, allowed="must be a number", ok=lambda x: ~np.isnan(x))
    eps = np.broadcast_to(eps, (aggregate.num_devices,))
    played = game(aggregate, neighbours, merge=False)
    pairs = np.arange(len(played.kind))
    return played.worst(played.larger(played.low, eps[played.kind], pairs))


def local_epsilon(
    aggregate: Aggregate, delta: float, *, neighbours: Neighbours = "zero-out", inferences: int = 1
) -> Floats:
    """ε of a device when nobody else is trusted: its own noise alone, given that it takes part, every time.

    Edge cases: removal next to the device's antenna is always seen → inf.
    """
    if neighbours == "remove":
        return np.full(aggregate.num_devices, np.inf)
    mu = ratio(aggregate.distance(neighbours), np.sqrt(aggregate.variance))
    return gaussian.epsilon(mu * np.sqrt(inferences), delta)


def game(
    aggregate: Aggregate, neighbours: Neighbours, *, merge: bool | Integers = True, cells: int | None = None
) -> Game:
    """The game that the adversary plays against each kind of device (against each device, without `merge`).

    `merge` may also say which kind each device is of, 0, 1, ...; devices of a kind must be alike in every column.
    `cells` bounds the size of the noise laws, rounded to the safe side, where a whole curve is wanted (composition).
    """
    if neighbours not in get_args(Neighbours):
        raise ValueError(f"neighbours={neighbours!r} must be one of {', '.join(get_args(Neighbours))}")
    columns = (aggregate.shift, aggregate.variance, aggregate.participation, aggregate.presence, aggregate.lent)
    if isinstance(merge, bool):
        of_device = alike(*columns)[1] if merge else np.arange(aggregate.num_devices)
    else:
        of_device = merge
    around = (
        _on_air(aggregate)
        if aggregate.cover_noise
        else floor(aggregate.lent, aggregate.received, extra=aggregate.extra, absent=aggregate.absent)
    )
    found = representatives(around, of_device, cells)
    if neighbours == "remove" and not aggregate.cover_noise:
        low = coarsened(found.low, _REMOVAL_BINS, down=True)
        exact = found.exact and low is found.low
        found = replace(found, low=low, high=low if exact else coarsened(found.high, _REMOVAL_BINS, down=False))
    return _game(aggregate, neighbours, found, of_device)


def representatives(around: Floor, of_device: Integers, cells: int | None) -> Floor:
    """The floor's pairs for the first device of each kind only, with at most so many cells a law.

    With `cells`, the slack becomes the worst outcome, in which nobody else's noise is there: slack·f(0) bounds what the
    law misses of a falling f. As a bare addition to δ it would count as an infinite loss in every inference.
    """
    _, first = np.unique(of_device, return_index=True)
    kept = np.zeros(len(of_device), dtype=bool)
    kept[first] = True
    at = kept[around.device]
    found = replace(around, device=around.device[at], row=around.row[at])
    if cells is None or (found.low.variance.shape[1] <= cells and not found.slack):
        return found
    low, high = coarsened(found.low, cells, down=True), coarsened(found.high, cells, down=False)
    if found.slack:
        low, high = _with_outcome(low, 0.0, found.slack), _with_outcome(high, 0.0, -found.slack)
    return replace(found, low=low, high=high, slack=0.0)


def _with_outcome(law: Law, variance: float, mass: float) -> Law:
    """The law with one more cell in front of each row."""
    return Law(*(np.insert(x, 0, value, axis=1) for x, value in ((law.variance, variance), (law.mass, mass))))


def _game(aggregate: Aggregate, neighbours: Neighbours, found: Floor, of_device: Integers) -> Game:
    """δ(ε) = q·E_V[δ given V] + (1 − q)·(1 − e^ε)₊, with q the probability that there is anything to be found.

    Visible participation: two Gaussians of the same variance; q includes the device's coin.
    Cover noise (spec §3.4) and removal (spec §3.5): the coin is hidden, so it is part of δ given V. An outage may be
    seen, so it is not. Who is on the air does not depend on the data.
    """
    covered, removed = aggregate.cover_noise, neighbours == "remove"
    on_air = np.ones_like(aggregate.presence) if aggregate.weakened else aggregate.presence
    shift, distance, own, p, exposed, sure = (
        x[found.device]
        for x in (
            aggregate.shift,
            aggregate.distance(neighbours),
            aggregate.variance,
            aggregate.participation,
            aggregate.exposed,
            on_air if covered or removed else aggregate.exposed,
        )
    )

    def make(law: Law, sign: int) -> Curve:
        mu = ratios(found, law, shift if covered else distance, own)

        def delta_of(eps: Floats, pair: Integers, direction: Direction) -> Floats:
            e, coin, backward = eps[:, None], p[pair, None], direction == "backward"
            if removed:
                given = (removal.delta_covered if covered else removal.delta)(
                    e,
                    shift=shift[pair, None],
                    rest=law.variance[found.row[pair]],
                    own=own[pair, None],
                    dimension=aggregate.dimension,
                    participation=coin,
                    backward=backward,
                )
            elif not covered:
                given = gaussian.delta(e, mu(pair))
            elif neighbours == "replace":
                given = cover.delta_replace(e, mu(pair), coin)
            else:
                given = cover.delta_zero_out(e, mu(pair), coin, backward=backward)
            received = expected(found, law, given, pair) + sign * found.slack
            absent = (1 - sure[pair]) * -np.expm1(np.minimum(eps, 0.0))
            return np.clip(sure[pair] * received + absent, 0.0, 1.0)

        return delta_of

    def upper_end(target: float) -> Floats:
        if removed:
            return np.full(len(found.device), _REMOVAL_CEILING)
        return ceiling(ratios(found, found.low, distance, own), found, exposed, target)

    low, high = curves(found, make)
    certain = found.exact and found.low.variance.shape[1] == 1 and not removed and bool(np.all(exposed == 1))
    return Game(
        kind=of_device[found.device],
        of_device=of_device,
        low=low,
        high=high,
        ceiling=upper_end,
        # Opposite features and Gaussians of one variance look alike from both sides.
        directions=get_args(Direction) if removed or (covered and neighbours == "zero-out") else ("forward",),
        gaussian=ratio(distance, np.sqrt(found.low.variance[found.row, 0] + own)) if certain else None,
        error=_REMOVAL_ERROR if removed else _COVER_ERROR if covered else Game.error,
    )


def curves(found: Floor, make: Callable[[Law, int], Curve]) -> tuple[Curve, Curve]:
    """A curve with the noise rounded down and slack added, the proven one, and its counterpart from below."""

    def chunked(law: Law, sign: int) -> Curve:
        return in_chunks(make(law, sign), width=law.variance.shape[1])

    low = chunked(found.low, +1)
    return low, low if found.exact else chunked(found.high, -1)


def ratios(found: Floor, law: Law, shift: Floats, own: Floats) -> Callable[[Integers], Floats]:
    """μ = Δ/√(V + a) of given pairs in every cell of the law; computed once where that is not too much."""

    def of(pair: Integers) -> Floats:
        return ratio(shift[pair, None], np.sqrt(law.variance[found.row[pair]] + own[pair, None]))

    if len(found.row) * law.variance.shape[1] > CHUNK:
        return of
    every = of(np.arange(len(found.row)))
    return lambda pair: every[pair]


def expected(found: Floor, law: Law, given: Floats, pair: Integers) -> Floats:
    """The mean of what is given for every cell of the law, for each pair."""
    return np.einsum("ij,ij->i", law.mass[found.row[pair]], given)


def ceiling(mu: Callable[[Integers], Floats], found: Floor, p: Floats, target: float) -> Floats:
    """An ε that surely meets δ = target, for each pair."""
    every = np.arange(len(found.row))
    return gaussian.mixture_ceiling(mu(every), found.low.mass[found.row], p, target, slack=found.slack)


def _on_air(aggregate: Aggregate) -> Floor:
    """Law of the others' noise under cover: of all who are on the air, whether they take part or not."""
    if np.any(aggregate.presence < 1):
        return floor(aggregate.lent, aggregate.presence, extra=aggregate.extra, absent=aggregate.absent)
    rest = aggregate.fixed_variance() - aggregate.variance
    everyone = np.arange(aggregate.num_devices)
    law = Law(rest[:, None], np.ones((len(rest), 1)))
    return Floor(law, law, slack=0.0, device=everyone, row=everyone)
