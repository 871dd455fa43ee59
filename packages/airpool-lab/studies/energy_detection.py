"""Energy detection: who took part, from the received energy alone. `python -m studies.energy_detection [--fresh]`.

Draws docs/figures/energy-detection.{svg,png} from results/energy-detection.json in seconds; --fresh measures it again,
in minutes. The paper's scheme (K = 12, w = 1/12, C = 100, an ideal channel) at σ where Theorem 1 claims
ε = 2, every device with a feature of full length, and the same network under cover noise. The attacker sees ‖y‖² of
each sum, made by the code that transmits, and nothing else. Its guess is the likeliest, by the law of ‖y‖² given how
many take part: σ²m times a χ² of r degrees of freedom, noncentral by the features.

    device, others known    did device 0 take part (a fair coin)? All others do.
    device                  the same, where the others toss coins of p = .9 that nobody sees
    count                   how many take part, all with p = .9?
"""

from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import binom, gamma

from airpool._support.arrays import Floats
from airpool._support.figures import BLUE, GREEN, ORANGE
from airpool.evaluation.audit.bound import clopper_pearson
from airpool_lab.sweep import run
from studies.paper_refuted import BATCH, CLIP, DEVICES, PARTICIPATION, WEIGHT, network, noise_for, transmitted
from studies.tables import RESULTS, column, draw_or_measure, rows, save

NAME = "energy-detection"
CLAIMED = 2.0
# Dimensions, and runs in each: limits of at most ±.03.
RUNS = {10: 20_000, 30: 20_000, 100: 10_000, 300: 4_000, 784: 4_000, 2_500: 2_000, 8_000: 1_000, 25_088: 1_000}
QUESTIONS = ("device, others known", "device", "count")
LABELS = {
    "device, others known": "did device 0 take part? (all others do)",
    "device": "the same, the others' coins hidden",
    "count": "how many took part?",
}
# Right without any signal: by the prior alone.
CHANCE = {"device, others known": 0.5, "device": 0.5, "count": float(np.max(binom.pmf(range(13), 12, 0.9)))}


def log_likelihood(energy: Floats, std: float, *, dimension: int, cover: bool) -> Floats:
    """ln of the density of ‖y‖² if 0, 1, ..., K devices take part, (K + 1, n)."""
    out = np.full((DEVICES + 1, len(energy)), -np.inf)
    for m in range(DEVICES + 1):
        v, signal = (DEVICES if cover else m) * std**2, m * (WEIGHT * CLIP) ** 2
        if v > 0:
            # The noncentral χ² by a χ² of the same mean and variance: very close where signals are small.
            mean, variance = dimension + signal / v, 2 * dimension + 4 * signal / v
            out[m] = gamma.logpdf(energy, mean**2 / variance, scale=v * variance / mean)
        else:
            out[m, energy == 0] = np.inf
    return out


def guessed(energy: Floats, question: str, std: float, *, dimension: int, cover: bool) -> Floats:
    """The likeliest answer: whether device 0 took part (0 or 1), or how many did."""
    given = log_likelihood(energy, std, dimension=dimension, cover=cover)
    if question == "count":
        return np.argmax(given + binom.logpmf(np.arange(DEVICES + 1), DEVICES, PARTICIPATION)[:, None], axis=0)
    others = 1.0 if question == "device, others known" else PARTICIPATION
    with np.errstate(divide="ignore"):
        prior = np.log(binom.pmf(np.arange(DEVICES), DEVICES - 1, others))[:, None]
    absent, present = (np.logaddexp.reduce(prior + part, axis=0) for part in (given[:-1], given[1:]))
    return (present > absent).astype(np.int64)


def measured(*, seed: int, question: str, dimension: int, cover: bool, runs: int) -> dict[str, float]:
    """Fraction of right guesses, with limits of 95 % confidence."""
    std, rng = noise_for(CLAIMED), np.random.default_rng(seed)
    net = network(std, cover=cover, dimension=dimension)
    p = np.full(DEVICES, 1.0 if question == "device, others known" else PARTICIPATION)
    if question != "count":
        p[0] = 0.5
    net = replace(net, devices=replace(net.devices, participation=tuple(p.tolist())))
    # Features of full length, orthogonal where there is room.
    features = np.zeros((DEVICES, dimension))
    features[np.arange(DEVICES), np.arange(DEVICES) % dimension] = CLIP
    right, done = 0, 0
    while done < runs:
        now = min(runs - done, max(1, BATCH // (DEVICES * dimension)))
        got = transmitted(net, features, now, rng)
        y = got.estimate[0].double()
        took_part = got.taking_part[0].cpu().numpy()
        truth = took_part.sum(axis=1) if question == "count" else took_part[:, 0]
        energy = (y * y).sum(dim=1).cpu().numpy()
        right += int(np.sum(guessed(energy, question, std, dimension=dimension, cover=cover) == truth))
        done += now
    low, high = (float(limit) for limit in clopper_pearson(right, runs, error=0.025))
    return {"accuracy": right / runs, "low": low, "high": high, "chance": CHANCE[question], "noise_std": std}


def points() -> list[dict[str, Any]]:
    return [
        {"question": question, "dimension": r, "cover": cover, "runs": runs}
        for cover in (False, True)
        for question in QUESTIONS
        for r, runs in RUNS.items()
    ]


def measure() -> None:
    found = run(measured, points(), command="python -m studies.energy_detection --fresh")
    save(found, RESULTS / f"{NAME}.json")


def paint(axes: Axes) -> None:
    looks = zip(QUESTIONS, (BLUE, ORANGE, GREEN), ("o", "s", "^"), strict=True)
    for question, colour, marker in looks:
        for cover, line in ((False, "-"), (True, "--")):
            mine = rows(RESULTS / f"{NAME}.json", question=question, cover=cover)
            label = None if cover else LABELS[question]
            axes.plot(column(mine, "dimension"), column(mine, "accuracy"), marker + line, color=colour, label=label)
    axes.plot([], [], "k--", label="each under cover noise")
    axes.set(xlabel="dimension r", ylabel="right guesses from the received energy", xscale="log", ylim=(0.3, 1.03))
    axes.legend(loc="upper left")


if __name__ == "__main__":
    draw_or_measure(__doc__, [NAME], {NAME: paint}, measure=measure)
