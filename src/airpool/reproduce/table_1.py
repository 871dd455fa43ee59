"""Table 1: what the scores cost, by the paper's formula, at our entropies, and exactly."""

from typing import Any

import numpy as np
from scipy.optimize import brentq

from airpool.figures import BLACK, BLUE, GREEN, GREY, ORANGE, RED
from airpool.reproduce.description import Result
from airpool.reproduce.plot import Mark, mark
from airpool.reproduce.tables import Rows, column
from airpool.reproduce.uncertainty import (
    FULL,
    MOST_BITS,
    TABLE_1,
    claimed,
    device_scores,
    entropies,
    exact_epsilon,
    paper_score,
    paper_spread,
)
from airpool.reproduce.verdicts import Judgement, tested

# The ranges [0, ·] in which scores may lie: raw entropies; clipped at Γ = 1; scaled by the paper's rule with Γ = 1.
RANGES = {"raw": MOST_BITS, "clip": 1.0, "scale": 0.5}
SERIES = (
    ("printed", "printed_std", "o", RED, "printed"),
    ("formula", None, "x", BLACK, "formula, back-solved scores"),
    ("ours", "ours_std", "s", ORANGE, "formula, our mean entropies"),
    ("exact_scale", None, "<", GREEN, "exact, scaled, Γ = 1"),
    ("exact_clip", None, "D", BLUE, "exact, clipped at 1 bit"),
    ("exact_raw", None, "^", GREY, "exact, raw entropies"),
)


def widest_range(epsilon: float, threshold: float | None) -> float:
    """The widest range [0, R] of scores, in bits, for which a printed ε⁽⁰⁾ is true at δ = 1e-5.

    >>> round(widest_range(0.9, None), 3)
    0.077
    """
    return float(brentq(lambda most: exact_epsilon(most, threshold) - epsilon, 1e-4, 1.0, xtol=1e-9))


def row(*, scheme: str, threshold: float | None) -> dict[str, Any]:
    """One cell as printed, by the formula at the paper's scores and at ours, and exactly for three ranges of scores."""
    exact = {f"exact_{name}": exact_epsilon(most, threshold) for name, most in RANGES.items()}
    if threshold is None:
        # A ranking server receives every score: p_k = 1, and nothing depends on the scores.
        same: dict[str, Any] = dict.fromkeys(("printed", "formula", "ours", "objects"), FULL)
        spread = dict.fromkeys(("printed_std", "ours_std", "objects_std"), 0.0)
        return same | spread | exact | {"widest_range": widest_range(FULL, None)}
    printed, printed_std = TABLE_1[threshold]
    u, scores = paper_score(threshold), device_scores()
    return {
        "printed": printed,
        "printed_std": printed_std,
        "paper_score": u,
        "paper_score_std": paper_spread(threshold),
        "formula": float(claimed(u, threshold)),
        "our_score": scores.mean(),
        "our_score_std": scores.std(ddof=1),
        "ours": claimed(scores, threshold).mean(),
        "ours_std": claimed(scores, threshold).std(ddof=1),
        "objects": claimed(entropies(), threshold).mean(),
        "objects_std": claimed(entropies(), threshold).std(ddof=1),
        **exact,
        "widest_range": widest_range(printed, threshold),
    }


def marks(table: Rows) -> list[list[Mark]]:
    panel = []
    for at, (name, error, marker, colour, label) in enumerate(SERIES):
        x, bars = np.arange(len(table)) + (at - 2.5) * 0.12, column(table, error) if error else None
        look = {"fmt": marker, "color": colour, "ms": 5, "capsize": 3, "label": label}
        panel.append(mark("errorbar", x, column(table, name), bars, **look))
    return [panel]


def judge(table: Rows) -> Judgement:
    high, low, ranked = table
    exact = [f"exact_{name}" for name in RANGES]

    def three(name: str, digits: int) -> str:
        return f"{high[name]:.{digits}f}, {low[name]:.{digits}f} and {ranked[name]:.{digits}f}"

    exactly = (
        f"Exact (η = 0.5, 0.3, Scheme 2.2): raw scores {three('exact_raw', 0)}, clipped at 1 bit "
        f"{three('exact_clip', 2)}, scaled with Γ = 1 {three('exact_scale', 2)}."
    )
    ours = (
        f"Formula at our entropies: {high['ours']:.4f} ± {high['ours_std']:.4f}, {low['ours']:.4f} ± "
        f"{low['ours_std']:.4f} and {ranked['ours']:g}."
    )
    tests = [tested("printed", all(row[name] <= row["printed"] for row in table for name in exact), exactly=exactly)]
    for names, by, numbers in ((["ours"], "by its formula", ours), (exact, "exactly", exactly)):
        cheaper = all(max(high[name], low[name]) < ranked[name] for name in names)
        falling = all(low[name] < high[name] for name in names)
        tests.append(tested("cheaper", cheaper, by=by, numbers=numbers))
        tests.append(tested("falling", falling, by=by, numbers=numbers))
    return tests, {"high": high, "low": low, "ranked": ranked}


POINTS = [{"scheme": "2.1", "threshold": eta} for eta in TABLE_1] + [{"scheme": "2.2", "threshold": None}]
RESULT = Result("table-1", (row, POINTS), marks, judge)
