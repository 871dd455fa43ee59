"""The paper's weights and the bound on the error that they minimise, as printed.

The bound on the mean square error of the decoded feature is unnumbered, in its section "Private Transmission with Self
Sampling" and in its proof of Theorem 2. It is not valid; the exact counterpart is theory.mse.error
(docs/theory/accuracy.md). The weights are those of its appendix "Optimizing the Features Weights" and its lemma
(docs/theory/design.md), under Theorem 1, which is no guarantee; the exact counterparts are design.weights and
privacy.calibrate.largest_shift.
"""

from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats, require_shape
from airpool._support.rounding import down
from airpool._support.search import smallest_number
from airpool.account import theorem1


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


# Of the weights between two sweeps at the end; and the number of sweeps after which they are given up.
TOLERANCE, SWEEPS = 1e-10, 1000
Pairs = Literal["others", "later"]


class Weights(NamedTuple):
    """weight: (K,). converged: whether the sweeps settled."""

    weight: Floats
    converged: bool


def gauss_seidel(
    features: ArrayLike,
    *,
    encoder: ArrayLike,
    decoder: ArrayLike,
    participation: ArrayLike,
    upper: ArrayLike,
    pairs: Pairs = "others",
    in_turn: bool = False,
) -> Weights:
    """Weights by repeating the paper's update, ν by bisection each time so that Σ w = 1:

        w_k ← min{w_max,k, [(T₁ + T₂ + ν) / (2 p_k ‖D‖²_F ‖W_k‖²_F ‖f_k‖²)]₊}
        T₁ = −Σ_{j≠k} p_k (p_j w_j − 1) f_kᵀ W_kᵀ Dᵀ D W_j f_j,    T₂ = 2 p_k ‖D‖²_F ‖W_k‖²_F ‖f_k‖²

    features: (n, K, d) of n calibration objects; products are averaged over them. The paper takes the features of the
        inference at hand instead, and its weights would leak them.
    encoder: W_k, (K, r, d), or one (r, d) for all. decoder: D, (d, r). upper: w_max.
    pairs: "others", j ≠ k, as in the derivation and the update; "later", j > k, as the lemma itself prints the sum.
    in_turn: Gauss-Seidel proper; the printed update takes all w_j from the sweep before (Jacobi).

    Holds for: "others" converges, where it does, to the minimum of the paper's bound under Σ w = 1, 0 ≤ w ≤ w_max.
        That is far from the least error, and "later" depends on the numbering (docs/theory/design.md, 5).
    Edge cases: Σ w_max < 1 → ValueError. Where cross terms outweigh the diagonal Jacobi's sweeps need not settle:
        converged is False, and the last sweep is returned.

    >>> f = np.array([[[1.0, 0.0], [0.0, 2.0]]])
    >>> one = dict(encoder=np.eye(2), decoder=np.eye(2), participation=1.0, upper=1.0)
    >>> gauss_seidel(f, **one).weight.round(4)                            # the least error needs 1/2 and 1/2
    array([0.2, 0.8])
    """
    if pairs not in get_args(Pairs):
        raise ValueError(f"pairs={pairs!r} must be one of {', '.join(get_args(Pairs))}")
    squares, products = (each.mean(axis=0) for each in terms(features, encoder, decoder))
    K = len(squares)
    p, limit = (np.broadcast_to(np.asarray(x, np.float64), (K,)) for x in (participation, upper))
    if np.sum(np.minimum(limit, 1.0)) < 1:
        raise ValueError(f"upper adds up to {down(float(np.sum(limit)))}, must be >= 1")
    own = 2 * p * squares
    if not np.all(own > 0):
        raise ValueError("participation, codec and features of every device must not be 0: the paper divides by them")
    products = np.triu(products, k=1) if pairs == "later" else products - np.diag(np.diag(products))

    def sweep(w: Floats, nu: float) -> Floats:
        new = w.copy()
        for k in range(K) if in_turn else [slice(None)]:
            new[k] = np.clip((p[k] * (products[k] @ (1 - p * new)) + own[k] + nu) / own[k], 0.0, limit[k])
        return new

    def multiplier(w: Floats) -> float:
        """ν with Σ w = 1 after the sweep; the sum grows with ν."""
        reach = float(np.max(own))
        while np.sum(sweep(w, -reach)) > 1 or np.sum(sweep(w, reach)) < 1:
            reach *= 2
        return smallest_number(lambda nu: 1 - float(np.sum(sweep(w, nu))), -reach, reach)

    weight = np.full(K, 1 / K)
    for _ in range(SWEEPS):
        before, weight = weight, sweep(weight, multiplier(weight))
        if np.max(np.abs(weight - before)) <= TOLERANCE:
            return Weights(weight, True)
    return Weights(weight, False)


def largest_weight(
    epsilon: ArrayLike,
    *,
    clip_norm: ArrayLike,
    noise_std: ArrayLike,
    participation: ArrayLike,
    delta: float,
    delta_prime: float | None = None,
    tail: theorem1.Tail = "quadratic",
) -> Floats:
    """γ w_max,k of Theorem 1, at which it claims ε_k. The paper finds it numerically; this is its closed form.

        γ w = √(μ̄ − t) ln(1 + (e^ε − 1)(1 − δ′)/p) / (C √(2 ln(1.25/δ)))

    Edge cases: μ̄ ≤ t, where Theorem 1 is undefined → 0; p = 0 → inf.

    >>> largest_weight(59.397442, clip_norm=100, noise_std=[0.1**0.5] * 12, participation=0.9, delta=1e-5).round(6)[0]
    np.float64(0.083333)
    """
    delta_prime = delta if delta_prime is None else delta_prime
    eps, C, std, p = np.broadcast_arrays(
        *(np.asarray(x, dtype=np.float64) for x in (epsilon, clip_norm, noise_std, participation))
    )
    spare = float(np.sum(p * std**2)) - theorem1.slack(std**2, p, delta_prime, tail)
    if spare <= 0:
        return np.zeros(eps.shape)
    with np.errstate(divide="ignore"):
        # ln(1 + (e^ε − 1)a) = ε + ln(a + (1 − a)e^−ε), without overflow.
        a = (1 - delta_prime) / p
        exponent = np.where(p > 0, eps + np.log(np.exp(-eps) + a * -np.expm1(-eps)), np.inf)
    return exponent * np.sqrt(spare) / (C * np.sqrt(2 * np.log(1.25 / delta)))
