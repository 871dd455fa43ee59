"""Measures the table of `airpool reproduce fig-asymptotics`, in about a minute and a half on one core.

    python -m studies.fig_asymptotics                 writes airpool_lab/paper/figures/results/fig-asymptotics.json
    python -m studies.fig_asymptotics --out FOLDER    writes it to another folder

What is measured is said in airpool_lab.paper.figures.fig_asymptotics, which draws and judges it.
"""

import argparse
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from airpool._support.arrays import Floats
from airpool.account.calibration import calibrate
from airpool.models.pretrained import load
from airpool.network import Network
from airpool.radio.link import level
from airpool_lab.paper.figures.description import RESULTS
from airpool_lab.paper.figures.fig_asymptotics import COUNTS, DEPTHS, KINDS, NETS, REGIMES, TRIALS
from airpool_lab.paper.formulas.weights import bound
from airpool_lab.sweep import grid, run
from studies.asymptotics import device_error, resampled
from studies.depth import Layer, norm_bound, propagation, random_weights, relu_layers
from studies.depth_networks import halves, trained
from studies.tables import save

EPSILON, R, WIDTH = 2.0, 40, 128


@cache
def _private(num_devices: int, participation: float = 1.0) -> Network:
    return calibrate(
        Network.uniform(num_devices=num_devices, dimension=R, participation=participation), epsilon=EPSILON
    )


def _with_noise(num_devices: int, noise_std: float) -> Network:
    return Network.uniform(num_devices=num_devices, dimension=R, noise_std=noise_std)


def _twelve() -> float:
    return _private(12).devices.column("noise_std")[0]


# w = 1/K, C = 1. All the same at K = 12, but for the last.
NETWORKS: tuple[Callable[[int], Network], ...] = (
    lambda K: _with_noise(K, _twelve()),
    lambda K: _with_noise(K, _twelve() * 12 / K),
    _private,
    lambda K: _private(K, 0.9),
)


def row(*, part: str, kind: str, size: int, rng: np.random.Generator) -> dict[str, float]:
    """The error and what is said to bound it, at K or L = size; standard errors over trials or over networks."""
    return _devices(kind, size, rng) if part == "devices" else _depth(kind, size, rng)


def _devices(regime: str, count: int, rng: np.random.Generator) -> dict[str, float]:
    z = resampled(load().held_out("test").latents[::50].double().numpy(), count, rng=rng)
    network = dict(zip(REGIMES, NETWORKS, strict=True))[regime](count)
    found = device_error(z, network, rng=rng, trials=TRIALS)
    d, same = network.devices, np.eye(R)
    printed = bound(
        z,
        encoder=same,
        decoder=same,
        weight=d.column("weight"),
        noise_std=d.column("noise_std"),
        participation=d.column("participation"),
    )
    return {
        "error": found.measured_total,
        "error_se": found.measured_total_se,
        "exact": found.total,
        "bound": float(printed.mean()),
    }


def _depth(kind: str, depth: int, rng: np.random.Generator) -> dict[str, float]:
    clean, std = halves()[2].double().mean(1).numpy(), level(_private(12)).noise_std
    noisy = clean[:, None] + std * rng.standard_normal((len(clean), 10, R))
    start = float(np.mean(np.sum((noisy - clean[:, None]) ** 2, axis=-1)))
    errors, spreads, bounds = [], [], []
    for _ in range(NETS):
        weights, layers = _network(kind, depth, std, rng)
        found = propagation(layers, clean, noisy)[-1]
        errors.append(found.error)
        spreads.append(found.to_spread)
        bounds.append(norm_bound(weights, start)[-1])
    return {
        "error": float(np.mean(errors)),
        "error_se": float(np.std(errors, ddof=1) / NETS**0.5),
        "to_spread": float(np.mean(spreads)),
        "bound": float(np.mean(bounds)),
    }


def _network(kind: str, depth: int, std: float, rng: np.random.Generator) -> tuple[list[Floats], list[Layer]]:
    """Matrices and layers of one network; a trained one ends in its logits."""
    if kind == "random":
        drawn = random_weights(depth, WIDTH, inputs=R, rng=rng)
        return drawn, relu_layers(drawn)
    noise_std = std if kind == "trained with noise" else 0.0
    weights, biases = zip(*trained(depth, noise_std=noise_std, seed=int(rng.integers(2**31))), strict=True)
    return [*weights], [*relu_layers(weights[:-1], biases[:-1]), lambda h: h @ weights[-1].T + biases[-1]]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m studies.fig_asymptotics")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for fig-asymptotics.json")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    points = grid(part="devices", kind=list(REGIMES), size=COUNTS) + grid(part="depth", kind=list(KINDS), size=DEPTHS)
    table = run(row, points, seed=given.seed, command=f"python -m studies.fig_asymptotics --seed {given.seed}")
    given.out.mkdir(parents=True, exist_ok=True)
    save(table, given.out / "fig-asymptotics.json")


if __name__ == "__main__":
    main()
