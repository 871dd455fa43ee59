"""Trains trunks on ModelNet40's voxel renders and compares them on the validation split: the runs of docs/models.md.

    PYTHONPATH=src python -m studies.train_trunk VOXELS.npz --out DIR --runs '[{"name": "base"}, ...]'

Needs torch, NumPy and safetensors only, and one GPU (a CPU with --objects for a trial). Each run overrides fields of
Recipe or Architecture, or "channels" (of "shading", "depth"); "keep": true keeps the weights. Views are rendered once
for all runs. `--seconds` stops before a run that would not fit. The test set is not read: `airpool train` does that.
"""

import argparse
import json
import time
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from airpool import files
from airpool.data import dataset, modelnet
from airpool.data.views import renders
from airpool.models import weights
from airpool.models.features import Images
from airpool.models.heads import fit_temperature
from airpool.models.runs import some_rows
from airpool.models.train import Recipe, Trained, predictions, train
from airpool.models.vgg import Architecture
from airpool.version import __version__

CHANNELS = ("shading", "depth")


@torch.no_grad()
def watched(trained: Trained, images: Images) -> dict[str, float]:
    """Finer measures of the validation set than accuracy: log loss at its best temperature, and of single views."""
    pooled = predictions(trained.model, images)
    each = torch.stack(
        [
            predictions(trained.model, Images(images.views[:, k : k + 1], images.labels))
            for k in range(images.views.shape[1])
        ],
        1,
    ).flatten(0, 1)
    repeated = images.labels.repeat_interleave(images.views.shape[1])

    def loss(logits: torch.Tensor, labels: torch.Tensor) -> float:
        return float(torch.nn.functional.cross_entropy(logits / fit_temperature(logits, labels), labels))

    return {
        "nll": loss(pooled, images.labels),
        "single": float((each.argmax(1) == repeated).float().mean()),
        "single_nll": loss(each, repeated),
    }


def record(trained: Trained) -> dict[str, Any]:
    """What a results file says of a trained model."""
    architecture = asdict(trained.model.architecture)
    return {"recipe": asdict(trained.recipe), "architecture": architecture, "history": list(trained.history)}


def keep(trained: Trained, path: Path) -> None:
    """The trunk and the classifier, in two files: one of at most 16 MB can be carried back from a lent machine."""
    tensors = trained.model.state_dict()
    late = {k: v for k, v in tensors.items() if k.startswith(("features.18", "features.22", "features.25"))}
    early = {k: v for k, v in tensors.items() if k not in late}
    for number, part in enumerate((early, late), start=1):
        weights.write(path.with_suffix(f".{number}.safetensors"), part, record(trained))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("voxels", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", required=True, help="JSON list, or a file that holds one")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--objects", type=int, default=None, help="use so few objects only, for a trial")
    parser.add_argument("--resolution", type=int, default=112)
    args = parser.parse_args()
    begin = time.perf_counter()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    runs = json.loads(args.runs if args.runs.lstrip().startswith("[") else Path(args.runs).read_text())
    args.out.mkdir(parents=True, exist_ok=True)

    data = dataset.read(args.voxels)
    labels = torch.from_numpy(np.asarray(data.labels)).to(device)
    parts: dict[str, Images] = {}
    for part in ("train", "validation"):
        rows = some_rows(modelnet.split(data, part), args.objects)
        parts[part] = Images(
            renders(data.objects[rows], resolution=args.resolution, torch_device=device), labels[torch.as_tensor(rows)]
        )
    print(f"rendered in {time.perf_counter() - begin:.1f} s", {k: len(v) for k, v in parts.items()}, flush=True)

    results: list[dict[str, Any]] = []
    committee: list[torch.Tensor] = []
    longest = 0.0
    for run in runs:
        start = time.perf_counter()
        recipe, architecture = (
            {f.name: run[f.name] for f in fields(kind) if f.name in run} for kind in (Recipe, Architecture)
        )
        recipe = Recipe(**recipe)
        if start - begin + longest * recipe.epochs * recipe.views > args.seconds:
            print(f"{run['name']}: left out, no time", flush=True)
            continue
        chosen = [CHANNELS.index(name) for name in run.get("channels", CHANNELS)]
        shown = parts
        if len(chosen) < len(CHANNELS):
            shown = {k: Images(v.views[:, :, chosen].contiguous(), v.labels) for k, v in parts.items()}
        built = Architecture(**{"in_channels": len(chosen), "resolution": args.resolution, **architecture})
        trained = train(recipe, built, shown["train"], validation=shown["validation"], log=lambda text: None)
        seconds = time.perf_counter() - start
        longest = max(longest, seconds / (recipe.epochs * recipe.views))
        result: dict[str, Any] = {"name": run["name"], "seconds": seconds, **record(trained), "version": __version__}
        result |= watched(trained, shown["validation"])
        result["validation"] = trained.history[-1]["validation"]
        if run.get("keep"):
            keep(trained, args.out / run["name"])
            committee.append(predictions(trained.model, shown["validation"]).softmax(1))
            found = torch.stack(committee).mean(0)
            result["committee"] = float((found.argmax(1) == shown["validation"].labels).float().mean())
            print(f"committee of {len(committee)}: validation={result['committee']:.4f}", flush=True)
        results.append(result)
        about = {k: v for k, v in run.items() if k != "name"}
        print(
            f"{run['name']} {about} validation={result['validation']:.4f} nll={result['nll']:.4f} "
            f"single={result['single']:.4f} single_nll={result['single_nll']:.4f}"
            f" {seconds:.0f} s",
            flush=True,
        )
        files.write(args.out / "results.json", json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
