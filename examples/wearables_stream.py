"""Frames of one scene as slots: five units on a body send segment after segment, and the server stops when it is sure.

    python examples/wearables_stream.py                                 # the shipped model: subject 8, in a minute
    python examples/wearables_stream.py wearables/subject-*.safetensors --out stream.json

The models are those of `examples/wearables.py`. A scene is a minute of one activity, twelve segments of 5 s in time
order. Each slot sends the latent of the next segment with fresh noise, so that the server waits for as many segments as
it needs; beside it, one slot of the first segment, and slots that repeat the first segment.

The account: each segment is a slot with a latent of its own. All of a unit's segments of the scene may be replaced by
zero, and each slot is one use of the same mechanism, so the cap is the same twelve-fold composition, however early the
server stops (docs/proofs/privacy.md). The mean that is spent is a figure, promised to nobody. The threshold is the
smallest that reaches, on the validation subject, the accuracy of going to the cap less half a point.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import airpool
from airpool._support.version import __version__
from airpool.account.lifetime import one_slot_mu
from airpool.evaluation.inferences import traces
from airpool.evaluation.objects import EncodedObjects
from airpool.models.model import Model
from airpool.models.stored import HeldOut
from airpool.network import Network, Slots

MINUTE = 12  # segments of a scene
CAPS = (2.0, 4.0, 8.0)
LOSS = 0.005  # of accuracy, that stopping early may cost on the validation subject
TRIALS = 40


def scenes(model: Model, split: HeldOut, *, moving: bool) -> EncodedObjects:
    """Minutes of one activity: the latents of the first segment, and of those that follow where the scene moves on."""
    held = model.held_out(split)
    order = torch.argsort(held.labels, stable=True)  # segments of one activity follow each other in time
    latents = held.latents[order].unflatten(0, (-1, MINUTE))
    server, labels = model.codec().server, held.labels[order][::MINUTE]
    return EncodedObjects(latents[:, 0], labels, server, frames=latents[:, 1:] if moving else None)


def network(model: Model, epsilon: float, slots: int) -> Network:
    bare = Network.uniform(num_devices=5, dimension=model.codec().dimension, slots=Slots(slots))
    return airpool.calibrate(bare, epsilon=epsilon)


def measured(model: Model, epsilon: float, *, slots: int, moving: bool) -> dict[str, float]:
    """Accuracy on the test subject, mean slots and Σμ² of a scene, and the threshold from the validation subject."""
    net, sure = network(model, epsilon, slots), 1.0
    if slots > 1:
        known = traces(scenes(model, "validation", moving=moving), net, trials=TRIALS)
        sure = known.smallest_sure(float(known.right[-1].mean()) - LOSS) or 1.0
    net = replace(net, slots=replace(net.slots, sure=sure))
    found = airpool.evaluate(scenes(model, "test", moving=moving), net, trials=TRIALS)
    mean, mu = 1.0 if found.slots is None else found.slots.mean, one_slot_mu(net)
    assert mu is not None
    return {"sure": sure, "accuracy": found.accuracy_mean, "slots": mean, "mu_square": mean * mu**2}


def study(models: list[Model]) -> dict[str, Any]:
    """Mean and standard deviation over the models of each kind of scene at each cap."""
    kinds = {
        "one slot": {"slots": 1, "moving": False},
        "slots of one segment": {"slots": MINUTE, "moving": False},
        "segments as slots": {"slots": MINUTE, "moving": True},
    }
    out: dict[str, Any] = {}
    for kind, how in kinds.items():
        for cap in CAPS:
            each = [measured(model, cap, **how) for model in models]
            rows = {name: np.array([row[name] for row in each]) for name in each[0]}
            spread = {name: None if len(each) == 1 else float(x.std(ddof=1)) for name, x in rows.items()}
            out.setdefault(kind, {})[f"{cap:g}"] = {
                name: {"mean": float(x.mean()), "std": spread[name]} for name, x in rows.items()
            }
    about = {"version": __version__, "seed": 0, "trials": TRIALS, "delta": 1e-5, "loss": LOSS}
    return {"scenes": out, "about": about | {"models": [model.name for model in models]}}


def show(found: dict[str, Any]) -> None:
    print(f"{'':22} {'cap ε':>6} {'accuracy':>16} {'slots, mean':>12} {'Σμ², mean':>10}   (promised: the cap)")
    for kind, caps in found["scenes"].items():
        for cap, row in caps.items():
            accuracy, std = row["accuracy"]["mean"], row["accuracy"]["std"]
            text = f"{accuracy:.3f}" + ("" if std is None else f" ± {std:.3f}")
            print(f"{kind:22} {cap:>6} {text:>16} {row['slots']['mean']:12.2f} {row['mu_square']['mean']:10.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="*", help="files of examples/wearables.py; the shipped one if none")
    parser.add_argument("--out", type=Path, help="write the results (JSON)")
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = study([airpool.load(file) for file in given.models] or [airpool.load("wearables")])
    show(found)
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
