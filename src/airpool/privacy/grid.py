"""The noise floor of many unlike devices, on a grid, bracketed: one law below the truth and one above it."""

from dataclasses import dataclass

import numpy as np

from .arrays import Floats, Integers, floats
from .law import Kinds, Law, binned, binomial, stacked

# Probability given away each time that a tail is cut or a rounding error bounded.
_TAIL = 1e-15
# The sum of all that, and of what arithmetic may cost when one device is taken out of the law of all of them (a stable
# recursion over numbers that sum to one). Added to δ in full.
SLACK = 1e-13


@dataclass(frozen=True)
class _Part:
    """Some like devices on the grid: with probability mass[i] they add cell[i] cells; the grid drops error[i]."""

    cell: Integers
    mass: Floats
    error: Floats


def _part(value: Floats, mass: Floats, step: float) -> _Part:
    cell = np.rint((value - value[0]) / step).astype(np.int64)
    return _Part(cell, mass, value - value[0] - cell * step)


def leave_one_out(by_kind: Kinds) -> tuple[Law, Law]:
    """Laws of the noise around a device of each kind, from below and from above.

    The law of everybody is summed up once on a grid; then one device of each kind is taken out again. The rounding
    errors e_i add up to Σ τ_i e_i, which stays within √(Σ (max e_i − min e_i)² ln(1/β)/2) of its mean but for a
    probability β (Hoeffding), far closer than the worst cases add up. So the grid is shifted by the mean less that
    (low) or plus that (high), and β joins the slack.
    """
    blocks = [
        (a * m, mass)
        for a, p, n in zip(by_kind.variance, by_kind.participation, by_kind.count, strict=True)
        for m, mass in [binomial(int(n) - 1, float(p), tail=_TAIL)]
        if n > 1
    ]
    base = sum(float(value[0]) for value, _ in blocks)
    width = sum(float(value[-1] - value[0]) for value, _ in blocks) + float(by_kind.variance.sum())
    atoms = sum(len(mass) for _, mass in blocks) + len(by_kind.count)
    # As fine as a bounded number of additions allows.
    step = width / float(np.clip(4e8 / atoms, 2**12, 2**16))
    singles = [
        _part(np.array([0.0, a]), np.array([1 - p, p]), step)
        for a, p in zip(by_kind.variance, by_kind.participation, strict=True)
    ]
    parts = [_part(value, mass, step) for value, mass in blocks] + singles

    total = np.ones(1)
    for part in parts:
        total = _summed(total, part)
    kept = np.flatnonzero(total > 1e-30)
    value = floats(base + step * np.arange(int(kept[0]), int(kept[-1]) + 1))
    total = total[kept[0] : kept[-1] + 1]

    least, most, mean, spread = _rounding(parts)
    bins = _bins(by_kind)
    low: list[tuple[Floats, Floats]] = []
    high: list[tuple[Floats, Floats]] = []
    for single in singles:
        first, others = _without(total, single)
        own_least, own_most, own_mean, _ = _rounding([single])
        down = max(least - own_least, mean - own_mean - spread)
        up = min(most - own_most, mean - own_mean + spread)
        x = value + first * step
        low.append(binned(np.maximum(x + down, 0.0), others, bins, down=True))
        high.append(binned(np.maximum(x + up, 0.0), others, bins, down=False))
    return stacked(low), stacked(high)


def _bins(by_kind: Kinds) -> int:
    """Cells a row, so that all rows together stay small; many devices have a narrow law and need few."""
    return int(np.clip(1.3e6 / len(by_kind.count), 128, 4096))


def _rounding(parts: list[_Part]) -> tuple[float, float, float, float]:
    """Least, most and mean total error, and how far it strays from its mean but for probability _TAIL."""
    least = sum(float(p.error.min()) for p in parts)
    most = sum(float(p.error.max()) for p in parts)
    mean = sum(float(p.error @ p.mass) for p in parts)
    squares = sum(float(p.error.max() - p.error.min()) ** 2 for p in parts)
    return least, most, mean, float(np.sqrt(-squares * np.log(_TAIL) / 2))


def _summed(law: Floats, part: _Part) -> Floats:
    out = np.zeros(len(law) + int(part.cell[-1]))
    for cell, mass in zip(part.cell, part.mass, strict=True):
        if mass > 0:
            out[cell : cell + len(law)] += mass * law
    return out


def _without(total: Floats, single: _Part) -> tuple[int, Floats]:
    """The law of the others, `total` divided by one device as generating functions, and where its first cell lies.

    total[j] = (1−p)·others[j] + p·others[j−c], solved upwards for p ≤ ½ and downwards above, so that each step damps
    the error of the one before. Downwards what comes out is others[j−c]: it begins c cells below `total`, as it must
    where the device always speaks.
    """
    from scipy.signal import lfilter

    cell, (silent, speaks) = int(single.cell[1]), single.mass
    if cell == 0 or speaks == 0:
        return 0, total
    upwards = bool(speaks <= silent)
    x = total if upwards else total[::-1]
    # The recursion goes in strides of c: one column for each remainder, and one step a row.
    rows = np.pad(x, (0, -len(x) % cell)).reshape(-1, cell)
    others = np.asarray(lfilter([1.0], sorted((silent, speaks), reverse=True), rows, axis=0)).ravel()[: len(x)]
    others = np.maximum(others if upwards else others[::-1], 0.0)
    return (0 if upwards else -cell), others / others.sum()


def without_the_largest(by_kind: Kinds, number: int) -> Law:
    """Law of everybody's noise less, in every outcome, the `number` largest contributions to it; rounded down.

    Device k and its c colluders are c + 1 devices, so with number = c + 1 what is left to it is never less than this.
    The kinds come in descending order of variance, and the first ones that speak are skipped.
    """
    step = float(by_kind.variance @ by_kind.count) / 2**15
    laws: dict[int, Floats] = {0: np.ones(1)}  # number skipped so far → law of what counts, unnormalised
    for kind in np.argsort(-by_kind.variance):
        m, mass = binomial(int(by_kind.count[kind]), float(by_kind.participation[kind]), tail=_TAIL)
        added: dict[int, Floats] = {}
        for skipped, law in laws.items():
            for speaking, q in zip(m.tolist(), mass, strict=True):
                skip = min(speaking, number - skipped)
                cell = int((speaking - skip) * by_kind.variance[kind] / step)
                _accumulate(added, skipped + skip, cell, q * law)
        laws = added
    length = max(len(law) for law in laws.values())
    total = sum((np.pad(law, (0, length - len(law))) for law in laws.values()), start=np.zeros(length))
    return stacked([binned(step * floats(np.arange(length)), total, _bins(by_kind), down=True)])


def _accumulate(laws: dict[int, Floats], key: int, cell: int, law: Floats) -> None:
    """Adds `law`, moved up by `cell`, to laws[key]."""
    length = cell + len(law)
    old = laws.get(key, np.zeros(0))
    if len(old) < length:
        old = np.pad(old, (0, length - len(old)))
    old[cell:length] += law
    laws[key] = old
