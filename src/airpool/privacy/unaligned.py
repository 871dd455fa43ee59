"""The noise floor where devices are received with random strength: gains that are not known exactly (spec §9).

A device that transmits is received with strength S_k, a random factor on its power. Given all S, the feature of device
k stands in noise of variance V_k/S_k beside its own, V_k = extra + Σ_{i≠k} τ_i S_i a_i: the law of that ratio takes the
place of the law of V_k, and all else stays as it is. Proof: docs/proofs/privacy.md, "Random strength".
"""

from collections.abc import Iterator
from itertools import combinations_with_replacement
from math import comb

import numpy as np

from airpool.arrays import Floats, Integers, as_floats
from airpool.privacy.aggregate import Aggregate
from airpool.privacy.floor import Floor, floor
from airpool.privacy.law import Arrivals, Law, Strength, alike, stacked
from airpool.privacy.sampled import sampled_floor

# Cells of the lattice on which strengths are added up, and the width of those of ln V and ln S.
_LATTICE, _STEP = 2**16, 2.0**-12
# Ratios V/S rarer than this count as 0; the largest ones, of this share together, as equally large.
_RAREST, _COMMON = 1e-13, 1e-3
# Probability of the largest strengths, which are cut down (rounding V down), or make V infinite (rounding it up).
_CUT, _CUT_UP = 1e-3, 2e-4
# Rows that are computed; beyond them nothing is claimed. What arithmetic may cost: Fourier transforms of laws.
_MOST_ROWS, _ARITHMETIC = 2**12, 1e-11
# Probability given away where rounding errors are bounded (Hoeffding).
_TAIL = 1e-15


def surroundings(aggregate: Aggregate, participation: Floats | float) -> Floor:
    """Law of the noise around every device, beside its own; `participation` is given that a device is present."""
    lent, strength = aggregate.lent, aggregate.strength
    if strength is not None and np.any(lent > 0):
        p = np.broadcast_to(participation, lent.shape)
        if isinstance(strength, Arrivals):
            found = sampled_floor(lent, p, strength, extra=aggregate.extra, absent=aggregate.absent)
        else:
            found = unaligned_floor(lent, p, strength, extra=aggregate.extra, absent=aggregate.absent)
        if found is not None:
            return found
        lent = np.zeros_like(lent)
    extra = aggregate.extra if strength is None else 0.0
    return floor(lent, participation * aggregate.presence, extra=extra, absent=aggregate.absent)


def unaligned_floor(
    variance: Floats, participation: Floats, strength: Strength, *, extra: float = 0.0, absent: int = 0
) -> Floor | None:
    """Law of V_k/S_k for every device, from below and from above; None where there are too many sets of absent devices.

    participation: given that a device is present.
    Holds for: strengths, participation and noise that are all independent of each other and of the data.
    """
    columns = (variance, participation, strength.of_device.astype(np.float64))
    kinds, of_device, count = alike(*columns)
    absent = min(absent, len(variance) - 1)
    if comb(len(count) + absent - 1, absent) * len(count) > _MOST_ROWS:
        return None
    rows = [(own, others) for own in range(len(count)) for others in _others(count, own, absent)]
    every = np.arange(len(variance))
    device = np.concatenate([np.full(sum(own == of_device[k] for own, _ in rows), k) for k in every])
    row = np.concatenate([[i for i, (own, _) in enumerate(rows) if own == of_device[k]] for k in every])
    laws = (_Laws(kinds, count, strength, extra=extra, down=down).rows(rows) for down in (True, False))
    slack = _ARITHMETIC + len(variance) * strength.error + _TAIL
    return Floor(*laws, slack=slack, device=device.astype(np.int64), row=row.astype(np.int64))


def _others(count: Integers, own: int, absent: int) -> Iterator[Integers]:
    """How many devices of each kind are around one of kind `own`, for each way to choose the absent ones."""
    for choice in combinations_with_replacement(range(len(count)), absent):
        others = count - np.bincount(np.array((own, *choice)), minlength=len(count))
        if np.all(others >= 0):
            yield others


class _Laws:
    """Laws of V/S, all rounded down or all up."""

    def __init__(self, kinds: Floats, count: Integers, strength: Strength, *, extra: float, down: bool) -> None:
        self.kinds, self.strength, self.extra, self.down = kinds, strength, extra, down
        parts = [self._part(*kind) for kind in kinds]
        most = float(count @ np.array([value[-1] if len(value) else 0.0 for value, *_ in parts]))
        self.step = most / (_LATTICE - 2) if most > 0 else 1.0
        self.errors = [self._rounding(value, mass) for value, mass, _ in parts]
        self.transforms = [np.fft.rfft(self._lattice(*part)) for part in parts]

    def _part(self, variance: float, participation: float, row: float) -> tuple[Floats, Floats, float]:
        """What a device of a kind adds to V: values and masses, and the mass of nothing."""
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

    def rows(self, wanted: list[tuple[int, Integers]]) -> Law:
        sums: dict[tuple[int, ...], tuple[Floats, Floats]] = {}
        out: list[tuple[Floats, Floats]] = []
        for own, others in wanted:
            key = tuple(others.tolist())
            if key not in sums:
                sums[key] = self._sum(others)
            out.append(self._ratio(*sums[key], int(self.kinds[own, 2])))
        return stacked(out)

    def _sum(self, others: Integers) -> tuple[Floats, Floats]:
        """The law of V around a device; rounded up, its mass may sum to less than 1."""
        transform = np.ones(_LATTICE // 2 + 1, dtype=np.complex128)
        for number, each in zip(others, self.transforms, strict=True):
            transform *= each ** int(number)
        mass = np.maximum(np.fft.irfft(transform, _LATTICE), 0.0)
        mean, most, squares = (others[:, None] * np.array(self.errors)).sum(axis=0)
        spread = float(np.sqrt(-squares * np.log(_TAIL) / 2))
        moved = max(0.0, mean - spread) if self.down else min(most, mean + spread)
        kept = mass > 1e-25
        return as_floats(self.step * np.flatnonzero(kept) + moved + self.extra), mass[kept]

    def _ratio(self, value: Floats, mass: Floats, row: int) -> tuple[Floats, Floats]:
        """The law of V/S: a convolution of logarithms. Rounded up, the largest ratios are left out."""
        own, own_mass = self.strength.own(row, down=self.down)
        noisy, finite = value > 0, np.isfinite(own) & (own > 0)
        at_zero = float(mass[~noisy].sum()) + float(mass[noisy].sum()) * float(own_mass[np.isinf(own)].sum())
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
        ratio = np.exp((first_v + first_s + first + np.arange(len(cells))) * _STEP)
        ratio = np.append(0.0, ratio * (1 - 1e-11 if self.down else 1 + 1e-11))
        cells = np.append(at_zero, cells)
        return ratio[cells > 0], cells[cells > 0]

    def _logarithms(self, value: Floats, mass: Floats) -> tuple[int, Floats]:
        """Masses at multiples of _STEP, every value rounded down or up to one, and the first of them."""
        cell = (np.floor if self.down else np.ceil)(value / _STEP).astype(np.int64)
        first = int(cell.min())
        return first, as_floats(np.bincount(cell - first, weights=mass))
