"""Least noise, or largest weight or clip norm, for a target ε; always on the safe side of it."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from airpool._support.arrays import Floats, as_floats
from airpool._support.errors import AirpoolError
from airpool._support.rounding import full, up
from airpool._support.search import smallest, smallest_number
from airpool.network.claim import Neighbours
from airpool.privacy.aggregate import Aggregate
from airpool.privacy.device import by_coin
from airpool.privacy.law import alike

# Factors that are searched: a dozen orders of magnitude of noise on either side.
_LEAST, _MOST = 1e-12, 1e12
# Brackets that are tried first, around 1, and inside them around a factor that is nearly right.
_STEPS, _SMALL_STEPS = (2.0, 16.0, 256.0, 65536.0), (1.01, 1.1)


class UnreachableError(AirpoolError, ValueError):
    """No amount of noise meets the target; `smallest` is the ε that the most noise gives."""

    def __init__(self, target: float, smallest: float, advice: str = "") -> None:
        self.target, self.smallest = target, smallest
        super().__init__(
            f"ε={full(target)} cannot be met by adding noise: the smallest ε that can is {up(smallest)}{advice}"
        )


def smallest_factor(
    epsilon_of: Callable[[float], Floats],
    target: Floats,
    *,
    most: float = np.inf,
    falling: bool = True,
    near: float | None = None,
    within: float = 0.0,
) -> float:
    """The smallest factor up to `most` at which ε ≤ target for every device.

    falling: ε falls as the factor grows, all the way; else it may rise again, and where `most` misses the target the
        minimum is searched.
    near: about the factor, if it is known. within: by so large a share it may be larger than the smallest one.
    Never above the target: the factor returned was evaluated and meets it.
    Edge cases: unreachable → `UnreachableError`, which names the smallest ε in reach; met without any noise → 0.
    """

    @cache
    def excess(log_factor: float) -> float:
        with np.errstate(over="ignore"):  # a target so small that the ratio is inf
            worst = float(np.max(epsilon_of(float(np.exp(log_factor))) / target))
        return float(np.log(np.clip(worst, 1e-12, 1e12)))

    # Around 1, or what is known, factors mostly lie, and ε is neither 0 nor inf there.
    centre = 0.0 if near is None else float(np.log(near))
    steps = np.log(_STEPS if near is None else (*_SMALL_STEPS, *_STEPS)).tolist()

    def bracketed(low: float, high: float) -> tuple[float, float] | None:
        for step in steps:
            a, b = centre - step, centre + step
            if low < a and b < high and excess(a) > 0 >= excess(b):
                return a, b
        return None

    most = min(most, _MOST)
    low, high = float(np.log(_LEAST)), float(np.log(max(most, _LEAST)))
    if falling and (bracket := bracketed(low, high)) is not None:
        return float(np.exp(smallest_number(excess, *bracket, within=within)))
    best = epsilon_of(most)
    if np.any(best > target) and most > _LEAST and not falling:
        most = _lowest(excess, most)
        best = epsilon_of(most)
    if np.any(best > target):
        worst = int(np.argmax(best / target))
        raise UnreachableError(float(target[worst]), float(best[worst]))
    high = float(np.log(max(most, _LEAST)))
    if low >= high or excess(high) > 0:
        return most
    if excess(low) <= 0:
        # The least factor meets it; whether none at all does is another matter.
        return 0.0 if np.all(epsilon_of(0.0) <= target) else _LEAST
    low, high = bracketed(low, high) or (low, high)
    return float(np.exp(smallest_number(excess, low, high, within=within)))


def _lowest(excess: Callable[[float], float], most: float) -> float:
    """The factor up to `most` at which the excess, a function of its logarithm, is least: on ever finer grids."""
    top = float(np.log(most))
    # Closer together below `most`, where a limit on the power makes ε turn, and around 1.
    near, far = top - np.linspace(0, 3, 31), np.linspace(-9, 9, 37)
    grid = as_floats(np.unique(np.concatenate([near, far[far < top]])))
    for _ in range(3):
        at = int(np.argmin([excess(float(x)) for x in grid]))
        top = float(grid[at])
        grid = as_floats(np.linspace(float(grid[max(at - 1, 0)]), float(grid[min(at + 1, len(grid) - 1)]), 11))
    return float(np.exp(top))


def largest(meets: Callable[[Floats], NDArray[np.bool_]], high: Floats, *, within: float = 0.0) -> Floats:
    """The largest x in [0, high] at which the target is met, elementwise; 0 where no x > 0 meets it.

    `meets` is true below some x and false above, and takes all elements at once. Rounded down, by a share of `within`.
    """
    good, bad = np.zeros_like(high), high.copy()
    at_high = meets(high)
    for _ in range(60):
        # Halving in logarithms once the scale is known, in values before.
        middle = np.where(good > 0, np.sqrt(np.maximum(good, 1e-300) * bad), bad / 16)
        passed = meets(middle)
        good, bad = np.where(passed, middle, good), np.where(passed, bad, middle)
        if np.all(at_high | (bad <= good * (1 + within))):
            break
    return np.where(at_high, high, good)


def balanced(
    meets: Callable[[Floats], NDArray[np.bool_]], start: Floats, high: Floats, *, within: float = 1e-11
) -> Floats:
    """The largest x in (0, high] at which every target is met, where one element moves the limits of the others.

    Each element grows while its target is met and shrinks while it is not, by a factor that comes closer to 1 at every
    turn, up to `within`. Rounded down: the x returned was evaluated and meets every target; 0 where none was found.
    """
    x, step, before = np.minimum(np.maximum(start, 1e-9), high), np.full(len(high), 0.05), np.ones(len(high), bool)
    best = np.zeros_like(high)
    for _ in range(400):  # pragma: no branch: a limit on time, for a search that halves its steps
        met = meets(x)
        if np.any(~met & (x < _LEAST)):
            return best
        if np.all(met) and np.sum(np.log(x)) > np.sum(np.log(np.maximum(best, 1e-300))):
            best = x
        step = np.where(met == before, np.minimum(1.3 * step, 3.0), step / 2)
        if np.all((step < within) | (met & (x >= high))):
            break
        x, before = np.minimum(x * np.exp(np.where(met, step, -step)), high), met
    found = seen_to_meet(meets, x)
    return found if np.all(found > 0) else best


def seen_to_meet(meets: Callable[[Floats], NDArray[np.bool_]], x: Floats) -> Floats:
    """x, reduced slightly where needed, until an evaluation meets every target; 0 where that fails."""
    step = 1e-12
    while np.all(x > 0) and not np.all(met := meets(x)):
        if step > 0.5:
            return np.zeros_like(x)
        # Half the step where a target is met: with none, two devices may alternate; with all of it, no ratio changes.
        x, step = x * (1 - np.where(met, step / 2, step)), 1.5 * step
    return x


def largest_shift(aggregate: Aggregate, target: Floats, delta: float | Floats, neighbours: Neighbours | str) -> Floats:
    """Largest shift of each device's feature at which its ε meets its own target, at this noise; rounded down.

        Δ_k = max{Δ : δ_k(target_k; Δ) ≤ δ}

    delta: for all devices, or one each.
    Holds for: one inference of Scheme 1. What the devices' shifts are now does not matter: only noise protects.
    Edge cases: no shift meets it → 0; none misses it (a device that takes part less often than δ) → inf.

    >>> twelve = Aggregate(np.ones(12), np.full(12, 0.05**2), np.full(12, 0.9))
    >>> largest_shift(twelve, np.full(12, 2.063924), 1e-5, "zero-out")[0].round(6)      # ε of w C = 1/12
    np.float64(0.083333)
    """
    columns = (aggregate.variance, aggregate.participation, aggregate.presence, aggregate.lent)
    columns += (aggregate.kind_of_strength, target)
    allowed = np.broadcast_to(np.asarray(delta, dtype=np.float64), target.shape)
    distinct, kind, _ = alike(*columns, *([] if np.all(allowed == allowed[:1]) else [allowed]))
    wanted = distinct[:, len(columns) - 1]
    limit = np.zeros(len(wanted))
    limit[kind] = allowed
    # In units of all the noise there is; ±e^40 is further than any target in use lies.
    total = float(np.sqrt(np.sum(aggregate.variance) + aggregate.extra))
    if total == 0:
        return np.where(aggregate.exposed <= allowed, np.inf, 0.0)

    def excess(smallness: Floats, index: Floats) -> Floats:
        asked = index.astype(np.int64)
        shift = np.zeros(len(wanted))
        shift[asked] = total * np.exp(-smallness)
        leak = by_coin(replace(aggregate, shift=shift[kind]), neighbours, of_device=kind)
        cases = np.flatnonzero(np.isin(leak.kind, asked))
        found = np.full(len(leak.kind), -np.inf)
        found[cases] = leak.delta(wanted[leak.kind[cases]], cases)
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(leak.worst(found)[asked], 0.0)) - np.log(limit[asked])

    low, high = np.full(len(wanted), -40.0), np.full(len(wanted), 40.0)
    smallness = smallest(excess, low, high, np.arange(len(wanted), dtype=np.float64))
    return np.where(smallness == -40.0, np.inf, total * np.exp(-smallness))[kind]
