"""Reads the test set, once, for trunks that are final: the numbers of docs/results/models.md and of the manifest.

    python -m studies.read_test MESHES.npz.xz --logits lite2=FILE lite2=FILE lite2=FILE vgg11=FILE ... \
        --codecs RESULTS.json ... --out RESULTS.json

--logits: of each seed's trunk, the one that ships first. From its validation logits come temperatures and vote; then
the test objects are named without noise (all views together, and each alone) and by the vote through every network of
NETWORKS. Over all objects, over those with a real mesh, and over those that are no twins of a training object.
--codecs: what studies/train_codecs.py measured of its final runs; taken over as it is.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from airpool import Channel, Network, calibrate
from airpool._support import files
from airpool.models import local
from airpool.models.codecs import vote
from airpool.protocol.simulation import receive
from airpool.radio.link import level
from airpool_lab.vision import cad

TRIALS = 20
TWELVE = Network.uniform(num_devices=12, clip_norm=1.0, noise_std=0.05, dimension=40)
RICIAN = replace(TWELVE, channel=Channel(fading="rician", k_factor_db=4.8, noise_std=0.1**0.5))
NETWORKS = {f"{e:g}": calibrate(TWELVE, epsilon=e) for e in (1.0, 2.0, 4.0, 10.0)}
NETWORKS["rician 2"] = calibrate(RICIAN, epsilon=2.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshes", type=Path)
    parser.add_argument("--logits", nargs="+", required=True, metavar="TRUNK=FILE")
    parser.add_argument("--codecs", type=Path, nargs="*", default=[])
    parser.add_argument("--split", default="test", choices=("test", "validation"), help="validation: for a trial")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    meshes = cad.read(args.meshes)
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for trunk, file in (each.split("=", 1) for each in args.logits):
        found[trunk].append(measured(load_file(file), meshes, args.split))
        print(trunk, file, json.dumps(found[trunk][-1]["all"]), flush=True)
    results: dict[str, Any] = {"split": args.split, "trials": TRIALS}
    results |= {trunk: {"seeds": len(each), **spread(each)} for trunk, each in found.items()}
    for path in args.codecs:
        final = [run for run in json.loads(path.read_text("utf-8")) if "test" in run]
        for name in dict.fromkeys(run["name"] for run in final):
            own = [run["test"] for run in final if run["name"] == name]
            results[name] = {
                setting: _moments([accuracy for test in own for accuracy, _ in test[setting]]) for setting in own[0]
            }
    files.write(args.out, json.dumps(results, indent=1) + "\n")


@torch.no_grad()
def measured(logits: Mapping[str, Tensor], meshes: cad.Meshes, split: str) -> dict[str, dict[str, float]]:
    """Accuracies of one trunk, for each group of objects."""
    known = torch.from_numpy(meshes.label[logits["validation_index"].numpy()])
    temperatures = local.fit_temperatures(logits["validation"].float(), known)
    fitted = vote.fit(local.posteriors(logits["validation"].float(), temperatures), known)
    rows = logits[f"{split}_index"].numpy()
    seen, labels = logits[split].float(), torch.from_numpy(meshes.label[rows])
    right = {
        "no noise": (seen.mean(1).argmax(-1) == labels).double(),
        "one view": (seen.argmax(-1) == labels[:, None]).double().mean(1),
    }
    latents = fitted.encoder(local.posteriors(seen, temperatures))
    for name, net in NETWORKS.items():
        serve, rng = fitted.server(level(net)), torch.Generator().manual_seed(0)
        named = torch.cat(
            [serve(receive(z, net, rng=rng, trials=TRIALS).estimate).argmax(-1) for z in latents.split(64)]
        )
        right[name] = (named == labels[:, None]).double().mean(1)
    groups = {"all": np.ones(len(rows), bool), "cad": meshes.source[rows] == "cad", "no twins": ~meshes.twin[rows]}
    accuracies = {
        group: {name: float(each[torch.from_numpy(chosen)].mean()) for name, each in right.items()}
        for group, chosen in groups.items()
    }
    per_class = {name: fmean(float(each[labels == c].mean()) for c in labels.unique()) for name, each in right.items()}
    return accuracies | {"classes": per_class}


def spread(each: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Mean, standard deviation and all values over the seeds."""
    return {group: {name: _moments([one[group][name] for one in each]) for name in each[0][group]} for group in each[0]}


def _moments(values: list[float]) -> dict[str, Any]:
    return {"mean": fmean(values), "std": stdev(values) if len(values) > 1 else None, "each": values}


if __name__ == "__main__":
    main()
