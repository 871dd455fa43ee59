"""Superposed against orthogonal access at equal device ε: `python -m studies.air_figures`, in about half a minute.

Computes every number of docs/theory/air.md's comparison, measures it in simulation, writes CSV and paints SVG and PNG.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from airpool import Channel, Claim, Network, calibrate
from airpool._support.arrays import Floats
from airpool._support.figures import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, figure, write_csv
from airpool._support.version import __version__
from airpool.privacy import gaussian
from airpool.protocol.simulation import receive
from airpool.radio.fading import sample_gains
from airpool.radio.link import Link, link_of
from airpool.radio.moments import alignment_moments
from studies.tables import FIGURES

R, DELTA, RECEIVER_VAR, POWER_DBM, TRIALS = 64, 1e-5, 0.1, 30.0, 2_000
COUNTS = (1, 2, 3, 4, 6, 8, 12, 24, 48, 96)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 10.0)
POWERS_DBM = (30.0, 20.0, 10.0, 0.0, -10.0, -20.0)

# What is compared; all use K·r real channel uses but the first, which uses r.
KINDS = ("superposed", "superposed, repeated", "orthogonal", "orthogonal, full power")


@dataclass(frozen=True)
class Outcome:
    """E‖ẑ − Σwz‖²: by formula, and measured with its standard error; and the energy of all devices together, in mW."""

    formula: float
    measured: float
    error: float
    energy: float


def network(kind: str, num_devices: int, epsilon: float, power_dbm: float = POWER_DBM) -> Network:
    """Rician fading, w = 1/K, C = 1, p = 1, γ auto; the least noise that gives every device this ε."""
    found = calibrated("orthogonal" if kind.startswith("orthogonal") else "superposed", num_devices, epsilon)
    devices = replace(found.devices, power_dbm=power_dbm)
    # The same noisy signal K times, averaged by the server, costs no privacy and leaves 1/K of the receiver's noise.
    times = num_devices if kind == "superposed, repeated" else 1
    channel = replace(found.channel, noise_std=float(np.sqrt(RECEIVER_VAR / times)))
    return replace(found, devices=devices, channel=channel)


@cache
def calibrated(access: Any, num_devices: int, epsilon: float) -> Network:
    channel = Channel(fading="rician", k_factor_db=4.8, access=access)
    start = Network.uniform(num_devices=num_devices, dimension=R, channel=channel)
    return calibrate(start, Claim(delta=DELTA), epsilon=epsilon)


def aligned_mse(net: Network) -> float:
    """docs/theory/accuracy.md with g ∈ {0, 1}: bias and spread from outage, the devices' noise, and the receiver's.

    All devices see the same unit vector, so that Σwz = z has length 1.
    """
    link, count = link_of(net), net.devices.count
    outage, std = float(link.outage[0]), net.devices.column("noise_std")[0]
    receivers = count * (1 - outage) if net.channel.access == "orthogonal" else 1
    receiver = receivers * (net.channel.noise_std / link.gamma) ** 2
    return outage**2 + outage * (1 - outage) / count + R * (count * (1 - outage) * std**2 + receiver)


def full_power(net: Network, epsilon: float) -> Link:
    """The radio of devices that always send, as loud as they may (`reach`), whatever their channel.

    The server hears h·s·z̃ + m, s = reach, and divides by h·s. Always heard, and alone, a device is protected by its own
    noise only. E[1/h²] is infinite under Rician fading, so the server leaves out the same 1 % of the weakest channels.
    """
    std = float(gaussian.noise_multiplier(epsilon, DELTA)) / net.devices.count
    return link_of(replace(net, devices=replace(net.devices, noise_std=std)))


def full_power_mse(net: Network, epsilon: float) -> tuple[float, float]:
    """By formula, and the energy of all devices."""
    count, link = net.devices.count, full_power(net, epsilon)
    sent = link.transmitters
    outage, amplitude, reach, std = (float(x[0]) for x in (link.outage, sent.amplitude, sent.reach, sent.noise_std))
    inverse = float(alignment_moments(link.fading, sent, gamma=link.gamma).inverse_square[0])
    noise = count * ((1 - outage) * std**2 + RECEIVER_VAR / reach**2 * inverse)
    return outage**2 + outage * (1 - outage) / count + R * noise, count * (reach * amplitude) ** 2


def full_power_errors(net: Network, epsilon: float, rng: np.random.Generator) -> Floats:
    """‖ẑ − Σwz‖² of each trial, simulated through the stations."""
    count, link = net.devices.count, full_power(net, epsilon)
    reach, std = float(link.transmitters.reach[0]), float(link.transmitters.noise_std[0])
    gain = sample_gains(link.fading, (TRIALS, count), rng)
    away = np.zeros((TRIALS, R))
    for k in range(count):
        h = gain[:, k, None]
        noisy = feature() / count + std * rng.standard_normal((TRIALS, R))
        heard = h * reach * noisy + np.sqrt(RECEIVER_VAR) * rng.standard_normal((TRIALS, R))
        away += (h >= link.gamma / reach) * heard / (h * reach) - feature() / count
    return np.sum(away**2, axis=1)


def feature() -> Floats:
    return np.eye(1, R)[0]


def outcome(kind: str, num_devices: int, epsilon: float) -> Outcome:
    net = network(kind, num_devices, epsilon)
    rng = np.random.default_rng([KINDS.index(kind), num_devices, int(10 * epsilon)])
    if kind == "orthogonal, full power":
        formula, sent = full_power_mse(net, epsilon)
        squares = full_power_errors(net, epsilon, rng)
    else:
        formula = aligned_mse(net)
        seen = receive(np.broadcast_to(feature(), (1, num_devices, R)).copy(), net, rng=rng, trials=TRIALS)
        squares = np.sum((seen.estimate[0] - feature()) ** 2, axis=1)
        sent = float(seen.energy.mean()) * (num_devices if kind == "superposed, repeated" else 1)
    return Outcome(formula, float(squares.mean()), float(squares.std() / np.sqrt(TRIALS)), sent)


def compare() -> dict[tuple[str, int, float], Outcome]:
    found = {(k, n, e): outcome(k, n, e) for k in KINDS for n in COUNTS for e in EPSILONS}
    off = [abs(x.measured - x.formula) / x.error for x in found.values()]
    print(f"{len(off)} cases: measured and formula differ by at most {max(off):.1f} standard errors")
    rows = [
        (kind, n, e, network(kind, n, e).devices.column("noise_std")[0], x.formula, x.measured, x.error, x.energy)
        for (kind, n, e), x in found.items()
    ]
    names = ("access", "devices", "epsilon", "noise std", "mse", "mse measured", "standard error", "energy in mW")
    comment = (
        f"airpool {__version__}; r = {R}, C = 1, w = 1/K, p = 1, delta = {DELTA:g}, P = {POWER_DBM:g} dBm, receiver "
        f"noise variance {RECEIVER_VAR:g} per real coordinate, Rician 4.8 dB, outage 1 %, {TRIALS} trials"
    )
    columns: dict[str, Any] = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    write_csv(FIGURES / "superposed-vs-orthogonal.csv", columns, comment=comment)
    return found


def gain(kind: str, against: str, epsilon: float, power_dbm: float) -> list[float]:
    """How many times smaller the error of one is than that of the other, by formula, for all COUNTS."""

    def mse(which: str, count: int) -> float:
        net = network(which, count, epsilon, power_dbm)
        return full_power_mse(net, epsilon)[0] if which == "orthogonal, full power" else aligned_mse(net)

    return [mse(against, n) / mse(kind, n) for n in COUNTS]


def pays_from(kind: str, against: str, epsilon: float, power_dbm: float) -> str:
    """The least of COUNTS from which on one has the smaller error; a tie at K = 1 is none."""
    wins = [times > 1 + 1e-3 for times in gain(kind, against, epsilon, power_dbm)]
    if not wins[-1]:
        return "never"
    return str(COUNTS[max((i for i, won in enumerate(wins) if not won), default=-1) + 1])


def print_tables(found: dict[tuple[str, int, float], Outcome]) -> None:
    for epsilon in EPSILONS:
        print(f"\nε = {epsilon:g}\n| K | {' | '.join(KINDS)} |\n| --- |{' --- |' * len(KINDS)}")
        for n in COUNTS:
            cells = [found[kind, n, epsilon] for kind in KINDS]
            print(f"| {n} | {' | '.join(f'{x.measured:.3g} ± {x.error:.1g}' for x in cells)} |")
    print("\nenergy of all devices in one inference, K = 12, in mW:")
    for epsilon in EPSILONS:
        print(f"ε = {epsilon:g}:", {kind: round(found[kind, 12, epsilon].energy) for kind in KINDS})
    for kind in KINDS[:2]:
        for against in KINDS[2:]:
            print(f"\n{kind} beats {against} from K =\n| P in dBm | {' | '.join(f'ε = {e:g}' for e in EPSILONS)} |")
            for power_dbm in POWERS_DBM:
                cells = [pays_from(kind, against, e, power_dbm) for e in EPSILONS]
                print(f"| {power_dbm:g} | {' | '.join(cells)} |")


def paint(fig: Figure, axes: Axes, found: dict[tuple[str, int, float], Outcome]) -> None:
    axes.remove()
    left, right = fig.subplots(1, 2)
    styles = zip(KINDS, (BLUE, SKY, RED, ORANGE), ("-", "--", "-", "--"), "os^v", strict=True)
    for kind, colour, line, marker in styles:
        cells = [found[kind, n, 1.0] for n in COUNTS]
        left.plot(COUNTS, [x.formula for x in cells], line, color=colour, linewidth=1.2)
        bars = [3 * x.error for x in cells]
        measured = [x.measured for x in cells]
        left.errorbar(COUNTS, measured, bars, fmt=marker, color=colour, markersize=3.5, label=kind, elinewidth=1)
    left.set(xscale="log", yscale="log", xlabel="K, number of devices", ylabel="E‖ẑ − Σwz‖² (‖Σwz‖ = 1)")
    left.set_title("device ε = 1")
    left.legend(loc="lower left")
    for power_dbm, colour, marker in zip(POWERS_DBM[:4], (BLUE, GREEN, ORANGE, PURPLE), "os^D", strict=True):
        ratio = gain("superposed", "orthogonal, full power", 1.0, power_dbm)
        right.plot(COUNTS, ratio, marker=marker, markersize=3.5, color=colour, label=f"P = {power_dbm:g} dBm")
    right.plot(COUNTS, COUNTS, ":", color=GREY, label="K times")
    right.axhline(1, color=BLACK, linewidth=0.8)
    right.set(xscale="log", yscale="log", xlabel="K, number of devices", ylabel="times smaller error")
    right.set_title("superposed over orthogonal, full power; ε = 1")
    right.legend(loc="upper left")
    for side in (left, right):
        side.set_xticks([1, 2, 4, 8, 12, 24, 48, 96], [str(n) for n in (1, 2, 4, 8, 12, 24, 48, 96)], minor=False)
        side.minorticks_off()


def main() -> None:
    found = compare()
    print_tables(found)
    for ending in ("svg", "png"):
        with figure(FIGURES / f"superposed-vs-orthogonal.{ending}", width=8.4, height=4.0) as (fig, axes):
            paint(fig, axes, found)


if __name__ == "__main__":
    main()
