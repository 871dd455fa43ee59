"""The one root search of the package: roots of decreasing functions, always from the safe side."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats

# x and its excess.
Points = tuple[Floats, Floats]

# Relative width at which a bracket counts as a root, and evaluations after which the search stops where it is.
_WIDTH, _ROUNDS = 1e-14, 200


def smallest(
    excess: Callable[..., Floats], low: ArrayLike, high: ArrayLike, *args: ArrayLike, within: float = 0.0
) -> Floats:
    """The smallest x in [low, high] with excess(x, *args) ≤ 0, elementwise, for an excess that falls as x grows.

    Chandrupatla's method (inverse quadratic interpolation where it is safe, else bisection).
    Rounded up: the x returned has excess ≤ 0 as computed, never "≈ 0". `low` where it meets the condition already,
    inf where not even `high` does. within: how far above the smallest x will do.

    >>> smallest(lambda x, a: a - x**2, 0.0, [2.0, 2.0, 1.0], [2.0, -1.0, 4.0])
    array([1.41421356, 0.        ,        inf])
    """
    shape = np.broadcast_shapes(*(np.shape(a) for a in (low, high, *args)))
    low, high, *rest = (np.broadcast_to(np.asarray(a, dtype=np.float64), shape).ravel() for a in (low, high, *args))
    out = np.full(low.shape, np.inf)
    at_low = excess(low, *rest)
    out[at_low <= 0] = low[at_low <= 0]
    inside = ~(at_low <= 0) & np.isfinite(high)
    at_high = np.full(low.shape, np.inf)
    if inside.any():
        at_high[inside] = excess(high[inside], *(a[inside] for a in rest))
    inside &= at_high <= 0
    if inside.any():
        ends = (low[inside], at_low[inside]), (high[inside], at_high[inside])
        out[inside] = _root(excess, *ends, [a[inside] for a in rest], within)
    return out.reshape(shape)


def smallest_number(excess: Callable[[float], float], low: float, high: float, *, within: float = 0.0) -> float:
    """`smallest` for a function of one number.

    >>> round(smallest_number(lambda x: 2.0 - x**2, 0.0, 2.0), 9)
    1.414213562
    """

    def each(x: Floats) -> Floats:
        return np.array([excess(float(one)) for one in x])

    return float(smallest(each, low, high, within=within))


def _root(excess: Callable[..., Floats], low: Points, high: Points, rest: list[Floats], within: float) -> Floats:
    """The right end of the bracket (low, high), shrunk around the root. The newest point is 1, the other end is 2."""
    x1, f1, x2, f2 = low[0], _bounded(low[1]), high[0], _bounded(high[1])
    out, left, t = x2.copy(), np.arange(len(x2)), np.full(len(x2), 0.5)  # `left`: those still searched
    for _ in range(_ROUNDS):
        x = x1 + t * (x2 - x1)
        f = _bounded(excess(x, *(a[left] for a in rest)))
        same = (f <= 0) == (f1 <= 0)
        x3, f3 = np.where(same, x1, x2), np.where(same, f1, f2)
        x2, f2 = np.where(same, x2, x1), np.where(same, f2, f1)
        x1, f1 = x, f
        out[left] = np.where(f1 <= 0, x1, x2)
        tolerance = _WIDTH * np.abs(np.where(np.abs(f1) < np.abs(f2), x1, x2)) + 1e-307 + within / 2
        width = np.abs(x2 - x1)
        more = (width > 2 * tolerance) & (f1 != 0)
        if not more.any():
            break
        left = left[more]
        x1, f1, x2, f2, x3, f3, width, tolerance = (y[more] for y in (x1, f1, x2, f2, x3, f3, width, tolerance))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            xi, phi = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2)
            curved = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
            alpha = (x3 - x1) / (x2 - x1)
            quadratic = f1 / (f1 - f2) * f3 / (f3 - f2) - alpha * f1 / (f3 - f1) * f2 / (f2 - f3)
        least = tolerance / (2 * width)
        t = np.clip(np.where(curved & np.isfinite(quadratic), quadratic, 0.5), least, 1 - least)
    return out


def _bounded(f: Floats) -> Floats:
    """Infinite values as large ones, which interpolation survives."""
    return np.clip(f, -1e300, 1e300)
