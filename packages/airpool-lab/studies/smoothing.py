"""Randomized smoothing at no extra cost: the privacy noise that hides a feature also steadies the answer.

Of each object, runs of the real system count how often the label came out right under Gaussian noise of variance v.
By the Neyman-Pearson lemma (Cohen et al. 2019) a change of what is sent by a vector of length d leaves

    Pr(right) ≥ Φ(Φ⁻¹(p) − d/√v)

whatever the server is. So the most frequent answer of many inferences stays right for all changes up to √v Φ⁻¹(p): one
device can change the sum by 2wC at most, so the radius counts cameras that may lie.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, ndtr, ndtri

from airpool._support.arrays import Floats, not_negative, positive
from airpool._support.arrays import probability as probabilities


def proven(right: ArrayLike, runs: int, *, confidence: float = 0.99) -> Floats:
    """Clopper-Pearson lower bounds on Pr(right) of each object, at this confidence for each object by itself.

    >>> proven([100, 50, 0], 100).round(4)
    array([0.955 , 0.3807, 0.    ])
    """
    count = np.asarray(right, dtype=np.float64)
    if runs < 1 or not np.all((count >= 0) & (count <= runs)):
        raise ValueError(f"right must be from 0 to runs={runs}, which must be ≥ 1")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence} must be > 0 and < 1")
    return np.where(count > 0, betaincinv(np.maximum(count, 1), runs - count + 1, 1 - confidence), 0.0)


def radius(probability: ArrayLike, *, noise_std: float) -> Floats:
    """How far what is sent may be changed before the most frequent answer can be wrong; 0 where Pr(right) ≤ ½.

    >>> radius([0.9772, 0.4], noise_std=0.1).round(3)
    array([0.2, 0. ])
    """
    return positive("noise_std", noise_std) * np.maximum(ndtri(probabilities("probability", probability)), 0.0)


def after_change(probability: ArrayLike, change: ArrayLike, *, noise_std: float) -> Floats:
    """Φ(Φ⁻¹(p) − d/√v): what is left of Pr(right) once the noise-free estimate has moved by d.

    Holds for: noise as Gaussian and white as when p was measured or proven, of standard deviation noise_std or more,
        and a server that is the same. Where devices may be silent, that is the least noise of all ways to be heard,
        √min law.variance: Φ(Φ⁻¹(p) − c) is convex in p and falls in c, so the mean over the ways is no worse.

    >>> after_change(0.99, 0.1, noise_std=0.1).round(4)
    np.float64(0.9076)
    """
    p, d = probabilities("probability", probability), not_negative("change", change)
    return ndtr(ndtri(p) - d / positive("noise_std", noise_std))
