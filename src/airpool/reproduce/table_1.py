"""The paper's Table 1: what the scores cost, by its formula, at our entropies, and in truth."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq

from airpool.figures import BLACK, BLUE, GREEN, GREY, ORANGE, RED, figure
from airpool.reproduce.results import RENDERS, OnStep, Rows, as_csv, both, column, measured, unheard
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
from airpool.reproduce.verdicts import Check, Finding
from airpool.sweep import Table

ID = "table-1"
TITLE = "What choosing by scores costs: ε⁽⁰⁾"
PAPER = (
    "ε⁽⁰⁾ over the devices at σ₀ = √0.1: Scheme 2.1 at η = 0.5: 0.2641 ± 0.0333, at η = 0.3: 0.1134 ± 0.0241; "
    "Scheme 2.2: 0.9 ± 0. Neither Γ, the bound on the scores, nor the formula is given."
)
SETTING = RENDERS
FRESH = True
# The ranges [0, ·] in which scores may lie: raw entropies; clipped at Γ = 1; scaled by the paper's rule with Γ = 1.
RANGES = {"raw": MOST_BITS, "clip": 1.0, "scale": 0.5}


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
        # A ranking server hears every score: p_k = 1, and nothing depends on the scores.
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


def compute(*, seed: int = 0, on_step: OnStep = unheard) -> Table:
    points = [{"scheme": "2.1", "threshold": eta} for eta in TABLE_1] + [{"scheme": "2.2", "threshold": None}]
    return measured(row, points, result=ID, seed=seed, on_step=on_step)


def draw(table: Rows, folder: Path) -> list[Path]:
    files = both(folder, ID)
    series = (
        ("printed", "printed_std", "o", RED, "printed"),
        ("formula", None, "x", BLACK, "formula, back-solved scores"),
        ("ours", "ours_std", "s", ORANGE, "formula, our mean entropies"),
        ("exact_scale", None, "<", GREEN, "exact, scaled, Γ = 1"),
        ("exact_clip", None, "D", BLUE, "exact, clipped at 1 bit"),
        ("exact_raw", None, "^", GREY, "exact, raw entropies"),
    )
    with figure(*files, width=6.6, height=3.6) as (_, axes):
        for at, (name, error, marker, colour, label) in enumerate(series):
            x = np.arange(len(table)) + (at - 2.5) * 0.12
            bars = column(table, error) if error else None
            axes.errorbar(x, column(table, name), bars, fmt=marker, color=colour, ms=5, capsize=3, label=label)
        axes.set(yscale="log", ylabel="ε⁽⁰⁾ (exact: at δ = 1e-5)", xticks=range(len(table)))
        axes.set_xticklabels([f"2.1, η = {r['threshold']:g}" if r["threshold"] else "2.2" for r in table])
        axes.grid(False, axis="x")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        axes.set_title("What the scores cost")
    return [*files, as_csv(table, folder / f"{ID}.csv")]


def finding(table: Rows) -> Finding:
    high, low, ranked = table
    exact = [f"exact_{name}" for name in RANGES]

    def three(name: str, digits: int) -> str:
        return f"{high[name]:.{digits}f}, {low[name]:.{digits}f} and {ranked[name]:.{digits}f}"

    told = (
        f"Exact (η = 0.5, 0.3, Scheme 2.2): raw scores {three('exact_raw', 0)}, clipped at 1 bit "
        f"{three('exact_clip', 2)}, scaled with Γ = 1 {three('exact_scale', 2)}."
    )
    checks = [
        Check(
            f"ε⁽⁰⁾ is {three('printed', 4)}",
            "Table 1",
            all(row[name] <= row["printed"] for row in table for name in exact),
            f"{told} The printed numbers are true of scores within {three('widest_range', 3)} bits.",
        )
    ]
    ours = (
        f"Formula at our entropies: {high['ours']:.4f} ± {high['ours_std']:.4f}, {low['ours']:.4f} ± "
        f"{low['ours_std']:.4f} and {ranked['ours']:g}."
    )
    for names, by, found in ((["ours"], "by its formula", ours), (exact, "exactly", told)):
        cheaper = all(max(high[name], low[name]) < ranked[name] for name in names)
        falling = all(low[name] < high[name] for name in names)
        checks.append(Check(f"Scheme 2.1 leaks less than 2.2 ({by})", "Table 1", cheaper, found))
        checks.append(Check(f"a lower threshold leaks less ({by})", "Table 1", falling, found))
    return Finding(
        checks,
        more=(
            f"The formula is ln(1 + p_k(e^0.9 − 1)): it gives {high['formula']:.4f} and {low['formula']:.4f} at u_k = "
            f"{high['paper_score']:.3f} and {low['paper_score']:.3f}; our mean entropies are {high['our_score']:.3f} ± "
            f"{high['our_score_std']:.3f}. It is no guarantee: the decision is made of the score and cannot amplify "
            "its privacy."
        ),
        instead="Account for score and feature in one game (airpool.guarantee); share ε by selection.budget.split.",
    )
