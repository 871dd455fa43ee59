"""Encoders, decoders and classifiers: functions, torch modules or matrices. No model is imported here."""

from collections.abc import Callable

import numpy as np
from array_api_compat import array_namespace, is_numpy_array, is_torch_array

from airpool._support.arrays import Array, require

Map = Callable[[Array], Array] | Array  # a function, a torch module, or a matrix that multiplies from the left


def apply(function: Map, x: Array, *, name: str = "function") -> Array:
    """f(x) along the last axis; a matrix (out, in) multiplies from the left."""
    if callable(function):
        return function(x)
    if not any(is_one(function) and is_one(x) for is_one in (is_numpy_array, is_torch_array)):
        library = "torch" if is_torch_array(x) else "NumPy"
        wanted = f"a function, a torch module or a {library} matrix"
        raise TypeError(f"{name} is of type {type(function).__name__}, must be {wanted}")
    if function.ndim != 2 or function.shape[1] != x.shape[-1]:
        raise ValueError(f"{name} has shape {tuple(function.shape)}, must be a matrix (*, {x.shape[-1]})")
    xp = array_namespace(x)
    # Parameters are checked; features never are.
    require(name, function, "must be finite", ok=xp.isfinite)
    if is_torch_array(x) and (function.dtype != x.dtype or function.device != x.device):
        raise ValueError(f"{name} is {function.dtype} on {function.device}, must be {x.dtype} on {x.device}, as x is")
    # Features that are too large or not finite are guarded by the clip: a warning would leak them.
    with np.errstate(all="ignore"):
        return xp.matmul(x, function.T)
