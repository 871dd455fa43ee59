"""Participation of each device under Scheme 2.2: the paper's bounds, the exact value and bounds that hold."""

from functools import cache
from typing import Any

from airpool._support.arrays import Floats
from airpool.schemes import ranking
from airpool_lab.paper.figures.description import Judgement, Result, Rows, column, tested, where
from airpool_lab.paper.figures.table_1 import DEVICES, device_scores, entropies
from airpool_lab.paper.formulas import theorem3
from airpool_lab.sweep import grid

GAP = 0.005
SELECTED = (6, 11)


def noise_std() -> Floats:
    """σ_k = 1/(u_k + 0.01), from mean entropies: noise that follows the object's own entropy would reveal it."""
    return 1 / (device_scores() + 0.01)


@cache
def over_objects(num_selected: int) -> Floats:
    """Each device's exact participation, averaged over the test objects' own entropies."""
    return ranking.participation(entropies(), score_noise_std=noise_std(), num_selected=num_selected).mean(axis=0)


def row(*, num_selected: int, device: int) -> dict[str, Any]:
    """Theorem 3 as printed, the exact value and the union bounds, at the devices' mean entropies."""
    u, std = device_scores(), noise_std()
    printed = theorem3.bounds(u, score_noise_std=std, num_selected=num_selected, gap=GAP)
    union = ranking.union_bounds(u, score_noise_std=std, num_selected=num_selected)
    # The part of the upper bound that the caption names: all of it where every device is selected.
    product = theorem3.bounds(u, score_noise_std=std, num_selected=len(u), gap=GAP).upper[device]
    return {
        "score": u[device],
        "noise_std": std[device],
        "in_true_set": bool(ranking.selected(u, num_selected)[device]),
        "printed_lower": printed.lower[device],
        "printed_upper": printed.upper[device],
        "product": product,
        "exact": ranking.participation(u, score_noise_std=std, num_selected=num_selected)[device],
        "exact_objects": over_objects(num_selected)[device],
        "union_lower": union.lower[device],
        "union_upper": union.upper[device],
        "smallest_gap": theorem3.smallest_gap(u),
    }


def judge(table: Rows) -> Judgement:
    broken = {n: sum(r["exact"] > r["printed_upper"] for r in where(table, num_selected=n)) for n in SELECTED}
    eleven = sorted(where(table, num_selected=11), key=lambda r: r["score"])
    exact, std, upper = (column(eleven, name) for name in ("exact", "noise_std", "printed_upper"))
    largest = max(column(table, "printed_lower"))
    held = all(r["exact"] >= r["printed_lower"] for r in table) if largest > 0 else None
    tests = [
        tested("lower", held, largest=largest),
        tested("upper", not any(broken.values()), broken=broken, upper=max(upper), least=min(exact), most=max(exact)),
        tested("noise", std == sorted(std)),
    ]
    return tests, {"surest": eleven[0], "unsurest": eleven[-1]}


RESULT = Result("fig-p22", (row, grid(num_selected=SELECTED, device=DEVICES)), judge)
