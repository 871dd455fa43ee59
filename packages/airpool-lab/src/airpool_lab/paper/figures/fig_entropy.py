"""Shannon entropy and min-entropy, device by device."""

from typing import Any

import numpy as np
from scipy.stats import pearsonr

from airpool.network import Score
from airpool.schemes.ranking import selected
from airpool_lab.paper.figures.description import Judgement, Result, Rows, column, tested
from airpool_lab.paper.figures.table_1 import DEVICES, entropies, standard_error
from airpool_lab.sweep import grid

NAMES: tuple[Score, ...] = ("shannon", "min")
CHOSEN = (6, 11)
# "Alike": more than this share of the variance explained, more than this share of decisions equal.
SHARED, ALIKE = 0.5, 0.9


def row(*, device: int) -> dict[str, Any]:
    """Mean, spread and quartiles of both entropies, and how often both scores choose or reject the device alike."""
    out: dict[str, Any] = {}
    for score in NAMES:
        bits = entropies(score)[:, device]
        low, median, high = np.quantile(bits, [0.25, 0.5, 0.75])
        out |= {f"{score}_mean": bits.mean(), f"{score}_std": bits.std(ddof=1), f"{score}_se": standard_error(bits)}
        out |= {f"{score}_q25": low, f"{score}_median": median, f"{score}_q75": high}
    both_scores = [entropies(score) for score in NAMES]
    out["correlation"] = float(np.corrcoef(both_scores[0][:, device], both_scores[1][:, device])[0, 1])
    for number in CHOSEN:
        shannon, least = (selected(bits, number)[:, device] for bits in both_scores)
        out[f"alike_{number}"] = float(np.mean(shannon == least))
    return out | {"objects": len(both_scores[0])}


def judge(table: Rows) -> Judgement:
    means = [np.array(column(table, f"{score}_mean")) for score in NAMES]
    found = pearsonr(*means)
    low, high = found.confidence_interval(0.95)
    alike = {n: float(np.mean(column(table, f"alike_{n}"))) for n in CHOSEN}
    sure = {n: p - 1.96 * (p * (1 - p) / table[0]["objects"]) ** 0.5 for n, p in alike.items()}
    chance = {n: (n / len(table)) ** 2 + (1 - n / len(table)) ** 2 for n in CHOSEN}
    tests = [
        tested("alike", bool(low > SHARED**0.5), correlation=found.statistic, low=low, high=high),
        tested("same", min(sure.values()) > ALIKE, alike=alike, chance=chance, required=ALIKE),
    ]
    across, within = np.std(means[0], ddof=1), np.mean(column(table, "shannon_std"))
    return tests, {"least": min(means[0]), "most": max(means[0]), "across": across, "within": within}


RESULT = Result("fig-entropy", (row, grid(device=DEVICES)), judge)
