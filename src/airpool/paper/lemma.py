"""The paper's privacy lemma for Schemes 2.1 and 2.2, as printed, and the formula behind its Table 1 (spec §4).

The exact counterpart is privacy.leakage.
"""

import numpy as np
from numpy.typing import ArrayLike

from airpool.arrays import Floats
from airpool.selection import threshold

# p_k = Φ((η − u_k)/σ_k⁽⁰⁾), correct as printed.
participation_21 = threshold.participation


def score_epsilon(participation: ArrayLike, *, full: float = 0.9) -> Floats:
    """ε⁽⁰⁾ of Table 1: ln(1 + p_k(e^0.9 − 1)), the score's ε "amplified" by taking part; `full` is Scheme 2.2's.

    Gives Table 1's .264 (η = .5) at u = .758 and .113 (η = .3) at u = .740, with σ⁽⁰⁾ = √0.1. Not valid: the
    decision is made from the score itself, so it cannot amplify the score's privacy.

    >>> score_epsilon(participation_21([0.758], threshold=0.5, score_noise_std=0.1**0.5)).round(3)
    array([0.264])
    """
    return np.log1p(np.asarray(participation, dtype=np.float64) * np.expm1(full))
