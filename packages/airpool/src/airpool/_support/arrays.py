"""Array types and the argument checks that all packages share: NumPy in float64, and what holds for torch too."""

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_numpy_array, is_torch_array
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
# A NumPy array or a torch tensor; no type checker has a name for "any array of the array API" yet.
Array = Any

_POSITIVE = ("must be > 0 and finite", lambda x: (x > 0) & (x < np.inf))
_NOT_NEGATIVE = ("must be >= 0 and finite", lambda x: (x >= 0) & (x < np.inf))


def require_array(name: str, value: object, *, torch: bool = False) -> None:
    """Raises an error if `value` is neither a NumPy array nor a torch tensor, or, with `torch`, no tensor."""
    if is_torch_array(value) or (is_numpy_array(value) and not torch):
        return
    wanted = "a torch tensor" if torch else "a NumPy array or a torch tensor"
    raise TypeError(f"{name} is of type {type(value).__name__}, must be {wanted}")


def require(name: str, array: Array, allowed: str, *, ok: Callable[[Array], Array]) -> Array:
    """`array`, or an error that names it, its first bad entry and what is allowed. `ok` must be false for NaN.

    >>> require("gain", np.array([1.0, -2.0]), "must be >= 0", ok=lambda x: x >= 0)
    Traceback (most recent call last):
    ...
    ValueError: gain[1]=-2 must be >= 0
    """
    xp = array_namespace(array)
    bad = ~ok(array)
    if not bool(xp.any(bad)):
        return array
    if array.ndim == 0:
        raise ValueError(f"{name}={float(array):g} {allowed}")
    first = tuple(int(axis[0]) for axis in xp.nonzero(bad))
    raise ValueError(f"{name}[{', '.join(map(str, first))}]={float(array[first]):g} {allowed}")


def require_shape(name: str, array: Array, shape: tuple[int, ...]) -> Array:
    """`array`, or an error if it has another shape than `shape`; -1 stands for any length."""
    if len(array.shape) != len(shape) or any(
        want not in (-1, have) for have, want in zip(array.shape, shape, strict=True)
    ):
        wanted = ", ".join("*" if n == -1 else str(n) for n in shape)
        raise ValueError(f"{name} has shape {tuple(array.shape)}, must be ({wanted})")
    return array


def not_negative_array(name: str, array: Array) -> Array:
    return require(name, array, _NOT_NEGATIVE[0], ok=_NOT_NEGATIVE[1])


def as_floats(value: ArrayLike) -> Floats:
    """A value as a typed float64 array, for SciPy functions whose stubs leave it untyped."""
    return np.asarray(value, dtype=np.float64)


def checked(name: str, value: ArrayLike, allowed: str, *, ok: Callable[[Floats], NDArray[np.bool_]]) -> Floats:
    """`value` as a float64 array without NaN, or an error that names the argument, its first bad entry and the rule.

    >>> checked("delta", 1.5, "must be in (0, 1)", ok=lambda x: (x > 0) & (x < 1))
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
    return require(name, array, allowed, ok=lambda x: ok(x) & ~np.isnan(x))


def positive(name: str, value: ArrayLike) -> Floats:
    return checked(name, value, _POSITIVE[0], ok=_POSITIVE[1])


def not_negative(name: str, value: ArrayLike) -> Floats:
    return checked(name, value, _NOT_NEGATIVE[0], ok=_NOT_NEGATIVE[1])


def finite(name: str, value: ArrayLike) -> Floats:
    return checked(name, value, "must be finite", ok=np.isfinite)


def probability(name: str, value: ArrayLike) -> Floats:
    return checked(name, value, "must be between 0 and 1", ok=lambda x: (x >= 0) & (x <= 1))


def failure_probability(value: ArrayLike, name: str = "delta") -> Floats:
    """δ: strictly between 0 and 1. At 0 a Gaussian has ε = inf; at 1 every guarantee is vacuous."""
    return checked(name, value, "must be > 0 and < 1", ok=lambda x: (x > 0) & (x < 1))


def like(value: ArrayLike, array: Array) -> Array:
    """float64 numbers as an array of the same library, precision and device as `array`."""
    return array_namespace(array).asarray(np.asarray(value), dtype=array.dtype, device=device(array))
