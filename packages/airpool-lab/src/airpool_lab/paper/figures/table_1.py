"""Table 1: what the scores cost, by the paper's formula, at our entropies, and exactly; and scores for other figures.

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
from airpool.schemes.scores import uncertainty
from airpool.schemes.threshold import participation
from airpool_lab.paper.figures.description import Judgement, Result, Rows, tested
from airpool_lab.paper.formulas import theorem3

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
    return theorem3.score_epsilon(p, full=FULL)


@cache
def exact_epsilon(most: float, threshold: float | None) -> float:
    """Exact ε, at δ = 1e-5, of the decision alone (2.1), or of the noisy scores (2.2: no threshold), features aside.

    Holds for: scores anywhere in [0, `most`], that of a zeroed feature included.

    >>> round(exact_epsilon(1.0, 0.5), 3), round(exact_epsilon(1.0, None), 3)
    (2.807, 17.857)
    """
    if threshold is None:
        scheme = Ranking(num_selected=11, score_bound=most, score_noise_std=NOISE_STD)
    else:
        scheme = Threshold(threshold=threshold, score_bound=most, score_noise_std=NOISE_STD)
    return float(score_epsilon(Network.uniform(num_devices=12, scheme=scheme))[0])


def standard_error(values: Floats) -> float:
    """Standard error of the mean of independent values."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


# The ranges [0, ·] in which scores may lie: raw entropies; clipped at Γ = 1; scaled by the paper's rule with Γ = 1.
RANGES = {"raw": MOST_BITS, "clip": 1.0, "scale": 0.5}


def row(*, scheme: str, threshold: float | None) -> dict[str, Any]:
    """One cell as printed, by the formula at the paper's scores and at ours, and exactly for three ranges of scores."""

    def widest(printed: float) -> float:
        """The widest range [0, R] of scores, in bits, for which a printed ε⁽⁰⁾ is true at δ = 1e-5."""
        return smallest_number(lambda most: printed - exact_epsilon(most, threshold), 1e-4, 1.0)

    exact = {f"exact_{name}": exact_epsilon(most, threshold) for name, most in RANGES.items()}
    if threshold is None:
        # A ranking server receives every score: p_k = 1, and nothing depends on the scores.
        same: dict[str, Any] = dict.fromkeys(("printed", "formula", "ours", "objects"), FULL)
        spread = dict.fromkeys(("printed_std", "ours_std", "objects_std"), 0.0)
        return same | spread | exact | {"widest_range": widest(FULL)}
    printed, printed_std = TABLE_1[threshold]
    u, step, scores = paper_score(threshold), 1e-4, device_scores()
    slope = float(claimed(u - step, threshold) - claimed(u + step, threshold)) / (2 * step)
    return {
        "printed": printed,
        "printed_std": printed_std,
        "paper_score": u,
        # To first order.
        "paper_score_std": printed_std / slope,
        "formula": float(claimed(u, threshold)),
        "our_score": scores.mean(),
        "our_score_std": scores.std(ddof=1),
        "ours": claimed(scores, threshold).mean(),
        "ours_std": claimed(scores, threshold).std(ddof=1),
        "objects": claimed(entropies(), threshold).mean(),
        "objects_std": claimed(entropies(), threshold).std(ddof=1),
        **exact,
        "widest_range": widest(printed),
    }


def drawn(table: Rows) -> Rows:
    return [row | {"at": at} for at, row in enumerate(table)]


def judge(table: Rows) -> Judgement:
    high, low, ranked = table
    exact = [f"exact_{name}" for name in RANGES]
    tests = [tested("printed", all(row[name] <= row["printed"] for row in table for name in exact))]
    for names, by in ((["ours"], "formula"), (exact, "exactly")):
        cheaper = all(max(high[name], low[name]) < ranked[name] for name in names)
        tests.append(tested(f"cheaper_{by}", cheaper))
        tests.append(tested(f"falling_{by}", all(low[name] < high[name] for name in names)))
    return tests, {"high": high, "low": low, "ranked": ranked}


POINTS = [{"scheme": "2.1", "threshold": eta} for eta in TABLE_1] + [{"scheme": "2.2", "threshold": None}]
RESULT = Result("table-1", (row, POINTS), judge, drawn)
