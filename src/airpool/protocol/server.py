"""The server: scale what was received, decode it, name the object.

    ẑ = y/γ      label = argmax J(D ẑ)

It sees the noisy sum and, unless cover noise hides it, who transmitted.
"""

from collections.abc import Callable, Sequence

import numpy as np
from array_api_compat import array_namespace, is_numpy_array, is_torch_array

from airpool.arrays import Array, require, require_array

Map = Callable[[Array], Array] | Array  # a function, a torch module, or a matrix that multiplies from the left

NO_ANSWER = -1


def estimate(received: Array, gamma: float) -> Array:
    """ẑ = y/γ, (..., r): an estimate of Σ w z."""
    return received / gamma


def labels(logits: Array, any_signal: Array) -> Array:
    """The class of the largest logit; NO_ANSWER where nobody transmitted: noise alone is never decoded."""
    xp = array_namespace(logits)
    if bool(xp.any(xp.isnan(logits))):
        raise ValueError("the classifier or decoder gives logits that are NaN: its parameters must be finite")
    best = xp.argmax(logits, axis=-1)
    return xp.where(any_signal, best, xp.full_like(best, NO_ANSWER))


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


def encode(features: Array, encoder: Map | Sequence[Map] | None) -> Array:
    """z = W f of every device: (n, K, d) → (n, K, r). A sequence gives every device its own encoder."""
    require_array("features", features)
    if features.ndim != 3:
        raise ValueError(f"features has shape {np.shape(features)}, must be (objects, devices, coordinates)")
    if encoder is None:
        return features
    if isinstance(encoder, list | tuple):
        if len(encoder) != features.shape[1]:
            raise ValueError(f"encoder has {len(encoder)} entries for {features.shape[1]} devices")
        each = [apply(one, features[:, k, :], name=f"encoder[{k}]") for k, one in enumerate(encoder)]
        return array_namespace(features).stack(each, axis=1)
    return apply(encoder, features, name="encoder")  # pyright: ignore[reportArgumentType]
