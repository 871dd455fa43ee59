"""Laws of a random variance: discrete, ascending, several rows at once; of random strengths; devices by kind."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import numpy as np

from airpool._support.arrays import Floats, Integers, as_floats
from airpool._support.special import gammaln, xlog1py, xlogy


@dataclass(frozen=True)
class Law:
    """Discrete laws of a variance, one row each: `variance[r]` ascends, `mass[r]` sums to 1."""

    variance: Floats
    mass: Floats


@dataclass(frozen=True)
class Kinds:
    """Devices sorted into kinds that are alike in noise variance and participation."""

    variance: Floats
    participation: Floats
    count: Integers
    of_device: Integers


@dataclass(frozen=True, eq=False)
class Strength:
    """Laws of S, one a row: Pr(S > edge[i]) = above[i] at ascending edges; `of_device` names each device's row.

    present: Pr(S > 0), a device that is not present is silent. error: of every probability in here, at most.
    """

    edge: tuple[Floats, ...]
    above: tuple[Floats, ...]
    present: tuple[float, ...]
    of_device: Integers
    error: float = 0.0

    @property
    def presence(self) -> Floats:
        """Pr(S > 0) of each device."""
        return np.array(self.present)[self.of_device]

    @property
    def most(self) -> Floats:
        """A strength that each device exceeds next to never."""
        return np.array([edge[-1] for edge in self.edge])[self.of_device]

    @property
    def beyond(self) -> Floats:
        """Upper bound on the probability that each device exceeds `most`."""
        return np.array([above[-1] + self.error for above in self.above])[self.of_device]

    def lent(self, row: int, *, down: bool) -> tuple[Floats, Floats]:
        """S as it counts for the others, rounded within its cell: values and masses, of which the rest is at 0.

        Rounded up, what lies above the last edge is infinite and left out.
        """
        edge, above = self.edge[row], self.above[row]
        inside = above - np.append(above[1:], 0.0)
        if down:
            return edge, inside
        return edge, np.append(self.present[row], above[:-1]) - above

    def own(self, row: int, *, down: bool) -> tuple[Floats, Floats]:
        """S of a device that is present, rounded up (`down`: the ratio V/S is to be rounded down) or down."""
        edge, above, present = self.edge[row], self.above[row], self.present[row]
        if down:
            mass = np.append(np.append(present, above[:-1]) - above, above[-1])
            return np.append(edge, np.inf), mass / present
        below = np.append(present, above) - np.append(above, 0.0)
        return np.append(0.0, edge), below / present


@dataclass(frozen=True)
class Arrivals:
    """Law of the received directions: `draw(n, rng)` gives n outcomes of v, (n, K, d), 0 where a device is silent.

    v is complex, with a component for each antenna.
    key: equal where the law of v is. of_device: equal where devices have the same law. presence: Pr(v ≠ 0) of each.
    most, beyond: a |v|² that each device exceeds with probability `beyond` at most.
    rayleigh: number of components if v is Gaussian, independent and isotropic, of one variance; else 0.
    aligned: one component more, in which every v is 1. costly: draws take long.
    rough: few draws will do, for the first steps of a search.
    """

    draw: Callable[[int, np.random.Generator], Floats] = field(compare=False)
    key: Hashable
    of_device: Integers = field(compare=False)
    presence: Floats = field(compare=False)
    most: Floats = field(compare=False)
    beyond: Floats = field(compare=False)
    rayleigh: int = 0
    aligned: bool = False
    costly: bool = False
    rough: bool = False


def kinds(variance: Floats, participation: Floats) -> Kinds:
    distinct, of_device, count = alike(variance, participation)
    return Kinds(distinct[:, 0], distinct[:, 1], count, of_device)


def alike(*columns: Floats) -> tuple[Floats, Integers, Integers]:
    """Distinct rows of the table with these columns, the row of each device, and how often each row occurs."""
    table = np.stack(columns, axis=1)
    # One integer for each row: sorting those is many times faster than sorting rows, for a million devices.
    code = np.zeros(len(table), dtype=np.uint64)
    for column in columns:
        bits = (column + 0.0).view(np.uint64)  # + 0.0 turns −0 into 0
        code = (code ^ (bits ^ (bits >> np.uint64(29)))) * np.uint64(0x9E3779B97F4A7C15)
        code ^= code >> np.uint64(32)
    _, first, of_device, count = np.unique(code, return_index=True, return_inverse=True, return_counts=True)
    if not np.array_equal(
        table[first][of_device], table
    ):  # pragma: no cover: two rows with one code are next to impossible
        rows, of_device, count = np.unique(table, axis=0, return_inverse=True, return_counts=True)
        return rows, of_device.reshape(-1), count
    return table[first], of_device, count


def in_order(of_device: Integers) -> Integers:
    """Kinds numbered as they first occur, which no scale of the noise changes.

    >>> in_order(np.array([2, 2, 0, 1, 0]))
    array([0, 0, 1, 2, 1])
    """
    _, first, kind = np.unique(of_device, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[kind.reshape(-1)]


def binomial(n: int, p: float, *, tail: float = 0.0) -> tuple[Integers, Floats]:
    """Numbers of successes in n trials and their probabilities; `tail` may be cut off on each side.

    The cut is Bernstein's: Pr(|m − np| ≥ t/3 + √(t²/9 + 2np(1−p)t)) ≤ 2e^−t.
    """
    if p in (0.0, 1.0):
        return np.array([n if p else 0]), np.ones(1)
    if n == 1:
        return np.array([0, 1]), np.array([1 - p, p])
    first, last = 0, n
    if tail > 0:
        t = -np.log(tail)
        reach = t / 3 + np.sqrt(t**2 / 9 + 2 * n * p * (1 - p) * t)
        first, last = max(0, int(n * p - reach)), min(n, int(np.ceil(n * p + reach)))
    m = np.arange(first, last + 1)
    x = m.astype(np.float64)
    mass = np.exp(gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1) + xlogy(x, p) + xlog1py(n - x, -p))
    return m, mass / mass.sum()


def stacked(rows: list[tuple[Floats, Floats]]) -> Law:
    """Rows of different length as one law; what fills them up has no mass."""
    width = max(len(variance) for variance, _ in rows)
    return Law(
        variance=np.stack([np.pad(variance, (0, width - len(variance)), mode="edge") for variance, _ in rows]),
        mass=np.stack([np.pad(mass, (0, width - len(mass))) for _, mass in rows]),
    )


def coarsened(law: Law, bins: int, *, down: bool, own: Floats | None = None) -> Law:
    """The law in at most `bins` cells a row; variances are rounded down (more leakage, so safe) or up, within a bin.

    own: of each row, the device's own noise, where bins are to be chosen by what rounding costs it.
    """
    if law.variance.shape[1] <= bins:
        return law
    each: list[float | None] = [None] * len(law.variance) if own is None else own.tolist()
    rows = zip(law.variance, law.mass, each, strict=True)
    return stacked([binned(v, m, bins, down=down, own=a) for v, m, a in rows])


def binned(variance: Floats, mass: Floats, bins: int, *, down: bool, own: float | None = None) -> tuple[Floats, Floats]:
    """One row in bins of equal width: both its middle, where the mass is, and its tail, which decides ε, keep cells.

    own: bins by what rounding costs instead, for laws that span many orders of magnitude.
    """
    present = mass > 0
    variance, mass = variance[present], mass[present]
    if len(variance) <= bins:
        return variance, mass
    if own is None:
        edges = as_floats(np.linspace(float(variance[0]), float(variance[-1]), bins + 1))
        bin_of = np.clip(np.searchsorted(edges, variance, side="right") - 1, 0, bins - 1)
    else:
        cost = _cost_of_rounding(variance, mass, own)
        bin_of = np.minimum((cost * (bins / cost[-1])).astype(np.int64), bins - 1)
    first = np.flatnonzero(np.diff(bin_of, prepend=-1))
    last = np.append(first[1:], len(variance)) - 1
    return variance[first if down else last], np.add.reduceat(mass, first)


def _cost_of_rounding(variance: Floats, mass: Floats, own: float) -> Floats:
    """Cumulative cost of rounding from the first cell to each, on a scale of which bins get equal parts.

    Half of it by μ² = 1/(V + own): bins of width w and mass m cost Σ m·w of its mean, least if each gets as much of
    ∫√m. The other half by ln μ², for the tail, where mass is small.
    """
    lowest = max(float(variance[variance > 0][0]) * 1e-3, own) if np.any(variance > 0) else 1.0
    log_ratio = -np.log(variance + lowest)
    steps = -np.diff(log_ratio, prepend=log_ratio[0])
    middle = np.sqrt(mass * -np.diff(np.exp(log_ratio), prepend=np.exp(log_ratio[0])))
    return np.cumsum(steps / steps.sum() + middle / middle.sum())
