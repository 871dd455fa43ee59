"""The noise floor where devices are received with random strength: gains that are not known exactly (howto/radio.md).

A device that transmits is received with strength S_k, a random factor on its power. Given all S, the feature of device
k stands in noise of variance V_k/S_k beside its own, V_k = extra + Σ_{i≠k} τ_i S_i a_i: the law of that ratio takes the
place of the law of V_k, and all else stays as it is. Proof: docs/proofs/privacy.md, "Random strength".
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, reduce
from itertools import combinations_with_replacement, groupby
from math import comb
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airpool._support.arrays import Floats, Integers, as_floats
from airpool.privacy.floor import Floor
from airpool.privacy.law import Law, Strength, alike, stacked

Complexes = NDArray[np.complex128]

# Cells of the lattice on which strengths are added up, and the width of those of ln V and ln S.
_LATTICE, _STEP = 2**16, 2.0**-12
# Ratios V/S rarer than this count as 0; the largest ones, of this share together, as equally large.
_RAREST, _COMMON = 1e-13, 1e-3
# Probability of the largest strengths, which are cut down (rounding V down), or make V infinite (rounding it up).
_CUT, _CUT_UP = 1e-3, 2e-4
# Most rows that are computed; beyond, nothing is claimed. Most rows for which each choice of absent devices has a law
# of its own; beyond, one law is below those of all choices. Rounding error allowed for Fourier transforms of laws.
_MOST_ROWS, _SEPARATE, _ARITHMETIC = 2**12, 2**8, 1e-11
# Probability given away where rounding errors are bounded (Hoeffding); a V that is less likely to be so small is 0.
_TAIL, _NEVER = 1e-15, 1e-16
# Cells of all laws together, so that more than about fifty devices are looked at a little more coarsely.
_MOST_CELLS = 2**20
# Logarithm of a transform that is as good as 0; sums and frequencies that are worked on at a time.
_SILENT, _TOGETHER, _FREQUENCIES = -50.0, 64, 2**11


def unaligned_floor(
    variance: Floats, participation: Floats, strength: Strength, *, extra: float = 0.0, absent: int = 0
) -> Floor | None:
    """Law of V_k/S_k for every device, from below and from above; None where there are too many sets of absent devices.

    participation: given that a device is present.
    Holds for: strengths, participation and noise that are all independent of each other and of the data.
    """
    # Twelve digits: a factor on all noise, as in a search, changes nothing but the unit.
    unit = float(variance.max())
    ratios = tuple(float(f"{x / unit:.12g}") for x in (*variance, extra))
    found = _unaligned(strength, ratios, tuple(participation.tolist()), absent)
    if found is None:
        return None
    low, high = (
        Law(law.variance * unit * (1 + off), law.mass)
        for law, off in zip((found.low, found.high), (-1e-11, 1e-11), strict=True)
    )
    return replace(found, low=low, high=high)


@lru_cache(maxsize=8)
def _unaligned(
    strength: Strength, ratios: tuple[float, ...], participates: tuple[float, ...], absent: int
) -> Floor | None:
    """The laws in units of the largest noise; strengths are the same where they are one object."""
    *columns, extra = ratios
    variance, participation = np.array(columns), np.array(participates)
    columns = (variance, participation, strength.of_device.astype(np.float64))
    kinds, of_device, count = alike(*columns)
    absent = min(absent, len(variance) - 1)
    if comb(len(count) + absent - 1, absent) * len(count) > _MOST_ROWS:
        return None
    choices = [(own, list(_others(count, own, absent))) for own in range(len(count))]
    noise = kinds[:, 0] * kinds[:, 1]
    if sum(len(others) for _, others in choices) <= _SEPARATE:
        below = above = [(own, [others]) for own, every in choices for others in every]
    else:
        # The worst choice of absent devices costs no less than any, so one of them is enough for the lower end of ε.
        below, above = choices, [(own, [min(every, key=lambda x: float(x @ noise))]) for own, every in choices]
    low = _Laws(kinds, count, strength, extra=extra, absent=absent, down=True).rows(below)
    high = _Laws(kinds, count, strength, extra=extra, absent=absent, down=False).rows(above)
    rows_of = [np.flatnonzero(np.array([own for own, _ in below]) == kind) for kind in of_device]
    device = np.repeat(np.arange(len(variance)), [len(rows) for rows in rows_of])
    slack = _ARITHMETIC + len(variance) * strength.error + _TAIL
    return Floor(low, high, slack=slack, device=device, row=np.concatenate(rows_of), wide=True)


def _others(count: Integers, own: int, absent: int) -> Iterator[Integers]:
    """Number of other devices of each kind beside one of kind `own`, for each choice of the absent ones."""
    for choice in combinations_with_replacement(range(len(count)), absent):
        others = count - np.bincount(np.array((own, *choice)), minlength=len(count))
        if np.all(others >= 0):
            yield others


def _power(x: Complexes, n: int) -> Complexes:
    """x^n by repeated squaring."""
    out = np.ones_like(x)
    while n:
        out, x, n = out * x if n % 2 else out, x * x, n // 2
    return out


def _least(one: tuple[Floats, float], other: tuple[Floats, float]) -> tuple[Floats, float]:
    """Masses on the lattice and how far to move them, below two laws in every quantile."""
    share = np.maximum(np.cumsum(one[0]), np.cumsum(other[0]))
    return np.maximum(np.diff(share, prepend=0.0), 0.0), min(one[1], other[1])


class _Laws:
    """Laws of V/S, all rounded down or all up."""

    def __init__(
        self, kinds: Floats, count: Integers, strength: Strength, *, extra: float, absent: int, down: bool
    ) -> None:
        self.kinds, self.strength, self.extra, self.down = kinds, strength, extra, down
        parts = [self._part(*kind) for kind in kinds]
        most = float(count @ np.array([value[-1] if len(value) else 0.0 for value, *_ in parts]))
        self.step = most / (_LATTICE - 2) if most > 0 else 1.0
        self.errors = [self._rounding(value, mass) for value, mass, _ in parts]
        self.transforms = [np.fft.rfft(self._lattice(*part)) for part in parts]
        # Beyond some frequency nothing is left of any product, whichever device is left out.
        total, least = np.zeros(_LATTICE // 2 + 1), np.zeros(_LATTICE // 2 + 1)
        for number, each in zip(count, self.transforms, strict=True):
            size = np.log(np.maximum(np.abs(each), 1e-300))
            total, least = total + number * size, np.minimum(least, size)
        self.band = int(np.flatnonzero(total - (absent + 1) * least > _SILENT).max(initial=0)) + 1
        self.transforms = [each[: self.band].copy() for each in self.transforms]

    def _part(self, variance: float, participation: float, row: float) -> tuple[Floats, Floats, float]:
        """Contribution of a device of a kind to V: values and masses, and the mass at zero."""
        value, mass = self.strength.lent(int(row), down=self.down)
        above = self.strength.above[int(row)]
        last = max(int(np.searchsorted(-above, -(_CUT if self.down else _CUT_UP))), 1)
        if self.down:
            mass = np.append(mass[: last - 1], mass[last - 1 :].sum())
        value, mass = value[:last] * variance, mass[:last] * participation
        if variance == 0:
            return value[:0], mass[:0], 1.0
        left_out = 0.0 if self.down else participation * float(above[last - 1])
        return value, mass, 1 - float(mass.sum()) - left_out

    def _lattice(self, value: Floats, mass: Floats, zero: float) -> Floats:
        out = np.bincount((value / self.step).astype(np.int64), weights=mass, minlength=_LATTICE)
        out[0] += zero
        return as_floats(out)

    def _rounding(self, value: Floats, mass: Floats) -> Floats:
        """Mean, largest and squared range of what the lattice drops of one device."""
        dropped = value - self.step * np.floor(value / self.step)
        return np.array([dropped @ mass, dropped.max(initial=0.0), dropped.max(initial=0.0) ** 2])

    def rows(self, around: list[tuple[int, list[Integers]]]) -> Law:
        """A law for each kind and its choices of others: of all of these, the least noise in every quantile."""
        pairs = [(row, others) for row, (_, choices) in enumerate(around) for others in choices]
        out: list[tuple[Floats, Floats]] = []
        for row, sums in groupby(self._sums(pairs), key=itemgetter(0)):
            mass, moved = reduce(_least, ((mass, moved) for _, mass, moved in sums))
            kept = mass > 1e-25
            value = as_floats(self.step * np.flatnonzero(kept) + moved + self.extra)
            out.append(self._ratio(value, mass[kept], int(self.kinds[around[row][0], 2]), len(around)))
        return stacked(out)

    def _sums(self, pairs: list[tuple[int, Integers]]) -> Iterator[tuple[int, Floats, float]]:
        """The law of V around a device, on the lattice, and how far it is to be moved, for each pair.

        Rounded up, its mass may sum to less than 1.
        """
        for start in range(0, len(pairs), _TOGETHER):
            some = pairs[start : start + _TOGETHER]
            for (row, others), transform in zip(some, self._products([each for _, each in some]), strict=True):
                mass = np.maximum(np.fft.irfft(transform, _LATTICE), 0.0)
                mean, most, squares = (others[:, None] * np.array(self.errors)).sum(axis=0)
                spread = float(np.sqrt(-squares * np.log(_TAIL) / 2))
                yield row, mass, max(0.0, mean - spread) if self.down else min(most, mean + spread)

    def _products(self, counts: list[Integers]) -> Complexes:
        """Π transform^count for each list of counts. Halves of a list that several lists share are multiplied once."""
        out = np.empty((len(counts), self.band), dtype=np.complex128)
        for start in range(0, self.band, _FREQUENCIES):
            there = slice(start, start + _FREQUENCIES)
            parts, found = [each[there] for each in self.transforms], dict[tuple[int, ...], Complexes]()

            def product(first: int, some: tuple[int, ...], parts: Any = parts, found: Any = found) -> Complexes:
                key = (first, *some)
                if key not in found:
                    half = len(some) // 2
                    found[key] = (
                        product(first, some[:half]) * product(first + half, some[half:])
                        if half
                        else _power(parts[first], some[0])
                    )
                return found[key]

            for row, each in enumerate(counts):
                out[row, there] = product(0, tuple(each.tolist()))
        return out

    def _ratio(self, value: Floats, mass: Floats, row: int, rows: int) -> tuple[Floats, Floats]:
        """The law of V/S: a convolution of logarithms. Rounded up, the largest ratios are left out."""
        if not len(mass):  # all that is there was left out, as too strong
            return np.zeros(1), np.full(1, float(self.down))
        # What is next to never so small counts as 0, or as a little more.
        first = min(int(np.searchsorted(np.cumsum(mass), _NEVER)), len(mass) - 1)
        small, value, mass = float(mass[:first].sum()), value[first:], mass[first:].copy()
        if not self.down:
            mass[0], small = mass[0] + small, 0.0
        own, own_mass = self.strength.own(row, down=self.down)
        noisy, finite = value > 0, np.isfinite(own) & (own > 0)
        at_zero = small + float(mass[~noisy].sum()) + float(mass[noisy].sum()) * float(own_mass[np.isinf(own)].sum())
        if not noisy.any() or not finite.any():
            return np.zeros(1), np.ones(1)
        first_v, law_v = self._logarithms(np.log(value[noisy]), mass[noisy])
        first_s, law_s = self._logarithms(-np.log(own[finite]), own_mass[finite])
        size = len(law_v) + len(law_s) - 1
        length = 1 << (size - 1).bit_length()
        law = np.maximum(np.fft.irfft(np.fft.rfft(law_v, length) * np.fft.rfft(law_s, length), length)[:size], 0.0)
        total = as_floats(np.cumsum(law))
        first = min(int(np.searchsorted(total, _RAREST)), size - 1)  # the last cell, where all of it is rarer
        last = max(int(np.searchsorted(total, float(total[-1]) * (1 - _COMMON))), first)
        cells = law[first : last + 1].copy()
        below, beyond = float(total[first] - law[first]), float(total[-1] - total[last])
        if self.down:
            at_zero, cells[-1] = at_zero + below, cells[-1] + beyond
        else:
            cells[0] += below
        at, cells = self._merged(first_v + first_s + first, cells, rows)
        ratio = np.exp(at * _STEP)
        ratio = np.append(0.0, ratio * (1 - 1e-11 if self.down else 1 + 1e-11))
        cells = np.append(at_zero, cells)
        if not np.any(cells > 0):  # pragma: no cover: a guard, for ratios that are all too rare or too large
            return np.zeros(1), np.full(1, float(self.down))
        return ratio[cells > 0], cells[cells > 0]

    def _merged(self, first: int, cells: Floats, rows: int) -> tuple[Floats, Floats]:
        """Positions and masses, with neighbouring cells merged where `rows` rows would have too many cells together."""
        together = -(-len(cells) * rows // _MOST_CELLS)
        start = np.arange(0, len(cells), together)
        end = start if self.down else np.minimum(start + together, len(cells)) - 1
        return as_floats(first + end), np.add.reduceat(cells, start)

    def _logarithms(self, value: Floats, mass: Floats) -> tuple[int, Floats]:
        """Masses at multiples of _STEP, every value rounded down or up to one, and the first of them."""
        cell = (np.floor if self.down else np.ceil)(value / _STEP).astype(np.int64)
        first = int(cell.min())
        return first, as_floats(np.bincount(cell - first, weights=mass))
