"""The same ε over the air, over orthogonal radio and by a secure sum: `python -m studies.secure_comparison [--fresh]`.

Draws docs/figures/secure-sum.{svg,png} from results/secure-comparison.json in seconds; --fresh measures it again, in
minutes. Twelve cameras, the shipped vote on the test objects, δ = 1e-5, zero-out neighbours.

Energy and time of the link are models, with the numbers below; computing time is measured by `python -m benchmarks`.
Radio: symbols of 1 µs, one inference after the other, no pilots. Network: 10 Mbit/s shared by all, 50 nJ a bit sent or
received.
"""

from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes

from airpool import Channel, Network, calibrate
from airpool._support.figures import BLACK, BLUE, GREEN, PURPLE, RED, space_by_error
from airpool.evaluation.evaluate import evaluate
from airpool.models.pretrained import load
from airpool_lab.sweep import grid, run
from studies.tables import RESULTS, column, draw_or_measure, rows, save

NAME = "secure-comparison"
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
TRIALS = 10
RECEIVER_STD = float(np.sqrt(0.1))
SYMBOL_SECONDS, BITS_PER_SECOND, JOULES_PER_BIT = 1e-6, 10e6, 50e-9
RADIO = Channel(fading="rician", noise_std=RECEIVER_STD)
# Access, and how many devices may be missing.
WAYS: dict[str, tuple[Channel, int]] = {
    "ideal channel": (Channel(), 0),
    "over the air": (RADIO, 0),
    "orthogonal radio": (replace(RADIO, access="orthogonal"), 0),
    "secure sum of 12": (Channel(access="secure"), 0),
    "secure sum, 8 of 12": (Channel(access="secure"), 4),
}
TRUST = {
    "ideal channel": "physics: signals add up before anybody receives them",
    "over the air": "physics: one antenna, aligned signals; the others' noise",
    "orthogonal radio": "nobody",
    "secure sum of 12": "cryptography, a roster that the server did not write; the others' noise",
    "secure sum, 8 of 12": "the same, of any 8 of the 12",
}


def network(way: str, epsilon: float) -> Network:
    """The way's network with the least noise that meets ε."""
    channel, dropouts = WAYS[way]
    return calibrate(Network.uniform(num_devices=12, dimension=40, channel=channel, dropouts=dropouts), epsilon=epsilon)


def measured(way: str, epsilon: float, *, seed: int) -> dict[str, float | str]:
    """Accuracy with nobody missing, and what an inference costs each device and the link."""
    net = network(way, epsilon)
    found = evaluate(load("modelnet40"), net, trials=TRIALS, seed=seed)
    low, high = found.accuracy_ci
    if found.bytes_per_device is None:
        uses, bits = found.channel_uses, 0
        link, joules = uses * SYMBOL_SECONDS, found.energy / 12 * 1e-3 * SYMBOL_SECONDS
    else:
        uses, bits = 0, 8 * sum(found.bytes_per_device)
        link, joules = 12 * bits / BITS_PER_SECOND, bits * JOULES_PER_BIT
    return {
        "epsilon_device": found.report.worst,
        "epsilon_local": float(found.report.epsilon_local.max()),
        "noise_std": net.devices.column("noise_std")[0],
        "accuracy": found.accuracy_mean,
        "accuracy_low": low,
        "accuracy_high": high,
        "channel_uses": uses,
        "bytes_per_device": bits // 8,
        "link_seconds": link,
        "joules_per_device": joules,
        "trusts": TRUST[way],
    }


def measure() -> None:
    points = grid(way=list(WAYS), epsilon=EPSILONS)
    save(run(measured, points, command="python -m studies.secure_comparison --fresh"), RESULTS / f"{NAME}.json")


def paint(axes: Axes) -> None:
    looks = zip(
        WAYS, (BLACK, BLUE, RED, GREEN, PURPLE), ("", "o", "x", "s", "^"), ("--", "-", "-", "-", "-"), strict=True
    )
    for way, colour, marker, line in looks:
        mine = rows(RESULTS / f"{NAME}.json", way=way)
        accuracy = np.array(column(mine, "accuracy"))
        bars = [accuracy - column(mine, "accuracy_low"), np.array(column(mine, "accuracy_high")) - accuracy]
        axes.errorbar(
            column(mine, "epsilon"),
            accuracy,
            bars,
            color=colour,
            marker=marker,
            linestyle=line,
            label=way,
            elinewidth=1,
        )
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    space_by_error(axes)
    axes.set(xlabel="device ε at δ = 1e-5", ylabel="accuracy", ylim=(0.0, 0.94))
    axes.legend(loc="lower right")


if __name__ == "__main__":
    draw_or_measure(__doc__, [NAME], {"secure-sum": paint}, measure=measure)
