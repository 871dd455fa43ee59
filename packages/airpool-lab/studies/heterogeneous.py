"""Half of the devices sensitive: what each way of design.heterogeneous is worth, the table of docs/theory/design.md.

python -m studies.heterogeneous      measures it again, in minutes, and writes results/heterogeneous.json
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from airpool import Channel, load
from airpool._support import files
from airpool._support.arrays import Floats
from airpool._support.version import __version__
from airpool.account.guarantee import guarantee
from airpool.evaluation.design import weights
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import DecoderFor, EncodedObjects
from airpool.network import Network
from airpool_lab.paper.figures.fig_hetero_16 import WAYS, Booleans, Way, designed


@dataclass(frozen=True)
class Row:
    """One way at one pair of targets. accuracy: one per noise seed; mean and standard deviation are over the seeds.

    strict, loose: the largest ε promised to a device of either kind. noise_std: of the sum, per coordinate, all taking
    part. mse: min_β E‖βẑ − (1/K) Σ z‖² on the calibration objects. weight_ratio, clip_ratio: a loose device's over a
    strict one's, means.
    """

    way: Way
    epsilon_strict: float
    epsilon_loose: float
    accuracy: tuple[float, ...]
    accuracy_mean: float
    accuracy_std: float
    strict: float
    loose: float
    noise_std: float
    mse: float
    weight_ratio: float
    clip_ratio: float

    def record(self) -> dict[str, Any]:
        return asdict(self)


def compare(
    latents: Tensor,
    labels: Tensor,
    *,
    calibration: Tensor,
    server: DecoderFor,
    epsilon_strict: Sequence[float],
    epsilon_loose: float,
    network: Network | None = None,
    strict: Sequence[int] | None = None,
    ways: Sequence[Way] = WAYS,
    seeds: Sequence[int] = (0, 1, 2),
    trials: int = 1,
    on_row: Callable[[Row], None] = lambda _: None,
) -> list[Row]:
    """Accuracy of every way at every strict ε, on latents (N, K, r) of objects that nothing was chosen on.

    calibration: latents (n, K, r) of other objects, for weights and clip norms. strict: the sensitive devices; left
    out, every other one. network: what all ways share (p, C, channel); left out, 12 like devices with p = 1 and C = 1.
    """
    _, count, dimension = latents.shape
    base = Network.uniform(num_devices=count, dimension=dimension) if network is None else network
    sensitive = _sensitive(strict, count)
    if len(seeds) < 1:
        raise ValueError("seeds must name at least one seed")
    rows: list[Row] = []
    known = calibration.double().cpu().numpy()
    for wanted in epsilon_strict:
        targets = np.where(sensitive, wanted, epsilon_loose)
        for way in ways:
            found = designed(way, base, known, targets=targets, sensitive=sensitive)
            report = guarantee(found)
            accuracy = tuple(
                evaluate(
                    EncodedObjects(latents, labels, server), found, trials=trials, seed=seed, report=report
                ).accuracy_mean
                for seed in seeds
            )
            rows.append(_row(way, wanted, epsilon_loose, accuracy, found, report.epsilon, sensitive, known))
            on_row(rows[-1])
    return rows


def _sensitive(strict: Sequence[int] | None, count: int) -> Booleans:
    chosen = list(range(0, count, 2)) if strict is None else list(strict)
    if not all(0 <= k < count for k in chosen):
        raise ValueError(f"strict={chosen} must name devices from 0 to {count - 1}")
    out = np.zeros(count, dtype=bool)
    out[chosen] = True
    if out.all() or not out.any():
        raise ValueError(f"strict={chosen} must be some of the {count} devices, neither none nor all")
    return out


def _row(
    way: Way,
    wanted: float,
    loose: float,
    accuracy: tuple[float, ...],
    network: Network,
    epsilon: Floats,
    sensitive: Booleans,
    calibration: Floats,
) -> Row:
    weight, clip, std = (np.array(network.devices.column(name)) for name in ("weight", "clip_norm", "noise_std"))

    def ratio(values: Floats) -> float:
        below = float(np.mean(values[sensitive]))
        return float(np.mean(values[~sensitive])) / below if below > 0 else float("inf")

    return Row(
        way=way,
        epsilon_strict=float(wanted),
        epsilon_loose=float(loose),
        accuracy=accuracy,
        accuracy_mean=float(np.mean(accuracy)),
        accuracy_std=float(np.std(accuracy, ddof=1)) if len(accuracy) > 1 else 0.0,
        strict=float(np.max(epsilon[sensitive])),
        loose=float(np.max(epsilon[~sensitive])),
        noise_std=float(np.sqrt(np.sum(std**2))),
        mse=weights.scaled_error(calibration, network),
        weight_ratio=ratio(weight),
        clip_ratio=ratio(clip),
    )


SETTINGS: dict[str, tuple[str, Network | None, tuple[float, ...], float, int]] = {
    # codec, what the ways share, strict targets, the others', transmissions of every object a seed
    "others 2": ("vote", None, (0.1, 0.3, 0.5, 1.0, 2.0), 2.0, 2),
    "others 8": ("vote", None, (0.1, 0.5, 1.0, 2.0, 4.0, 8.0), 8.0, 2),
    "Rician, others 8": (
        "vote",
        Network.uniform(
            num_devices=12, dimension=40, participation=0.9, channel=Channel(fading="rician", noise_std=0.1**0.5)
        ),
        (0.1, 0.5, 1.0, 2.0, 4.0, 8.0),
        8.0,
        1,
    ),
    "q16, others 8": ("q16", None, (0.1, 0.5, 1.0, 2.0, 4.0, 8.0), 8.0, 1),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results/heterogeneous.json")
    given, model = parser.parse_args(), load("modelnet40")
    found: dict[str, Any] = {}
    for name, (codec, network, strict, loose, trials) in SETTINGS.items():
        test, known = (model.held_out(split, codec=codec) for split in ("test", "validation"))
        ways: tuple[Way, ...] = WAYS if network is None and codec == "vote" else ("uniform", "weights", "without")
        rows = compare(
            test.latents,
            test.labels,
            calibration=known.latents,
            server=model.codec(codec).server,
            epsilon_strict=strict,
            epsilon_loose=loose,
            network=network,
            ways=ways,
            seeds=range(5),
            trials=trials,
            on_row=lambda row: print(row.way, row.epsilon_strict, row.epsilon_loose, f"{row.accuracy_mean:.4f}"),
        )
        found[name] = {"codec": codec, "trials": trials, "rows": [row.record() for row in rows]}
    made = {"command": "python -m studies.heterogeneous", "version": __version__, "seeds": list(range(5))}
    files.write(given.results, json.dumps({**made, "settings": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
