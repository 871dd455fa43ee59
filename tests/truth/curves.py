"""Curves δ(ε) of pairs of laws and of their streams: every number here is exact or a lower bound.

Nothing is imported from airpool. A pair is described by its privacy loss L = ln dP/dQ under P, and

    δ(ε) = E_P[(1 − e^(ε−L))₊].

Lower bounds: of a mean that is sampled, by an empirical Bernstein bound; of a stream, by losses that are rounded down.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import log_ndtr, ndtr
from scipy.stats import ncx2

Floats = NDArray[np.float64]
# Probability that one sampled lower bound is too high. A run looks at some ten thousand of them.
BETA = 1e-9


def gaussian(epsilon: ArrayLike, mu: ArrayLike) -> Floats:
    """δ of N(μ, 1) against N(0, 1), of any ε (Balle and Wang 2018): Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ).

    >>> float(gaussian(1.0, 0.268050).round(7)), float(gaussian(1.0, np.inf)), float(gaussian(0.0, 0.0))
    (1e-05, 1.0, 0.0)
    """
    e, m = np.broadcast_arrays(np.asarray(epsilon, dtype=np.float64), np.asarray(mu, dtype=np.float64))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        above, below = log_ndtr(m / 2 - e / m), e + log_ndtr(-m / 2 - e / m)
        found = np.where(below < above, np.exp(above) * -np.expm1(np.minimum(below - above, 0.0)), 0.0)
        found = np.where(m > 0, found, np.maximum(-np.expm1(np.minimum(e, 0.0)), 0.0))
    return np.where(np.isinf(m), 1.0, found)


def mean_from_below(values: Floats, *, beta: float = BETA) -> float:
    """A lower bound on the mean of values ≥ 0 that were drawn independently (Maurer and Pontil 2009).

    They are cut at a level that a quarter of them suggests, which only lowers the mean.
    """
    first = len(values) // 4
    most = 1.5 * float(np.max(values[:first], initial=0.0))
    if most == 0:
        return 0.0
    rest = np.minimum(values[first:], most)
    n, log = len(rest), float(np.log(2 / beta))
    reach = np.sqrt(2 * np.var(rest, ddof=1) * log / n) + 7 * most * log / (3 * (n - 1))
    return max(0.0, float(np.mean(rest)) - float(reach))


# What one inference shows of a device: a loss that is certain, and a Gaussian at distance μ.


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What an adversary may see of one inference beside the signal: probability under P, certain loss, and μ² then."""

    probability: Floats
    loss: Floats
    square: Floats

    def delta(self, epsilon: float, times: int, rng: np.random.Generator, *, draws: int = 4000) -> float:
        """δ of `times` inferences: given how often each outcome comes, one Gaussian; exact for one inference.

        Half of the draws lean towards outcomes with large μ, where small δ comes from.
        """
        if not np.all(self.probability > 0):
            some = self.probability > 0
            return Outcomes(self.probability[some], self.loss[some], self.square[some]).delta(
                epsilon, times, rng, draws=draws
            )
        p, level = self.probability, float(np.sum(self.probability * self.square))
        if times == 1 or len(p) == 1:
            return float(p @ gaussian(epsilon - times * self.loss, np.sqrt(times * self.square)))
        lean = p * np.minimum(1 + self.square / max(level, 1e-300) / np.sqrt(times), 1e6)
        lean /= lean.sum()
        counts = np.concatenate([rng.multinomial(times, p, draws // 2), rng.multinomial(times, lean, draws // 2)])
        ratio = counts @ np.log(lean / p)
        weight = 1 / (0.5 + 0.5 * np.exp(np.clip(ratio, -700, 700)))
        values = weight * gaussian(epsilon - counts @ self.loss, np.sqrt(counts @ self.square))
        return mean_from_below(values[rng.permutation(len(values))])


# Losses that are not Gaussian: participation that is hidden, and noise that goes with the device.

# Pr_P(L ≤ x) at any x.
Below = Callable[[Floats], Floats]


def hidden_zero_out(p: float, mu: float) -> tuple[Below, Below]:
    """(1−p)N(0, 1) + pN(μ, 1) against N(0, 1), and the other way round."""

    def where(x: Floats) -> Floats:
        """The y at which ln(1 − p + p e^(μy − μ²/2)) is x."""
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = np.where(x > 30, x, np.log(np.maximum(np.expm1(np.minimum(x, 30.0)) + p, 0.0)))
            return (inside - np.log(p) + mu**2 / 2) / mu

    def there(x: Floats) -> Floats:
        y = where(x)
        return (1 - p) * ndtr(y) + p * ndtr(y - mu)

    return there, lambda x: ndtr(-where(-x))


def hidden_replace(p: float, mu: float) -> tuple[Below]:
    """(1−p)N(0, 1) + pN(μ, 1) against (1−p)N(0, 1) + pN(−μ, 1); the other way round is the same."""
    b, c = 1 - p, p * np.exp(-(mu**2) / 2)

    def below(x: Floats) -> Floats:
        """c X² − b(e^x − 1) X − c e^x = 0 at X = e^(μy)."""
        size = np.abs(x)
        half, scale = b * -np.expm1(-size) / 2, np.exp(-size)
        with np.errstate(divide="ignore", over="ignore"):
            y = (size + np.log(half + np.sqrt(half**2 + c**2 * scale)) - np.log(c)) / mu
        y = np.where(x < 0, -y, y)
        return (1 - p) * ndtr(y) + p * ndtr(y - mu)

    return (below,)


def removal(p: float, shift: float, own: float, rest: float, r: int) -> tuple[Below, Below]:
    """(1−p)N(0, bI_r) + pN(Δ, aI_r) against N(0, bI_r), b = rest, a = rest + own; and the other way round."""
    a, b = rest + own, rest
    lean = (1 / b - 1 / a) / 2
    m = shift / (2 * a * lean)
    start = (r / 2 * np.log(a / b) + shift**2 / (2 * a)) / lean + m**2

    def both(loss: Floats) -> tuple[Floats, Floats]:
        """Pr(ln dP/dQ ≤ loss) with the device and without."""
        square = np.maximum(start + loss / lean, 0.0)
        with np.errstate(all="ignore"):
            return ncx2.cdf(square / a, r, (shift + m) ** 2 / a), ncx2.cdf(square / b, r, m**2 / b)

    def inner(x: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            bare = np.where(x > 30, x, np.log(np.maximum(np.expm1(np.minimum(x, 30.0)) + p, 1e-300)))
        return bare - np.log(p)

    def there(x: Floats) -> Floats:
        with_it, without = both(inner(x))
        return np.where(x < np.log1p(-p) if p < 1 else False, 0.0, (1 - p) * without + p * with_it)

    def gone(x: Floats) -> Floats:
        return np.where(-x < np.log1p(-p) if p < 1 else False, 1.0, 1 - both(inner(-x))[1])

    return there, gone


def mixed(parts: list[tuple[float, tuple[Below, ...]]], silent: float) -> tuple[Below, ...]:
    """What an adversary sees of the others chooses the pair; with probability `silent` there is nothing to see."""

    def of(way: int) -> Below:
        return lambda x: silent * (x >= 0) + sum((share * pair[way](x) for share, pair in parts), np.zeros(len(x)))

    return tuple(of(way) for way in range(len(parts[0][1])))


# Widest loss of one inference, and what Fourier transforms may add to a sum of masses.
_WIDEST, _NOISE = 200.0, 1e-13


@dataclass(frozen=True, eq=False)
class Rounded:
    """Losses on a lattice, all rounded down: mass[i] at (first + i)·step. What is missing counts as a loss of −∞."""

    mass: Floats
    first: int
    step: float

    def delta(self, epsilon: float) -> float:
        """A lower bound on δ."""
        loss = (self.first + np.arange(len(self.mass))) * self.step
        over = loss > epsilon
        return max(0.0, float(np.sum(self.mass[over] * -np.expm1(epsilon - loss[over]))) - _NOISE)

    def repeated(self, times: int) -> "Rounded":
        """So many of them together."""
        size = next_fast_len(len(self.mass) * times, real=True)
        powered = irfft(rfft(self.mass, size) ** times, size)[: (len(self.mass) - 1) * times + 1]
        return Rounded(np.maximum(powered, 0.0), self.first * times, self.step)

    def cut(self, step: float, *, tail: float = 1e-14) -> "Rounded":
        """On a coarser lattice, without the tails: the lower one is lost, the upper one moves down."""
        loss = (self.first + np.arange(len(self.mass))) * self.step
        cell = np.floor(loss / step + 1e-9).astype(np.int64)
        mass = np.asarray(np.bincount(cell - cell[0], weights=self.mass), dtype=np.float64)
        low = int(np.searchsorted(np.cumsum(mass), tail))
        high = max(len(mass) - int(np.searchsorted(np.cumsum(mass[::-1]), tail)), low + 1)
        kept = mass[low:high].copy()
        kept[-1] += mass[high:].sum()
        return Rounded(kept, int(cell[0]) + low, step)


def once(below: Below, epsilon: float) -> float:
    """δ of one inference: ∫ e^−u Pr(L > ε + u) du over u > 0, from below."""
    u = np.concatenate([[0.0], np.geomspace(1e-4, 40.0, 400)])
    tail = np.maximum(1 - below(epsilon + u[1:]), 0.0)
    return max(0.0, float(np.sum(-np.diff(np.exp(-u)) * tail)) - _NOISE)


def lattice(below: Below, step: float, *, cells: int) -> Rounded:
    """The losses of one inference, rounded down to a lattice of so many cells at most."""
    rough = np.concatenate([-np.geomspace(_WIDEST, 1e-9, 600), np.geomspace(1e-9, _WIDEST, 600)])
    found = below(rough)
    low = rough[max(int(np.searchsorted(found, 1e-16)) - 1, 0)]
    high = rough[min(int(np.searchsorted(found, 1 - 1e-15)) + 1, len(rough) - 1)]
    step = max(step, float(high - low) / cells)
    first, last = int(np.floor(low / step)), int(np.ceil(high / step)) + 1
    # Strictly below the next point: a mass at a point stays there.
    at = below(np.nextafter(np.arange(first, last + 1) * step, -np.inf))
    mass = np.maximum(np.diff(np.clip(at, 0.0, 1.0)), 0.0)
    return Rounded(mass, first, step)


def stream(below: Below, times: int, *, cells: int = 2**20) -> Rounded:
    """The losses of `times` inferences together, or of a few less: fewer inferences show less.

    Composed level by level, on lattices that grow with the spread. Rounding costs half a step in each inference of a
    level: in all less than a hundredth of the spread up to 4,096 inferences, a tenth beyond.
    """
    rough = np.concatenate([-np.geomspace(_WIDEST, 1e-9, 2000), np.geomspace(1e-9, _WIDEST, 2000)])
    weight = np.diff(below(rough), prepend=0.0)
    step = float(np.sqrt(np.sum(weight * rough**2))) * (0.01 if times <= 4096 else 0.1) / np.sqrt(times)
    if step == 0:
        return Rounded(np.ones(1), 0, 1.0)
    levels = max(1, int(np.ceil(np.log(times) / np.log(16) - 1e-9)))
    factor = int(times ** (1 / levels) + 1e-9)
    now, together = lattice(below, step, cells=cells), 1
    step = now.step
    for level in range(levels):
        often = factor if level < levels - 1 else times // together
        step, together = step * np.sqrt(often), together * often
        now = now.repeated(often).cut(step)
    return now
