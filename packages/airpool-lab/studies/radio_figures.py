"""ε against antennas, the eavesdropper's and the server's: `python -m studies.radio_figures [--fresh]`.

Draws docs/figures/antennas.{svg,png} from results/antennas-*.json in seconds; --fresh measures them again, in minutes.
Twelve devices with r = 40 whose device ε is 1 where all channels are known.
"""

import argparse
from dataclasses import replace
from functools import cache

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from airpool import Channel, Network, guarantee
from airpool._support.figures import BLACK, BLUE, GREY, PURPLE, RED, figure
from airpool.account.calibration import calibrate
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import held_out
from airpool.models.pretrained import load
from airpool.network import Adversary
from airpool.privacy import sampled
from airpool.radio.link import link_of
from airpool_lab.sweep import grid, run
from studies.tables import FIGURES, RESULTS, Rows, column, copy_as_csv, rows, save

NAMES = ("antennas-eavesdropper", "antennas-server")
COUNTS = (1, 2, 3, 4, 6, 8, 11, 12)
SERVERS = (1, 2, 4, 8)
DEVICES, DIMENSION, EPSILON = 12, 40, 1.0
# Of the server's receiver, per coordinate: at one antenna about as much as the privacy noise of all devices.
RECEIVER_STD = 2.0
# Few draws behind a server's law of directions: a band that is a little wider, and holds all the same.
TRIALS, DRAWS = 2, 2**16
CHANNELS: dict[str, Channel] = {
    "no fading": Channel(),
    "Rayleigh fading": Channel(fading="rayleigh"),
}


@cache
def twelve() -> Network:
    return calibrate(Network.uniform(num_devices=DEVICES, noise_std=0.09, dimension=DIMENSION), epsilon=EPSILON)


def eavesdropper(channel: str, antennas: int) -> dict[str, float]:
    report = guarantee(replace(twelve(), channel=CHANNELS[channel], adversary=Adversary(antennas)))
    assert report.epsilon_eavesdropper is not None
    return {
        "epsilon": float(report.epsilon_eavesdropper.max()),
        "device": report.worst,
        "local": float(report.epsilon_local.max()),
    }


def server(antennas: int, *, seed: int) -> dict[str, float]:
    """ε, γ and accuracy with the same noise of the devices, Rayleigh fading and 1 % outage."""
    channel = Channel(fading="rayleigh", outage=0.01, noise_std=RECEIVER_STD, antennas=antennas)
    network, sampled.DRAWS = replace(twelve(), channel=channel), DRAWS
    found = evaluate(held_out(load("modelnet40"), network, split="validation"), network, trials=TRIALS, seed=seed)
    low, high = found.accuracy_ci
    return {
        "epsilon": found.report.worst,
        "local": float(found.report.epsilon_local.max()),
        "gamma": float(link_of(network).gamma),
        "accuracy": found.accuracy_mean,
        "accuracy_low": low,
        "accuracy_high": high,
    }


def measure() -> None:
    command = "python -m studies.radio_figures --fresh"
    points = grid(channel=list(CHANNELS), antennas=COUNTS)
    save(run(eavesdropper, points, command=command), RESULTS / f"{NAMES[0]}.json")
    save(run(server, grid(antennas=SERVERS), command=command), RESULTS / f"{NAMES[1]}.json")


def paint(fig: Figure, axes: Axes) -> None:
    axes.remove()
    left, right = fig.subplots(1, 2)
    heard = rows(RESULTS / f"{NAMES[0]}.json")
    _eavesdropper(left, heard)
    _server(right, rows(RESULTS / f"{NAMES[1]}.json"))


def _eavesdropper(axes: Axes, heard: Rows) -> None:
    for name, colour, marker in zip(CHANNELS, (BLUE, PURPLE), "os", strict=True):
        mine = [row for row in heard if row["channel"] == name]
        axes.plot(column(mine, "antennas"), column(mine, "epsilon"), marker=marker, color=colour, label=name)
    device, local = (float(np.max(column(heard, name))) for name in ("device", "local"))
    axes.axhline(local, color=RED, linestyle="--", linewidth=1, label="local ε")
    axes.axhline(device, color=BLACK, linestyle="--", linewidth=1, label="device ε, at the server")
    axes.set(xlabel="M, antennas of an eavesdropper elsewhere", ylabel="ε at δ = 1e-5", ylim=(0.5, 4.5))
    axes.set_xticks(range(1, 13))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)


def _server(axes: Axes, found: Rows) -> None:
    antennas, accuracy = column(found, "antennas"), np.array(column(found, "accuracy"))
    axes.plot(antennas, column(found, "epsilon"), marker="o", color=BLUE, label="ε of the worst device")
    axes.axhline(column(found, "local")[0], color=RED, linestyle="--", linewidth=1, label="local ε")
    axes.set(xlabel="M, antennas of the server", ylabel="ε at δ = 1e-5", ylim=(0.5, 4.5))
    axes.yaxis.label.set_color(BLUE)
    other = axes.twinx()
    bars = [accuracy - column(found, "accuracy_low"), np.array(column(found, "accuracy_high")) - accuracy]
    other.errorbar(antennas, accuracy, bars, marker="s", color=GREY, elinewidth=1, label="accuracy (right)")
    other.set(ylabel="accuracy, same noise of the devices")
    other.set_ylim(0.0, 1.0)
    other.grid(False)
    handles, labels = (
        a + b for a, b in zip(*(each.get_legend_handles_labels() for each in (axes, other)), strict=True)
    )
    axes.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)
    axes.set_xticks(range(1, 9))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="measure again")
    if parser.parse_args().fresh:
        measure()
    copy_as_csv(NAMES, RESULTS, FIGURES)
    for ending in ("svg", "png"):
        with figure(FIGURES / f"antennas.{ending}", width=8.4, height=4.4) as (fig, axes):
            paint(fig, axes)


if __name__ == "__main__":
    main()
