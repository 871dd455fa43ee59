"""The scores of the twelve cameras on the test objects, shared by the figures about scores.

The paper bounds scores by a Γ that it never gives. Its Table 1 needs scores near 0.75 bits, as raw entropies are, and
its captions call u_k "the Shannon entropy". Its figures are therefore redrawn with raw entropies and one u_k for each
device, the mean over objects; in truth a device's entropy changes from object to object.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats
from airpool._support.search import smallest_number
from airpool.account.guarantee import score_epsilon
from airpool.network import Network, Ranking, Score, Threshold
from airpool.paper.formulas import lemma
from airpool.schemes.scores import uncertainty
from airpool.schemes.threshold import participation

DEVICES = range(12)
# log₂ 40: the range of a raw entropy.
MOST_BITS = float(np.log2(40))
# σ₀² = 0.1 in every figure about scores.
NOISE_STD = 0.1**0.5
# Table 1: η → mean and standard deviation of ε⁽⁰⁾ over the devices, Scheme 2.1; then Scheme 2.2.
TABLE_1 = {0.5: (0.2641, 0.0333), 0.3: (0.1134, 0.0241)}
FULL = 0.9


@cache
def entropies(score: Score = "shannon") -> Floats:
    """Raw scores of the shipped test objects in bits, (2468, 12)."""
    from airpool import load

    return uncertainty(load("modelnet40").held_out("test", codec="q16").posteriors.double().numpy(), score)


@cache
def device_scores() -> Floats:
    """u_k as the paper uses it: each device's Shannon entropy, averaged over the objects, (12,)."""
    return entropies().mean(axis=0)


def paper_score(threshold: float) -> float:
    """The u at which ln(1 + Φ((η − u)/√0.1)(e^0.9 − 1)) is the mean that Table 1 prints for η.

    >>> round(paper_score(0.5), 3), round(paper_score(0.3), 3)
    (0.758, 0.74)
    """
    printed = TABLE_1[threshold][0]
    return smallest_number(lambda u: float(claimed(u, threshold)) - printed, 0.0, 5.0)


def claimed(score: ArrayLike, threshold: float) -> Floats:
    """The formula behind Table 1: ln(1 + p_k(e^0.9 − 1)) at p_k = Φ((η − u_k)/√0.1)."""
    p = participation(score, threshold=threshold, score_noise_std=NOISE_STD)
    return lemma.score_epsilon(p, full=FULL)


@cache
def exact_epsilon(most: float, threshold: float | None) -> float:
    """Exact ε, at δ = 1e-5, of the decision alone (2.1), or of the noisy scores (2.2: no threshold), features aside.

    Holds for: scores anywhere in [0, `most`], that of a zeroed feature included.

    >>> round(exact_epsilon(1.0, 0.5), 3), round(exact_epsilon(1.0, None), 3)
    (2.807, 17.857)
    """
    given: dict[str, Any] = {"score_bound": most, "score_noise_std": NOISE_STD}
    scheme = Ranking(num_selected=11, **given) if threshold is None else Threshold(threshold=threshold, **given)
    return float(score_epsilon(Network.uniform(num_devices=12, scheme=scheme))[0])


def standard_error(values: Floats) -> float:
    """Standard error of the mean of independent values."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))
