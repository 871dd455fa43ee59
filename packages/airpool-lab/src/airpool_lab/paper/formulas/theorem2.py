"""The paper's Theorem 2 on classification accuracy and its lemma on the margin, as printed.

    P(l̂ = l*) ≥ max{0, P₀ (1 − MSE/Δ²)},    Δ ≥ √2 · min_{l′≠l} (p_l − p_l′) / ∏_ℓ ‖w₀^(ℓ)‖_F

The lemma (after Sokolić et al.) is valid, since softmax is ½-Lipschitz, but always below the proven margin:
probabilities saturate where scores do not, and a Frobenius norm is up to √rank times the operator norm. That margin,
and certificates object by object with the exact law of the error, are theory.prediction. TABLE_2 has the accuracies
that the paper prints, the only ones in numbers: on ModelNet40 rendered from its CAD models, q = 16, K = 12, p = 0.9,
and the ε that Theorem 1 claims (with what the lemma adds where scores select).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from airpool._support.arrays import Floats


class Printed(NamedTuple):
    """One cell of the table."""

    mean: float
    std: float


EPSILON_MAX = (3.9811, 6.3096, 10.0)

TABLE_2: dict[str, dict[float, Printed]] = {
    scheme: dict(zip(EPSILON_MAX, cells, strict=True))
    for scheme, cells in {
        "1": (Printed(0.5051, 0.0044), Printed(0.7386, 0.0050), Printed(0.8275, 0.0070)),
        "2.1": (Printed(0.5614, 0.0102), Printed(0.7774, 0.0107), Printed(0.8389, 0.0056)),
        "2.2": (Printed(0.5181, 0.0043), Printed(0.7521, 0.0039), Printed(0.8310, 0.0084)),
    }.items()
}


def accuracy_bound(*, ideal: float, mse: float, margin: float) -> float:
    """P₀ (1 − MSE/Δ²), at least 0, with one MSE and one Δ for all objects.

    Holds for: the smallest margin, and the MSE averaged over the objects that are classified correctly.
    Differs from the truth: an inference in which no device transmits has an error too, but no label.

    >>> accuracy_bound(ideal=0.9, mse=0.25, margin=1.0)
    0.675
    """
    if not 0 <= ideal <= 1:
        raise ValueError(f"ideal={ideal} must be from 0 to 1")
    if not mse >= 0:
        raise ValueError(f"mse={mse} must be ≥ 0")
    if not margin > 0:
        return 0.0
    with np.errstate(over="ignore", divide="ignore"):
        return float(max(0.0, ideal * (1 - mse / np.float64(margin) ** 2)))


def frobenius_margin(
    scores: ArrayLike, labels: ArrayLike, *, matrices: Sequence[ArrayLike], error: ArrayLike = 0.0
) -> Floats:
    """The lemma's bound (n,) from the classifier's scores before softmax (n, C); negative where it errs.

    error: the rounding error of the scores (theory.server.bounded_scores; proof: docs/proofs/theory.md).

    >>> frobenius_margin([[2.0, 0.0]], [0], matrices=[np.eye(2)]).round(4)
    array([0.7616])
    """
    p = softmax(np.asarray(scores, dtype=np.float64), axis=-1)
    own = np.asarray(labels)
    rows = np.arange(len(own))
    others = p.copy()
    others[rows, own] = -np.inf
    norms = [np.linalg.norm(np.asarray(A, dtype=np.float64)) for A in matrices]
    gap = p[rows, own] - others.max(axis=-1)
    allowance = np.max(np.broadcast_to(error, p.shape), axis=-1, initial=0.0) + 2 * (p.shape[-1] + 8) * 2.0**-53
    apart = np.sqrt(2) * np.where(gap > 0, np.maximum(gap - allowance, 0.0), gap)
    # A constant server is infinitely far from any boundary, unless two labels tie.
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(apart == 0, 0.0, apart / np.prod(norms))
