"""The arithmetic of heads and codecs, for NumPy arrays and torch tensors: torch's own kernels, and the same in NumPy.

Never raises on values: what is not finite stays so, and the clip makes it 0.
"""

from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from numpy.typing import NDArray

from airpool._support.arrays import Array, Floats

Layers = tuple[tuple[Array, Array], ...]  # matrix and bias of each
FURTHEST = 5.0  # standard deviations: features of unseen objects beyond these are clipped


def matched(array: Array, x: Array) -> Array:
    """A parameter as x is: of its library and precision, on its device."""
    if not is_torch_array(x):
        return np.asarray(in_numpy(array), dtype=x.dtype)
    if not is_torch_array(array):
        from torch import as_tensor

        array = as_tensor(array)
    return array.to(x)


@np.errstate(all="ignore")
def linear(x: Array, matrix: Array, bias: Array) -> Array:
    """x Aᵀ + b over the last axis: (..., i) → (..., o) by (o, i); (..., K, i) → (..., K, o) by (K, o, i)."""
    matrix, bias = matched(matrix, x), matched(bias, x)
    if matrix.ndim == 3:
        if not is_torch_array(x):
            return np.einsum("...ki,koi->...ko", x, matrix) + bias
        from torch import einsum

        return einsum("...ki,koi->...ko", x, matrix) + bias
    if is_torch_array(x):
        from torch.nn.functional import linear as in_torch

        return in_torch(x, matrix, bias)
    return x @ matrix.T + bias


def relu(x: Array) -> Array:
    return x.relu() if is_torch_array(x) else np.maximum(x, 0)


@np.errstate(all="ignore")
def softmax(logits: Array) -> Array:
    """Over the last axis."""
    if is_torch_array(logits):
        return logits.softmax(-1)
    e = np.exp(logits - np.max(logits, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


@np.errstate(all="ignore")
def unit(x: Array, *, least: float) -> Array:
    """x / max(‖x‖, least) over the last axis."""
    if is_torch_array(x):
        from torch.nn.functional import normalize

        return normalize(x, dim=-1, eps=least)
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), least)


def through(layers: Layers, x: Array) -> Array:
    """Linear layers with ReLU between them."""
    for k, (matrix, bias) in enumerate(layers):
        x = linear(relu(x) if k else x, matrix, bias)
    return x


def in_numpy(array: Array) -> NDArray[Any]:
    return array.detach().cpu().numpy() if is_torch_array(array) else np.asarray(array)


def in_float64(array: Array) -> Floats:
    return np.asarray(in_numpy(array), np.float64)
