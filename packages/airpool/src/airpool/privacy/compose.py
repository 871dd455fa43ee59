"""Many inferences: the privacy loss of one, convolved with itself on a grid, on the safe side (theory/guarantee.md §6).

Every inference draws participation and noise afresh. One leak becomes two laws of the privacy loss, one for each
direction; each is composed by itself, and the larger ε of the two is the answer. Why ε is never below the truth, and
what that costs: docs/proofs/privacy.md, "Composition".
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from math import log

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats, as_floats, failure_probability
from airpool._support.search import smallest_number
from airpool._support.special import expit
from airpool.privacy.leak import Direction, PerDevice
from airpool.privacy.renyi import LossMoments
from airpool.privacy.sums import OnGrid

# Within these limits cut tails and rounding stay a small share of δ.
SMALLEST_DELTA, MOST_INFERENCES = 1e-10, 2**24
# Mass that is cut off at the top at a time; mass that is moved up at the bottom, which raises δ by a relative 1e-13.
_TOP, _BOTTOM = 1e-22, 1e-13
# Masses are raised to this at least, so that no product of two underflows.
_TINY = 1e-100
# Relative error of two roundings.
_ROUNDING = 2.0**-52
# Cells of a law; points on each side of 0 for one inference.
_CELLS, _POINTS = 2**12, 2**10
# Up to four times as many cells are kept where the next coarser grid would raise the mean loss by more than this share.
_CHEAP = 3e-5
# Losses of one inference that are resolved; larger ones count as infinite.
_LEAST, _REACH = 1e-15, 700.0
# Least number of inferences from which moments are used where the data chooses among laws.
_MANY = 16
# Rounds of the search in `nearby`, and the share of δ below which ε is inf.
_ROUNDS, LEAST_SHARE = 100, 1e-3


class Loss(OnGrid):
    """A measure of privacy losses, rounded up, on steps of a power of two."""

    def delta(self, epsilon: float) -> float:
        """The curve at ε, rounded up."""
        first = int(np.clip(np.floor(epsilon / self.step) - self.lowest, 0, len(self.mass)))
        gain = -np.expm1(np.minimum(epsilon - self.values[first:], 0.0))
        return (float(gain @ self.mass[first:]) + self.infinite) * (1 + (len(self.mass) + 32) * _ROUNDING)

    def epsilon(self, delta: float) -> float:
        """The smallest ε ≥ 0 at which the curve is at most δ, rounded up; inf where there is none."""
        return smallest_number(lambda eps: log(max(self.delta(eps), 1e-320) / delta), 0.0, self.highest)

    @property
    def highest(self) -> float:
        """The largest finite loss, or 0."""
        return max(0.0, self.step * (self.lowest + len(self.mass) - 1))

    def coarser(self) -> "Loss":
        odd = self.lowest % 2
        mass = np.pad(self.mass * (1 + 4 * _ROUNDING), (odd, 1 - (odd + len(self.mass)) % 2))
        kept, between = mass[::2].copy(), mass[1::2]
        kept[:-1] += between * expit(-self.step)
        kept[1:] += between * expit(self.step)
        return Loss(2 * self.step, (self.lowest - odd) // 2, kept, self.infinite)

    def _added(self, other: OnGrid) -> "Loss":
        infinite = self.infinite * (float(other.mass.sum()) + other.infinite) + float(self.mass.sum()) * other.infinite
        return _fitted(Loss(self.step, self.lowest + other.lowest, np.convolve(self.mass, other.mass), infinite))


def _fitted(loss: Loss, *, error: float = 0.0) -> Loss:
    """A law of bounded size above this one: ends cut, all raised by `error` and by what rounding may have cost."""
    mass, infinite = loss.mass, loss.infinite
    last = len(mass) - int(np.searchsorted(np.cumsum(mass[::-1]), _TOP, side="right"))
    first = max(0, min(int(np.searchsorted(np.cumsum(mass), _BOTTOM, side="right")), last - 1))
    kept = mass[first : max(last, 1)].copy()
    kept[0] += mass[:first].sum()
    factor = 1 + error + (len(mass) + 32) * _ROUNDING
    infinite = (infinite + float(mass[last:].sum())) * factor
    out = Loss(loss.step, loss.lowest + first, np.maximum(kept * factor, _TINY), infinite)
    while len(out.mass) > _CELLS and (len(out.mass) > 4 * _CELLS or _cost_of_coarser(out) < _CHEAP):
        out = out.coarser()
    return out


def _cost_of_coarser(loss: Loss) -> float:
    """Relative increase of the mean loss on the next coarser grid."""
    mean = float(loss.mass @ loss.values)
    rise = loss.step * np.tanh(loss.step / 2) * float(loss.mass[1 - loss.lowest % 2 :: 2].sum())
    return rise / mean if mean > 0 else np.inf


@dataclass(frozen=True, eq=False)
class Stream:
    """Privacy loss of a number of like inferences of one device: that of one of them, in each direction that differs.

    moments: where the data chooses one of several laws in every inference, and `once` is above all of them.
    """

    once: tuple[Loss, ...]
    inferences: int = 1
    moments: Callable[[], LossMoments] | None = None

    def repeated(self, times: int) -> "Stream":
        """This stream `times` times in a row."""
        if times < 1:
            raise ValueError(f"times={times} must be >= 1")
        return Stream(self.once, self.inferences * times, self.moments)

    @cached_property
    def losses(self) -> tuple[Loss, ...]:
        """The loss of the whole stream, in each direction that differs."""
        if self.inferences > MOST_INFERENCES:
            raise ValueError(f"inferences={self.inferences} must be <= {MOST_INFERENCES} where they are composed")
        return tuple(loss.times(self.inferences) for loss in self.once)

    def epsilon(self, delta: float, *, of: float | None = None) -> float:
        """ε at δ, which may be a part of a larger δ, `of`: only a whole one must not be too small."""
        whole = float(failure_probability(of or delta))
        if whole < SMALLEST_DELTA:
            raise ValueError(f"delta={whole:g} must be >= {SMALLEST_DELTA:g} where inferences are composed")
        found = max(loss.epsilon(delta) for loss in self.losses)
        if self.moments is None or self.inferences < _MANY:
            return found
        return min(found, self.moments().epsilon(self.inferences, delta))

    def delta(self, epsilon: float) -> float:
        return max(loss.delta(epsilon) for loss in self.losses)


def stream(leak: PerDevice, kind: int = 0, *, points: int = _POINTS, cells: int | None = None) -> Stream:
    """One inference as a stream of length one, kept with the leak. points, cells: fewer are coarser, and still safe."""
    key, cells = ("stream", kind, points, cells), cells or leak.cells
    if key not in leak.kept:
        leak.kept[key] = _stream(leak if cells is None else leak.coarse(cells), kind, points)
    return leak.kept[key]


def _stream(leak: PerDevice, kind: int, points: int) -> Stream:
    reach = {direction: _reach(leak, kind, direction) for direction in leak.directions}
    step = float(2.0 ** np.floor(np.log2(max(reach.values()) / points)))

    def curve(direction: Direction) -> Floats:
        points = step * np.arange(int(np.ceil(reach[direction] / step)) + 1, dtype=np.float64)
        # Rounding must not make a falling curve rise.
        return np.clip(np.maximum.accumulate(leak.curve(kind, points, direction)[::-1])[::-1], 0.0, 1.0)

    curves = [curve(direction) for direction in leak.directions]
    # Binomial laws of n devices come from ln Γ(n + 1), which is off by a few roundings of its size, n ln n.
    devices = leak.num_devices
    error = leak.error + 4 * _ROUNDING * devices * np.log(devices + 1)
    once = tuple(_connected(*sides, step, error) for sides in zip(curves, reversed(curves), strict=True))

    @cache
    def moments() -> LossMoments:
        return LossMoments([loss for each in leak.chosen() for loss in stream(each, kind).once])

    return Stream(once, moments=moments if leak.chooses else None)


def _connected(above: Floats, below: Floats, step: float, error: float) -> Loss:
    """Connect the dots: δ at 0, step, 2·step, …, in this direction and in the other, up to a relative error."""
    start, rate, decay = max(above[0], below[0]), -np.expm1(-step), np.exp(-step)

    def half(deltas: Floats) -> tuple[Floats, Floats]:
        slopes = -np.diff(np.append(start, deltas[1:])) / rate
        return slopes, np.maximum(slopes - decay * np.append(slopes[1:], 0.0), 0.0)

    (rising, up), (falling, down) = half(above), half(below)
    zero = max(0.0, 1 - start - decay * float(rising[0] + falling[0]))
    # A loss of −x has e^−x times the probability that the other side gives to x.
    down = down * np.exp(-step * np.arange(1, len(down) + 1))
    mass = np.concatenate((down[::-1], [zero], up))
    points = Loss(step, -len(down), mass, float(above[-1]) + _TOP)
    return _fitted(points, error=error + 16 * len(mass) * _ROUNDING)


def _reach(leak: PerDevice, kind: int, direction: Direction) -> float:
    """The loss beyond which the remaining probability is negligible.

    At least 1/16 of the probability that all is revealed: a finer grid would only resolve rounding errors.
    """
    eps = as_floats(np.append(np.geomspace(_LEAST, _REACH, 400), _REACH))
    # δ falls: every 20th point first, then those between the two around the first that is small enough.
    coarse = leak.curve(kind, eps[::20], direction)
    last = float(coarse[-1])
    step = int(np.argmax(coarse <= last * (1 + 1e-12) + _TOP))
    some = eps[max(20 * step - 19, 0) : 20 * step + 1]
    enough = leak.curve(kind, some, direction) <= last * (1 + 1e-12) + _TOP
    return max(float(some[np.argmax(enough)]) if enough.any() else float(some[-1]), last / 16)


def most_inferences(fits: Callable[[int], bool], *, limit: int = 2**20) -> int:
    """The largest number for which `fits` holds, up to a limit, a power of two; 0 if one is too many already."""
    good, bad = 0, 1
    while bad <= limit and fits(bad):
        good, bad = bad, 2 * bad
    while bad <= limit and bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good


def nearby(epsilon_at: Callable[[float], Floats], delta: float, distance: ArrayLike) -> Floats:
    """ε of each device at δ, within total variation `distance` of a mechanism whose ε at δ° is `epsilon_at(δ°)`.

    Outcomes outside the law, of probability t, cost (1 + e^ε)·t of δ (proof: docs/proofs/privacy.md). This is the
    smallest fixed point of ε = epsilon_at(δ − (1 + e^ε)·t), from below; rounded up.
    Edge cases: distance 0 → epsilon_at(δ); too far for any ε → inf.

    >>> from airpool.privacy import gaussian
    >>> nearby(lambda d: gaussian.epsilon(np.ones(3), d), 1e-5, [0.0, 1e-8, 1e-5]).round(3)
    array([4.377, 4.397,   inf])
    """
    found = epsilon_at(delta)
    t = np.broadcast_to(np.asarray(distance, dtype=np.float64), found.shape)
    if not np.any(t):
        return found
    for _ in range(_ROUNDS):
        with np.errstate(over="ignore", invalid="ignore"):
            cost = np.where(t > 0, (1 + np.exp(found)) * t, 0.0)
        left = np.where(cost > 0, np.nextafter(delta - cost, 0.0), delta)
        needed = np.full(found.shape, np.inf)
        for value in np.unique(left[left >= LEAST_SHARE * delta]):
            at = left == value
            needed[at] = epsilon_at(float(value))[at]
        if np.all(needed <= found):
            return found
        found = np.where(needed <= found, found, needed * (1 + 1e-12))
    # Every round ends at an ε that was checked, so running out of them means inf.
    return np.where(t > 0, np.inf, found)
