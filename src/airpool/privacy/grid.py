"""The noise floor of many heterogeneous devices, on a grid, bracketed: one law below the truth and one above it."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from airpool.arrays import Floats, Integers, as_floats
from airpool.privacy.law import Kinds, Law, binned, binomial, stacked

# Probability given away each time that a tail is cut or a rounding error bounded.
_TAIL = 1e-15
# What arithmetic may cost when one device is taken out of the law of all of them (a stable recursion over numbers that
# sum to one), and the fixed part of what is given away.
_ARITHMETIC = 1e-13
# Share of the mean noise up to which taking a device out of it is bracketed instead of computed.
_SMALL_SHARE = 5e-3


@dataclass(frozen=True)
class _Part:
    """Some like devices on the grid: with probability mass[i] they add cell[i] cells; the grid drops error[i]."""

    cell: Integers
    mass: Floats
    error: Floats


def _part(value: Floats, mass: Floats, step: float) -> _Part:
    cell = np.rint((value - value[0]) / step).astype(np.int64)
    return _Part(cell, mass, value - value[0] - cell * step)


def slack(by_kind: Kinds) -> float:
    """All that these laws give away: cut tails of every kind, bounds on rounding, arithmetic. Added to δ in full."""
    return _ARITHMETIC + 2 * _TAIL * len(by_kind.count)


def leave_one_out(by_kind: Kinds) -> tuple[Law, Law]:
    """Laws of the noise around a device of each kind, from below and from above.

    The law of everybody is summed up once on a grid. The rounding errors e_i add up to Σ τ_i e_i, which stays within
    √(Σ (max e_i − min e_i)² ln(1/β)/2) of its mean but for a probability β (Hoeffding), far closer than the worst cases
    add up. So the grid is shifted by the mean less that (low) or plus that (high), and β joins the slack.

    Then one device of each kind is taken out again. Where nobody adds more than a small share to the noise, that
    device's own noise, which counts for it in any case, makes up for it: V − a_k ≤ V_k ≤ V.
    """
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
    value = as_floats(base + step * np.arange(int(kept[0]), int(kept[-1]) + 1))
    total = total[kept[0] : kept[-1] + 1]

    errors = _rounding(parts)
    mean_noise = float(by_kind.count @ (by_kind.variance * by_kind.participation))
    if by_kind.variance.max() <= _SMALL_SHARE * mean_noise:
        return _made_up_for(by_kind, value, total, errors)
    low: list[tuple[Floats, Floats]] = []
    high: list[tuple[Floats, Floats]] = []
    for single in singles:
        first, others = _without(total, single)
        own = _rounding([single])
        x = value[0] + step * as_floats(np.arange(first, first + len(others)))
        down = max(errors.least - own.least, errors.mean - own.mean - errors.spread)
        up = min(errors.most - own.most, errors.mean - own.mean + errors.spread)
        low.append(binned(np.maximum(x + down, 0.0), others, _bins(by_kind), down=True))
        high.append(binned(np.maximum(x + up, 0.0), others, _bins(by_kind), down=False))
    return stacked(low), stacked(high)


def _reach(by_kind: Kinds) -> float:
    """What the total noise stays below but for a probability _TAIL (Bernstein)."""
    p, a, n = by_kind.participation, by_kind.variance, by_kind.count
    mean, variance = float(n @ (p * a)), float(n @ (p * (1 - p) * a**2))
    t = -float(np.log(_TAIL))
    slack = t * float(a.max()) / 3
    return min(mean + slack + float(np.sqrt(slack**2 + 2 * variance * t)), float(n @ a))


def _made_up_for(by_kind: Kinds, value: Floats, total: Floats, errors: "_Errors") -> tuple[Law, Law]:
    """V − a_k and V, which lie around V_k: one law for all, moved for each kind."""
    down = max(errors.least, errors.mean - errors.spread)
    up = min(errors.most, errors.mean + errors.spread)
    low, low_mass = binned(np.maximum(value + down, 0.0), total, _bins(by_kind), down=True)
    high, high_mass = binned(np.maximum(value + up, 0.0), total, _bins(by_kind), down=False)
    rows = len(by_kind.count)
    return (
        Law(np.maximum(low - by_kind.variance[:, None], 0.0), np.broadcast_to(low_mass, (rows, len(low_mass)))),
        Law(np.broadcast_to(high, (rows, len(high))), np.broadcast_to(high_mass, (rows, len(high_mass)))),
    )


def _bins(by_kind: Kinds) -> int:
    """Cells a row, so that all rows together stay small; many devices have a narrow law and need few."""
    return int(np.clip(1.3e6 / len(by_kind.count), 256, 4096))


class _Errors(NamedTuple):
    """Least, most and mean total rounding error, and how far it strays from its mean but for probability _TAIL."""

    least: float
    most: float
    mean: float
    spread: float


def _rounding(parts: list[_Part]) -> _Errors:
    squares = sum(float(p.error.max() - p.error.min()) ** 2 for p in parts)
    return _Errors(
        least=sum(float(p.error.min()) for p in parts),
        most=sum(float(p.error.max()) for p in parts),
        mean=sum(float(p.error @ p.mass) for p in parts),
        spread=float(np.sqrt(-squares * np.log(_TAIL) / 2)),
    )


def _summed(law: Floats, part: _Part, cells: int = 2**62) -> Floats:
    """The law with one more part; what would lie beyond `cells` next to never happens and is cut off."""
    out = np.zeros(min(len(law) + int(part.cell[-1]), cells))
    for cell, mass in zip(part.cell, part.mass, strict=True):
        end = min(int(cell) + len(law), cells)
        if mass > 0 and cell < end:
            out[cell:end] += mass * law[: end - int(cell)]
    return out


def _without(total: Floats, single: _Part) -> tuple[int, Floats]:
    """The law of the others, `total` divided by one device as generating functions, and where its first cell lies.

    total[j] = (1−p)·others[j] + p·others[j−c], solved upwards for p ≤ ½ and downwards above, so that each step damps
    the error of the one before. Downwards what comes out is others[j−c]: it begins c cells below `total`, as it must
    where the device always transmits.
    """
    from scipy.signal import lfilter

    cell, (silent, transmits) = int(single.cell[1]), single.mass
    if cell == 0 or transmits == 0:
        return 0, total
    upwards = bool(transmits <= silent)
    x = total if upwards else total[::-1]
    # The recursion goes in strides of c: one column for each remainder, and one step a row.
    rows = np.pad(x, (0, -len(x) % cell)).reshape(-1, cell)
    others = np.asarray(lfilter([1.0], sorted((silent, transmits), reverse=True), rows, axis=0)).ravel()[: len(x)]
    others = np.maximum(others if upwards else others[::-1], 0.0)
    return (0 if upwards else -cell), others / others.sum()


def without_the_largest(by_kind: Kinds, number: int) -> Law:
    """Law of everybody's noise less, in every outcome, the `number` largest contributions to it; rounded down.

    Device k and its c colluders are c + 1 devices, so with number = c + 1 what is left to it is never less than this.
    The kinds come in descending order of variance, and the first ones that take part are skipped.
    """
    step = float(by_kind.variance @ by_kind.count) / 2**15
    if step == 0:
        return Law(np.zeros((1, 1)), np.ones((1, 1)))
    laws: dict[int, Floats] = {0: np.ones(1)}  # number skipped so far → law of what counts, unnormalised
    for kind in np.argsort(-by_kind.variance):
        m, mass = binomial(int(by_kind.count[kind]), float(by_kind.participation[kind]), tail=_TAIL)
        added: dict[int, Floats] = {}
        for skipped, law in laws.items():
            for present, q in zip(m.tolist(), mass, strict=True):
                skip = min(present, number - skipped)
                cell = int((present - skip) * by_kind.variance[kind] / step)
                _accumulate(added, skipped + skip, cell, q * law)
        laws = added
    length = max(len(law) for law in laws.values())
    total = sum((np.pad(law, (0, length - len(law))) for law in laws.values()), start=np.zeros(length))
    return stacked([binned(step * as_floats(np.arange(length)), total, _bins(by_kind), down=True)])


def _accumulate(laws: dict[int, Floats], key: int, cell: int, law: Floats) -> None:
    """Adds `law`, moved up by `cell`, to laws[key]."""
    length = cell + len(law)
    old = laws.get(key, np.zeros(0))
    if len(old) < length:
        old = np.pad(old, (0, length - len(old)))
    old[cell:length] += law
    laws[key] = old
