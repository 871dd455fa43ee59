"""airpool beside what else one could take: `python -m studies.comparison [--fresh]`.

Writes docs/figures/comparison.csv from results/comparison.json, and prints the table of results/comparison.md; --fresh
measures it again, in a minute or two. Twelve cameras, ideal channel, δ = 1e-5, zero-out neighbours, one inference; the
2,468 test objects of ModelNet40 (our renders), each TRIALS times, the same seed everywhere: ways that send the same
number of coordinates are measured on the same noise. Nothing is tuned here: all that is fitted was fitted to training
or validation objects.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from airpool import Channel, Claim, Network, calibrate, guarantee
from airpool.account import theorem1
from airpool.evaluation.evaluate import Evaluation, evaluate
from airpool.evaluation.objects import EncodedObjects, held_out
from airpool.models.pretrained import load
from airpool.network import Neighbours
from airpool_lab.sweep import run
from studies.tables import RESULTS, draw_or_measure, rows, save

NAME = "comparison"
EPSILONS = (1.0, 2.0, 4.0, 10.0)
TRIALS, SEED = 10, 0
OURS = Network.uniform(num_devices=12, dimension=40)
PAPER = Network.uniform(num_devices=12, dimension=784, participation=0.9)


@dataclass(frozen=True)
class Way:
    """One way to name the object. about: its row's name and what must be trusted.

    network: of a target ε, or of none where nothing is protected. server_noise: ε counts the noise at the server.
    """

    about: str
    trusts: str
    network: Callable[[float], Network]
    objects: Callable[[Network], EncodedObjects] = lambda net: held_out(load("modelnet40"), net, codec="vote")
    protected: bool = True
    server_noise: bool = False


def _calibrated(network: Network) -> Callable[[float], Network]:
    return lambda epsilon: calibrate(network, epsilon=epsilon)


def _central(epsilon: float) -> Network:
    """Noise drawn once, at the server: as much as twelve devices add together."""
    std = calibrate(OURS, epsilon=epsilon).devices.column("noise_std")[0] * math.sqrt(OURS.devices.count)
    return replace(OURS, devices=replace(OURS.devices, noise_std=0.0), channel=Channel(noise_std=std, gamma=1.0))


def _sure_votes(network: Network) -> EncodedObjects:
    """Each device votes for one class, and the class of the largest noisy sum wins."""
    objects = load("modelnet40").held_out("test").fitted(network.devices.count)
    votes = torch.nn.functional.one_hot(objects.posteriors.argmax(-1), objects.posteriors.shape[-1]).float()
    return EncodedObjects(votes, objects.labels, lambda level: lambda estimate: estimate)


def _q16(network: Network) -> EncodedObjects:
    return held_out(load("modelnet40"), network, codec="q16")


WAYS: dict[str, Way] = {
    "airpool": Way(
        "airpool over the air", "the other devices' noise; that signals add up at one antenna", _calibrated(OURS)
    ),
    "secure": Way(
        "airpool by secure sum",
        "the other devices' noise; cryptography",
        _calibrated(replace(OURS, channel=Channel(access="secure"))),
    ),
    "one-hot": Way(
        "noisy votes for one class each, over the air",
        "as airpool over the air",
        _calibrated(OURS),
        _sure_votes,
    ),
    "paper": Way(
        "the paper's scheme (q = 16, p = 0.9), noise by its Theorem 1",
        "as airpool over the air; the theorem",
        lambda epsilon: theorem1.calibrate(PAPER, epsilon=epsilon),
        _q16,
    ),
    "paper-exact": Way("the paper's scheme, noise by the exact ε", "as airpool over the air", _calibrated(PAPER), _q16),
    "central": Way(
        "a trusted server adds the noise",
        "the server, with every feature; ε is towards readers of the sum",
        _central,
        server_noise=True,
    ),
    "local": Way(
        "local noise on each device, one after the other",
        "nobody",
        _calibrated(replace(OURS, channel=Channel(access="orthogonal"))),
    ),
    "sum": Way(
        "secure aggregation without noise",
        "the server, with the exact sum; cryptography",
        lambda _: replace(OURS, devices=replace(OURS.devices, noise_std=0.0)),
        protected=False,
    ),
    "split": Way(
        "split inference without noise",
        "the server, with every feature",
        lambda _: replace(OURS, devices=replace(OURS.devices, noise_std=0.0), channel=Channel(access="orthogonal")),
        protected=False,
    ),
}


def measured(way: str, epsilon: float) -> dict[str, float | int | str]:
    """Accuracy of one way, beside its exact ε towards whoever receives what the server does."""
    chosen = WAYS[way]
    net = chosen.network(epsilon)
    found: Evaluation = evaluate(chosen.objects(net), net, trials=TRIALS, seed=SEED)
    report = guarantee(net, Claim(credit_channel_noise=chosen.server_noise))
    low, high = found.accuracy_ci
    return {
        "about": chosen.about,
        "epsilon_device": report.worst,
        "epsilon_remove": report.again(neighbours=Neighbours.REMOVE).worst,
        "epsilon_local": float(report.epsilon_local.max()),
        "accuracy": found.accuracy_mean,
        "accuracy_std": found.accuracy_std or 0.0,
        "accuracy_low": low,
        "accuracy_high": high,
        "objects": found.objects,
        "trials": found.trials,
        "noise_seed": SEED,
        "trusts": chosen.trusts,
    }


def measure() -> None:
    points = [
        {"way": name, "epsilon": epsilon}
        for name, way in WAYS.items()
        for epsilon in (EPSILONS if way.protected else (math.inf,))
    ]
    save(run(measured, points, command="python -m studies.comparison --fresh"), RESULTS / f"{NAME}.json")


def printed() -> list[str]:
    """Lines of the Markdown table of docs/results/comparison.md, from the stored results."""
    header = [
        *(f"ε = {epsilon:g}" for epsilon in EPSILONS),
        "ε of one device towards the server",
        "what must be trusted",
    ]
    lines = [f"| {' | '.join(['', *header])} |", "| --- " * (len(header) + 1) + "|"]
    for name in WAYS:
        mine = rows(RESULTS / f"{NAME}.json", way=name)
        cells = [f"{row['accuracy']:.3f}".removeprefix("0") for row in mine] * (len(EPSILONS) // len(mine))
        lines.append(f"| {' | '.join([str(mine[0]['about']), *cells, _towards(name, mine), str(mine[0]['trusts'])])} |")
    return lines


def _towards(name: str, mine: Any) -> str:
    """ε of a device towards the server, in words where it is not the target."""
    if name == "central":
        return "no limit"
    if all(row["epsilon_device"] == math.inf for row in mine):
        return "no limit"
    if name == "paper":
        zeroed, removed = (
            ", ".join(f"{math.ceil(100 * row[name]) / 100:.2f}" for row in mine)
            for name in ("epsilon_device", "epsilon_remove")
        )
        return f"exactly {zeroed}; by its own neighbours (removal) {removed}"
    return "as stated"


if __name__ == "__main__":
    draw_or_measure(__doc__, [NAME], {}, measure=measure)
    print("\n".join(printed()))
