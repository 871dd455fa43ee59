"""Laws of sums of independent values ≥ 0, rounded down: how much of μ² a stream adds up to at least."""

from dataclasses import dataclass

import numpy as np

from airpool._support.arrays import Floats, as_floats

# Cells of one value, and of a sum.
_FIRST, _MOST = 2**10, 2**12
# Mass that is dropped at either end.
_DROPPED = 1e-18


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
