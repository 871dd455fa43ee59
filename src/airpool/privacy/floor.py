"""The noise floor: law of the noise variance that the other devices put around device k.

Device i sends its noise, of variance a_i per coordinate, with probability p_i. What protects device k besides its own
noise is the random variance  V_k = extra + Σ_{i≠k} τ_i a_i.  Every ε with visible participation is an expectation over
it (spec §3.3), and rounding it down is always safe: less noise, more leakage.

Few or like devices: the law itself, binomials for like devices and convolution for heterogeneous ones. Many
heterogeneous devices: a grid, with one law stochastically smaller than the truth and one larger (grid.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb, prod

import numpy as np

from airpool.arrays import Floats, Integers
from airpool.privacy import grid
from airpool.privacy.law import Kinds, Law, binomial, kinds, stacked

# Cells of an exact law, over all its rows: beyond this the grid takes over.
EXACT_CELLS = 2**19


@dataclass(frozen=True)
class Floor:
    """The laws of V_k for all devices at once.

    The truth lies between `low` and `high`: for every decreasing function f with values in [0, 1],
    E_high f − slack ≤ E f ≤ E_low f + slack. Both are one object, and slack is 0, where the law is exact.

    `device[i]` is protected by row `row[i]`; a device that stands there several times is protected by the worst of its
    rows (one for each set of colluders that it might face).
    """

    low: Law
    high: Law
    slack: float
    device: Integers
    row: Integers

    @property
    def exact(self) -> bool:
        return self.low is self.high


def floor(variance: Floats, participation: Floats, *, extra: float = 0.0, absent: int = 0) -> Floor:
    """Law of the others' noise for every device; the noise of any `absent` others, the worst ones, does not count.

    Holds for: devices that take part independently of each other.
    """
    # Who has no noise to lend lends none however often it takes part: one kind, and nothing to enumerate.
    by_kind = kinds(variance, np.where(variance > 0, participation, 0.0))
    absent = min(absent, len(variance) - 1)
    found = _exact(by_kind, absent=absent) or _bracketed(by_kind, absent=absent)
    low = Law(found.low.variance + extra, found.low.mass)
    high = low if found.exact else Law(found.high.variance + extra, found.high.mass)
    return Floor(low, high, found.slack, found.device, found.row)


def _exact(by_kind: Kinds, *, absent: int) -> Floor | None:
    """One row for each kind of device and each way to choose the absent ones; None if that is too much."""
    always = (by_kind.participation == 0) | (by_kind.participation == 1)
    if not absent and np.all(always) and len(always) <= EXACT_CELLS:
        return _certain(by_kind)
    if comb(len(by_kind.count) + absent - 1, absent) * len(by_kind.count) > EXACT_CELLS:
        return None
    own_kind: list[int] = []
    counts: list[Integers] = []
    cells = 0
    for own, others in _others(by_kind, absent):
        own_kind.append(own)
        counts.append(others)
        atoms = (1 if p in (0.0, 1.0) else int(n) + 1 for n, p in zip(others, by_kind.participation, strict=True))
        cells += prod(atoms)
        if cells > EXACT_CELLS:
            return None
    law = stacked([_convolved(by_kind, count) for count in counts])
    own_kinds = np.array(own_kind)
    rows_of_kind = [np.flatnonzero(own_kinds == kind) for kind in range(len(by_kind.count))]
    rows_of_device = [rows_of_kind[int(kind)] for kind in by_kind.of_device]
    row = np.concatenate(rows_of_device)
    repeats = [len(rows) for rows in rows_of_device]
    device = np.repeat(np.arange(len(by_kind.of_device)), repeats)
    return Floor(low=law, high=law, slack=0.0, device=device, row=row)


def _certain(by_kind: Kinds) -> Floor:
    """Nobody's presence is left to chance: one number for each kind, however many kinds there are."""
    lent = by_kind.variance * by_kind.participation
    others = np.maximum(by_kind.count @ lent - lent, 0.0)
    law = Law(others[:, None], np.ones((len(others), 1)))
    return Floor(law, law, slack=0.0, device=np.arange(len(by_kind.of_device)), row=by_kind.of_device)


def _others(by_kind: Kinds, absent: int) -> Iterator[tuple[int, Integers]]:
    """For each kind of device, how many others of each kind count, for every choice of the absent ones."""
    num_kinds = len(by_kind.count)
    for own in range(num_kinds):
        others = by_kind.count.copy()
        others[own] -= 1
        for choice in combinations_with_replacement(range(num_kinds), absent):
            left = others - np.bincount(np.array(choice, dtype=np.int64), minlength=num_kinds)
            if (left >= 0).all():
                yield own, left


def _convolved(by_kind: Kinds, count: Integers) -> tuple[Floats, Floats]:
    variance, mass = np.zeros(1), np.ones(1)
    for a, p, n in zip(by_kind.variance, by_kind.participation, count, strict=True):
        m, q = binomial(int(n), float(p))
        variance = (variance[:, None] + a * m).ravel()
        mass = (mass[:, None] * q).ravel()
    order = np.argsort(variance)
    return variance[order], mass[order]


def _bracketed(by_kind: Kinds, *, absent: int) -> Floor:
    """A row for each kind from the grid. With absent devices, the upper law is the one without any: they only hurt."""
    low, high = grid.leave_one_out(by_kind)
    if absent:
        worst = grid.without_the_largest(by_kind, absent + 1)
        low = Law(*(np.broadcast_to(x, (len(by_kind.count), x.shape[1])) for x in (worst.variance, worst.mass)))
    device = np.arange(len(by_kind.of_device))
    return Floor(low, high, slack=grid.slack(by_kind), device=device, row=by_kind.of_device)
