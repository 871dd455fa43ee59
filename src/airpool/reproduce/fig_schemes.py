"""Accuracy against ε of Schemes 1, 2.1 and 2.2: the curves that Table 2 has three points of (table_2.py)."""

from pathlib import Path

from matplotlib.axes import Axes

from airpool.figures import BLACK, BLUE, GREEN, ORANGE, RED, canvas
from airpool.paper.accuracy import TABLE_2
from airpool.reproduce.results import IDEAL, RENDERS, OnStep, Rows, as_csv, both, column, measured, unheard, where
from airpool.reproduce.table_2 import SCHEMES, Account, cell, gains, order
from airpool.reproduce.verdicts import TEXT, Finding, span
from airpool.sweep import Table, grid

ID = "fig-schemes"
TITLE = "Accuracy against ε, feature-agnostic and feature-aware"
PAPER = (
    "Accuracy of Schemes 1, 2.1 and 2.2 against ε; q = 16 (r = 784), σ₀² = 0.01, η = 5, k̃ = 11. Only the three ε of "
    "Table 2 are printed in numbers."
)
SETTING = f"{RENDERS} {IDEAL}"
FRESH = True

EPSILONS = (1.0, 1.5849, 2.5119, 3.9811, 6.3096, 10.0)
ACCOUNTS: tuple[Account, ...] = ("feature", "exact")
LOOKS = dict(zip(SCHEMES, ((BLUE, "o-"), (RED, "^-"), (GREEN, "s-"), (ORANGE, "d--")), strict=True))


def compute(*, seed: int = 0, on_step: OnStep = unheard) -> Table:
    points = grid(scheme=SCHEMES, account=ACCOUNTS, epsilon=EPSILONS)
    return measured(cell, points, result=ID, seed=seed, on_step=on_step)


def draw(table: Rows, folder: Path) -> list[Path]:
    data = as_csv(table, folder / f"{ID}.csv")
    paths = both(folder, ID)
    with canvas(*paths, width=8.0, height=4.0) as fig:
        left, right = fig.subplots(1, 2, sharey=True)
        _paint(left, table, "feature")
        for scheme, (colour, _) in list(LOOKS.items())[:3]:
            cells = TABLE_2[scheme]
            means, stds = zip(*cells.values(), strict=True)
            axes_label = "printed in the paper (same colours)" if scheme == "1" else None
            left.errorbar(list(cells), means, stds, fmt="x", color=colour, capsize=2, label=axes_label)
        left.set(
            title="the paper's account: Theorem 1, features alone", ylabel="accuracy on test objects", ylim=(0, 0.95)
        )
        left.legend(loc="lower right")
        _paint(right, table, "exact")
        right.set_title("exact account, scores included")
        right.legend(loc="lower right")
    return [*paths, data]


def _paint(axes: Axes, table: Rows, account: Account) -> None:
    for scheme, (colour, line) in LOOKS.items():
        rows = where(table, scheme=scheme, account=account)
        label = f"Scheme {scheme}" + (", p = 0.9" if scheme == "1" else "")
        bars = column(rows, "accuracy_std")
        axes.errorbar(
            column(rows, "epsilon"),
            column(rows, "accuracy"),
            bars,
            fmt=line,
            color=colour,
            markersize=4,
            capsize=2,
            label=label,
        )
    axes.set(xscale="log", xlabel="ε of the worst device, δ = 1e-5")
    axes.set_xticks([1, 2, 4, 6, 10], ["1", "2", "4", "6", "10"])
    axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    axes.axhline(1 / 40, color=BLACK, linewidth=0.6, linestyle=":")


def finding(table: Rows) -> Finding:
    everybody = span(gains(table, "1, p = 1", "1", "feature"))
    return Finding(
        order(table, TEXT),
        more=(
            f"By Theorem 1 Scheme 1 with p = 1 gains {everybody} over p = 0.9 by itself: more devices on the air, more "
            "noise to hide in and less slack in Theorem 1. At η = 5 hardly anybody is left out. At equal exact ε each "
            "of 2.1 and 2.2 has the best of eight settings."
        ),
        instead="Scheme 1 with p = 1. Selecting pays where views go bad, if at all (docs/selection.md).",
    )
