"""The paper's participation of each device under Scheme 2.1, at three thresholds."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from airpool.figures import BLACK, BLUE, ORANGE, canvas
from airpool.reproduce.results import RENDERS, OnStep, Rows, as_csv, both, column, measured, unheard, where
from airpool.reproduce.uncertainty import (
    DEVICES,
    MOST_BITS,
    NOISE_STD,
    device_scores,
    entropies,
    exact_epsilon,
    standard_error,
)
from airpool.reproduce.verdicts import CAPTION, Check, Finding, Gain
from airpool.selection.threshold import participation
from airpool.sweep import Table, grid

ID = "fig-p21"
TITLE = "Participation of each device under Scheme 2.1"
PAPER = (
    "p_k = Φ((η − u_k)/σ₀) for each device at the thresholds η = 0.05, 0.25 and 0.8, with u_k the Shannon entropy of "
    "the device and σ₀ = √0.1: how the threshold affects who takes part."
)
SETTING = RENDERS
FRESH = True
THRESHOLDS = (0.05, 0.25, 0.8)


def row(*, threshold: float, device: int) -> dict[str, Any]:
    """p_k at the device's mean entropy, as the paper has it, and the mean of p over the objects, as it is."""
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


def compute(*, seed: int = 0, on_step: OnStep = unheard) -> Table:
    points = grid(threshold=THRESHOLDS, device=DEVICES)
    return measured(row, points, result=ID, seed=seed, on_step=on_step)


def draw(table: Rows, folder: Path) -> list[Path]:
    files = both(folder, ID)
    with canvas(*files, width=5.8, height=6.0) as fig:
        panels = fig.subplots(len(THRESHOLDS), 1, sharex=True, sharey=True)
        for axes, threshold in zip(panels, THRESHOLDS, strict=True):
            rows = where(table, threshold=threshold)
            device, exact = np.array(column(rows, "device")), np.array(column(rows, "exact"))
            axes.bar(device - 0.2, column(rows, "at_mean"), 0.38, color=ORANGE, label="paper: Φ at the mean entropy")
            axes.bar(device + 0.2, exact, 0.38, color=BLUE, label="exact: mean of Φ over the objects, 95% interval")
            error = 1.96 * np.array(column(rows, "exact_se"))
            axes.errorbar(device + 0.2, exact, error, fmt="none", color=BLACK, capsize=2, lw=1)
            axes.set_axisbelow(True)
            axes.set(ylabel="$p_k$", ylim=(0, 1), title=f"η = {threshold:g}")
        panels[0].legend(loc="upper center", fontsize=7.5)
        panels[-1].set(xlabel="device", xticks=list(DEVICES))
    return [*files, as_csv(table, folder / f"{ID}.csv")]


def rises(table: Rows, name: str, error: str | None = None) -> list[Gain]:
    """How much each device's p_k grows from one threshold to the next."""
    steps = [
        (lower, upper)
        for low, high in pairwise(THRESHOLDS)
        for lower, upper in zip(where(table, threshold=low), where(table, threshold=high), strict=True)
    ]
    return [Gain(b[name] - a[name], np.hypot(a[error], b[error]) if error else 0.0) for a, b in steps]


def finding(table: Rows) -> Finding:
    says, checks = "the larger the threshold, the likelier each device takes part", []
    for name, error, how in (("at_mean", None, "Φ at its mean entropy"), ("exact", "exact_se", "over the objects")):
        steps = rises(table, name, error)
        means = (f"{np.mean(column(where(table, threshold=t), name)):.2f} at η = {t:g}" for t in THRESHOLDS)
        held = all(step.interval(len(steps))[0] > 0 for step in steps)
        checks.append(Check(f"{says} ({how})", CAPTION, held, f"Mean over the devices: {', '.join(means)}."))
    clip, raw = ([where(table, threshold=t)[0][name] for t in THRESHOLDS] for name in ("epsilon_clip", "epsilon_raw"))
    return Finding(
        checks,
        more=(
            "One mean entropy for each device is our reading of the paper, and it misses the participation: most "
            "objects are easy and a few are hard, so at small thresholds more devices transmit than Φ of the mean says."
        ),
        instead=(
            "Average p over calibration objects (selection.participation.expected_participation). And mind what the "
            f"decision tells: with raw entropies it alone costs ε = {min(raw):.0f} to {max(raw):.0f} at these "
            f"thresholds, with scores clipped to 1 bit {min(clip):.1f} to {max(clip):.1f} (δ = 1e-5)."
        ),
    )
