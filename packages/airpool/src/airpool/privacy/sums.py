"""Laws on a grid, and of sums of independent values: how much of μ² a stream adds up to at least, and at most."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from airpool._support.arrays import Floats, as_floats

# Cells of one value, and of a sum.
_FIRST, _MOST = 2**10, 2**12
# Mass that is dropped at either end.
_DROPPED = 1e-18
# Where sums are rounded up: their cells, the probability of the largest ones that count as infinite, and the error of
# a product of Fourier transforms relative to the 2-norm of a factor, with a margin (15 roundings; 64-bit floats).
_CELLS, _LOST, _TRANSFORM = 2**13, 1e-13, 5e-15


@dataclass(frozen=True, eq=False)
class OnGrid(ABC):
    """A measure: `mass[i]` at step·(lowest + i), and the mass that is `infinite`; rounded to the side that is safe."""

    step: float
    lowest: int
    mass: Floats
    infinite: float = 0.0

    @property
    def values(self) -> Floats:
        return as_floats(self.step * np.arange(self.lowest, self.lowest + len(self.mass), dtype=np.float64))

    @abstractmethod
    def coarser(self) -> Self:
        """The measure on every other grid point, rounded."""

    @abstractmethod
    def _added(self, other: "OnGrid") -> Self:
        """The sum of two independent ones on the same grid."""

    def plus(self, other: Self) -> Self:
        """The sum of two independent ones, on the coarser of their grids."""
        a, b = self, other
        while a.step < b.step:
            a = a.coarser()
        while b.step < a.step:
            b = b.coarser()
        return a._added(b)

    def times(self, number: int) -> Self:
        """The sum of `number` of these, by repeated squaring; it is kept."""
        if number not in self._times:
            left, square, found = number, self, self if number % 2 else None
            while left := left // 2:
                square = square._twice
                if left % 2:
                    found = square if found is None else found.plus(square)
            self._times[number] = found or square
        return self._times[number]

    @cached_property
    def _times(self) -> dict[int, Self]:
        return {}

    @cached_property
    def _twice(self) -> Self:
        return self.plus(self)


class RoundedSum(OnGrid):
    """Rounded down, and some of the mass may be missing: E f ≥ Σ mass·f for every rising f ≥ 0."""

    def coarser(self) -> "RoundedSum":
        odd = self.lowest % 2
        mass = np.pad(self.mass, (odd, (odd + len(self.mass)) % 2))
        return RoundedSum(2 * self.step, (self.lowest - odd) // 2, mass[::2] + mass[1::2])

    def _added(self, other: OnGrid) -> "RoundedSum":
        return _trimmed(RoundedSum(self.step, self.lowest + other.lowest, np.convolve(self.mass, other.mass)))


def law_of(value: Floats, mass: Floats) -> RoundedSum:
    """The law of one value; what `mass` lacks is a value of 0."""
    step = float(np.max(value, initial=0.0)) / _FIRST
    if step == 0:
        return RoundedSum(1.0, 0, np.ones(1))
    # A cell lower where the division may have rounded up.
    cell = np.maximum(np.floor(value / step * (1 - 1e-15)), 0).astype(np.int64)
    out = np.bincount(cell, weights=mass, minlength=1)
    out[0] += max(1 - float(mass.sum()), 0.0)
    return _trimmed(RoundedSum(step, 0, as_floats(out)))


def _trimmed(law: RoundedSum) -> RoundedSum:
    kept = np.flatnonzero(law.mass > _DROPPED)
    if not len(kept):
        return RoundedSum(law.step, 0, np.zeros(1))
    first, last = int(kept[0]), int(kept[-1]) + 1
    out = RoundedSum(law.step, law.lowest + first, law.mass[first:last])
    while len(out.mass) > _MOST:
        out = out.coarser()
    return out


@dataclass(frozen=True, eq=False)
class RaisedSum(OnGrid):
    """Rounded up: E f ≤ Σ mass·f + infinite for every rising f with values in [0, 1].

    Of a sum, the largest values, rarer than `spare` together, count as infinite, and those above `certain`.
    """

    spare: float = 0.0
    certain: float = np.inf

    def coarser(self) -> "RaisedSum":
        odd = self.lowest % 2
        mass = np.pad(self.mass, (1 - odd, (len(self.mass) + 1 - odd) % 2))
        return replace(self, step=2 * self.step, lowest=(self.lowest + odd) // 2, mass=mass[::2] + mass[1::2])

    def _added(self, other: OnGrid) -> "RaisedSum":
        size = len(self.mass) + len(other.mass) - 1
        length = 1 << (size - 1).bit_length()
        one = np.fft.rfft(self.mass, length)
        mass = np.fft.irfft(one * (one if self is other else np.fft.rfft(other.mass, length)), length)[:size]
        off = _TRANSFORM * float(np.sqrt(size) * np.linalg.norm(self.mass))
        infinite = self.infinite + other.infinite - self.infinite * other.infinite + off
        found = replace(self, lowest=self.lowest + other.lowest, mass=np.maximum(mass, 0.0), infinite=infinite)
        return found._trimmed()

    def _trimmed(self) -> "RaisedSum":
        """At most _CELLS cells: what is rare at the bottom counts as a little more, at the top as infinite."""
        last = len(self.mass) - int(np.searchsorted(np.cumsum(self.mass[::-1]), self.spare, side="right"))
        last = min(last, int(np.searchsorted(self.values, self.certain)))
        first = max(min(int(np.searchsorted(np.cumsum(self.mass), _LOST)), last - 1), 0)
        kept = self.mass[first : max(last, 1)].copy()
        kept[0] += self.mass[:first].sum()
        infinite = self.infinite + float(self.mass[last:].sum())
        out = replace(self, lowest=self.lowest + first, mass=kept, infinite=infinite)
        while len(out.mass) > _CELLS:
            out = out.coarser()
        return out


def most_of(value: Floats, mass: Floats, times: int, *, certain: float = np.inf) -> RaisedSum:
    """The law of the sum of `times` values, rounded up. value: rises. certain: a sum from which on f counts as 1."""
    spare = _LOST / times
    kept = max(len(mass) - int(np.searchsorted(np.cumsum(mass[::-1]), spare, side="right")), 1)
    kept = max(min(kept, int(np.searchsorted(value, certain))), 1)
    lost, value, mass = float(mass[kept:].sum()), value[:kept], mass[:kept]
    if not np.isfinite(value[-1]):
        return RaisedSum(1.0, 0, np.zeros(1), 1.0)
    if value[-1] == 0:
        return RaisedSum(1.0, 0, np.ones(1), times * lost)
    step = float(value[-1]) / _CELLS
    # A cell higher where the division may have rounded down.
    cell = np.ceil(value / step * (1 + 1e-15)).astype(np.int64)
    return RaisedSum(step, 0, as_floats(np.bincount(cell, weights=mass)), lost, spare, certain).times(times)
