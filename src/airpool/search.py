"""The package's root search: roots of decreasing functions, rounded to the safe side."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import elementwise

from airpool.arrays import Floats


def smallest(excess: Callable[..., Floats], low: ArrayLike, high: ArrayLike, *args: ArrayLike) -> Floats:
    """The smallest x in [low, high] with excess(x, *args) ≤ 0, elementwise, for an excess that falls as x grows.

    Rounded up: the x returned has excess(x) ≤ 0 as computed. Edge cases: `low` where it already meets the condition;
    inf where `high` does not.

    >>> smallest(lambda x, a: a - x**2, 0.0, [2.0, 2.0, 1.0], [2.0, -1.0, 4.0])
    array([1.41421356, 0.        ,        inf])
    """
    shape = np.broadcast_shapes(*(np.shape(a) for a in (low, high, *args)))
    low, high, *rest = (np.broadcast_to(np.asarray(a, dtype=np.float64), shape).ravel() for a in (low, high, *args))
    out = np.full(low.shape, np.inf)
    at_low = excess(low, *rest) <= 0
    out[at_low] = low[at_low]
    with np.errstate(invalid="ignore"):
        inside = ~at_low & np.isfinite(high)
        inside[inside] = excess(high[inside], *(a[inside] for a in rest)) <= 0
    if inside.any():
        found = elementwise.find_root(
            lambda x, *rest: np.nan_to_num(excess(x, *rest), nan=np.nan, posinf=1e300, neginf=-1e300),
            (low[inside], high[inside]),
            args=tuple(a[inside] for a in rest),
            tolerances={"xrtol": 1e-14},
            maxiter=200,
        )
        # The end of the bracket at which the condition was evaluated to hold.
        out[inside] = np.where(found.f_bracket[1] <= 0, found.bracket[1], found.bracket[0])
        out[inside] = np.where(found.f_x <= 0, np.minimum(found.x, out[inside]), out[inside])
    return out.reshape(shape)
