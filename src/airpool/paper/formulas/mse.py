"""The paper's bound on the mean square error of the decoded feature, as printed (docs/theory/accuracy.md).

Unnumbered, in its section "Private Transmission with Self Sampling" and in its proof of Theorem 2; its weights minimise
it. Not a valid bound. The exact counterpart is theory.mse.error.
"""

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats, require_shape


def bound(
    features: ArrayLike,
    *,
    encoder: ArrayLike,
    decoder: ArrayLike,
    weight: ArrayLike,
    noise_std: ArrayLike,
    participation: ArrayLike,
    channel_noise_std: float = 0.0,
) -> Floats:
    """The paper's bound on E‖f̂ − f*‖², f* = (1/K) Σ f_k, of each object, (n,), for features (n, K, d).

        d ‖D‖²_F [Σ_k p_k σ_k² + σ_m²/γ²]
        + Σ_k (w_k² p_k − 2 w_k p_k + 1) ‖D‖²_F ‖W_k‖²_F ‖f_k‖²
        + Σ_{k<j} (p_k p_j w_k w_j − p_k w_k − p_j w_j + 1) f_kᵀ W_kᵀ Dᵀ D W_j f_j

    encoder: W_k, (K, r, d), or one (r, d) for all. decoder: D, (d, r).
    channel_noise_std: σ_m/γ. σ_k and σ_m are standard deviations.

    Holds for: nothing in general (theory/accuracy, 3, says what is missing and what is too much). It is below the true
        error where w p is near 1 and where D is small; elsewhere it is often many times above it. Never negative.

    >>> same = dict(encoder=[[1.0]], decoder=[[1.0]])                  # two devices: f̂ = 2 and f* = 1, the truth is 1
    >>> bound(np.ones((1, 2, 1)), **same, weight=1.0, noise_std=0.0, participation=1.0)
    array([0.])
    """
    own, products = terms(features, encoder, decoder)
    K, d = np.shape(features)[1:]
    w, std, p = (np.broadcast_to(np.asarray(x, np.float64), (K,)) for x in (weight, noise_std, participation))
    noise = d * np.sum(np.square(decoder)) * (np.sum(p * std**2) + channel_noise_std**2)
    # p_k p_j w_k w_j − p_k w_k − p_j w_j + 1 = (1 − p_k w_k)(1 − p_j w_j)
    pairs = np.triu(np.outer(1 - p * w, 1 - p * w), k=1)
    return noise + own @ (w**2 * p - 2 * w * p + 1) + np.einsum("nkj,kj->n", products, pairs)


def terms(features: ArrayLike, encoder: ArrayLike, decoder: ArrayLike) -> tuple[Floats, Floats]:
    """‖D‖²_F ‖W_k‖²_F ‖f_k‖², (n, K), and f_kᵀ W_kᵀ Dᵀ D W_j f_j, (n, K, K), of which the bound is made."""
    f, W, D = (np.asarray(x, dtype=np.float64) for x in (features, encoder, decoder))
    if f.ndim != 3:
        raise ValueError(f"features has shape {f.shape}, must be (objects, devices, coordinates)")
    K, d = f.shape[1:]
    r = require_shape("decoder", D, (d, -1)).shape[1]
    if W.shape not in ((r, d), (K, r, d)):
        raise ValueError(f"encoder has shape {W.shape}, must be ({r}, {d}) or ({K}, {r}, {d})")
    W = np.broadcast_to(W, (K, r, d))
    decoded = np.einsum("dr,kre,nke->nkd", D, W, f, optimize=True)
    own = np.sum(D**2) * np.sum(W**2, axis=(1, 2)) * np.sum(f**2, axis=-1)
    return own, np.einsum("nkd,njd->nkj", decoded, decoded, optimize=True)
