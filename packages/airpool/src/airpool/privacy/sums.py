"""Laws of sums of independent values ≥ 0: how much of μ² a stream adds up to at least (rounded down), and at most."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from airpool._support.arrays import Floats, as_floats

# Cells of one value, and of a sum.
_FIRST, _MOST = 2**10, 2**12
# Mass that is dropped at either end.
_DROPPED = 1e-18
# Where sums are rounded up: their cells, the probability of the largest ones that is counted as lost, and the error of
# a product of Fourier transforms relative to the 2-norm of a factor, with a margin (15 roundings; 64-bit floats).
_CELLS, _LOST, _TRANSFORM = 2**13, 1e-13, 5e-15


@dataclass(frozen=True, eq=False)
class RoundedSum:
    """`mass[i]` at step·(lowest + i), of which some may be missing: E f ≥ Σ mass·f for every rising f ≥ 0."""

    step: float
    lowest: int
    mass: Floats

    @property
    def values(self) -> Floats:
        return as_floats(self.step * np.arange(self.lowest, self.lowest + len(self.mass), dtype=np.float64))

    def plus(self, other: "RoundedSum") -> "RoundedSum":
        """The sum of two independent ones, on the coarser grid."""
        a, b = self, other
        while a.step < b.step:
            a = a.coarser()
        while b.step < a.step:
            b = b.coarser()
        return _trimmed(RoundedSum(a.step, a.lowest + b.lowest, np.convolve(a.mass, b.mass)))

    def times(self, number: int) -> "RoundedSum":
        """The sum of `number` of these, by repeated squaring."""
        square, found = self, self if number % 2 else None
        while number := number // 2:
            square = square.plus(square)
            if number % 2:
                found = square if found is None else found.plus(square)
        return found or square

    def coarser(self) -> "RoundedSum":
        """The law on every other grid point, rounded down."""
        odd = self.lowest % 2
        mass = np.pad(self.mass, (odd, (odd + len(self.mass)) % 2))
        return RoundedSum(2 * self.step, (self.lowest - odd) // 2, mass[::2] + mass[1::2])


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


class RaisedSum(NamedTuple):
    """`mass[i]` at step·(lowest + i), rounded up: E f ≤ Σ mass·f + lost for every rising f with values in [0, 1]."""

    step: float
    lowest: int
    mass: Floats
    lost: float

    @property
    def values(self) -> Floats:
        return as_floats(self.step * np.arange(self.lowest, self.lowest + len(self.mass), dtype=np.float64))

    def plus(self, other: "RaisedSum", spare: float, certain: float) -> "RaisedSum":
        """The sum of two independent ones, on the coarser grid.

        Sums rarer than `spare` together are lost, and those above `certain`.
        """
        a, b = self, other
        while a.step < b.step:
            a = a.coarser()
        while b.step < a.step:
            b = b.coarser()
        size = len(a.mass) + len(b.mass) - 1
        length = 1 << (size - 1).bit_length()
        one = np.fft.rfft(a.mass, length)
        mass = np.fft.irfft(one * (one if a is b else np.fft.rfft(b.mass, length)), length)[:size]
        off = _TRANSFORM * float(np.sqrt(size) * np.linalg.norm(a.mass))
        lost = a.lost + b.lost - a.lost * b.lost + off
        return RaisedSum(a.step, a.lowest + b.lowest, np.maximum(mass, 0.0), lost)._trimmed(spare, certain)

    def coarser(self) -> "RaisedSum":
        """The law on every other grid point, rounded up."""
        odd = self.lowest % 2
        mass = np.pad(self.mass, (1 - odd, (len(self.mass) + 1 - odd) % 2))
        return RaisedSum(2 * self.step, (self.lowest + odd) // 2, mass[::2] + mass[1::2], self.lost)

    def _trimmed(self, spare: float, certain: float) -> "RaisedSum":
        """At most _CELLS cells: what is rare at the bottom counts as a little more, at the top it is lost."""
        last = len(self.mass) - int(np.searchsorted(np.cumsum(self.mass[::-1]), spare, side="right"))
        last = min(last, int(np.searchsorted(self.values, certain)))
        first = max(min(int(np.searchsorted(np.cumsum(self.mass), _LOST)), last - 1), 0)
        kept = self.mass[first : max(last, 1)].copy()
        kept[0] += self.mass[:first].sum()
        out = RaisedSum(self.step, self.lowest + first, kept, self.lost + float(self.mass[last:].sum()))
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
    square = RaisedSum(step, 0, as_floats(np.bincount(cell, weights=mass)), lost)
    found = square if times % 2 else None
    while times := times // 2:
        square = square.plus(square, spare, certain)
        if times % 2:
            found = square if found is None else found.plus(square, spare, certain)
    return found or square
