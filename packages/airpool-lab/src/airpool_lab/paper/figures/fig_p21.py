"""Participation of each device under Scheme 2.1, at three thresholds."""

from itertools import pairwise
from typing import Any

import numpy as np

from airpool.schemes.threshold import participation
from airpool_lab.paper.figures.description import Gain, Judgement, Result, Rows, column, tested, where
from airpool_lab.paper.figures.table_1 import (
    DEVICES,
    MOST_BITS,
    NOISE_STD,
    device_scores,
    entropies,
    exact_epsilon,
    standard_error,
)
from airpool_lab.sweep import grid

THRESHOLDS = (0.05, 0.25, 0.8)


def row(*, threshold: float, device: int) -> dict[str, Any]:
    """p_k at the device's mean entropy, as in the paper, and the exact p_k: the mean of p over the objects."""
    p = participation(entropies()[:, device], threshold=threshold, score_noise_std=NOISE_STD)
    u = float(device_scores()[device])
    low, high = np.quantile(p, [0.25, 0.75])
    return {
        "score": u,
        "at_mean": float(participation(u, threshold=threshold, score_noise_std=NOISE_STD)),
        "exact": p.mean(),
        "exact_se": standard_error(p),
        "exact_q25": low,
        "exact_q75": high,
        "epsilon_raw": exact_epsilon(MOST_BITS, threshold),
        "epsilon_clip": exact_epsilon(1.0, threshold),
    }


def judge(table: Rows) -> Judgement:
    groups = {threshold: where(table, threshold=threshold) for threshold in THRESHOLDS}
    pairs = [pair for low, high in pairwise(groups.values()) for pair in zip(low, high, strict=True)]
    tests = []
    for name, how in (("at_mean", "Φ at its mean entropy"), ("exact", "over the objects")):
        errors = [np.hypot(*(row.get(f"{name}_se", 0.0) for row in pair)) for pair in pairs]
        steps = [Gain(high[name] - low[name], error) for (low, high), error in zip(pairs, errors, strict=True)]
        means = (f"{np.mean(column(rows, name)):.2f} at η = {threshold:g}" for threshold, rows in groups.items())
        held = all(step.interval(len(steps))[0] > 0 for step in steps)
        tests.append(tested("rises", held, how=how, means=", ".join(means)))
    raw, clip = column(table, "epsilon_raw"), column(table, "epsilon_clip")
    return tests, {"raw": (min(raw), max(raw)), "clip": (min(clip), max(clip))}


RESULT = Result("fig-p21", (row, grid(threshold=THRESHOLDS, device=DEVICES)), judge)
