"""The paper's bounds on the participation of each device under Scheme 2.2, the truth and bounds that hold."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from airpool.figures import BLACK, BLUE, GREEN, ORANGE, RED, canvas
from airpool.paper import theorem3
from airpool.selection import ranking
from airpool.sweep import Table, grid
from airpool.wireless.arrays import Floats

from .results import Finding, OnStep, Rows, as_csv, both, column, measured, unheard, where
from .uncertainty import DEVICES, device_scores, entropies

ID = "fig-p22"
TITLE = "Bounds on the participation of each device under Scheme 2.2"
PAPER = (
    "Theorem 3's lower and upper bound on p_k for each device at Ψ = 0.005 and σ_k = 1/(u_k + 0.01), noise inversely "
    "proportional to what it calls reliability. How many are selected is not said: here 6 and, as in its Table 2, 11."
)
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
    eleven = where(table, num_selected=11)
    surest, least_sure = min(eleven, key=lambda r: r["score"]), max(eleven, key=lambda r: r["score"])
    reversed_order = least_sure["exact"] > surest["exact"]
    std = column(eleven, "noise_std")
    return Finding(
        "no" if any(broken.values()) else "yes",
        says="p_k lies between Theorem 3's bounds, with less noise for devices it calls reliable, those of large u_k.",
        found=(
            f"The printed upper bound lies below the exact p_k for {broken[6]} of 12 devices where 6 are selected and "
            f"for {broken[11]} where 11 are (at most {max(column(eleven, 'printed_upper')):.2f} against "
            f"{min(column(eleven, 'exact')):.2f} to {max(column(eleven, 'exact')):.2f}); the product alone is "
            f"{eleven[0]['product']:.4f}. The lower bound is {max(column(table, 'printed_lower')):g} for every device, "
            f"which says nothing. With σ_k from {min(std):.2f} to {max(std):.2f} and mean scores from "
            f"{min(column(eleven, 'score')):.2f} to {max(column(eleven, 'score')):.2f}, selection is a lottery"
            + (
                f", and with 11 of 12 it even favours the least sure device ({least_sure['exact']:.3f}) over the "
                f"surest ({surest['exact']:.3f}), which has the most noise."
                if reversed_order
                else "."
            )
        ),
        instead=(
            "Use the exact integral (selection.ranking.participation) or the union bounds, and the same noise for "
            "every device: u_k is uncertainty, so 1/(u_k + 0.01) gives the best devices the most noise. Noise that "
            "follows the object's own score would leak it."
        ),
    )
