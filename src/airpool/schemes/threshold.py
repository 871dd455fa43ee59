"""Scheme 2.1, local selection: a device transmits iff its noisy score is at most a threshold (theory/selection.md).

    τ = 1 iff u + v ≤ η,  v ~ N(0, σ₀²)

The draw is protocol.device.taking_part. The leakage is privacy.leakage.threshold_game.
"""

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats, finite, not_negative
from airpool.network import Threshold
from airpool.network.scheme import SchemeRules

# How far the coin of a live device is from its probability: the rounding of Φ.
_COIN_BIAS = 2.0**-48


def participation(score: ArrayLike, *, threshold: float, score_noise_std: ArrayLike) -> Floats:
    """p = Φ((η − u)/σ₀): how often a device with bounded score u transmits; without noise 0 or 1.

    Nothing is divided by it (the paper's x = (α/p) z̃): 1/p would leak u.

    >>> participation(0.758, threshold=0.5, score_noise_std=0.1**0.5).round(4)
    np.float64(0.2073)
    """
    from airpool._support.special import ndtr

    gap = finite("threshold", threshold) - finite("score", score)
    std = not_negative("score_noise_std", score_noise_std)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        p = np.where(std > 0, ndtr(gap / std), gap >= 0)
    return np.asarray(p, dtype=np.float64)[()]


def _participation(scheme: Threshold, scores: Floats) -> Floats:
    return participation(scores, threshold=scheme.threshold, score_noise_std=scheme.score_noise_std)


RULES = SchemeRules(
    settings=Threshold,
    scored=True,
    assumption="A changed feature may have any score; the others take part as rarely as their scores allow.",
    expected=lambda network: None,
    participation=_participation,
    chosen=lambda scheme, noisy_scores: noisy_scores <= scheme.threshold,
    words=lambda scheme: f"Scheme 2.1, η = {scheme.threshold:g}",
    coin_bias=_COIN_BIAS,
)
