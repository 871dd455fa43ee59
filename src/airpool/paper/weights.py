"""The paper's weights, as printed: its appendix "Optimizing the Features Weights" and the lemma there (spec §6).

They minimise the paper's bound on the error (paper.mse), which is none, under Theorem 1, which is no guarantee. The
exact counterparts are design.weights and privacy.calibrate.largest_shift.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airpool.paper import theorem1
from airpool.paper.mse import check_shapes

Floats = NDArray[np.float64]
Pairs = Literal["others", "later"]


@dataclass(frozen=True, eq=False)
class Weights:
    """weight: (K,). multiplier: ν of the last sweep. sweeps: how many it took. converged: whether they settled."""

    weight: Floats
    multiplier: float
    sweeps: int
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
    sweeps: int = 1000,
    tolerance: float = 1e-10,
) -> Weights:
    """Weights by repeating the paper's update, ν by bisection each time so that Σ w = 1:

        w_k ← min{w_max,k, [(T₁ + T₂ + ν) / (2 p_k ‖D‖²_F ‖W_k‖²_F ‖f_k‖²)]₊}
        T₁ = −Σ_{j≠k} p_k (p_j w_j − 1) f_kᵀ W_kᵀ Dᵀ D W_j f_j,    T₂ = 2 p_k ‖D‖²_F ‖W_k‖²_F ‖f_k‖²

    features: (n, K, d); products are averaged over the n objects, which must be calibration objects. The paper has no
    such mean: it takes the features of the inference at hand, and its weights would tell about them.
    encoder: W_k, (K, r, d), or one (r, d) for all. decoder: D, (d, r). upper: w_max.
    pairs: "others", j ≠ k, as in the derivation and the update; "later", j > k, as the lemma itself prints the sum.
    in_turn: what the name Gauss-Seidel means; the printed update takes all w_j from the sweep before (Jacobi's).

    Holds for: "others" converges, where it does, to the minimum of the paper's bound under Σ w = 1, 0 ≤ w ≤ w_max.
    Differs from the truth: the bound has lost the 1/K of the target, so that each weight is drawn to 1/p instead of
        1/K and only Σ w = 1 holds it back; with ‖D‖²‖W‖²‖f‖² in place of ‖DWf‖² its diagonal is so heavy that the
        loudest devices get the weight and quiet ones none, where a mean asks for the same of each; cross terms count
        half; the variance of who takes part is not p(1−p). "later" is the gradient of nothing: the last device has no
        T₁ at all, and the answer changes with the numbering. [·]₊ stands in the derivation, not in the lemma.
    Edge cases: Σ w_max < 1 → ValueError. Where cross terms outweigh the diagonal the printed (Jacobi's) sweeps need not
        settle: converged is False, and the last sweep is returned.

    >>> f = np.array([[[1.0, 0.0], [0.0, 2.0]]])
    >>> one = dict(encoder=np.eye(2), decoder=np.eye(2), participation=1.0, upper=1.0)
    >>> gauss_seidel(f, **one).weight.round(4)                            # the least error needs 1/2 and 1/2
    array([0.2, 0.8])
    """
    f, W, D = (np.asarray(x, dtype=np.float64) for x in (features, encoder, decoder))
    check_shapes(f, W, D)
    if pairs not in get_args(Pairs):
        raise ValueError(f"pairs={pairs!r} must be one of {', '.join(get_args(Pairs))}")
    K = f.shape[1]
    p, limit = (np.broadcast_to(np.asarray(x, np.float64), (K,)) for x in (participation, upper))
    if np.sum(np.minimum(limit, 1.0)) < 1:
        raise ValueError(f"upper adds up to {np.sum(limit):.4g}, must be >= 1")
    size = np.sum(D**2) * np.sum(np.broadcast_to(W, (K, *W.shape[-2:])) ** 2, axis=(1, 2))
    own = 2 * p * size * np.mean(np.sum(f**2, axis=-1), axis=0)
    if not np.all(own > 0):
        raise ValueError(
            "participation, decoder, encoder and features of every device must not be 0: the paper divides"
        )
    decoded = np.einsum("dr,kre,nke->nkd", D, np.broadcast_to(W, (K, *W.shape[-2:])), f, optimize=True)
    products = np.einsum("nkd,njd->kj", decoded, decoded, optimize=True) / len(f)
    products = np.triu(products, k=1) if pairs == "later" else products - np.diag(np.diag(products))

    def sweep(w: Floats, nu: float) -> Floats:
        new = w.copy()
        if in_turn:
            for k in range(K):
                new[k] = np.clip((p[k] * (products[k] @ (1 - p * new)) + own[k] + nu) / own[k], 0.0, limit[k])
            return new
        return np.clip((p * (products @ (1 - p * w)) + own + nu) / own, 0.0, limit)

    weight, nu = np.full(K, 1 / K), 0.0
    for count in range(1, sweeps + 1):
        before = weight
        nu = _multiplier(lambda x, w=before: float(np.sum(sweep(w, x))), scale=float(np.max(own)))
        weight = sweep(before, nu)
        if np.max(np.abs(weight - before)) <= tolerance:
            return Weights(weight, nu, count, True)
    return Weights(weight, nu, sweeps, False)


def largest_weight(
    epsilon: ArrayLike,
    *,
    clip_norm: ArrayLike,
    noise_std: ArrayLike,
    participation: ArrayLike,
    delta: float,
    delta_prime: float | None = None,
    gamma: float = 1.0,
    tail: theorem1.Tail = "quadratic",
) -> Floats:
    """w_max,k of Theorem 1: where it claims ε_k. The paper finds it numerically; its formula can be solved.

        w = √(μ̄ − t) ln(1 + (e^ε − 1)(1 − δ′)/p) / (γ C √(2 ln(1.25/δ)))

    Edge cases: μ̄ ≤ t, where Theorem 1 says nothing → 0; p = 0 → inf.

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
    return exponent * np.sqrt(spare) / (gamma * C * np.sqrt(2 * np.log(1.25 / delta)))


def _multiplier(total: Callable[[float], float], *, scale: float) -> float:
    """ν with total(ν) = 1, by bisection; the total grows with ν."""
    low, high = -scale, scale
    while total(low) > 1:
        low *= 2
    while total(high) < 1:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if total(middle) < 1 else (low, middle)
        if high - low <= 1e-15 * scale:
            break
    return high
