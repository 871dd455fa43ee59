"""The paper's lemma on the classification margin, as printed (after Sokolić et al.).

    Δ ≥ √2 · min_{l′≠l} (p_l − p_l′) / ∏_ℓ ‖w₀^(ℓ)‖_F

Right, since softmax is ½-Lipschitz, but always below theory.margin: probabilities saturate where scores do not, and a
Frobenius norm is up to √rank times the true one.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

Floats = NDArray[np.float64]


def frobenius_margin(scores: ArrayLike, labels: ArrayLike, *, matrices: Sequence[ArrayLike]) -> Floats:
    """The lemma's bound (n,) from the classifier's scores before softmax (n, C); negative where it errs.

    >>> frobenius_margin([[2.0, 0.0]], [0], matrices=[np.eye(2)]).round(4)
    array([0.7616])
    """
    p = softmax(np.asarray(scores, dtype=np.float64), axis=-1)
    own = np.asarray(labels)
    rows = np.arange(len(own))
    others = p.copy()
    others[rows, own] = -np.inf
    norms = [np.linalg.norm(np.asarray(A, dtype=np.float64)) for A in matrices]
    apart = np.sqrt(2) * (p[rows, own] - others.max(axis=-1))
    # A server that never changes its answer: infinitely far from any border, unless it is torn.
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(apart == 0, 0.0, apart / np.prod(norms))
