"""The figure of an audit: the distinguisher's error rates against the least that (ε, δ) allows."""

# pyright: reportUnknownMemberType=false
# Matplotlib annotates its keyword arguments in part only.

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats
from airpool._support.figures import BLUE, RED, canvas
from airpool._support.rounding import full, shown_below
from airpool.account.report import shown as rounded_up
from airpool.evaluation.audit.bound import AuditReport
from airpool.privacy.evidence import clopper_pearson


def fewest_misses(false_alarm_rate: ArrayLike, *, epsilon: float, delta: float) -> Floats:
    """The smallest miss rate that (ε, δ) allows at a false alarm rate; symmetric in the two rates.

        max(0, 1 − δ − e^ε FPR, e^−ε (1 − δ − FPR))

    Edge cases: ε = inf allows no mistakes at all → 0.

    >>> fewest_misses([0.0, 0.5, 1.0], epsilon=0.0, delta=0.1)
    array([0.9, 0.4, 0. ])
    """
    fpr = np.asarray(false_alarm_rate, dtype=np.float64)
    if np.isinf(epsilon):
        return np.zeros(fpr.shape)
    # Beyond 700 the power overflows, and the first line is already below 0 at every rate a float can hold.
    steep = 1 - delta - np.exp(min(epsilon, 700.0)) * fpr
    return np.maximum(0.0, np.maximum(steep, np.exp(-epsilon) * (1 - delta - fpr)))


def plot(report: AuditReport, path: str | Path) -> None:
    """Draws the trade-off curve with its Clopper-Pearson band and, where there is a claim, what it rules out.

    On the left the whole curve. On the right the corner that decides, on logarithmic axes: how often the
    distinguisher is right about one world against how often it is wrong about the other. The band holds point
    by point: each of its limits holds with the confidence of the report.
    """
    mistakes = ["false alarms (neighbour taken for features)", "misses (features taken for neighbour)"]
    successes = ["neighbour recognised (1 − false alarms)", "features recognised (1 − misses)"]
    rates = [report.false_alarm_rates, report.miss_rates]
    counts = [report.false_alarms, report.misses]
    if report.direction == "neighbour over features":
        for pair in (mistakes, successes, rates, counts):
            pair.reverse()
    # From here on x is the rate that the bound divides by and 1 − y the one that is divided.
    order = np.lexsort((-rates[1], rates[0]))
    x, y = rates[0][order], rates[1][order]
    error = (1 - report.confidence) / 2
    n = report.evaluated
    (x_low, x_high), (y_low, y_high) = (clopper_pearson(np.rint(r * n), n, error=error) for r in (x, y))
    # Once around the band; its last corner belongs to the point without any mistake on the x axis.
    band_x = np.concatenate([x_low, x_high[::-1], x_low[:1]])
    band_y = np.concatenate([y_low, y_high[::-1], y_high[:1]])
    grid = np.geomspace(0.1 / n, 1, 1000)

    with canvas(path, width=8.4, height=4.8) as fig:
        whole, corner = fig.subplots(1, 2)
        whole.set(xlabel=mistakes[0], ylabel=mistakes[1], xlim=(0, 1), ylim=(0, 1), aspect="equal")
        corner.set(xlabel=mistakes[0], ylabel=successes[1], xscale="log", yscale="log")
        corner.set(xlim=(0.1 / n, 1), ylim=(0.1 / n, 1.5))
        fig.suptitle(f"{report.runs} runs a side, {n} evaluated; {report.confidence:g} confidence; {report.note}")

        for axes, shown in ((whole, np.asarray), (corner, _complement)):
            axes.fill(np.maximum(band_x, 0.01 / n), shown(band_y), color=BLUE, alpha=0.3, lw=0)
            axes.plot(np.maximum(x, 0.01 / n), shown(y), color=BLUE, label="measured, with its band")
            # A rate of 0 has no place on a logarithmic axis: its marker sits on the edge.
            at_x, at_y = (max(float(rate), 0.1 / n) for rate in (counts[0] / n, shown(counts[1] / n)))
            axes.plot(at_x, at_y, "o", color=BLUE, label="the threshold that was picked", clip_on=False)
            bound = fewest_misses(grid, epsilon=report.epsilon_lower, delta=report.delta)
            axes.plot(grid, shown(bound), "k:", label=f"shown: ε ≥ {shown_below(report.epsilon_lower)}")
            if report.claimed_epsilon is not None:
                claim = fewest_misses(grid, epsilon=report.claimed_epsilon, delta=report.delta)
                label = f"ruled out by the claim ({rounded_up(report.claimed_epsilon)}, {full(report.delta)})"
                axes.plot(grid, shown(claim), color=RED)
                axes.fill_between(grid, shown(claim), shown(np.zeros_like(grid)), color=RED, alpha=0.15, label=label)
        fig.legend(*whole.get_legend_handles_labels(), loc="outside lower center", ncols=2)


def _complement(rate: ArrayLike) -> Floats:
    """1 − rate, kept off 0, where a logarithmic axis ends."""
    return np.maximum(1 - np.asarray(rate, dtype=np.float64), 1e-12)
