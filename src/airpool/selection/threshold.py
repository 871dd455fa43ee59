"""Scheme 2.1, local selection: a device speaks iff its own noisy score is at most a public threshold (spec §4).

    τ = 1 iff u + v ≤ η,  v ~ N(0, σ₀²)

The noisy score never leaves the device; whether it speaks may be seen. What that leaks is privacy.leakage's
`threshold_game`.
"""

import numpy as np
from numpy.typing import ArrayLike

from airpool.arrays import Array, Floats, finite, not_negative


def transmits(noisy_scores: Array, threshold: float) -> Array:
    """Who is sure enough, from noisy scores of any shape.

    >>> transmits(np.array([0.2, 0.5, 0.8]), 0.5)
    array([ True,  True, False])
    """
    return noisy_scores <= threshold


def participation(score: ArrayLike, *, threshold: float, score_noise_std: ArrayLike) -> Floats:
    """p = Φ((η − u)/σ₀): how often a device with bounded score u speaks.

    The paper's x = (α/p) z̃ never really divides by it: 1/p would tell u to whoever measures the signal.
    Edge cases: without noise the comparison itself decides, 0 or 1.

    >>> participation(0.758, threshold=0.5, score_noise_std=0.1**0.5).round(4)
    np.float64(0.2073)
    >>> participation([0.4, 0.5, 0.6], threshold=0.5, score_noise_std=0.0)
    array([1., 1., 0.])
    """
    # A law, so SciPy; the draw above must do without it (training on a machine that has none).
    from scipy.special import ndtr

    gap = finite("threshold", threshold) - finite("score", score)
    std = not_negative("score_noise_std", score_noise_std)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        p = np.where(std > 0, ndtr(gap / std), gap >= 0)
    return np.asarray(p, dtype=np.float64)[()]
