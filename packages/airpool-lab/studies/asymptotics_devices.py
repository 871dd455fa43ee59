"""The error, and the accuracy, against the number of devices: the measurements of theory/accuracy.md, and their figure.

Run by studies/theory_figures.py. K views of an object are drawn with replacement from the twelve that ship, or, with a
file of azimuths (posteriors (N, V, C), labels: as studies/encode_views.py writes them), evenly spaced around it.
"""

from collections.abc import Callable
from contextlib import chdir
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from airpool import Channel, Network, calibrate, load
from airpool._support import files
from airpool._support.figures import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    PAPER,
    PURPLE,
    RED,
    SKY,
    canvas,
    space_by_error,
    write_csv,
)
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import EncodedObjects
from airpool.models.latents import Latents
from airpool.radio.link import unbiased
from airpool_lab.sweep import grid, run
from studies.asymptotics import device_error, resampled, thinned, view_error
from studies.tables import Rows, column, copy_as_csv, rows, save
from studies.trends import Trend, trend

COUNTS = (2, 4, 8, 12, 24, 50, 100, 200, 500, 1000)
FITTED = (12, 1000)  # laws are fitted between these K
FITTED_VIEWS = (1, 200)  # beyond, the 1,000 views compared with are too few themselves
EPSILON, R, TRIALS = 1.0, 40, 100
RECEIVER_STD, POWER_DBM = 0.1**0.5, 30.0
VIEW_COUNTS = (1, 2, 4, 5, 8, 10, 20, 25, 40, 50, 100, 125, 200, 250, 500)  # they divide 1,000
ACCURACY_COUNTS, EPSILONS = (12, 24, 50, 100, 200, 500, 1000), (0.1, 0.3, 1.0)
NAMES = ("asymptotics-devices", "asymptotics-views", "asymptotics-accuracy")

_PARTS = ("bias", "participation", "privacy_noise", "channel_noise", "total")


def plain(num_devices: int, **given: Any) -> Network:
    return Network.uniform(**({"num_devices": num_devices, "dimension": R} | given))


@cache
def private(network: Network, epsilon: float = EPSILON) -> Network:
    return calibrate(network, epsilon=epsilon)


def twelve_std() -> float:
    """σ at K = 12, where fixed σ, fixed local ε and fixed device ε are the same network."""
    return private(plain(12)).devices.column("noise_std")[0]


def over_the_air(num_devices: int, *, noise_std: float | None = None, power_dbm: float = POWER_DBM) -> Network:
    """Rician fading, receiver noise, γ auto; at device ε, or at a given σ."""
    channel = Channel("rician", noise_std=RECEIVER_STD)
    start = plain(num_devices, power_dbm=power_dbm, channel=channel)
    return private(start) if noise_std is None else replace(start, devices=replace(start.devices, noise_std=noise_std))


# What stays fixed as devices join; every regime has w = 1/K and C = 1, and p = 1 unless it says so.
REGIMES: dict[str, Callable[[int], Network]] = {
    "fixed σ": lambda K: plain(K, noise_std=twelve_std()),
    "fixed local ε": lambda K: plain(K, noise_std=twelve_std() * 12 / K),
    "fixed device ε": lambda K: private(plain(K)),
    "fixed device ε, p = 0.9": lambda K: private(plain(K, participation=0.9)),
    "fixed device ε, p = 0.9, unbiased": lambda K: private(unbiased(plain(K, participation=0.9))),
    "air, γ = 1": lambda K: private(plain(K, channel=Channel(noise_std=RECEIVER_STD, gamma=1.0))),
    "air, γ auto": over_the_air,
    "air, γ auto, total power fixed": lambda K: over_the_air(K, power_dbm=POWER_DBM + 10 * np.log10(12 / K)),
    "air, γ auto, fixed σ": lambda K: over_the_air(K, noise_std=twelve_std()),
}


# Measuring


def views(source: str, num_devices: int, rng: np.random.Generator, *, step: int) -> tuple[np.ndarray, Tensor]:
    """Latents (n, K, r) of every step-th object, with labels; `source` is "resampled" or a file of azimuths."""
    if source == "resampled":
        held_out = load().held_out("test")
        return resampled(held_out.latents[::step].numpy(), num_devices, rng=rng), held_out.labels[::step]
    found = _azimuths(source)
    return thinned(found.latents[::step].numpy(), num_devices), found.labels[::step]


@cache
def _azimuths(path: str) -> Latents:
    found = files.read_tensors(Path(path))[0]
    return Latents(load().codec().encoder(found["posteriors"].float()), found["labels"].long())


def error_row(
    *, views_from: str, regime: str, num_devices: int, trials: int = TRIALS, rng: np.random.Generator
) -> dict[str, Any]:
    """Of every 25th test object, or of every second that there are azimuths of."""
    z, _ = views(views_from, num_devices, rng, step=25 if views_from == "resampled" else 2)
    found = asdict(device_error(z, REGIMES[regime](num_devices), rng=rng, trials=trials))
    del found["num_devices"]
    return found | {"objects": len(z)}


def view_row(*, spacing: str, num_devices: int, azimuths: str, rng: np.random.Generator) -> dict[str, float]:
    """‖mean of K views − mean of all‖², its standard error over the objects; random: averaged over 20 draws."""
    z = _azimuths(azimuths).latents.numpy()
    even = spacing == "even"
    draws = [view_error(z, num_devices, rng=None if even else rng) for _ in range(1 if even else 20)]
    found = np.mean(draws, axis=0)
    return {"error": float(found.mean()), "error_se": float(found.std(ddof=1) / len(found) ** 0.5), "objects": len(z)}


def accuracy_row(
    *, views_from: str, epsilon: float, participation: float, num_devices: int, trials: int = 10, seed: int
) -> dict[str, Any]:
    """At device ε, by `evaluate`; epsilon = inf stands for no noise, no silence: P₀ with as many views."""
    # The same views for every ε: what differs is the noise.
    own = np.random.default_rng(num_devices)
    latents, labels = views(views_from, num_devices, own, step=3 if views_from == "resampled" else 1)
    ideal = epsilon == np.inf
    start = plain(num_devices, participation=participation)
    found = evaluate(
        EncodedObjects(torch.from_numpy(latents).float(), labels, load().codec().server),
        start if ideal else private(start, epsilon),
        trials=1 if ideal else trials,
        seed=seed,
        instead="centralised" if ideal else None,
    )
    local, whole = float(found.report.epsilon_local.max()), found.report.epsilon_object
    return found.row() | {"epsilon_local": local, "epsilon_object": whole}


def measure(results: Path, *, azimuths: Path | None, command: str) -> None:
    """Every table, written to a folder; without a file of azimuths the views' own table is left as it is."""
    results = results.resolve()
    with chdir(azimuths.parent if azimuths else "."):  # tables have the file's name, not where it was
        _measure(results, azimuths.name if azimuths else None, command)


def _measure(results: Path, azimuths: str | None, command: str) -> None:
    sources = ["resampled"] if azimuths is None else ["resampled", azimuths]
    points = grid(views_from="resampled", regime=list(REGIMES), num_devices=COUNTS)
    # Views matter to silence alone.
    points += grid(views_from=sources, regime=[name for name in REGIMES if "p = 0.9" in name], num_devices=COUNTS)
    save(run(error_row, points, command=command), results / f"{NAMES[0]}.json")
    cases = [(e, 1.0) for e in (*EPSILONS, np.inf)] + [(EPSILON, 0.9)]
    points = [
        {"views_from": source, "epsilon": epsilon, "participation": p, "num_devices": count}
        for source in sources
        for epsilon, p in cases
        for count in ACCURACY_COUNTS
    ]
    save(run(accuracy_row, points, command=command), results / f"{NAMES[2]}.json")
    if azimuths is not None:
        points = grid(spacing=["even", "random"], num_devices=VIEW_COUNTS, azimuths=azimuths)
        save(run(view_row, points, command=command), results / f"{NAMES[1]}.json")


# Laws


def errors(path: Path, regime: str) -> Rows:
    return rows(path, regime=regime, views_from="resampled")


def fitted(table: Rows, y: str, *, between: tuple[int, int] = FITTED, std: str | None = None) -> Trend:
    """The power law of a column in K, between two numbers of devices."""
    some = [row for row in table if between[0] <= row["num_devices"] <= between[1]]
    return trend(column(some, "num_devices"), column(some, y), std=None if std is None else column(some, std))


def exponents(results: Path) -> Rows:
    """Of every regime and part that is there at all: by formula and, of the total, as measured; the paper says −1."""
    found = []

    def add(what: str, part: str, how: str, fit: Trend) -> None:
        about = {"law": what, "part": part, "from": how}
        numbers = {"exponent": fit.rate, "exponent_se": fit.rate_se, "misfit": fit.misfit}
        found.append(about | {name: round(value, 5) for name, value in numbers.items()} | {"paper": -1})

    for regime in REGIMES:
        table = errors(results / f"{NAMES[0]}.json", regime)
        for part in _PARTS:
            if min(column(table, part)) > 1e-20:  # rounding is no part
                add(regime, part, "formula", fitted(table, part))
        add(regime, "total", "air", fitted(table, "measured_total", std="measured_total_se"))
    for spacing in ("even", "random"):
        table = rows(results / f"{NAMES[1]}.json", spacing=spacing)
        add(f"views, {spacing}", "total", "views", fitted(table, "error", between=FITTED_VIEWS, std="error_se"))
    return found


# Drawing


def draw(results: Path, figures: Path) -> None:
    copy_as_csv(NAMES, results, figures)
    laws = exponents(results)
    comment = f"power laws in K: K in {FITTED}, of views {FITTED_VIEWS}; errors: see studies.trends.trend"
    columns = {name: column(laws, name) for name in laws[0]}
    write_csv(figures / "asymptotics-exponents.csv", columns, comment=comment)
    paths = [figures / f"{NAMES[0]}.{ending}" for ending in ("png", "svg")]
    with canvas(*paths, width=8.4, height=12.0) as fig:
        halves: Any = fig.subfigures(2, 1, height_ratios=(2, 1))
        upper, lower = halves
        (first, second), (third, fourth) = upper.subplots(2, 2)
        fifth, sixth = lower.subplots(1, 2)
        for paint, axes in ((_paint_regimes, first), (_paint_participation, second), (_paint_receiver, third)):
            paint(axes, results / f"{NAMES[0]}.json")
        _paint_views(fourth, results / f"{NAMES[1]}.json")
        _paint_accuracy(fifth, results / f"{NAMES[2]}.json")
        _paint_exponents(sixth, laws)


def _said(fit: Trend) -> str:
    """The power of K, for a legend."""
    return f"$K^{{{fit.rate:+z.2f}}}$"


def _log_axes(axes: Axes, title: str, ylabel: str) -> None:
    axes.set(xscale="log", yscale="log", xlabel="K, number of devices", ylabel=ylabel)
    axes.set_title(title)


def _paint_regimes(axes: Axes, path: Path) -> None:
    for regime, colour in zip(list(REGIMES)[:3], (RED, PURPLE, BLUE), strict=True):
        table = errors(path, regime)
        K = column(table, "num_devices")
        label = f"{regime}: {_said(fitted(table, 'measured_total', std='measured_total_se'))}"
        axes.plot(K, column(table, "total"), color=colour, label=label)
        bars = [3 * se for se in column(table, "measured_total_se")]
        axes.errorbar(K, column(table, "measured_total"), bars, fmt="o", color=colour, markersize=3.5)
    twelve = rows(path, regime="fixed device ε", num_devices=12)[0]["total"]
    K = np.array([2, 1000])
    axes.plot(K, twelve * 12 / K, ":", color=PAPER, linewidth=2.4, zorder=3, label="the paper: $K^{-1}$")
    _log_axes(axes, "what is kept fixed decides (p = 1)", "E‖ẑ − z̄‖²")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18))


def _paint_participation(axes: Axes, path: Path) -> None:
    biased, fair = (errors(path, f"fixed device ε, p = 0.9{more}") for more in ("", ", unbiased"))
    K = column(biased, "num_devices")
    for part, colour in (("privacy_noise", BLUE), ("bias", RED), ("participation", GREEN)):
        label = f"{part.replace('_', ' ')}: {_said(fitted(biased, part))}"
        axes.plot(K, column(biased, part), color=colour, label=label)
        if part != "privacy_noise":
            bars = [3 * row[f"measured_{part}_se"] for row in biased]
            axes.errorbar(K, column(biased, f"measured_{part}"), bars, fmt="o", color=colour, markersize=3)
    axes.plot(K, column(biased, "total"), color=BLACK, label="total, as in the paper")
    axes.plot(K, column(fair, "total"), "--", color=BLACK, label=f"total, unbiased: {_said(fitted(fair, 'total'))}")
    axes.plot(K, column(fair, "participation"), "--", color=GREEN, linewidth=1)
    axes.set_ylim(5e-5, 300)
    _log_axes(axes, "fixed device ε = 1, p = 0.9", "parts of E‖ẑ − z̄‖²")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18))


def _paint_receiver(axes: Axes, path: Path) -> None:
    styles = zip(list(REGIMES)[5:], (RED, BLUE, SKY, PURPLE), strict=True)
    for regime, colour in styles:
        table = errors(path, regime)
        label = f"{regime.removeprefix('air, ')}: {_said(fitted(table, 'channel_noise'))}"
        axes.plot(column(table, "num_devices"), column(table, "channel_noise"), color=colour, label=label)
    axes.set_ylim(1e-7, 3e4)
    _log_axes(axes, "receiver noise", "r σₘ²/γ²")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18))


def _paint_views(axes: Axes, path: Path) -> None:
    for spacing, colour in (("random", GREEN), ("even", BLUE)):
        table = rows(path, spacing=spacing)
        bars = [2 * se for se in column(table, "error_se")]
        label = f"{spacing} azimuths: {_said(fitted(table, 'error', between=FITTED_VIEWS, std='error_se'))}"
        axes.errorbar(column(table, "num_devices"), column(table, "error"), bars, fmt="o-", color=colour, ms=3.5)
        axes.plot([], [], "o-", color=colour, markersize=3.5, label=label)
    _log_axes(axes, "the views' own mean: no noise, no air", "‖mean of K − mean of 1,000‖²")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18))


def _paint_accuracy(axes: Axes, path: Path) -> None:
    cases = [(e, 1.0, c, "-") for e, c in zip(EPSILONS, (PURPLE, GREEN, BLUE), strict=True)]
    cases += [(EPSILON, 0.9, BLUE, "--"), (np.inf, 1.0, BLACK, ":")]
    for epsilon, p, colour, line in cases:
        table = rows(path, epsilon=epsilon, participation=p, views_from="resampled")
        label = "P₀: no noise" if epsilon == np.inf else f"ε = {epsilon:g}" + (f", p = {p:g}" if p < 1 else "")
        K, mean = column(table, "num_devices"), column(table, "accuracy_mean")
        axes.plot(K, mean, line, color=colour, marker="o", markersize=3, label=label)
    space_by_error(axes)
    axes.set(xscale="log", xlabel="K, number of devices", ylabel="accuracy", ylim=(0, 0.95))
    axes.set_title("accuracy at fixed device ε")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)


def _paint_exponents(axes: Axes, laws: Rows) -> None:
    shown = [row for row in laws if row["from"] != "formula"][::-1]
    for y, row in enumerate(shown):
        colour = GREY if row["from"] == "views" else BLUE
        axes.errorbar(row["exponent"], y, xerr=2 * row["exponent_se"], fmt="o", color=colour, markersize=4, capsize=2)
    axes.axvline(-1, color=PAPER, linestyle=":")
    axes.annotate("the paper", (-1, len(shown) - 0.4), xytext=(5, 0), textcoords="offset points")
    names = [
        row["law"].replace("fixed device ε, ", "device ε, ").replace("total power fixed", "ΣP fixed") for row in shown
    ]
    axes.set_yticks(range(len(shown)), names, fontsize=8)
    axes.set(ylabel="what is kept fixed", xlabel="exponent of K ± 2 standard errors", ylim=(-0.6, len(shown) + 0.1))
    axes.set_title("total error, as measured")
