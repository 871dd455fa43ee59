"""Inferences until a device's ledger refuses: asked until sure, against the cheapest single slot of equal accuracy.

    python -m benchmarks.budget [--orders 20] [--seed 1] [--run N] [--out FILE]

All roles in one process, twelve cameras, live noise, ModelNet40 test latents, the shipped vote; device 0 has a ledger
with a budget of ε = 8 (δ = 1e-5, zero-out neighbours). An inference starts only if its cap is left. The accuracy is
`evaluate`'s, 20 trials of every test object; the single slot is the one of smallest ε, in steps of 0.01, whose accuracy
is at least that of the slots. Inferences with slots are counted over several random orders of the objects, those of
single slots once: their number does not depend on what is seen.
"""

import argparse
import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from airpool import Network, calibrate, evaluate
from airpool._support.version import __version__
from airpool.evaluation.objects import EncodedObjects, held_out
from airpool.models.pretrained import load
from airpool.network import Slots
from airpool_runtime import device as devices
from airpool_runtime.air import Air
from airpool_runtime.charge import Counted, booked
from airpool_runtime.device import Device, Seen
from airpool_runtime.keys import authority
from airpool_runtime.ledger.budget import Budget
from airpool_runtime.loopback import LoopbackDevice
from airpool_runtime.server import InferenceResult, Server, codec_of

DEVICES, CLASSES, BUDGET, TRIALS = 12, 40, 8.0, 20
# Cap, and what is asked until when.
RUNS = (
    (2.0, Slots(16, sure=0.9895)),
    (2.0, Slots(16, sure=0.995)),
    (4.0, Slots(64, sure=0.9934)),
    (4.0, Slots(64, sure=0.997)),
    (4.0, Slots(64, sure=0.999)),
    (2.0, Slots(64, sure=0.9953)),
)


def network(epsilon: float, slots: Slots) -> Network:
    return calibrate(Network.uniform(num_devices=DEVICES, dimension=CLASSES, slots=slots), epsilon=epsilon)


def accuracy(net: Network) -> float:
    return evaluate(load("modelnet40"), net, trials=TRIALS).accuracy_mean


def cheapest(wanted: float, most: float) -> tuple[float, float]:
    """The smallest ε of a single slot whose accuracy is at least this, in steps of 0.01, and its accuracy.

    Where none up to `most` has it, `most`, with its accuracy, which is then below.
    """
    low, high, found = 50, round(100 * most), accuracy(network(most, Slots()))
    if found < wanted:
        return most, found
    while low < high:
        middle = (low + high) // 2
        here = accuracy(network(middle / 100, Slots()))
        low, high, found = (middle + 1, high, found) if here < wanted else (low, middle, here)
    return high / 100, found


async def lasted(net: Network, objects: EncodedObjects, order: Any, key: Path, folder: Path) -> list[InferenceResult]:
    """Results of a system until the ledger of device 0 refuses."""
    latents = objects.latents.double().numpy()[order]

    def source(k: int) -> Callable[[int], Seen]:
        return lambda number: Seen(latents[number % len(latents), k])

    charges = [booked(folder / "ledger.db", key, net, 0, [Budget(BUDGET)]), *(Counted() for _ in range(1, DEVICES))]
    air = Air(net, patience=0.2)
    hosted = [Device(k, net, source(k), charges[k]) for k in range(DEVICES)]
    tasks = [asyncio.create_task(devices.run(each, LoopbackDevice(air, each.index))) for each in hosted]
    server, found = Server(net, codec_of("modelnet40", net), air), list[InferenceResult]()
    try:
        while (result := await server.infer()).status != "below quorum":
            found.append(result)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    spent = charges[0].spent()
    assert spent is not None
    assert spent[1] <= BUDGET
    return found


def counted(net: Network, orders: int, seed: int) -> dict[str, Any]:
    """Inferences until the ledger refuses, over orders of the objects."""
    objects, rng = held_out(load("modelnet40"), net), np.random.default_rng(seed)
    numbers, slots, right, of = list[int](), 0, 0, np.asarray(objects.labels)
    for _ in range(orders):
        order = rng.permutation(len(of))
        with TemporaryDirectory() as name:
            folder = Path(name)
            authority.create(folder / "keys")
            key = authority.add(folder / "keys", "device-0") / "identity.key"
            found = asyncio.run(lasted(net, objects, order, key, folder))
        numbers.append(len(found))
        slots += sum(each.slots for each in found)
        right += sum(each.label == of[order[each.number]] for each in found)
    total = sum(numbers)
    mean = total / orders
    return {
        "inferences": mean,
        "inferences_se": float(np.std(numbers, ddof=1) / orders**0.5) if orders > 1 else 0.0,
        "orders": orders,
        "slots_of_one": slots / total,
        "right": float(right / total),
    }


def measured(cap: float, slots: Slots, orders: int, seed: int) -> dict[str, Any]:
    net = network(cap, slots)
    wanted = accuracy(net)
    epsilon, single = cheapest(wanted, cap)
    several, one = counted(net, orders, seed), counted(network(epsilon, Slots()), 1, seed)
    return {
        "cap": cap,
        "slots": asdict(slots),
        "accuracy": wanted,
        "until_sure": several,
        "single_slot": {"epsilon": epsilon, "accuracy": single, "inferences": one["inferences"]},
        "times_as_many": several["inferences"] / one["inferences"],
        "times_as_many_se": several["inferences_se"] / one["inferences"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run", type=int, choices=range(len(RUNS)), help="this one alone")
    parser.add_argument("--out", type=Path, help="file to write; results of other runs in it are kept")
    given = parser.parse_args()
    about = {"version": __version__, "date": f"{datetime.now(UTC):%Y-%m-%d}", "seed": given.seed, "trials": TRIALS}
    about |= {"data": "modelnet40 test", "devices": DEVICES, "budget_epsilon": BUDGET, "delta": 1e-5}
    for run in range(len(RUNS)) if given.run is None else [given.run]:
        found = measured(*RUNS[run], given.orders, given.seed)
        print(json.dumps(found), flush=True)
        if given.out:
            before = json.loads(given.out.read_text())["runs"] if given.out.exists() else {}
            text = json.dumps(about | {"runs": dict(sorted((before | {str(run): found}).items()))}, indent=1)
            given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
