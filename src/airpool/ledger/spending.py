"""The ε of a device after any mixture of inferences: never below the truth.

`total` takes counts by mechanism. All inferences of one mechanism: what `airpool epsilon --inferences T` says. Several
mechanisms: where all noise is fixed and everybody takes part they are Gaussians, and μ² adds up; elsewhere the curves
are composed, each direction by itself. Holds for mechanisms that do not depend on earlier outputs (docs/guarantee.md,
§6).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, reduce

import numpy as np

from airpool.account.guarantee import epsilon_after, game
from airpool.account.received import aggregate
from airpool.account.stream import in_common
from airpool.arrays import Floats
from airpool.ledger.mechanism import Mechanism
from airpool.network import Coin
from airpool.privacy import compose, gaussian
from airpool.privacy.aggregate import ratio
from airpool.privacy.compose import Loss, Stream
from airpool.privacy.game import gaussians

Counts = Mapping[Mechanism, int]


@dataclass(frozen=True, eq=False)
class _Part:
    """One inference as something that composes: a Gaussian at distance μ, or a stream of losses.

    missed: how likely it is that the law described here is not the one at work.
    """

    mu: float | None
    stream: Stream | None
    missed: float


def total(counts: Counts, delta: float) -> float:
    """ε at δ of so many inferences of each mechanism.

    Edge cases: nothing spent → 0. Channels that stand still are common to the inferences of one mechanism; where they
    are mixed with others, ε and δ of the groups add up, or own noise alone counts, whichever is less.
    """
    counts = {each: number for each, number in counts.items() if number}
    if not counts:
        return 0.0
    if len(counts) == 1:
        ((one, number),) = counts.items()
        return _same(one, delta)(number)
    still = [each for each in counts if _still(each)]
    rest = {_part(each): number for each, number in counts.items() if each not in still}
    alone = _composed({_part(each, alone=True): number for each, number in counts.items()}, delta)
    if not still:
        return min(_composed(rest, delta), alone)
    groups = len(still) + bool(rest)
    each = [_same(one, delta / groups)(counts[one]) for one in still]
    return min(sum(each) + (_composed(rest, delta / groups, of=delta) if rest else 0.0), alone)


@lru_cache(maxsize=64)
def _same(one: Mechanism, delta: float) -> Callable[[int], float]:
    """ε by number of inferences of one mechanism."""
    network = replace(one.network, delta=delta, inferences=2)  # a stream, of whatever length
    after = epsilon_after(network, aggregate(network, live=one.live))

    @lru_cache(maxsize=4096)
    def epsilon(number: int) -> float:
        return float(after(number)[one.device])

    return epsilon


@lru_cache(maxsize=256)
def _still(one: Mechanism) -> bool:
    """Whether something of the channel is common to all inferences."""
    return in_common(one.network, aggregate(one.network, live=one.live))


@lru_cache(maxsize=256)
def _part(one: Mechanism, *, alone: bool = False) -> _Part:
    """One inference of a mechanism; alone: against an adversary that knows everybody else's noise."""
    network = replace(one.network, inferences=2)
    received = aggregate(network, live=one.live)
    if alone:
        still = _still(one)
        received = replace(received, alone=True, extra=0.0)
        missed = float(received.misses[one.device])
        if still and isinstance(network.scheme, Coin) and network.neighbours != "remove":
            # Silence that is common to a stream is not counted on.
            mu = ratio(received.distance(network.neighbours), np.sqrt(received.variance))
            return _Part(float(mu[one.device]), None, missed)
    played, missed = game(network, received), float(received.misses[one.device])
    kind = int(played.of_device[one.device])
    if played.gaussian is not None:
        return _Part(float(played.worst(played.gaussian)[kind]), None, missed)
    return _Part(None, compose.stream(played, kind), missed)


def _composed(parts: Mapping[_Part, int], delta: float, *, of: float | None = None) -> float:
    """ε of a mixture at δ, which may be a part of a larger δ, `of`."""
    distance = float(np.sqrt(sum(number * part.mu**2 for part, number in parts.items() if part.mu is not None)))
    curves = [part.stream.repeated(number).losses for part, number in parts.items() if part.stream is not None]
    missed = min(sum(number * part.missed for part, number in parts.items()), 1.0)
    if curves and np.isfinite(distance) and distance > 0:
        one = gaussians(np.array([[distance]]), np.ones((1, 1)), np.zeros(1, dtype=np.int64))
        curves.append(compose.stream(one).losses)
    if curves and not np.isfinite(distance):
        return float("inf")
    directions = max((len(each) for each in curves), default=1)
    mixed = [reduce(compose.composed, way) for way in zip(*(_both(each, directions) for each in curves), strict=True)]

    def at(left: float) -> Floats:
        if not mixed:
            return gaussian.epsilon(np.array([distance * (1 + 1e-12)]), left)
        stream = Stream(tuple(mixed))
        return np.array([stream.epsilon(left, of=of or delta)])

    return float(compose.nearby(at, delta, missed)[0])


def _both(losses: tuple[Loss, ...], directions: int) -> tuple[Loss, ...]:
    """A symmetric loss counts for both directions."""
    return losses * directions if len(losses) < directions else losses
