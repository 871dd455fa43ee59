"""Table 1: what the scores cost, by the paper's formula, at our entropies, and exactly."""

from typing import Any

from airpool._support.search import smallest_number
from airpool.paper.figures.description import Result
from airpool.paper.figures.tables import Rows
from airpool.paper.figures.uncertainty import (
    FULL,
    MOST_BITS,
    TABLE_1,
    claimed,
    device_scores,
    entropies,
    exact_epsilon,
    paper_score,
)
from airpool.paper.figures.verdicts import Judgement, tested

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
