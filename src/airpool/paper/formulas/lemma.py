"""The formula behind the paper's Table 1 (docs/theory/selection.md). The exact counterpart is privacy.leakage.

The lemma's p_k = Φ((η − u_k)/σ_k⁽⁰⁾) is correct as printed: schemes.threshold.participation.
"""

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats


def score_epsilon(participation: ArrayLike, *, full: float = 0.9) -> Floats:
    """ε⁽⁰⁾ of Table 1: ln(1 + p_k(e^0.9 − 1)), the score's ε "amplified" by taking part; `full` is Scheme 2.2's.

    Not valid: the decision is made from the score itself, so it cannot amplify the score's privacy.
    """
    return np.log1p(np.asarray(participation, dtype=np.float64) * np.expm1(full))
