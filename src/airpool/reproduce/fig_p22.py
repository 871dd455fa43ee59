"""The paper's bounds on the participation of each device under Scheme 2.2, the truth and bounds that hold."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from airpool.arrays import Floats
from airpool.figures import BLACK, BLUE, GREEN, ORANGE, RED, canvas
from airpool.paper import theorem3
from airpool.reproduce.results import RENDERS, OnStep, Rows, as_csv, both, column, measured, unheard, where
from airpool.reproduce.uncertainty import DEVICES, device_scores, entropies
from airpool.reproduce.verdicts import CAPTION, Check, Finding
from airpool.selection import ranking
from airpool.sweep import Table, grid

ID = "fig-p22"
TITLE = "Bounds on the participation of each device under Scheme 2.2"
PAPER = (
    "Theorem 3's lower and upper bound on p_k for each device at Ψ = 0.005 and σ_k = 1/(u_k + 0.01), noise inversely "
    "proportional to what it calls reliability. How many are selected is not said: here 6 and, as in its Table 2, 11."
)
SETTING = RENDERS
FRESH = True
GAP = 0.005
SELECTED = (6, 11)


def noise_std() -> Floats:
    """σ_k = 1/(u_k + 0.01), from mean entropies. From the object's own it would tell them: noise shows its size."""
    return 1 / (device_scores() + 0.01)


@cache
def over_objects(num_selected: int) -> Floats:
    """Each device's exact participation, averaged over the test objects' own entropies."""
    return ranking.participation(entropies(), score_noise_std=noise_std(), num_selected=num_selected).mean(axis=0)


def row(*, num_selected: int, device: int) -> dict[str, Any]:
    """Theorem 3 as printed, what is true, and the union bounds, at the devices' mean entropies."""
    u, std = device_scores(), noise_std()
    given: dict[str, Any] = {"score_noise_std": std, "num_selected": num_selected}
    printed, union = theorem3.bounds(u, gap=GAP, **given), ranking.union_bounds(u, **given)
    # The part of the upper bound that the caption names: alone where everybody is selected.
    product = theorem3.upper(u, score_noise_std=std, num_selected=len(u), gap=GAP)[device]
    return {
        "score": u[device],
        "noise_std": std[device],
        "in_true_set": bool(ranking.selected(u, num_selected)[device]),
        "printed_lower": printed.lower[device],
        "printed_upper": printed.upper[device],
        "product": product,
        "exact": ranking.participation(u, **given)[device],
        "exact_objects": over_objects(num_selected)[device],
        "union_lower": union.lower[device],
        "union_upper": union.upper[device],
        "smallest_gap": theorem3.smallest_gap(u),
    }


def compute(*, seed: int = 0, on_step: OnStep = unheard) -> Table:
    return measured(row, grid(num_selected=SELECTED, device=DEVICES), result=ID, seed=seed, on_step=on_step)


def draw(table: Rows, folder: Path) -> list[Path]:
    files = both(folder, ID)
    with canvas(*files, width=6.4, height=5.0) as fig:
        panels = fig.subplots(len(SELECTED), 1, sharex=True, sharey=True)
        for axes, number in zip(panels, SELECTED, strict=True):
            rows = where(table, num_selected=number)
            device = np.array(column(rows, "device"))
            union = [column(rows, f"union_{end}") for end in ("lower", "upper")]
            axes.vlines(device, *union, color=GREEN, lw=7, alpha=0.3, label="union bounds (hold)")
            axes.plot(device, column(rows, "exact"), "o", color=BLUE, ms=5, label="exact, at mean entropies")
            axes.plot(
                device, column(rows, "exact_objects"), "x", color=BLACK, ms=5, label="exact, mean over the objects"
            )
            axes.plot(device + 0.27, column(rows, "printed_upper"), "v", color=RED, ms=5, label="Theorem 3: at most")
            axes.plot(device + 0.27, column(rows, "product"), "_", color=RED, ms=8, label="its product alone")
            axes.plot(
                device - 0.27, column(rows, "printed_lower"), "^", color=ORANGE, ms=5, label="Theorem 3: at least"
            )
            axes.set(ylabel="$p_k$", ylim=(-0.04, 1.04), title=f"{number} of 12 are selected")
        fig.legend(*panels[0].get_legend_handles_labels(), loc="outside right center")
        panels[-1].set(xlabel="device", xticks=list(DEVICES))
    return [*files, as_csv(table, folder / f"{ID}.csv")]


def finding(table: Rows) -> Finding:
    broken = {n: sum(r["exact"] > r["printed_upper"] for r in where(table, num_selected=n)) for n in SELECTED}
    eleven = sorted(where(table, num_selected=11), key=lambda r: r["score"])
    exact, std, score = (column(eleven, name) for name in ("exact", "noise_std", "score"))
    largest = max(column(table, "printed_lower"))
    return Finding(
        [
            Check(
                "p_k is at least Theorem 3's lower bound",
                "Theorem 3, " + CAPTION,
                all(r["exact"] >= r["printed_lower"] for r in table) if largest > 0 else None,
                f"It is at most {largest:g}" + ("." if largest > 0 else ", which every probability is."),
            ),
            Check(
                "p_k is at most Theorem 3's upper bound",
                "Theorem 3, " + CAPTION,
                not any(broken.values()),
                f"The bound is below the exact p_k for {broken[6]} of 12 devices where 6 are selected and for "
                f"{broken[11]} where 11 are (at most {max(column(eleven, 'printed_upper')):.2f} against "
                f"{min(exact):.2f} to {max(exact):.2f}); its product alone is {eleven[0]['product']:.4f}.",
            ),
            Check(
                "more reliable devices get less noise",
                CAPTION,
                std == sorted(std),
                f"u_k is uncertainty: the surest device ({score[0]:.2f} bits) gets σ = {std[0]:.2f}, the least sure "
                f"({score[-1]:.2f} bits) {std[-1]:.2f}.",
            ),
        ],
        more=(
            f"With noise so far above the scores' spread selection is a lottery: where 11 of 12 are selected, the "
            f"surest device takes part with {exact[0]:.3f}, the least sure with {exact[-1]:.3f}."
        ),
        instead=(
            "Use the exact integral (selection.ranking.participation) or the union bounds, and the same noise for "
            "every device. Noise that follows the object's own score would leak it."
        ),
    )
