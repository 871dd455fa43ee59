"""Confidence limits that hold exactly, for what an audit measures: standard deviations, means, correlations, laws.

Each limit is wrong with probability at most `error`, for Gaussian numbers and however few of them.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainccinv, gammaincinv, ndtr, stdtrit

from airpool._support.arrays import Floats


def std_limits(energy: float, count: int, *, error: float) -> tuple[float, float]:
    """Limits of σ from the sum of squares of `count` numbers of N(0, σ²), which is σ²·χ²; each may err by `error`.

    Edge cases: no numbers → 0 and inf.

    >>> [round(limit, 3) for limit in std_limits(100.0, 100, error=0.025)]
    [0.879, 1.161]
    """
    if count == 0:
        return 0.0, np.inf
    low, high = 2 * gammaincinv(count / 2, error), 2 * gammainccinv(count / 2, error)
    return float(np.sqrt(energy / high)), float(np.sqrt(energy / low)) if low > 0 else np.inf


def least_mean(values: ArrayLike, *, error: float) -> float:
    """A lower limit of the mean of Gaussian numbers of unknown variance (Student); −inf for fewer than two.

    >>> round(least_mean([1.0, 2.0, 3.0], error=0.05), 3)
    0.314
    """
    x = np.asarray(values, dtype=np.float64)
    if x.size < 2:
        return -np.inf
    return float(x.mean() + stdtrit(x.size - 1, error) * x.std(ddof=1) / np.sqrt(x.size))


def chance_correlation(count: int, *, error: float) -> float:
    """|Σxy|/√(Σx² Σy²) of `count` pairs stays below this: x centred Gaussian, y anything that is independent of x.

    The direction of x is uniform on the sphere, and √(m − 1)·c/√(1 − c²) has Student's law with m − 1 degrees.

    >>> round(chance_correlation(1_000, error=0.05), 3), chance_correlation(1, error=0.05)
    (0.062, 1.0)
    """
    if count < 2:
        return 1.0
    t = -float(stdtrit(count - 1, error / 2))
    return t / float(np.sqrt(t * t + count - 1)) if np.isfinite(t) else 1.0


def distance_from_normal(values: Floats) -> float:
    """The largest distance between the distribution of the values and that of N(0, 1) (Kolmogorov and Smirnov).

    >>> round(distance_from_normal(np.array([-1.0, 0.0, 1.0])), 4)
    0.1747
    """
    x, n = ndtr(np.sort(values)), len(values)
    steps = np.arange(n + 1) / n
    return float(max(np.max(steps[1:] - x), np.max(x - steps[:-1]))) if n else 0.0


def chance_distance(count: int, *, error: float) -> float:
    """Bound that `distance_from_normal` of `count` draws exceeds with probability `error` at most; 1 without draws.

        Pr(distance > d) ≤ 2 exp(−2 n d²)      (Dvoretzky, Kiefer and Wolfowitz, with Massart's constant)

    >>> round(chance_distance(1_000, error=0.05), 4)
    0.0429
    """
    return min(1.0, float(np.sqrt(np.log(2 / error) / (2 * count)))) if count else 1.0
