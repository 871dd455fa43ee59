"""The noise floor: law of the noise variance that the other devices put around device k.

Device i sends its noise, of variance a_i per coordinate, with probability p_i. What protects device k besides its own
noise is the random variance  V_k = extra + Σ_{i≠k} τ_i a_i.  Every ε with visible participation is an expectation over
it (docs/theory/guarantee.md §3), and rounding it down is always safe: less noise, more leakage.
"""

from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from math import comb, prod

import numpy as np

from airpool._support.arrays import Floats, Integers
from airpool.privacy import grid
from airpool.privacy.aggregate import least_of_others
from airpool.privacy.law import Kinds, Law, binomial, coarsened, kinds, stacked

# Cells of an exact law, over all its rows: beyond this the grid takes over.
EXACT_CELLS = 2**19


@dataclass(frozen=True)
class Floor:
    """The laws of V_k for all devices at once.

    The truth lies between `low` and `high`: for every decreasing function f with values in [0, 1],
    E_high f − slack ≤ E f ≤ E_low f + slack. Both are one object, and slack is 0, where the law is exact.

    `device[i]` is protected by row `row[i]`; a device that is listed several times is protected by the worst of its
    rows (one for each set of colluders). wide: the laws span orders of magnitude (random strengths).
    """

    low: Law
    high: Law
    slack: float
    device: Integers
    row: Integers
    wide: bool = False

    @property
    def exact(self) -> bool:
        return self.low is self.high

    def of_kinds(self, of_device: Integers) -> "Floor":
        """The rows of the first device of each kind only."""
        at = np.isin(self.device, np.unique(of_device, return_index=True)[1])
        return replace(self, device=self.device[at], row=self.row[at])

    def of_rows(self, at: Integers) -> "Floor":
        """The laws of given entries, of one device, rounded down."""
        rows, row = np.unique(self.row[at], return_inverse=True)
        low = Law(self.low.variance[rows], self.low.mass[rows])
        return Floor(low, low, self.slack, 0 * row, row.reshape(-1), self.wide)

    def rounded(self, cells: int, own: Floats | None = None) -> "Floor":
        """The laws in at most `cells` cells, rounded to their sides. own: of each row; see `coarsened`."""
        if self.low.variance.shape[1] <= cells and self.high.variance.shape[1] <= cells:
            return self
        low = coarsened(self.low, cells, down=True, own=own)
        high = low if self.exact and low is self.low else coarsened(self.high, cells, down=False, own=own)
        return replace(self, low=low, high=high)

    def settled(self, cells: int, own: Floats | None) -> "Floor":
        """As `rounded`, with the slack as the worst outcome, in which no other noise is there: composition needs that.

        own: the noise of the device itself, of each case.
        """
        if self.low.variance.shape[1] <= cells and not self.slack:
            return self
        least = None
        if self.wide and own is not None:  # rows are shared: the least own noise of those that a row protects
            least = np.full(len(self.low.variance), np.inf)
            np.minimum.at(least, self.row, own)
            least = np.where(np.isinf(least), 0.0, least)
        found = self.rounded(cells, least)
        low, high = (
            Law(np.insert(law.variance, 0, 0.0, axis=1), np.insert(law.mass, 0, mass, axis=1)) if self.slack else law
            for law, mass in ((found.low, self.slack), (found.high, -self.slack))
        )
        return replace(found, low=low, high=low if found.exact and not self.slack else high, slack=0.0)


def floor(variance: Floats, participation: Floats, *, extra: float = 0.0, absent: int = 0) -> Floor:
    """Law of the others' noise for every device; the noise of any `absent` others, the worst ones, does not count.

    Few or like devices: the exact law. Many heterogeneous devices: two laws on a grid that enclose it (grid.py).
    Holds for: devices that take part independently of each other.
    """
    absent = min(absent, len(variance) - 1)
    # Devices without noise are one kind, however often they take part: nothing to enumerate.
    by_kind = kinds(variance, np.where(variance > 0, participation, 0.0))
    everyone = np.arange(len(variance))
    if np.all(np.isin(by_kind.participation, (0.0, 1.0))) and len(by_kind.count) <= EXACT_CELLS:
        lent = (by_kind.variance * by_kind.participation)[by_kind.of_device]
        law = Law(least_of_others(lent, len(lent) - 1 - absent)[:, None], np.ones((len(lent), 1)))
        found = Floor(law, law, slack=0.0, device=everyone, row=everyone)
    else:
        found = _exact(by_kind, absent) or Floor(
            *grid.laws(by_kind, absent), slack=grid.slack(by_kind), device=everyone, row=by_kind.of_device
        )
    low = Law(found.low.variance + extra, found.low.mass)
    return replace(found, low=low, high=low if found.exact else Law(found.high.variance + extra, found.high.mass))


def _exact(by_kind: Kinds, absent: int) -> Floor | None:
    """One row for each kind of device and each choice of absent ones; None if there are too many."""
    num_kinds = len(by_kind.count)
    if comb(num_kinds + absent - 1, absent) * num_kinds > EXACT_CELLS:
        return None
    noise, chance = by_kind.variance, by_kind.participation
    # louder[i, j]: the noise of kind i is stochastically larger than that of kind j.
    louder = np.zeros((num_kinds, 1), dtype=bool)
    if absent:
        louder = (noise[:, None] >= noise) & (chance[:, None] >= chance) & ~np.eye(num_kinds, dtype=bool)
    own_kind: list[int] = []
    counts: list[Integers] = []
    cells = 0
    for own in range(num_kinds):
        for choice in combinations_with_replacement(range(num_kinds), absent):
            others = by_kind.count - np.bincount(np.array((own, *choice)), minlength=num_kinds)
            if (others < 0).any():
                continue
            atoms = (1 if p in (0.0, 1.0) else int(n) + 1 for n, p in zip(others, by_kind.participation, strict=True))
            cells += prod(atoms)
            if cells > EXACT_CELLS:
                return None
            # Less noise is left if an absent device and a louder one that is there change places.
            if not louder[others > 0][:, list(choice)].any():
                own_kind.append(own)
                counts.append(others)
    law = stacked([_convolved(by_kind, count) for count in counts])
    rows_of_kind = [np.flatnonzero(np.array(own_kind) == kind) for kind in range(num_kinds)]
    rows_of_device = [rows_of_kind[int(kind)] for kind in by_kind.of_device]
    device = np.repeat(np.arange(len(rows_of_device)), [len(rows) for rows in rows_of_device])
    return Floor(law, law, slack=0.0, device=device, row=np.concatenate(rows_of_device))


def _convolved(by_kind: Kinds, count: Integers) -> tuple[Floats, Floats]:
    variance, mass = np.zeros(1), np.ones(1)
    for a, p, n in zip(by_kind.variance, by_kind.participation, count, strict=True):
        m, q = binomial(int(n), float(p))
        variance = (variance[:, None] + a * m).ravel()
        mass = (mass[:, None] * q).ravel()
    order = np.argsort(variance)
    return variance[order], mass[order]
