"""The ε of a device after any mixture of inferences: never below the truth.

`total` takes what was used of each mechanism, for one relation of neighbours. All inferences of one mechanism over one
draw of the channel: what `airpool epsilon --inferences T` says. Several mechanisms: where all noise is fixed and
every device takes part they are Gaussians, and μ² adds up; elsewhere the curves are composed, each direction by itself.
Several draws of a channel that stands still in between: docs/proofs/privacy.md, "Several draws of a channel". Holds for
mechanisms that do not depend on earlier outputs (docs/theory/guarantee.md, §6).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import NamedTuple

import numpy as np

from airpool._support.arrays import Floats
from airpool.account.games import game
from airpool.account.guarantee import epsilon_after, guarantee
from airpool.account.reasons import GRID
from airpool.account.received import aggregate
from airpool.account.stream import (
    Exceeded,
    StillStream,
    exceeded,
    in_common,
    most_draws,
    over_any_draws,
    worst_of_draws,
)
from airpool.network import Neighbours, scheme_rules
from airpool.privacy import compose, gaussian
from airpool.privacy.aggregate import ratio
from airpool.privacy.compose import Loss, Stream
from airpool.privacy.game import gaussians, solve
from airpool.runtime.ledger.mechanism import Mechanism


class Use(NamedTuple):
    """Inferences of one mechanism, and the most draws of a channel that stands still in between."""

    inferences: int
    epochs: int


Counts = Mapping[Mechanism, Use | int]


def why_infinite(counts: Counts, delta: float, neighbours: Neighbours | str) -> str:
    """The reason why a total is infinite: that of a mechanism that is by itself, else that of live noise's grid."""
    for one in counts:
        report = guarantee(one.under(Neighbours(neighbours)).network, delta=delta, live=one.live)
        if np.isinf(report.epsilon[one.device]):
            return report.reasons["epsilon"]
    return GRID


@dataclass(frozen=True, eq=False)
class _Share:
    """One inference as something that composes: a Gaussian at distance μ, or a stream of losses.

    missed: how likely it is that the law described here is not the one at work.
    """

    mu: float | None
    stream: Stream | None
    missed: float


def total(counts: Counts, delta: float, neighbours: Neighbours | str | None = None) -> float:
    """ε at δ of what was used of each mechanism.

    neighbours: the relation that every mechanism is accounted for under; by default the one that all of them have.
    A bare number of inferences: over one draw of the channel, as `airpool epsilon --inferences` has it.
    Edge cases: nothing spent → 0. Where a channel stands still and it is not certain who takes part, own noise alone
    counts. A ValueError where relations differ and none is given, or a scheme does not support the one that is.
    """
    used = _under(counts, neighbours)
    if not used:
        return 0.0
    if len(used) == 1:
        ((one, use),) = used.items()
        if _draws(one, use) == 1:
            return _same(one, delta)(use.inferences)
    alone = _composed({_part(each, alone=True): use.inferences for each, use in used.items()}, delta)
    still = {
        each: StillStream(law, use.inferences, _draws(each, use))
        for each, use in used.items()
        if (law := _exceeded(each))
    }
    parts = {_part(each, alone=_still(each)): use.inferences for each, use in used.items() if each not in still}
    if not still:
        return min(_composed(parts, delta), alone)
    missed = sum(each.inferences * _misses(one) for one, each in still.items())
    return min(_composed(parts, delta, list(still.values()), missed), alone)


def _under(counts: Counts, neighbours: Neighbours | str | None) -> dict[Mechanism, Use]:
    """The use of each mechanism under one relation; mechanisms that become equal are added up."""
    relations = {each.network.neighbours for each in counts} if neighbours is None else {neighbours}
    if len(relations) > 1:
        raise ValueError(f"mechanisms of the relations {', '.join(sorted(relations))} do not add up: give neighbours")
    found: dict[Mechanism, Use] = {}
    for each, number in counts.items():
        use = number if isinstance(number, Use) else Use(number, 1)
        if use.inferences:
            one = _moved(each, next(iter(relations)))
            before = found.get(one, Use(0, 0))
            found[one] = Use(before.inferences + use.inferences, before.epochs + use.epochs)
    return found


@lru_cache(maxsize=256)
def _moved(one: Mechanism, neighbours: Neighbours | str) -> Mechanism:
    return one.under(neighbours)


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
    """Whether something of the channel is common to several inferences."""
    return in_common(one.network, aggregate(one.network, live=one.live))


def _draws(one: Mechanism, use: Use) -> int:
    """The most draws of the channel there may have been; 1 where none is common to several inferences."""
    return most_draws(one.network, *use) if _still(one) else 1


@lru_cache(maxsize=256)
def _misses(one: Mechanism) -> float:
    return float(aggregate(one.network, live=one.live).misses[one.device])


@lru_cache(maxsize=256)
def _exceeded(one: Mechanism) -> Exceeded | None:
    """Probability that a draw of the channel exceeds each μ; None if none stands still, or own noise alone counts."""
    if not _still(one):
        return None
    return exceeded(one.network, aggregate(one.network, live=one.live), one.device)


@lru_cache(maxsize=256)
def _part(one: Mechanism, *, alone: bool = False) -> _Share:
    """One inference of a mechanism; alone: against an adversary that knows the noise of all others."""
    network = replace(one.network, inferences=2)
    received = aggregate(network, live=one.live)
    if alone:
        still = _still(one)
        received = replace(received, alone=True, extra=0.0)
        missed = float(received.misses[one.device])
        if still and not scheme_rules(network.scheme).scored and network.neighbours.keeps_noise:
            # Silence that is common to a stream is not counted on.
            mu = ratio(received.distance(network.neighbours), np.sqrt(received.variance))
            return _Share(float(mu[one.device]), None, missed)
    played, missed = game(network, received), float(received.misses[one.device])
    kind = int(played.of_device[one.device])
    if played.gaussian is not None:
        return _Share(float(played.worst(played.gaussian)[kind]), None, missed)
    return _Share(None, compose.stream(played, kind), missed)


def _composed(
    parts: Mapping[_Share, int], delta: float, still: Sequence[StillStream] = (), missed: float = 0.0
) -> float:
    """ε of a mixture at δ; still: over channels that stand still, `missed`: how likely it is that their law fails."""
    distance = float(np.sqrt(sum(number * part.mu**2 for part, number in parts.items() if part.mu is not None)))
    distance *= 1 + 1e-12
    curves = [part.stream.repeated(number).losses for part, number in parts.items() if part.stream is not None]
    missed = min(missed + sum(number * part.missed for part, number in parts.items()), 1.0)
    if curves and not np.isfinite(distance):
        return float("inf")
    mu, mass = worst_of_draws(still) if still else (np.zeros(1), np.ones(1))
    one = gaussians(np.hypot(mu, distance)[None], mass[None], np.zeros(1, dtype=np.int64))
    if curves and (distance > 0 or still):
        curves.append(compose.stream(one).losses)
    directions = max((len(each) for each in curves), default=1)
    mixed = [reduce(compose.composed, way) for way in zip(*(_both(each, directions) for each in curves), strict=True)]

    def at(left: float) -> Floats:
        if mixed:
            return np.array([Stream(tuple(mixed)).epsilon(left, of=delta)])
        if not still:
            return gaussian.epsilon(np.array([distance]), left)
        return np.array([over_any_draws(still, distance, left, float(solve(one, left).upper[0]))])

    return float(compose.nearby(at, delta, missed)[0])


def _both(losses: tuple[Loss, ...], directions: int) -> tuple[Loss, ...]:
    """A symmetric loss counts for both directions."""
    return losses * directions if len(losses) < directions else losses
