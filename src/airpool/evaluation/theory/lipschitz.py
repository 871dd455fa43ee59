"""Lipschitz constants of s_l − s_j, the difference of two classes' scores.

With constant L, s_l − s_j > 0 cannot change its sign within a distance of (s_l − s_j)/L (theory.margin).
"""

import numpy as np

from airpool._support.arrays import Floats
from airpool._support.threads import single_thread
from airpool.evaluation.theory.server import LayeredServer

# Steps towards the tightest constant; six come within 2 % of the limit. The constant of every step is valid.
_ROUNDS = 6
_TINY = float(np.finfo(np.float64).tiny)


def spectral_constants(server: LayeredServer) -> Floats:
    """L (C, C) = ‖a_l − a_j‖·∏ ‖A_ℓ‖₂ over all layers but the last. Exact for a linear server."""
    last = server.matrices[-1]
    difference = last[:, None] - last[None]
    # Scaled so that no square underflows: 0 only for equal rows.
    size = np.max(np.abs(difference), axis=-1, initial=0.0)
    between = size * np.linalg.norm(difference / np.where(size > 0, size, 1.0)[..., None], axis=-1)
    norms = [float(np.linalg.norm(A, 2)) for A in server.matrices[:-1]]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        out = np.maximum(between * float(np.prod(norms)), _TINY)  # a product may underflow
    return np.where((between > 0) & (min(norms, default=1.0) > 0), out, 0.0)


def lipschitz_constants(server: LayeredServer) -> Floats:
    """L (C, C): sharper constants, for servers of at most two layers.

    By weak duality of a semidefinite relaxation (proof: docs/proofs/theory.md). Never above the spectral constant.
    Edge cases: one layer → ‖a_l − a_j‖, exact. More than two → an error; use spectral_constants.
    """
    if len(server.layers) > 2:
        raise ValueError(
            f"the server has {len(server.layers)} layers, at most 2 for this bound; use spectral_constants"
        )
    out = spectral_constants(server)
    if len(server.layers) == 1:
        return out
    A, last = server.matrices
    # Hundreds of small products: threads would slow them down, a hundredfold on a busy machine.
    with single_thread():
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
        # Any q > 0 is valid; bounded below against underflow.
        q = np.maximum(q, 1e-9 * np.max(q))
        G = v.T @ (v / q[:, None])
        best = min(best, float(np.linalg.eigvalsh(G)[-1]) * float(np.sum(q)))
        values, vectors = np.linalg.eigh(X)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        X = root @ G @ root
        X /= np.trace(X)
    return size * best**0.5
