"""How the error of a noisy input travels through the layers of a server's network.

    h_0 = z,  h_l = f_l(h_{l−1}),     error at depth L: E‖h_L(ẑ) − h_L(z)‖²

The paper says it grows like O(L). What is certain is the product of norms, which is exponential in L:

    ‖h_L(ẑ) − h_L(z)‖² ≤ ∏_l ‖W_l‖₂² ‖ẑ − z‖²          1-Lipschitz activations

Layers are functions on arrays of NumPy or torch; the random ones here are NumPy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike

from airpool._support.arrays import Array, Floats, finite, require_shape

Layer = Callable[[Array], Array]
Weights = Literal["gaussian", "orthogonal"]
Norm = Literal["spectral", "frobenius"]


@dataclass(frozen=True)
class DepthError:
    """At depth L (0: at the input), on average over the objects and their noisy copies.

    error: E‖h_L(ẑ) − h_L(z)‖². signal: E‖h_L(z)‖². spread: E‖h_L(z) − E h_L(z)‖² over the objects, what tells them
    apart; the paper looks at the first alone, but a layer that shrinks all three alike does no harm.
    """

    depth: int
    error: float
    signal: float
    spread: float

    @property
    def to_signal(self) -> float:
        return self.error / self.signal

    @property
    def to_spread(self) -> float:
        return self.error / self.spread


def propagation(layers: Sequence[Layer], clean: Array, noisy: Array) -> list[DepthError]:
    """The error at the input and after each layer, of noisy copies (n, t, ...) of inputs (n, ...).

    Holds for: layers that treat every sample by itself; both go through them as one batch, (n, ...) and (n·t, ...).
    Edge cases: one object → spread 0; nothing comes through → signal 0, and the ratios are not defined.

    >>> double = lambda x: 2 * x
    >>> rows = propagation([double, double], np.eye(2), np.eye(2)[:, None] + 0.1)
    >>> [round(row.error, 6) for row in rows], [round(row.to_signal, 6) for row in rows]
    ([0.02, 0.08, 0.32], [0.02, 0.02, 0.02])
    """
    if noisy.ndim != clean.ndim + 1 or noisy.shape[0] != clean.shape[0] or noisy.shape[2:] != clean.shape[1:]:
        raise ValueError(
            f"noisy has shape {tuple(noisy.shape)}, must be (objects, copies, ...) of inputs {tuple(clean.shape)}"
        )
    copies = int(noisy.shape[1])
    xp = array_namespace(clean, noisy)
    h, heard = clean, xp.reshape(noisy, (-1, *clean.shape[1:]))
    rows = [_row(0, h, heard, copies)]
    for depth, layer in enumerate(layers, start=1):
        h, heard = layer(h), layer(heard)
        rows.append(_row(depth, h, heard, copies))
    return rows


def _row(depth: int, clean: Array, noisy: Array, copies: int) -> DepthError:
    xp = array_namespace(clean)
    h = xp.reshape(clean, (clean.shape[0], -1))
    away = xp.reshape(noisy, (h.shape[0], copies, -1)) - h[:, None, :]
    centred = h - xp.mean(h, axis=0, keepdims=True)
    error, signal, spread = (float(xp.sum(x * x)) for x in (away, h, centred))
    return DepthError(depth, error / (h.shape[0] * copies), signal / h.shape[0], spread / h.shape[0])


def random_weights(
    depth: int, width: int, *, inputs: int, rng: np.random.Generator, kind: Weights = "gaussian"
) -> list[Floats]:
    """Matrices of a network with `depth` hidden layers, as He et al. start them: E‖Wx‖² = 2 (rows/columns) ‖x‖².

    gaussian: independent entries N(0, 2/columns). orthogonal: √2 times orthonormal columns or rows (scaled so that the
    mean above is the same), so that, but for ReLU, a layer of equal width changes no angle.

    >>> first, second = random_weights(2, 64, inputs=8, rng=np.random.default_rng(0), kind="orthogonal")
    >>> first.shape, second.shape, np.linalg.norm(second, 2).round(6)
    ((64, 8), (64, 64), np.float64(1.414214))
    """
    for name, value in (("depth", depth), ("width", width), ("inputs", inputs)):
        if value < 1:
            raise ValueError(f"{name}={value} must be >= 1")
    if kind not in ("gaussian", "orthogonal"):
        raise ValueError(f"kind={kind!r} must be gaussian or orthogonal")
    shapes = [(width, inputs if layer == 0 else width) for layer in range(depth)]
    drawn = [rng.standard_normal(shape) for shape in shapes]
    if kind == "gaussian":
        return [W * np.sqrt(2 / W.shape[1]) for W in drawn]
    return [_orthogonal(W) * np.sqrt(2 * max(1.0, W.shape[0] / W.shape[1])) for W in drawn]


def _orthogonal(drawn: Floats) -> Floats:
    """Uniformly distributed: the signs of R's diagonal, which QR leaves open, are put back."""
    tall = drawn if drawn.shape[0] >= drawn.shape[1] else drawn.T
    q, r = (np.asarray(part, dtype=np.float64) for part in np.linalg.qr(tall))
    q = q * np.sign(np.diag(r))
    return q if drawn.shape[0] >= drawn.shape[1] else q.T


def relu_layers(weights: Sequence[ArrayLike], biases: Sequence[ArrayLike] | None = None) -> list[Layer]:
    """x → max(Wx + b, 0) for each matrix, on rows x (..., columns)."""
    matrices = [require_shape(f"weights[{k}]", finite(f"weights[{k}]", W), (-1, -1)) for k, W in enumerate(weights)]
    if biases is not None and len(biases) != len(matrices):
        raise ValueError(f"biases has {len(biases)} entries for {len(matrices)} weights")
    shifts = [0.0] * len(matrices) if biases is None else [finite("biases", b) for b in biases]

    def layer(W: Floats, b: Any) -> Layer:
        return lambda x: np.maximum(x @ W.T + b, 0.0)

    return [layer(W, b) for W, b in zip(matrices, shifts, strict=True)]


def norm_bound(weights: Sequence[ArrayLike], error: float, *, norm: Norm = "spectral") -> Floats:
    """∏_{l≤L} ‖W_l‖² · E‖ẑ − z‖² for L = 0, 1, …: no error is larger. `frobenius`: the paper's, never smaller.

    Holds for: 1-Lipschitz activations; biases do not matter.

    >>> norm_bound([np.diag([2.0, 1.0]), np.diag([3.0, 1.0])], 0.1).round(6)
    array([0.1, 0.4, 3.6])
    """
    if norm not in ("spectral", "frobenius"):
        raise ValueError(f"norm={norm!r} must be spectral or frobenius")
    size = [float(np.linalg.norm(finite("weights", W), 2 if norm == "spectral" else "fro")) for W in weights]
    return np.asarray(error * np.cumprod([1.0, *(s**2 for s in size)]), dtype=np.float64)


def convolution_norm(kernel: ArrayLike, *, side: int) -> float:
    """‖A‖₂ of a convolution of images (in, side, side) with a kernel (out, in, k, k), from above; any padding, stride.

    With zeros around it an image is part of a torus of side + k − 1, on which Fourier's basis takes the convolution
    apart: the largest norm of its symbol over all frequencies. Stride only leaves outputs out.
    Tight to O(1/side): the true norm of the zero-padded convolution is a little below it.

    >>> round(convolution_norm(np.ones((1, 1, 3, 3)), side=30), 6)
    9.0
    """
    k = finite("kernel", kernel)
    if k.ndim != 4 or k.shape[2] != k.shape[3] or side < 1:
        raise ValueError(f"kernel has shape {k.shape}, must be (out, in, k, k); side={side} must be ≥ 1")
    period = side + k.shape[2] - 1
    symbol = np.fft.fft2(k, s=(period, period)).transpose(2, 3, 0, 1)
    return float(np.linalg.norm(symbol, 2, axis=(-2, -1)).max())


def folded(
    matrix: Floats, bias: Floats, *, mean: Floats, variance: Floats, scale: Floats, shift: Floats, eps: float = 1e-5
) -> tuple[Floats, Floats]:
    """A layer, dense or convolutional, and the batch norm behind it, as one layer (fixed statistics).

    >>> A, b = folded(np.eye(1), np.zeros(1), mean=np.ones(1), variance=np.full(1, 4.0), scale=np.ones(1),
    ...     shift=np.zeros(1), eps=0.0)
    >>> A.item(), b.item()
    (0.5, -0.5)
    """
    factor = scale / np.sqrt(variance + eps)
    return matrix * factor.reshape(-1, *(1,) * (matrix.ndim - 1)), (bias - mean) * factor + shift
