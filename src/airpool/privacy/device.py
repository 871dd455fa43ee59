"""ε of each device: what the sum of all signals reveals about one of them.

Three kinds of neighbours (docs/theory/guarantee.md §2): `zero-out`, the feature becomes 0; `replace`, it becomes any
other one; `remove`, the device is removed and its noise with it. Two kinds of participation: visible to the adversary
(the default), or hidden by cover noise, where silent devices still transmit their noise.
"""

from dataclasses import replace
from typing import assert_never, get_args

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats, Integers, checked
from airpool.network.neighbours import Neighbours
from airpool.privacy import cover, gaussian, removal
from airpool.privacy.aggregate import Aggregate, ratio
from airpool.privacy.game import Bounds, Direction, Game, mixture, solve
from airpool.privacy.law import alike, coarsened
from airpool.privacy.unaligned import surroundings

# The likelihood ratio of removal needs noncentral χ² tails, 100 times dearer than Gaussian ones.
_REMOVAL_BINS = 1024
# e^ε overflows beyond this; a removal that costs more is reported as inf.
_REMOVAL_CEILING = 700.0
# Relative errors of δ as computed, by differences of tails that nearly agree where a shift or a variance is small.
_COVER_ERROR, _REMOVAL_ERROR = 1e-10, 1e-8


def epsilon(aggregate: Aggregate, delta: float, *, neighbours: Neighbours | str = Neighbours.ZERO_OUT) -> Bounds:
    """ε of each device when all transmit together (theory/guarantee §3; the paper's claim is paper.formulas.theorem1).

        δ_k(ε) = p_k E[δ_G(ε; Δ_k/√(V_k + a_k))]            participation visible; zero-out, replace

    Holds for: ‖z‖ ≤ C, one inference, and every device that is neither absent nor colluding adds its noise.
    Differs from the paper: exact law of the aggregate noise instead of its mean less a tail bound, so no δ′; exact
    Gaussian curve; the true cost of removal.
    Edge cases: no noise at all → inf; weight or participation 0 → 0 (not for removal: missing noise is detectable).

    >>> twelve = Aggregate(np.full(12, 1 / 12), np.full(12, 0.05**2), np.full(12, 0.9))
    >>> float(epsilon(twelve, 1e-5).upper[0].round(6))
    2.063924
    """
    return solve(game(aggregate, neighbours), delta)


def delta(aggregate: Aggregate, epsilon: ArrayLike, *, neighbours: Neighbours | str = Neighbours.ZERO_OUT) -> Floats:
    """δ of each device at ε (one value, or one per device), rounded up: the larger of both directions."""
    eps = checked("epsilon", epsilon, allowed="must be a number", ok=lambda x: ~np.isnan(x))
    eps = np.broadcast_to(eps, (aggregate.num_devices,))
    played = game(aggregate, neighbours, merge=False)
    return played.worst(played.larger(played.low, eps[played.kind], np.arange(len(played.kind))))


def local_epsilon(
    aggregate: Aggregate, delta: float, *, neighbours: Neighbours | str = Neighbours.ZERO_OUT, inferences: int = 1
) -> Floats:
    """ε of a device when no other device is trusted: its own noise alone, given that it always takes part.

    Edge cases: removal is always detected next to the device's antenna → inf.
    """
    if not Neighbours(neighbours).keeps_noise:
        return np.full(aggregate.num_devices, np.inf)
    mu = ratio(aggregate.distance(neighbours), np.sqrt(aggregate.variance))
    return gaussian.epsilon(mu * np.sqrt(inferences), delta)


def game(
    aggregate: Aggregate, neighbours: Neighbours | str, *, merge: bool | Integers = True, cells: int | None = None
) -> Game:
    """The distinguishing game for each kind of device (for each device, without `merge`).

    Visible participation: two Gaussians of the same variance. Cover noise and removal (theory/guarantee.md §3, §5.1):
    the device's coin is hidden, so it is part of δ given the noise. An outage may be visible, so it is not. Who is on
    the air does not depend on the data.

    `merge` may also say which kind each device is of, 0, 1, ...; devices of a kind must be alike in every column.
    `cells` bounds the size of the noise laws, rounded to the safe side, where a whole curve is wanted (composition).
    """
    neighbours = Neighbours(neighbours)
    covered, removed = aggregate.cover_noise, not neighbours.keeps_noise
    columns = (aggregate.shift, aggregate.variance, aggregate.participation, aggregate.presence, aggregate.lent)
    columns += (aggregate.kind_of_strength,)
    if isinstance(merge, bool):
        of_device = alike(*columns)[1] if merge else np.arange(aggregate.num_devices)
    else:
        of_device = merge
    # Under cover all noise is there that is on the air, whether its device takes part or not.
    around = surroundings(aggregate, 1.0 if covered else aggregate.participation)
    found = around.representatives(of_device, cells, None if aggregate.strength is None else aggregate.variance)
    if removed and not covered:
        low = coarsened(found.low, _REMOVAL_BINS, down=True)
        exact = found.exact and low is found.low
        found = replace(found, low=low, high=low if exact else coarsened(found.high, _REMOVAL_BINS, down=False))
    if removed and aggregate.strength is not None:
        found = replace(found, high=found.low)  # the noncentral tails of the upper law are too dear: no lower end
    on_air = np.ones_like(aggregate.presence) if aggregate.weakened else aggregate.presence
    sure = (on_air if covered or removed else aggregate.exposed)[found.device]
    shift, own, coin = (x[found.device] for x in (aggregate.shift, aggregate.variance, aggregate.participation))

    def hidden(eps: Floats, pair: Integers, rest: Floats, direction: Direction) -> Floats:
        s, a, p, backward = shift[pair, None], own[pair, None], coin[pair, None], direction == "backward"
        match neighbours:
            case Neighbours.ZERO_OUT:
                return cover.delta_zero_out(eps, ratio(s, np.sqrt(rest + a)), p, backward=backward)
            case Neighbours.REPLACE:
                return cover.delta_replace(eps, ratio(s, np.sqrt(rest + a)), p)
            case Neighbours.REMOVE:
                law = removal.delta_covered if covered else removal.delta
                r = aggregate.dimension
                return law(eps, shift=s, rest=rest, own=a, dimension=r, participation=p, backward=backward)
        assert_never(neighbours)

    with np.errstate(divide="ignore"):
        log_transmits, log_silent = np.log([sure, sure]), np.log1p([-sure, -sure])
    return mixture(
        found,
        of_device,
        # Gaussians of one variance say nothing about removal: with an infinite distance they do not bound it.
        distance=np.full(len(shift), np.inf) if removed else aggregate.distance(neighbours)[found.device],
        own=own,
        exposed=np.ones(len(shift)) if removed else aggregate.exposed[found.device],
        log_transmits=log_transmits,
        log_silent=log_silent,
        given=hidden if removed or (covered and np.any(coin < 1)) else None,
        # Opposite features and Gaussians of one variance look alike from both sides.
        directions=get_args(Direction) if removed or (covered and neighbours is Neighbours.ZERO_OUT) else ("forward",),
        most=_REMOVAL_CEILING if removed else np.inf,
        error=_REMOVAL_ERROR if removed else _COVER_ERROR if covered else Game.error,
    )
