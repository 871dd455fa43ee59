"""Array types and the argument checks that every function of this package shares."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def checked(name: str, value: ArrayLike, *, allowed: str, ok: Callable[[Floats], NDArray[np.bool_]]) -> Floats:
    """`value` as a float64 array, or an error that names the argument, the first bad entry and what is allowed.

    >>> checked("delta", 1.5, allowed="must be in (0, 1)", ok=lambda x: (x > 0) & (x < 1))
    Traceback (most recent call last):
    ...
    ValueError: delta=1.5 must be in (0, 1)
    """
    try:
        given = np.asarray(value)
        array = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        given = array = np.empty(0, dtype=object)
    if given.dtype.kind not in "biuf":  # NumPy would read "2" as a number
        raise ValueError(f"{name}={value!r} must be a number or a list of numbers")
    bad = ~ok(array) | np.isnan(array)
    if bad.any():
        where = "" if array.ndim == 0 else f"[{', '.join(str(i) for i in np.argwhere(bad)[0])}]"
        raise ValueError(f"{name}{where}={array[bad].flat[0]:g} {allowed}")
    return array


# SciPy's functions with the types that they have here.
log_ndtr: Callable[[Floats], Floats] = special.log_ndtr
erfcx: Callable[[Floats], Floats] = special.erfcx


def floats(value: ArrayLike) -> Floats:
    """What SciPy's stubs leave untyped, as the float64 array that it is."""
    return np.asarray(value, dtype=np.float64)


def at_least_zero(name: str, value: ArrayLike) -> Floats:
    return checked(name, value, allowed="must be >= 0 and finite", ok=lambda x: (x >= 0) & (x < np.inf))


def probability(name: str, value: ArrayLike) -> Floats:
    return checked(name, value, allowed="must be between 0 and 1", ok=lambda x: (x >= 0) & (x <= 1))


def failure_probability(value: ArrayLike, name: str = "delta") -> Floats:
    """δ: strictly between 0 and 1. At 0 a Gaussian has ε = inf, at 1 every promise is empty."""
    return checked(name, value, allowed="must be > 0 and < 1", ok=lambda x: (x > 0) & (x < 1))
