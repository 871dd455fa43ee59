"""The normal law and its neighbours in NumPy and the standard library alone, by the names of scipy.special.

Relative errors are below 1e-14, tails included, until a float underflows (tests/test_special.py).
"""

import math

import numpy as np
from numpy.polynomial.chebyshev import chebval
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats

_ROOT = math.sqrt(0.5)
# (1 + 2x)·erfcx(x) over x ≥ 0 in Chebyshev polynomials of (x − 4)/(x + 4).
_ERFCX = (
    *(1.1774832005374487, -0.007260796620301901, -0.081265123236185, 0.06009212804122225, -0.02875393558027666),
    *(
        0.01059566336347286,
        -0.003136927294554264,
        0.0007456494372536184,
        -0.0001369696503010054,
        1.7183861600300937e-05,
    ),
    *(
        -7.158364623450346e-07,
        -2.4261399442449534e-07,
        5.5765709395703566e-08,
        -2.1057869513809494e-09,
        -1.1717889351884957e-09,
    ),
    *(
        1.9098355172456688e-10,
        1.408871764208813e-11,
        -6.901108320480815e-12,
        9.167958364111294e-14,
        2.1454508286554553e-13,
    ),
    *(
        -1.4716575027010623e-14,
        -6.668675118770408e-15,
        7.504598509880083e-16,
        2.22009300666632e-16,
        -3.1704898956330886e-17,
    ),
    *(-8.193570309884333e-18, 1.2459819733129574e-18),
)


def erfcx(x: ArrayLike) -> Floats:
    """e^(x²)·erfc(x)."""
    x = np.asarray(x, dtype=np.float64)
    size = np.abs(x)
    above = chebval(1 - 8 / (size + 4), _ERFCX) / (1 + 2 * size)
    with np.errstate(over="ignore"):
        return np.where(x < 0, 2 * _exp_square(size, 1.0) - above, above)


def _exp_square(size: Floats, rate: float) -> Floats:
    """e^(rate·x²) for x ≥ 0, with the digits that the rounding of x² would cost."""
    size = np.minimum(size, 1e3)
    coarse = np.floor(16 * size) / 16  # its square is exact
    return np.exp(rate * coarse**2) * np.exp(rate * (size - coarse) * (size + coarse))


def ndtr(x: ArrayLike) -> Floats:
    """Φ(x), the standard normal law."""
    x = np.asarray(x, dtype=np.float64)
    size = np.abs(x)
    below = 0.5 * erfcx(_ROOT * size) * _exp_square(size, -0.5)
    return np.where(x < 0, below, 1 - below)


def log_ndtr(x: ArrayLike) -> Floats:
    """ln Φ(x)."""
    x = np.asarray(x, dtype=np.float64)
    with np.errstate(over="ignore", divide="ignore"):
        below = np.log(0.5 * erfcx(_ROOT * np.maximum(-x, 0.0))) - np.minimum(x, 0.0) ** 2 / 2
    return np.where(x < 0, below, np.log1p(-ndtr(-np.abs(x))))


def ndtri(p: ArrayLike) -> Floats:
    """Φ⁻¹(p). ln Φ is concave, so Newton's steps from below stay below."""
    p = np.asarray(p, dtype=np.float64)
    small = np.minimum(p, 1 - p)
    with np.errstate(divide="ignore", invalid="ignore"):
        level = np.log(small)
        x = -np.sqrt(-2 * level)
        for _ in range(10):
            slope = 1 / (math.sqrt(math.pi / 2) * erfcx(-_ROOT * x))  # φ/Φ
            x = x + (level - log_ndtr(x)) / slope
    x = np.where(small == 0, -np.inf, x)
    return np.where(p == 0.5, 0.0, np.where(p > 0.5, -x, x))


def expit(x: ArrayLike) -> Floats:
    """1/(1 + e^−x)."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-np.asarray(x, dtype=np.float64)))


def xlogy(x: ArrayLike, y: ArrayLike) -> Floats:
    """x·ln y, and 0 where x = 0."""
    x, y = np.broadcast_arrays(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(x == 0, 0.0, x * np.log(y))


def xlog1py(x: ArrayLike, y: ArrayLike) -> Floats:
    """x·ln(1 + y), and 0 where x = 0."""
    x, y = np.broadcast_arrays(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(x == 0, 0.0, x * np.log1p(y))


def gammaln(x: ArrayLike) -> Floats:
    """ln Γ(x), x > 0."""
    x = np.asarray(x, dtype=np.float64)
    return np.array([math.lgamma(each) for each in x.ravel().tolist()]).reshape(x.shape)


def i0e(x: ArrayLike) -> Floats:
    """I₀(x)·e^−x, x ≥ 0."""
    x = np.asarray(x, dtype=np.float64)
    near, far = np.minimum(x, 600.0), 1 / (8 * np.maximum(x, 600.0))
    series = 1 + far * (1 + far * 9 / 2 * (1 + far * 25 / 3 * (1 + far * 49 / 4 * (1 + far * 81 / 5))))
    return np.where(x <= 600, np.i0(near) * np.exp(-near), series * np.sqrt(far * 4 / math.pi))
