"""The server as matrices: its scores with their rounding errors, and the optimal linear server.

    h₀ = x,  h_ℓ = ReLU(A_ℓ h_{ℓ−1} + b_ℓ),  scores = A_L h_{L−1} + b_L

With a nonlinear codec the server is decoder and classifier together, and x is the estimate ẑ.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airpool._support.arrays import Floats, finite
from airpool._support.brief import Brief
from airpool.evaluation.mse import affine

Integers = NDArray[np.intp]

# Bias of a class without examples, below that of another class.
_NEVER = 1e6


@dataclass(frozen=True, eq=False, repr=False)
class LayeredServer(Brief):
    """Layers of a matrix (out, in) and a bias (out,), with ReLUs between them. One layer is a linear classifier."""

    layers: tuple[tuple[Floats, Floats], ...]

    def __post_init__(self) -> None:
        if not self.layers:
            raise ValueError("layers is empty, must be at least one (matrix, bias)")
        checked: list[tuple[Floats, Floats]] = []
        width: int | None = None
        for number, (matrix, bias) in enumerate(self.layers, start=1):
            A, b = finite(f"matrix {number}", matrix), finite(f"bias {number}", bias)
            if A.ndim != 2 or b.shape != A.shape[:1] or (width is not None and A.shape[1] != width):
                raise ValueError(
                    f"layer {number} has shapes {A.shape} and {b.shape}, must be (out, {width or 'in'}) and (out,)"
                )
            checked.append((A, b))
            width = A.shape[0]
        object.__setattr__(self, "layers", tuple(checked))

    @property
    def dimension(self) -> int:
        return self.layers[0][0].shape[1]

    @property
    def num_classes(self) -> int:
        return self.layers[-1][0].shape[0]

    @property
    def matrices(self) -> tuple[Floats, ...]:
        return tuple(A for A, _ in self.layers)


def scores(server: LayeredServer, x: ArrayLike) -> Floats:
    """Scores (..., C) of points (..., r)."""
    return bounded_scores(server, x)[0]


def bounded_scores(server: LayeredServer, x: ArrayLike, *, x_error: ArrayLike = 0.0) -> tuple[Floats, Floats]:
    """Scores (..., C) of points (..., r), and a bound on their error.

    x_error: bound on the error of each coordinate of the points. Proof: docs/proofs/theory.md.
    Edge cases: scores that overflow are infinite or NaN, and so are their bounds.
    """
    h, error = np.asarray(x, dtype=np.float64), np.asarray(x_error, dtype=np.float64)
    if h.ndim < 1 or h.shape[-1] != server.dimension:
        raise ValueError(f"x has shape {h.shape}, must be (..., {server.dimension}), as the server's first matrix")
    for A, b in server.layers[:-1]:
        h, error = affine(A, b, h, error)
        h = np.maximum(h, 0.0)
    return affine(*server.layers[-1], h, error)


def gaps(scores: Floats, labels: ArrayLike, error: Floats | None = None) -> Floats:
    """s_l − s_j (n, C) of the true class l against every class j; inf at j = l.

    error: of the scores (n, C), from `bounded_scores`: the gaps are then lower bounds, and with −error upper bounds.

    >>> gaps(np.array([[3.0, 1.0, 2.5]]), [0])
    array([[inf, 2. , 0.5]])
    >>> gaps(np.array([[3.0, 1.0, 2.5]]), [0], np.array([[0.1, 0.1, 0.4]])).round(6)
    array([[inf, 1.8, 0. ]])
    """
    own = np.asarray(labels)
    rows = np.arange(len(own))
    with np.errstate(invalid="ignore", over="ignore"):
        out = scores[rows, own][:, None] - scores
        if error is not None:
            out -= error[rows, own][:, None] + error
    out[rows, own] = np.inf
    return out


def class_labels(labels: ArrayLike, *, count: int, num_classes: int) -> Integers:
    """Labels (count,) as class indices, or an error.

    >>> class_labels([0, 2], count=2, num_classes=2)
    Traceback (most recent call last):
    ...
    ValueError: labels run from 0 to 2, must be from 0 to 1
    """
    y = np.asarray(labels)
    if y.shape != (count,):
        raise ValueError(f"labels has shape {y.shape}, must be ({count},), one for each object")
    if count and not np.issubdtype(y.dtype, np.integer):
        raise ValueError(f"labels has type {y.dtype}, must be whole numbers")
    if count and (y.min() < 0 or y.max() >= num_classes):
        raise ValueError(f"labels run from {y.min()} to {y.max()}, must be from 0 to {num_classes - 1}")
    return y.astype(np.intp)


def checked_points(server: LayeredServer, x: ArrayLike, labels: ArrayLike) -> tuple[Floats, Integers]:
    """Points (n, r) and their labels (n,), or an error."""
    points = finite("x", x)
    if points.ndim != 2:
        raise ValueError(f"x has shape {points.shape}, must be (n, {server.dimension})")
    return points, class_labels(labels, count=len(points), num_classes=server.num_classes)


def linear_server(latents: ArrayLike, labels: ArrayLike, *, noise_std: float, num_classes: int) -> LayeredServer:
    """The optimal linear classifier of Gaussian classes with equal covariance, received through Gaussian noise.

        S = within-class covariance + noise² I,  a_c = S⁻¹ μ_c,  b_c = −½ μ_cᵀ S⁻¹ μ_c + ln π_c

    latents: pooled (n, r), of objects other than those it is evaluated on. Its margins are exact.
    Edge cases: a class without examples is never predicted: it has another class's row and a far lower bias.

    >>> server = linear_server([[1.0], [1.1], [-1.0], [-0.9]], [0, 0, 1, 1], noise_std=0.1, num_classes=2)
    >>> scores(server, [[2.0]]).argmax()
    np.int64(0)
    """
    x = finite("latents", latents)
    if x.ndim != 2 or not len(x):
        raise ValueError(f"latents has shape {x.shape}, must be (n, r), n ≥ 1")
    y = class_labels(labels, count=len(x), num_classes=num_classes)
    if not 0 < noise_std < np.inf:
        raise ValueError(f"noise_std={noise_std} must be > 0 and finite")
    count = np.bincount(y, minlength=num_classes)
    means = np.zeros((num_classes, x.shape[1]))
    np.add.at(means, y, x)
    means /= np.maximum(count, 1)[:, None]
    spread = x - means[y]
    shape = spread.T @ spread / len(x) + noise_std**2 * np.eye(x.shape[1])
    A = np.asarray(np.linalg.solve(shape, means.T).T, dtype=np.float64)
    b = -0.5 * np.sum(A * means, axis=1) + np.log(np.maximum(count, 1) / len(x))
    seen = int(y[0])
    A[count == 0], b[count == 0] = A[seen], b[seen] - _NEVER
    return LayeredServer(((A, b),))
