"""The paper's Theorem 3 and the lemma of its Table 1, as printed (docs/theory/selection.md).

Theorem 3 bounds how often Scheme 2.2 selects a device:

    p_k ≥ max{0, 1 − Σ_{k=1}^{K−1} Φ(−Ψ/√(σ_k² + σ_{k+1}²))}
    p_k ≤ Π_{k=1}^{K−1} Φ(Ψ/√(σ_(k+1)² + σ_(k)²)) · 𝕀(k ∈ 𝒦) + Φ((u_k − min_{j∈𝒦ᶜ} u_j)/√(σ_k² + σ_j²))

u_k: `scores`, bounded. σ_k: `score_noise_std`, in the order of the devices below, sorted by size (σ_(k)) above.
Ψ: `gap`, the smallest difference of two adjacent sorted scores; given as a number in the figures (.005, .1).
𝒦: the `num_selected` lowest true scores. j: the device outside of 𝒦 with the smallest score.

Neither is a bound in general (theory/selection.md, 4: the proof of the lower one is about devices in 𝒦, the product is
about the whole order, the last term has the wrong sign); schemes.ranking has the exact value and bounds that hold.
The lemma's p_k = Φ((η − u_k)/σ_k⁽⁰⁾) is correct as printed, schemes.threshold.participation; its ε is not: the exact
counterpart is privacy.leakage.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from airpool._support.arrays import Floats, finite, not_negative
from airpool.schemes.ranking import SelectionBounds, selected


def smallest_gap(scores: ArrayLike) -> float:
    """Ψ = min_k u_(k+1) − u_(k).

    >>> round(smallest_gap([0.9, 0.2, 0.5]), 6)
    0.3
    """
    u = finite("scores", scores)
    if u.ndim != 1 or len(u) < 2:
        raise ValueError(f"scores has shape {u.shape}, must be (K,) with at least 2 devices to have a gap")
    return float(np.min(np.diff(np.sort(u))))


def bounds(
    scores: ArrayLike, *, score_noise_std: ArrayLike, num_selected: int, gap: float | None = None
) -> SelectionBounds:
    """Both bounds as printed, (K,) each, not cut at 1. gap: Ψ; by default the smallest of the scores.

    Edge cases: every device is selected → 𝒦ᶜ is empty, and the last term is 0.

    >>> bounds([0.0, 0.01, 5.0], score_noise_std=0.3, num_selected=2).upper.round(3)      # exact: 1, 1 and 0
    array([0.259, 0.259, 0.5  ])
    """
    u, std = finite("scores", scores), not_negative("score_noise_std", score_noise_std)
    if u.ndim != 1 or not len(u) or std.shape not in ((), u.shape):
        raise ValueError(f"scores {u.shape} and score_noise_std {std.shape} must be (K,), or one number for the noise")
    std = np.broadcast_to(std, u.shape)
    if gap is None:
        gap = smallest_gap(u) if len(u) > 1 else 0.0
    not_negative("gap", gap)
    below = np.maximum(0.0, 1 - np.sum(_phi(-gap, np.hypot(std[:-1], std[1:]))))
    inside, ascending = selected(u, num_selected), np.sort(std)
    above = np.prod(_phi(gap, np.hypot(ascending[1:], ascending[:-1]))) * inside
    if not np.all(inside):
        j = int(np.argmin(np.where(inside, np.inf, u)))
        above = above + _phi(u - u[j], np.hypot(std, std[j]))
    return SelectionBounds(np.full(u.shape, below), above)


def _phi(gap: ArrayLike, std: Floats) -> Floats:
    """Φ(gap/std), in the limit where there is no noise."""
    gap = np.broadcast_to(np.asarray(gap, dtype=np.float64), std.shape)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return ndtr(np.where(gap == 0, 0.0, gap / std))


def score_epsilon(participation: ArrayLike, *, full: float = 0.9) -> Floats:
    """ε⁽⁰⁾ of Table 1: ln(1 + p_k(e^0.9 − 1)), the score's ε "amplified" by taking part; `full` is Scheme 2.2's.

    Not valid: the decision is made from the score itself, so it cannot amplify the score's privacy.
    """
    return np.log1p(np.asarray(participation, dtype=np.float64) * np.expm1(full))
