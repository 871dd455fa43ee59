"""Uses of several leaks of one device together: what a ledger adds up (docs/theory/leaks.md).

    Use(...)                 one use, as leaks of its own for each company that it may be in
    Together((use, n, k))    n uses of each, over at most k draws of a channel that stays

One kind of use costs what `Times` and `Draws` say. Several kinds: where all noise is fixed and the device takes part,
they are Gaussians, and μ² adds up; elsewhere curves are composed, each direction by itself. Draws of a channel that
stays: docs/proofs/privacy.md, "Several draws of a channel". Holds for leaks that do not depend on earlier outputs
(docs/theory/guarantee.md, §6).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce

import numpy as np

from airpool._support.arrays import Floats
from airpool.privacy import compose, gaussian
from airpool.privacy.compose import Loss, Stream
from airpool.privacy.draws import Exceeded, StillStream, exceeded, over_any_draws, worst_of_draws
from airpool.privacy.epsilon import epsilon
from airpool.privacy.leak import (
    Draws,
    Least,
    Mixed,
    Near,
    OverTime,
    PerDevice,
    Times,
    Worst,
    drawn,
    ends,
    near,
)


@dataclass(frozen=True, eq=False)
class Use:
    """One use of a network, of one device.

    once: the only one. often: one of many of its kind. mixed: one among others. alone: one among others, where no other
    device's noise counts. missed: how likely each of these two is not the leak. Draws: over a channel that stays.
    surroundings: how many there may be in one draw of the channel; 0 where nothing of it stays.
    """

    once: OverTime
    often: OverTime
    mixed: PerDevice | Draws
    alone: PerDevice
    missed: tuple[float, float]
    surroundings: int


@dataclass(frozen=True, eq=False)
class Together:
    """Uses of several kinds by one device: of each how many, and over how many draws of the channel at most."""

    parts: tuple[tuple[Use, int, int], ...]


@epsilon.register
def _(leak: Together, delta: float, *, of: float | None = None) -> Floats:
    """Edge cases: no use → 0. Over several draws by own noise alone, if that is less."""
    parts = [(use, number, draws) for use, number, draws in leak.parts if number]
    if not parts:
        return np.zeros(1)
    if len(parts) == 1:
        ((use, number, draws),) = parts
        if _draws(use, number, draws) == 1:
            return np.array([_alike(use, number, delta)])
    mixed = _composed(
        [(use.mixed, number, _draws(use, number, draws), use.missed[0]) for use, number, draws in parts], delta
    )
    alone = _composed([(use.alone, number, 1, use.missed[1]) for use, number, _ in parts], delta)
    return np.array([min(mixed, alone)])


def over(leak: OverTime, number: int) -> OverTime:
    """The leak of so many uses, of one of them among many; over one draw of a channel that stays."""
    match leak:
        case PerDevice():
            return Times(number, leak)
        case Times() | Draws():
            return replace(leak, number=number * leak.number)
        case Near():
            return Near(np.minimum(number * leak.failure, 1.0), over(leak.leak, number))
        case Least() | Worst():
            return type(leak)(tuple(over(each, number) for each in leak.leaks))
        case Mixed():
            return replace(leak, leaks=tuple(replace(each, number=number * each.number) for each in leak.leaks))
        case _:
            return leak


@lru_cache(maxsize=4096)
def _alike(use: Use, number: int, delta: float) -> float:
    """ε of uses of one kind, over one draw of the channel where it stays."""
    return float(epsilon(use.once if number == 1 else over(use.often, number), delta)[0])


def _draws(use: Use, number: int, draws: int) -> int:
    """The most surroundings there may have been; 1 where nothing is common to several uses."""
    return min(number, draws * use.surroundings) if use.surroundings else 1


@lru_cache(maxsize=256)
def _exceeded(leak: PerDevice) -> Exceeded:
    return exceeded(leak, 0)


def _composed(parts: Sequence[tuple[PerDevice | Draws, int, int, float]], delta: float) -> float:
    """ε at δ of so many uses of each kind, over so many draws where the channel stays; each may be missed."""
    square, curves, still = 0.0, list[tuple[Loss, ...]](), list[StillStream]()
    for each, number, draws, _ in parts:
        if isinstance(each, Draws):
            still.append(StillStream(_exceeded(each.leak), number, draws))
        elif each.gaussian is not None:
            square += number * float(each.worst(each.gaussian)[0]) ** 2
        else:
            curves.append(compose.stream(each).repeated(number).losses)
    missed = sum(number * missed for _, number, _, missed in parts)
    distance = float(np.sqrt(square)) * (1 + 1e-12)
    if curves and not np.isfinite(distance):
        return float("inf")
    mu, mass = worst_of_draws(still) if still else (np.zeros(1), np.ones(1))
    one = drawn(np.hypot(mu, distance), mass)
    if curves and (distance > 0 or still):
        curves.append(compose.stream(one).losses)
    directions = max((len(each) for each in curves), default=1)
    both = (each * (directions // len(each)) for each in curves)  # a symmetric loss counts for both directions
    mixed = [reduce(Loss.plus, way) for way in zip(*both, strict=True)]

    def at(left: float) -> Floats:
        if mixed:
            return np.array([Stream(tuple(mixed)).epsilon(left, of=delta)])
        if not still:
            return gaussian.epsilon(np.array([distance]), left)
        return np.array([over_any_draws(still, distance, left, float(ends(one, left).upper[0]))])

    return float(compose.nearby(at, delta, min(missed, 1.0))[0])


def of_one(leak: OverTime, device: int) -> OverTime:
    """The leak of one device by itself."""
    match leak:
        case PerDevice():
            return leak.of(device)
        case Times() | Draws():
            return replace(leak, leak=leak.leak.of(device))
        case Near():
            return near(leak.failure[[device]], of_one(leak.leak, device))
        case Least() | Worst():
            return type(leak)(tuple(of_one(each, device) for each in leak.leaks))
        case Mixed():
            kind = leak.leaks[0].leak.of_device[[device]]
            leaks = tuple(replace(each, leak=each.leak.of(device)) for each in leak.leaks)
            return Mixed(leak.mass[:, kind], leaks)
        case _:
            return replace(leak, count=1)
