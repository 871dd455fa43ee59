"""How fast a server's answer can change: bounds on the slope of s_l − s_j, the score of one class over another.

With such a constant L a gap of scores is a distance: s_l − s_j > 0 cannot turn within (s_l − s_j)/L (theory.margin).
"""

from collections.abc import Sequence

import numpy as np

from airpool.arrays import Floats
from airpool.theory.server import Server

# Of the search for the tightest constant: six come within 2 % of where it ends, and each is valid by itself.
_ROUNDS = 6
_TINY = float(np.finfo(np.float64).tiny)


def operator_norm(matrix: Floats) -> float:
    """‖A‖₂, the largest singular value."""
    return float(np.linalg.norm(matrix, 2))


def spectral_constants(server: Server, *, norms: Sequence[float] | None = None) -> Floats:
    """(C, C): how much s_l − s_j can change per unit of x, ‖a_l − a_j‖·∏ ‖A_ℓ‖₂ over all layers but the last.

    norms: of those layers, if they are known otherwise (convolutions). Exact for a linear server.
    """
    before = [operator_norm(A) for A in server.matrices[:-1]] if norms is None else list(norms)
    if len(before) != len(server.layers) - 1:
        raise ValueError(f"norms has {len(before)} values, must be {len(server.layers) - 1}: all layers but the last")
    apart = _between(server.matrices[-1])
    with np.errstate(over="ignore", under="ignore"):
        product = float(np.prod(before))
    # 0 only where it is: a product that underflows is still no more than the smallest number.
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where((apart > 0) & (min(before, default=1.0) > 0), np.maximum(apart * product, _TINY), 0.0)


def lipschitz_constants(server: Server) -> Floats:
    """(C, C): a sharper bound on how much s_l − s_j changes per unit of x, for servers of at most two layers.

    With d = a_l − a_j, the slope of s_l − s_j is Aᵀ(d∘t), t ∈ {0, 1}^h: which units are on. With t = (1 + s)/2 it is
    Σ s_i v_i, s₀ = 1, s_i = ±1, v₀ = Aᵀd/2, v_i = d_i A_i/2. For any q > 0,

        max_s ‖Σ s_i v_i‖² ≤ λ_max(Σ v_i v_iᵀ/q_i) · Σ q_i                (weak duality of the semidefinite relaxation)

    The best q has q_i = √(v_iᵀ X v_i) for the X that it is dual to; a few multiplicative steps come close to it, and
    every step is valid. At most √(π/2) above the largest Σ ±v_i; never above the spectral constant, which is taken
    where it is smaller.
    Edge cases: one layer → ‖a_l − a_j‖, exactly. More than two → an error; use spectral_constants.
    """
    if len(server.layers) > 2:
        raise ValueError(
            f"the server has {len(server.layers)} layers, at most 2 for this bound; use spectral_constants"
        )
    out = spectral_constants(server)
    if len(server.layers) == 1:
        return out
    from threadpoolctl import threadpool_limits

    A, last = server.matrices
    # Hundreds of small products: threads would wait for one another, a hundred times longer on a busy machine.
    with threadpool_limits(1):
        for i in range(server.num_classes):
            for j in range(i):
                out[i, j] = out[j, i] = min(out[i, j], max(_semidefinite(A, last[i] - last[j]), _TINY))
    return out


def _semidefinite(A: Floats, d: Floats) -> float:
    v = np.concatenate(((A.T @ d)[None], d[:, None] * A)) / 2
    v = v[np.any(v != 0, axis=1)]
    if not len(v):
        return 0.0
    size = float(np.max(np.abs(v)))
    v /= size
    X = np.eye(A.shape[1]) / A.shape[1]
    best = np.inf
    for _ in range(_ROUNDS):
        q = np.sqrt(np.maximum(np.sum((v @ X) * v, axis=1), 1e-12 * np.sum(v * v, axis=1)))
        # Any q above 0 is valid; a hair of the largest keeps there what is too small to be squared.
        q = np.maximum(q, 1e-9 * np.max(q))
        G = v.T @ (v / q[:, None])
        best = min(best, float(np.linalg.eigvalsh(G)[-1]) * float(np.sum(q)))
        values, vectors = np.linalg.eigh(X)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        X = root @ G @ root
        X /= np.trace(X)
    return size * best**0.5


def _between(last: Floats) -> Floats:
    """‖a_l − a_j‖ of all rows, in units of the largest entry: 0 only for equal rows, since no square underflows."""
    apart = last[:, None] - last[None]
    size = np.max(np.abs(apart), axis=-1, initial=0.0)
    return size * np.linalg.norm(apart / np.where(size > 0, size, 1.0)[..., None], axis=-1)
