"""How often devices are expected to transmit: a public number, from calibration data.

The server may know it before anything is sent (`protocol.link`). It must never be computed from the inference at hand:
scores are made of features, and would leak through it.
"""

from typing import Any

import numpy as np

from airpool.arrays import Floats
from airpool.network import Coin, Ranking, Scheme, Threshold, scored
from airpool.selection import ranking, threshold
from airpool.selection.scores import bounded, uncertainty


def participation(scores: Any, scheme: Scheme, *, num_classes: int | None = None) -> Floats:
    """The exact probability of each device to transmit, from raw scores in bits, (n, K) → (n, K).

    >>> participation(np.array([[0.2, 0.4, 0.6]]), Threshold(threshold=0.4, score_noise_std=0.2)).round(4)
    array([[0.8413, 0.5   , 0.1587]])
    """
    bits = np.asarray(scores, dtype=np.float64)
    if bits.ndim != 2 or not bits.size:
        raise ValueError(f"scores has shape {bits.shape}, must be (objects, devices), with at least one of each")
    if isinstance(scheme, Coin):
        raise ValueError("scheme.name='1' must be 2.1 or 2.2: under Scheme 1 a coin decides, not a score")
    u = bounded(bits, scheme, num_classes)
    match scheme:
        case Threshold(threshold=eta, score_noise_std=std):
            return threshold.participation(u, threshold=eta, score_noise_std=std)
        case Ranking(num_selected=count, score_noise_std=std):
            return ranking.participation(u, score_noise_std=std, num_selected=count)


def expected_participation(scores: Any, scheme: Scheme, *, num_classes: int | None = None) -> Floats:
    """The mean over calibration objects, (n, K) → (K,): what `protocol.link.level(participation=...)` takes.

    >>> expected_participation(np.array([[0.2, 0.4], [0.6, 0.4]]), Threshold(threshold=0.4)).round(6)
    array([0.5, 0.5])
    """
    return participation(scores, scheme, num_classes=num_classes).mean(axis=0)


def expected_of_posteriors(posteriors: Any, scheme: Scheme) -> Floats:
    """The same from the posteriors (n, K, L) of calibration objects, scored as the scheme says."""
    bits = uncertainty(posteriors, scored(scheme).score)
    return expected_participation(bits, scheme, num_classes=posteriors.shape[-1])
