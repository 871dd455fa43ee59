"""The pictures of a report: ε of each device, and of the object, on a logarithmic axis; a small one for notebooks."""

from collections.abc import Mapping
from textwrap import fill
from typing import Any

import numpy as np

from airpool._support.arrays import Floats
from airpool._support.figures import BLUE, GREY, ORANGE, RED, figure
from airpool._support.rounding import full, shown
from airpool.network import Network
from airpool.paper.formulas import theorem1

_WIDEST = 56  # characters of a line of the legend


def draw(
    path: str, network: Network, epsilons: Mapping[str, Any], reasons: Mapping[str, str], paper: theorem1.Claim
) -> None:
    """Writes the picture of a report's three ε and the paper's claim.

    An infinite ε is an arrow at the upper end of the axis, a 0 one at its lower end.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    k, whole = np.arange(network.devices.count), np.full(network.devices.count, epsilons["epsilon_object"])
    claim = "the paper's Theorem 1"
    series = [
        (whole, GREY, "D", "object: all views change", reasons.get("epsilon_object")),
        (epsilons["epsilon_local"], ORANGE, "s", "local: nobody else trusted", reasons.get("epsilon_local")),
        (paper.epsilon, RED, "x", f"{claim}: undefined" if paper.reason else claim, None),
        (epsilons["epsilon"], BLUE, "o", f"device: exact, {network.neighbours}", reasons.get("epsilon")),
    ]
    if paper.reason:  # undefined is not infinite: nothing is drawn of it
        series[2] = (np.full(len(k), np.nan), *series[2][1:])
    low, high = _limits([values for values, *_ in series])
    with figure(path, height=4.4) as (_, axes):
        axes.set_yscale("log")
        axes.set_ylim(low, high)
        for values, colour, marker, label, why in series:
            there = np.isfinite(values) & (values > 0)
            same = len(set(values[there].tolist())) == 1
            known = f"{label}: ε = {shown(float(values[there][0]))}" if same else label
            known += f"; ▲ infinite: {why}" if why else ""
            axes.plot(k[there], values[there], marker, color=colour, label=fill(known, _WIDEST), markersize=5)
            for end, at, arrow in ((np.isposinf(values), high, "^"), (values == 0, low, "v")):
                axes.plot(k[end], np.full(int(end.sum()), at), arrow, color=colour, clip_on=False, markersize=7)
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 1000 * low else (1.0,)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("device")
        axes.set_ylabel(f"ε at δ = {full(network.delta)}")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=1)


def compared(device: Floats, local: Floats, whole: float) -> str:
    """A small drawing as HTML, without Matplotlib: ε of the worst device from the sum, local, and of the object."""
    from airpool._support.notebook import Dot, dots

    worst = (("device, in the sum", device, BLUE), ("device, alone (local)", local, ORANGE), ("object", whole, GREY))
    rows = [(label, float(np.max(values)), colour) for label, values, colour in worst]
    return dots([Dot(label, value, f"ε = {shown(value)}", colour=colour) for label, value, colour in rows], axis="ε")


def _limits(values: list[Floats]) -> tuple[float, float]:
    """Ends of the axis with every finite ε between them, and a margin."""
    all_values = np.concatenate(values)
    inside = all_values[np.isfinite(all_values) & (all_values > 0)]
    if not len(inside):
        return 0.1, 10.0
    return float(inside.min()) / 1.5, float(inside.max()) * 1.5
