"""ε of a leak: one function of all its nodes (docs/theory/leaks.md)."""

from collections.abc import Sequence
from functools import partial, singledispatch
from math import log, sqrt
from typing import Any

import numpy as np

from airpool._support.arrays import Floats, failure_probability
from airpool._support.search import smallest_number
from airpool.privacy import compose, gaussian
from airpool.privacy.compose import Stream
from airpool.privacy.draws import StillStream, exceeded, over_any_draws, worst_of_draws
from airpool.privacy.leak import (
    Draws,
    Gaussian,
    Least,
    Mixed,
    Near,
    OverTime,
    PerDevice,
    Times,
    Unbounded,
    Worst,
    drawn,
    ends,
)


@singledispatch
def epsilon(leak: Any, delta: float, *, of: float | None = None) -> Floats:
    """ε of each device at δ, never too small; inf where there is none.

    of: the δ of which this one is a part; where inferences are composed, only the whole must not be too small.
    """
    raise TypeError(f"{type(leak).__name__} is no leak of devices: register its ε with airpool.privacy.epsilon.epsilon")


@epsilon.register
def _(leak: PerDevice, delta: float, *, of: float | None = None) -> Floats:
    if isinstance(leak.leak, Gaussian):
        return gaussian.epsilon(leak.worst(leak.leak.mu(leak.cases, 0.0)), delta)[leak.of_device]
    return ends(leak, delta).upper


@epsilon.register
def _(leak: Times, delta: float, *, of: float | None = None) -> Floats:
    """An outcome that reveals all, of probability q a time, counts for the whole run: 1 − (1−q)^T."""
    one = leak.leak
    if leak.number == 1:
        return epsilon(one, delta)
    if one.gaussian is not None:  # μ² adds up
        return gaussian.epsilon(one.worst(one.gaussian * sqrt(leak.number)), delta)[one.of_device]
    streams = (compose.stream(one, kind).repeated(leak.number) for kind in range(one.num_kinds))
    return np.array([each.epsilon(delta, of=of) for each in streams])[one.of_device]


@epsilon.register
def _(leak: Draws, delta: float, *, of: float | None = None) -> Floats:
    if leak.draws == 1:
        return ends(leak.in_one, delta).upper
    one = leak.leak
    found = np.empty(one.num_kinds)
    for kind in range(one.num_kinds):
        stream = still(leak, kind)
        most = ends(worst_draws(leak, kind), delta).upper
        found[kind] = over_any_draws([stream], 0.0, delta, float(most[0]))
    return found[one.of_device]


@epsilon.register
def _(leak: Mixed, delta: float, *, of: float | None = None) -> Floats:
    """inf where inferences are not composed: at a tiny δ, or for too many of them."""
    first = leak.leaks[0]
    whole = float(failure_probability(of or delta))
    if whole < compose.SMALLEST_DELTA or first.number > compose.MOST_INFERENCES:
        return np.full(len(first.leak.of_device), np.inf)
    found = np.empty(first.leak.num_kinds)
    for kind, mass in enumerate(leak.mass.T):
        streams = [compose.stream(leak.leaks[i].leak, kind).repeated(first.number) for i in np.flatnonzero(mass)]
        most = max((loss.highest for each in streams for loss in each.losses), default=0.0)
        found[kind] = smallest_number(partial(_mixed, streams, mass[mass > 0], delta), 0.0, most)
    return found[first.leak.of_device]


def _mixed(streams: Sequence[Stream], mass: Floats, delta: float, eps: float) -> float:
    """ln(δ(ε)/δ) of streams of which one is drawn."""
    return log(max(sum(share * each.delta(eps) for share, each in zip(mass, streams, strict=True)), 1e-320) / delta)


@epsilon.register
def _(leak: Near, delta: float, *, of: float | None = None) -> Floats:
    return compose.nearby(lambda left: epsilon(leak.leak, left, of=of or delta), delta, leak.failure)


@epsilon.register
def _(leak: Least, delta: float, *, of: float | None = None) -> Floats:
    return np.minimum.reduce([epsilon(each, delta, of=of) for each in leak.leaks])


@epsilon.register
def _(leak: Worst, delta: float, *, of: float | None = None) -> Floats:
    return np.maximum.reduce([epsilon(each, delta, of=of) for each in leak.leaks])


@epsilon.register
def _(leak: Unbounded, delta: float, *, of: float | None = None) -> Floats:
    return np.full(leak.count, np.inf)


def still(leak: Draws, kind: int) -> StillStream:
    """The stream of one kind of device."""
    return StillStream(exceeded(leak.leak, kind), leak.number, leak.draws)


def worst_draws(leak: Draws, kind: int) -> PerDevice:
    """A bound for one kind of device: every inference has the worst of its draws."""
    if kind not in leak.worst:
        leak.worst[kind] = drawn(*worst_of_draws([still(leak, kind)]))
    return leak.worst[kind]


def lower(leak: OverTime, delta: float) -> Floats | None:
    """The lower end of the numerical bracket whose upper end is `epsilon`; None where there is none."""
    match leak:
        case PerDevice():
            return epsilon(leak, delta) if isinstance(leak.leak, Gaussian) else ends(leak, delta).lower
        case Times(number=1):
            return lower(leak.leak, delta)
        case Least():
            found = [end for each in leak.leaks if (end := lower(each, delta)) is not None]
            return np.minimum.reduce(found) if len(found) == len(leak.leaks) else None
        case _:
            return None
