"""The laws gamma, χ² (noncentral too) and beta in NumPy and the standard library alone, by the names of scipy.special.

Relative errors are below 1e-11, tails included, until a float underflows (tests/test_special.py). Whatever is added up
is positive. Arguments are those that airpool has: x ≥ 0, probabilities, positive parameters.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.polynomial.chebyshev import chebval
from numpy.polynomial.polynomial import polyval
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats
from airpool._support.search import smallest

# Sums and continued fractions stop when a term adds less than this, or after so many terms.
_ADDS, _TERMS = 1e-17, 200_000
# Terms of a Poisson law this many standard deviations from its mean are below 1e-30.
_DEVIATIONS = 12.0
# Terms that are held in memory at once.
_AT_ONCE = 2**18
_ARTANH = [2 / (2 * k + 3) for k in range(14)]


def poisson(n: ArrayLike, mean: ArrayLike) -> Floats:
    """e^−m·mⁿ/Γ(n + 1), n ≥ 0 and m > 0: for n ≥ 16 by Stirling's series and the deviance, which keeps its digits."""
    n, mean = np.broadcast_arrays(np.asarray(n, dtype=np.float64), np.asarray(mean, dtype=np.float64))
    few = n < 16
    many = np.where(few, n + 16, n)
    w = many**-2
    stirling = (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w / 1188)))) / many
    u = (mean - many) / many
    v = u / (2 + u)
    square = v**2
    # u − ln(1 + u): near 0 by the series of ln(1 + u) = 2 artanh v.
    away = np.where(np.abs(u) < 0.2, v * (u - square * polyval(square, _ARTANH)), u - np.log(mean / many))
    out = np.exp(-stirling - many * away) / np.sqrt(2 * math.pi * many)
    if few.any():
        n, mean, many = n[few], mean[few], many[few]
        rising = np.prod([n + k for k in range(1, 17)], axis=0)  # Γ(n + 17)/Γ(n + 1)
        gamma = np.sqrt(2 * math.pi * many) * (many / math.e) ** many * np.exp(stirling[few]) / rising
        out[few] = np.exp(-mean) * mean**n / gamma
    return out


def gammainc(a: ArrayLike, x: ArrayLike) -> Floats:
    """P(a, x), the regularised lower incomplete gamma function."""
    return _gamma_tails(a, x)[0]


def gammaincc(a: ArrayLike, x: ArrayLike) -> Floats:
    """Q(a, x) = 1 − P(a, x)."""
    return _gamma_tails(a, x)[1]


def _gamma_tails(a: ArrayLike, x: ArrayLike) -> tuple[Floats, Floats]:
    """P and Q: the smaller one by itself, by the series of P for x < a + 1, and Legendre's fraction of Q above."""
    a, x = (np.array(each) for each in np.broadcast_arrays(np.asarray(a, float), np.asarray(x, float)))
    lower, upper = np.zeros(x.shape), np.ones(x.shape)
    upper[np.isinf(x)], lower[np.isinf(x)] = 0.0, 1.0
    below, above = (x > 0) & (x < a + 1), (x >= a + 1) & np.isfinite(x)
    if below.any():
        lower[below] = poisson(a[below], x[below]) * _series(a[below], x[below])
        upper[below] = 1 - lower[below]
    if above.any():
        upper[above] = a[above] * poisson(a[above], x[above]) * _fraction(a[above], x[above])
        lower[above] = 1 - upper[above]
    return lower, upper


def _series(a: Floats, x: Floats) -> Floats:
    """Σ xⁿ/((a+1)…(a+n)), n ≥ 0."""
    total, term = np.ones(x.shape), np.ones(x.shape)
    for n in range(1, _TERMS):
        term = term * x / (a + n)
        total += term
        if np.all(term < _ADDS * total):
            break
    return total


def _fraction(a: Floats, x: Floats) -> Floats:
    """Γ(a, x)·eˣ/xᵃ for x ≥ a + 1."""
    first = x + 1 - a
    return 1 / _lentz(first, lambda n: (-n * (n - a), first + 2 * n))


def _lentz(first: Floats, step: Callable[[int], tuple[Any, Any]]) -> Floats:
    """The continued fraction first + p₁/(q₁ + p₂/(q₂ + …)), with (pₙ, qₙ) = step(n), by Lentz's method."""
    value, over, under = first, first, np.zeros_like(first)
    for n in range(1, _TERMS):
        p, q = step(n)
        under = 1 / _nonzero(q + p * under)
        over = _nonzero(q + p / over)
        value = value * over * under
        if np.all(np.abs(over * under - 1) < 4e-16):
            break
    return value


def _nonzero(x: Floats) -> Floats:
    return np.where(np.abs(x) < 1e-300, 1e-300, x)


def gammaincinv(a: ArrayLike, p: ArrayLike) -> Floats:
    """The x with P(a, x) = p."""
    return _inverse(_gamma_tails, a, p=p)


def chdtrc(df: ArrayLike, x: ArrayLike) -> Floats:
    """Pr(χ² > x)."""
    return _gamma_tails(np.asarray(df) / 2, np.asarray(x) / 2)[1]


def chdtri(df: ArrayLike, p: ArrayLike) -> Floats:
    """The x with Pr(χ² > x) = p."""
    return 2 * _inverse(_gamma_tails, np.asarray(df) / 2, q=p)


def chndtr(x: ArrayLike, df: ArrayLike, nc: ArrayLike) -> Floats:
    """Pr(χ² ≤ x), noncentral."""
    return noncentral_tail(x, df, nc, upper=False)


def chndtrix(p: ArrayLike, df: ArrayLike, nc: ArrayLike) -> Floats:
    """The x with Pr(χ² ≤ x) = p, noncentral."""

    def tails(a: Floats, y: Floats, nc: Floats) -> tuple[Floats, Floats]:
        return _noncentral_tails(2 * y, 2 * a, nc)

    return 2 * _inverse(tails, np.asarray(df) / 2, nc, p=p)


def noncentral_tail(x: ArrayLike, df: ArrayLike, nc: ArrayLike, *, upper: bool) -> Floats:
    """Pr(χ² > x) of the noncentral law, or Pr(χ² ≤ x)."""
    return _noncentral_tails(x, df, nc)[int(upper)]


def _noncentral_tails(x: ArrayLike, df: ArrayLike, nc: ArrayLike) -> tuple[Floats, Floats]:
    """Both tails of the noncentral law: gamma laws, mixed by a Poisson law of mean nc/2."""
    x, a, mean = np.broadcast_arrays(*(np.asarray(each, dtype=np.float64) / 2 for each in (x, df, nc)))
    lower, upper = (np.array(each) for each in _gamma_tails(a, x))
    at = np.nonzero(((mean > 0) & (x > 0) & np.isfinite(x)).ravel())[0]
    x, a, mean = x.ravel(), a.ravel(), mean.ravel()
    # In a tail the terms near n(n + a) = mean·x count most, elsewhere those near the mean.
    likely = mean[at] * x[at] / (a[at] / 2 + np.sqrt(mean[at] * x[at] + a[at] ** 2 / 4))
    last = np.maximum(mean[at], likely)
    reach = _DEVIATIONS * np.sqrt(last) + 40
    first = np.floor(np.maximum(np.minimum(mean[at], likely) - reach, 0.0))
    terms = (last + reach - first).astype(int) + 1
    some = max(1, _AT_ONCE // int(np.max(terms, initial=1)))
    for part in np.split(np.arange(len(at)), range(some, len(at), some)):
        one = at[part]
        n = first[part, None] + np.arange(np.max(terms[part], initial=1))
        lower.flat[one], upper.flat[one] = _mixed(x[one, None], a[one, None], mean[one, None], n)
    return np.minimum(lower, 1.0), np.minimum(upper, 1.0)


def _mixed(x: Floats, a: Floats, mean: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Σ Poisson(n; mean)·P(a + n, x), and the same of Q, along the last axis.

    P(a, x) − P(a + 1, x) = xᵃe^−x/Γ(a + 1), which is added up from the end where P, or Q, is smallest.
    """
    weight, steps = poisson(n, mean), poisson(a + n[:, :-1], x)
    (_, lowest), (highest, _) = (_gamma_tails(a + end, x) for end in (n[:, :1], n[:, -1:]))
    upper = np.concatenate([lowest, lowest + np.cumsum(steps, axis=1)], axis=1)
    lower = np.concatenate([highest + np.cumsum(steps[:, ::-1], axis=1)[:, ::-1], highest], axis=1)
    return np.sum(weight * lower, axis=1), np.sum(weight * upper, axis=1)


def _inverse(
    tails: Callable[..., tuple[Floats, Floats]], a: ArrayLike, *more: ArrayLike, p: ArrayLike = (), q: ArrayLike = ()
) -> Floats:
    """The x at which the lower tail is p, or the upper one q; solved for whichever is smaller."""
    from_above = np.size(q) > 0
    given, a, *rest = np.broadcast_arrays(np.asarray(q if from_above else p, float), np.asarray(a, float), *more)
    below, above = (1 - given, given) if from_above else (given, 1 - given)

    def excess(x: Floats, below: Floats, above: Floats, *of: Floats) -> Floats:
        lower, upper = tails(of[0], x, *of[1:])
        return np.where(below < above, below - lower, upper - above)

    high = a + sum(rest) + 1
    while np.any(short := (excess(high, below, above, a, *rest) > 0) & (above > 0)):
        high = np.where(short, 2 * high, high)
    return smallest(excess, 0.0, high, below, above, a, *rest)


def betainc(a: float, b: float, x: ArrayLike) -> Floats:
    """I_x(a, b), the law of Beta(a, b), for one a and one b."""
    x = np.asarray(x, dtype=np.float64)
    out = np.where(x >= 1, 1.0, 0.0)
    low = x <= (a + 1) / (a + b + 2)
    below, above = (x > 0) & low, (x < 1) & ~low
    out[below] = _beta_tail(a, b, x[below])
    out[above] = 1 - _beta_tail(b, a, 1 - x[above])
    return out


def _beta_tail(a: float, b: float, x: Floats) -> Floats:
    """I_x(a, b) for x up to the mean, or little above it."""
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) - math.log(a)

    def step(n: int) -> tuple[Any, Any]:
        k = n // 2
        if n % 2:
            return -(a + k) * (a + b + k) * x / ((a + 2 * k) * (a + 2 * k + 1)), 1.0
        return k * (b - k) * x / ((a + 2 * k - 1) * (a + 2 * k)), 1.0

    return np.exp(scale + a * np.log(x) + b * np.log1p(-x)) / _lentz(np.ones_like(x), step)


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
