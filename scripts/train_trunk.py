"""Trains trunks on ModelNet40's voxel renders and writes what came of it: the runs behind docs/models.md.

    PYTHONPATH=src python scripts/train_trunk.py VOXELS.npz --out DIR --runs '[{"name": "base"}, ...]'

Needs torch, NumPy and safetensors only, and one GPU (a CPU with --objects for a trial). Each run overrides fields of
Recipe or Architecture, or "channels" (of "shading", "depth"); "test": true reads the test set once, at the end;
"keep": true keeps the weights. Views are rendered once for all runs. `--seconds` stops before a run that would not fit.
"""

import argparse
import json
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from airpool.data import modelnet, views
from airpool.models.heads import fit_temperature
from airpool.models.train import Images, Recipe, Trained, predictions, train
from airpool.models.vgg import Architecture
from airpool.version import __version__

CHANNELS = ("shading", "depth")


def some(rows: np.ndarray, count: int | None) -> np.ndarray:
    """So many of the rows, evenly spread: the file is ordered by class."""
    return rows if count is None else rows[:: max(1, len(rows) // count)][:count]


def turned(packed: np.ndarray, device: torch.device, resolution: int, seed: int) -> torch.Tensor:
    """All views (N, 12, 2, H, H) as bytes, each object turned a little: up to 15 degrees, elevation up to 4."""
    out = torch.empty(len(packed), packed.shape[1], 2, resolution, resolution, dtype=torch.uint8, device=device)
    rng = np.random.default_rng(seed)
    for start in range(0, len(packed), 16):
        bits = torch.from_numpy(packed[start : start + 16]).to(device)
        azimuth, elevation = rng.uniform(-15, 15), rng.uniform(26, 34)
        images = views.render(
            views.unpack(bits).flatten(0, 1),
            azimuth_deg=azimuth,
            elevation_deg=elevation,
            resolution=resolution,
            fit=True,
        )
        out[start : start + 16] = (images.unflatten(0, bits.shape[:2]) * 255).round().byte()
    return out


def rendered(packed: np.ndarray, device: torch.device, resolution: int) -> torch.Tensor:
    """All views (N, 12, 2, H, H) as bytes."""
    out = torch.empty(len(packed), packed.shape[1], 2, resolution, resolution, dtype=torch.uint8, device=device)
    for start in range(0, len(packed), 64):
        bits = torch.from_numpy(packed[start : start + 64]).to(device)
        out[start : start + 64] = (views.object_views(views.unpack(bits), resolution=resolution) * 255).round().byte()
    return out


def measured(trained: Trained, images: Images, without: torch.Tensor, classes: list[str]) -> dict[str, Any]:
    """Accuracy on the test set: of instances, of classes, without the objects that also stand in the training set."""
    found = predictions(trained.model, images).argmax(1)
    right = found == images.labels
    confusion = torch.zeros(len(classes), len(classes), dtype=torch.int64, device=found.device)
    confusion.index_put_((images.labels, found), torch.ones_like(found), accumulate=True)
    per_class = confusion.diag() / confusion.sum(1).clamp(min=1)
    keep = torch.ones_like(right)
    keep[without] = False
    return {
        "instance": float(right.float().mean()),
        "class_mean": float(per_class.mean()),
        "without_duplicates": float(right[keep].float().mean()),
        "per_class": {name: round(float(x), 4) for name, x in zip(classes, per_class, strict=True)},
        "confusion": confusion.tolist(),
    }


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


def weights(trained: Trained, path: Path) -> None:
    """The trunk and the classifier, half precision, with the recipe in the header."""
    from safetensors.torch import save_file

    tensors = {k: v.half().contiguous().cpu() for k, v in trained.model.state_dict().items() if v.is_floating_point()}
    # A file of at most 16 MB can be carried back from a lent machine: the trunk in two parts.
    late = {k: v for k, v in tensors.items() if k.startswith(("features.18", "features.22", "features.25"))}
    about = {"about": json.dumps(trained.record() | {"version": __version__})}
    save_file({k: v for k, v in tensors.items() if k not in late}, path.with_suffix(".1.safetensors"), metadata=about)
    save_file(late, path.with_suffix(".2.safetensors"), metadata=about)


def main() -> None:  # noqa: PLR0915
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("voxels", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", required=True, help="JSON list, or a file that holds one")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--objects", type=int, default=None, help="use so few objects only, for a trial")
    parser.add_argument("--copies", type=int, default=0, help="so many more renderings of each, turned a little")
    parser.add_argument("--resolution", type=int, default=112)
    args = parser.parse_args()
    begin = time.perf_counter()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    runs = json.loads(args.runs if args.runs.lstrip().startswith("[") else Path(args.runs).read_text())
    args.out.mkdir(parents=True, exist_ok=True)

    data = modelnet.read(args.voxels)
    labels = torch.from_numpy(np.asarray(data.labels)).to(device)
    parts: dict[str, Images] = {}
    for part in ("train", "validation", "test"):
        rows = some(modelnet.split(data, part), args.objects)
        parts[part] = Images(rendered(data.objects[rows], device, args.resolution), labels[torch.as_tensor(rows)])
    position = {int(row): i for i, row in enumerate(some(modelnet.split(data, "test"), args.objects))}
    twins = torch.tensor(
        [position[int(row)] for row in modelnet.duplicates(data) if int(row) in position], dtype=torch.int64
    )
    if args.copies:
        rows = some(modelnet.split(data, "train"), args.objects)
        more = [turned(data.objects[rows], device, args.resolution, seed) for seed in range(args.copies)]
        parts["pool"] = Images(torch.cat([parts["train"].views, *more], 1), parts["train"].labels)
        del more
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
        keep = [CHANNELS.index(name) for name in run.get("channels", CHANNELS)]
        source = parts | ({"train": parts["pool"]} if run.get("turned") else {})
        source.pop("pool", None)
        shown = (
            source
            if len(keep) == 2
            else {k: Images(v.views[:, :, keep].contiguous(), v.labels) for k, v in source.items()}
        )
        built = Architecture(**{"in_channels": len(keep), "resolution": args.resolution, **architecture})
        trained = train(recipe, built, shown["train"], validation=shown["validation"], log=lambda text: None)
        seconds = time.perf_counter() - start
        longest = max(longest, seconds / (recipe.epochs * recipe.views))
        result: dict[str, Any] = {"name": run["name"], "seconds": seconds, **trained.record(), "version": __version__}
        result |= watched(trained, shown["validation"])
        result["validation"] = trained.history[-1]["validation"]
        if run.get("test"):
            result["test"] = measured(trained, shown["test"], twins.to(device), list(data.classes))
        if run.get("keep"):
            weights(trained, args.out / run["name"])
            committee.append(predictions(trained.model, shown["validation"]).softmax(1))
            found = torch.stack(committee).mean(0)
            result["committee"] = float((found.argmax(1) == shown["validation"].labels).float().mean())
            print(f"committee of {len(committee)}: validation={result['committee']:.4f}", flush=True)
        results.append(result)
        about = {k: v for k, v in run.items() if k != "name"}
        test = f" test={result['test']['instance']:.4f}" if "test" in result else ""
        print(
            f"{run['name']} {about} validation={result['validation']:.4f} nll={result['nll']:.4f} "
            f"single={result['single']:.4f} single_nll={result['single_nll']:.4f}"
            f"{test} {seconds:.0f} s",
            flush=True,
        )
        (args.out / "results.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
