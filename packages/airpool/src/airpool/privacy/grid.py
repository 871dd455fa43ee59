"""The noise floor of many heterogeneous devices, on a grid, bracketed: one law below the truth and one above it.

Proof: docs/proofs/privacy.md, "The noise floor on a grid".
"""

from typing import NamedTuple

import numpy as np

from airpool._support.arrays import Floats, Integers, as_floats
from airpool.privacy.law import Kinds, Law, binned, binomial, stacked

# Probability given away each time that a tail is cut or a rounding error bounded.
_TAIL = 1e-15
# What arithmetic may cost when one device is taken out of the law of all of them (a stable recursion over numbers that
# sum to one), and the fixed part of what is given away.
_ARITHMETIC = 1e-13
# Share of the mean noise up to which taking a device out of it is bracketed instead of computed.
_SMALL_SHARE = 5e-3


class _Part(NamedTuple):
    """Some like devices on the grid: with probability mass[i] they add cell[i] cells; the grid drops error[i]."""

    cell: Integers
    mass: Floats
    error: Floats

    @property
    def rounding(self) -> Floats:
        """Least, most and mean rounding error, and its squared range."""
        least, most = self.error.min(), self.error.max()
        return np.array([least, most, self.error @ self.mass, (most - least) ** 2])


def _part(value: Floats, mass: Floats, step: float) -> _Part:
    cell = np.rint((value - value[0]) / step).astype(np.int64)
    return _Part(cell, mass, value - value[0] - cell * step)


def slack(by_kind: Kinds) -> float:
    """All that these laws give away: cut tails of every kind, bounds on rounding, arithmetic. Added to δ in full."""
    return _ARITHMETIC + 2 * _TAIL * len(by_kind.count)


def laws(by_kind: Kinds, absent: int) -> tuple[Law, Law]:
    """Laws of the noise around a device of each kind, from below and from above.

    The upper law ignores absent devices: they only reduce the noise.
    """
    low, high = _leave_one_out(by_kind)
    if absent:
        worst = without_the_largest(by_kind, absent + 1)
        low = Law(*(np.broadcast_to(x, (len(by_kind.count), x.shape[1])) for x in (worst.variance, worst.mass)))
    return low, high


def _leave_one_out(by_kind: Kinds) -> tuple[Law, Law]:
    """Lower and upper law of all noise but one device of each kind. All noise is summed up once."""
    blocks = [
        (a * m, mass)
        for a, p, n in zip(by_kind.variance, by_kind.participation, by_kind.count, strict=True)
        for m, mass in [binomial(int(n) - 1, float(p), tail=_TAIL)]
        if n > 1
    ]
    base = sum(float(value[0]) for value, _ in blocks)
    width = min(_reach(by_kind) - base, sum(float(v[-1] - v[0]) for v, _ in blocks) + float(by_kind.variance.sum()))
    atoms = sum(len(mass) for _, mass in blocks) + len(by_kind.count)
    # As fine as a bounded number of additions allows.
    cells = int(np.clip(4e8 / atoms, 2**12, 2**16))
    step = width / cells
    singles = [
        _part(np.array([0.0, a]), np.array([1 - p, p]), step)
        for a, p in zip(by_kind.variance, by_kind.participation, strict=True)
    ]
    parts = [_part(value, mass, step) for value, mass in blocks] + singles
    total = np.ones(1)
    for part in parts:
        # Rounding moves an outcome by at most half a cell a part: nothing that is within reach may fall off the end.
        total = _summed(total, part, cells + len(parts) // 2 + 2)
    kept = np.flatnonzero(total > 1e-30)
    lowest, total = base + step * int(kept[0]), total[kept[0] : kept[-1] + 1]
    errors = np.sum([part.rounding for part in parts], axis=0)
    spread = float(np.sqrt(-errors[3] * np.log(_TAIL) / 2))

    def row(first: int, mass: Floats, error: Floats, *, down: bool) -> tuple[Floats, Floats]:
        """A law that begins `first` cells above `lowest`, moved by the bound on its rounding error."""
        moved = max(error[0], error[2] - spread) if down else min(error[1], error[2] + spread)
        value = lowest + step * as_floats(np.arange(first, first + len(mass)))
        return binned(np.maximum(value + moved, 0.0), mass, _bins(by_kind), down=down)

    mean_noise = float(by_kind.count @ (by_kind.variance * by_kind.participation))
    if by_kind.variance.max() <= _SMALL_SHARE * mean_noise:
        # V − a_k and V lie around V_k: one law for all, moved for each kind.
        low, high = (stacked([row(0, total, errors, down=down)]) for down in (True, False))
        rows = len(by_kind.count)
        return (
            Law(np.maximum(low.variance - by_kind.variance[:, None], 0.0), np.repeat(low.mass, rows, axis=0)),
            Law(np.repeat(high.variance, rows, axis=0), np.repeat(high.mass, rows, axis=0)),
        )
    without = [(*_without(total, single), errors - single.rounding) for single in singles]
    low, high = (stacked([row(*each, down=down) for each in without]) for down in (True, False))
    return low, high


def _reach(by_kind: Kinds) -> float:
    """Bound that the total noise exceeds with probability _TAIL at most (Bernstein)."""
    p, a, n = by_kind.participation, by_kind.variance, by_kind.count
    mean, variance = float(n @ (p * a)), float(n @ (p * (1 - p) * a**2))
    t = -float(np.log(_TAIL))
    slack = t * float(a.max()) / 3
    return min(mean + slack + float(np.sqrt(slack**2 + 2 * variance * t)), float(n @ a))


def _bins(by_kind: Kinds) -> int:
    """Cells a row, so that all rows together stay small; many devices have a narrow law and need few."""
    return int(np.clip(1.3e6 / len(by_kind.count), 256, 4096))


def _summed(law: Floats, part: _Part, cells: int = 2**62) -> Floats:
    """The law with one more part; what would lie beyond `cells` next to never happens and is cut off."""
    out = np.zeros(min(len(law) + int(part.cell[-1]), cells))
    for cell, mass in zip(part.cell, part.mass, strict=True):
        end = min(int(cell) + len(law), cells)
        if mass > 0 and cell < end:
            out[cell:end] += mass * law[: end - int(cell)]
    return out


def _without(total: Floats, single: _Part) -> tuple[int, Floats]:
    """First cell of the law of the others, and the law: `total` divided by one device.

    The recursion total[j] = (1−p)·others[j] + p·others[j−c] is solved in the direction that damps errors, by doubling:
    1/(1 + qS) = (1 − qS)(1 + q²S²)(1 + q⁴S⁴)…, S a shift by c. Elementwise, so that no BLAS kernel changes a bit.
    """
    cell, (silent, transmits) = int(single.cell[1]), single.mass
    if cell == 0 or transmits == 0:
        return 0, total
    upwards = bool(transmits <= silent)
    small, large = sorted((silent, transmits))
    others = (total if upwards else total[::-1]) * (1 / large)
    factor, shift = -small / large, cell
    while shift < len(others) and factor != 0:
        others[shift:] += factor * others[:-shift]
        factor, shift = factor * factor, 2 * shift
    others = np.maximum(others if upwards else others[::-1], 0.0)
    return (0 if upwards else -cell), others / others.sum()


def without_the_largest(by_kind: Kinds, number: int) -> Law:
    """Law of all noise less, in every outcome, the `number` largest contributions to it; rounded down.

    The kinds come in descending order of variance, and the first ones that take part are skipped.
    """
    step = float(by_kind.variance @ by_kind.count) / 2**15
    if step == 0:
        return Law(np.zeros((1, 1)), np.ones((1, 1)))
    # One row for each number skipped so far: the law of what counts, unnormalised.
    skipping = np.zeros((number + 1, 2**15 + 2))
    skipping[0, 0], top = 1.0, 1
    for kind in np.argsort(-by_kind.variance):
        m, mass = binomial(int(by_kind.count[kind]), float(by_kind.participation[kind]), tail=_TAIL)
        before, skipping, length = skipping, np.zeros_like(skipping), top
        for skipped in np.flatnonzero(before.any(axis=1)):
            for present, q in zip(m.tolist(), mass, strict=True):
                skip = min(present, number - int(skipped))
                cell = int((present - skip) * by_kind.variance[kind] / step)
                skipping[skipped + skip, cell : cell + length] += q * before[skipped, :length]
                top = max(top, cell + length)
    total = skipping.sum(axis=0)[:top]
    return stacked([binned(step * as_floats(np.arange(top)), total, _bins(by_kind), down=True)])
