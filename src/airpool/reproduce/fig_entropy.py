"""The paper's comparison of Shannon entropy and min-entropy, device by device."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import pearsonr

from airpool.figures import BLACK, BLUE, ORANGE, canvas
from airpool.network import Score
from airpool.reproduce.results import RENDERS, OnStep, Rows, as_csv, both, column, measured, unheard
from airpool.reproduce.uncertainty import DEVICES, entropies, standard_error
from airpool.reproduce.verdicts import CAPTION, Check, Finding
from airpool.selection.ranking import selected
from airpool.sweep import Table, grid

ID = "fig-entropy"
TITLE = "Shannon entropy and min-entropy of each device"
PAPER = (
    "Both entropies of the local posterior for each of the twelve devices, with error bars, on ModelNet. They behave "
    "alike across devices, so that choosing one or the other does not significantly alter who takes part."
)
SETTING = RENDERS
FRESH = True
NAMES: dict[Score, str] = {"shannon": "Shannon entropy", "min": "min-entropy"}
CHOSEN = (6, 11)
# Alike: so much of the variance shared, so many decisions the same.
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


def compute(*, seed: int = 0, on_step: OnStep = unheard) -> Table:
    return measured(row, grid(device=DEVICES), result=ID, seed=seed, on_step=on_step)


def draw(table: Rows, folder: Path) -> list[Path]:
    files = both(folder, ID)
    with canvas(*files, width=5.6, height=4.6) as fig:
        panels = fig.subplots(2, 1, sharex=True)
        for axes, (score, name), colour in zip(panels, NAMES.items(), (BLUE, ORANGE), strict=True):
            device, mean = column(table, "device"), np.array(column(table, f"{score}_mean"))
            quartiles = np.array([column(table, f"{score}_{q}") for q in ("q25", "q75")])
            error = 1.96 * np.array(column(table, f"{score}_se"))
            axes.bar(device, mean, color=colour, alpha=0.35, width=0.7)
            axes.vlines(device, *quartiles, color=colour, lw=3, label="middle half of the objects")
            axes.errorbar(device, mean, error, fmt="o", ms=4, color=BLACK, capsize=3, label="mean and its 95% interval")
            axes.plot(device, column(table, f"{score}_median"), "_", ms=9, color=BLACK, label="median")
            axes.set_axisbelow(True)
            axes.set(ylabel="bits", title=name, ylim=(0, 1.25 * float(quartiles[1].max())))
        panels[0].legend(ncols=3, loc="upper center", fontsize=7)
        panels[1].set(xlabel="device", xticks=list(column(table, "device")))
    return [*files, as_csv(table, folder / f"{ID}.csv")]


def finding(table: Rows) -> Finding:
    means = [np.array(column(table, f"{score}_mean")) for score in NAMES]
    found = pearsonr(*means)
    correlation, (low, high) = found.statistic, found.confidence_interval(0.95)
    alike = {number: float(np.mean(column(table, f"alike_{number}"))) for number in CHOSEN}
    error = {number: (p * (1 - p) / table[0]["objects"]) ** 0.5 for number, p in alike.items()}
    shares = [number / len(table) for number in CHOSEN]
    chance = dict(zip(CHOSEN, (p**2 + (1 - p) ** 2 for p in shares), strict=True))
    across, within = float(np.std(means[0], ddof=1)), float(np.mean(column(table, "shannon_std")))
    told = (f"{alike[n]:.1%} where {n} of {len(table)} are selected (by chance {chance[n]:.0%})" for n in CHOSEN)
    return Finding(
        [
            Check(
                "Shannon entropy and min-entropy behave alike across the devices",
                CAPTION,
                bool(low > SHARED**0.5),
                f"The devices' means correlate by {correlation:.2f} (95% interval {low:.2f} to {high:.2f}); alike: one "
                "explains more than half of the other's variance.",
            ),
            Check(
                "which of them is taken does not significantly alter who takes part",
                CAPTION,
                all(alike[n] - 1.96 * error[n] > ALIKE for n in CHOSEN),
                f"Both treat a device alike in {' and '.join(told)}; required: {ALIKE:.0%}.",
            ),
        ],
        more=(
            f"There is little to choose among devices: their mean Shannon entropies ({means[0].min():.2f} to "
            f"{means[0].max():.2f} bits) have a standard deviation of {across:.3f} bits, one device's entropies over "
            f"the objects {within:.2f}."
        ),
        instead=(
            "Take either. Do not plan with a mean per device: nearly all of the spread is between objects, so a device "
            "is not reliable or unreliable as such (all cameras here are sound)."
        ),
    )
