"""Trains trunks on renders of ModelNet40's CAD models and measures them on the validation split.

    PYTHONPATH=src python -m studies.train_trunk MESHES.npz.xz --kind lite2 --imagenet LITE2.pth --seed 0 1 2 \
        --state STATE --out DIR --seconds 540
    PYTHONPATH=src python -m studies.train_trunk MESHES.npz.xz --kind vgg11 --resolution 224 --state STATE --out DIR

Needs torch, NumPy and safetensors only, and one GPU. Renders into its memory, trains each seed by the trunk's recipe
(`--set NAME=VALUE` changes a field), and writes to DIR, in files of at most 15 MB: NAME-SEED.safetensors, the weights,
in parts if need be; NAME-SEED-logits.safetensors, the logits of all validation and test views (N, 12, 40) and the
objects' indices; NAME-SEED.json, the plan and the validation numbers. Labels of the test set are not read. After
`--seconds` it stops with its state in STATE; the same command goes on from there.
A trial on a CPU: `--objects 4 --set epochs=1 --set objects=2 --set views=1 --set extra_views=1`.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from airpool._support import files
from airpool.models import loop, weights
from airpool.models.vision.mvcnn import Architecture
from airpool_lab.training.work import Splits
from airpool_lab.vision import runs
from airpool_lab.vision.cad import Split
from airpool_lab.vision.runs import Source, TrunkPlan
from airpool_lab.vision.training import RECIPES, TrunkRecipe, predictions

LARGEST = 15_000_000  # bytes of a file


def main(arguments: Sequence[str] | None = None) -> None:
    begin, args = time.perf_counter(), parsed(arguments)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    for folder in (args.out, args.state):
        folder.mkdir(parents=True, exist_ok=True)
    source = runs.source(args.meshes, limit=args.objects)
    values = {name: json.loads(value) for name, _, value in (each.partition("=") for each in args.set)}
    architecture = Architecture(args.kind, num_classes=len(source.classes), resolution=args.resolution)
    recipe, architecture = loop.settled(
        values,
        RECIPES.get(args.kind, TrunkRecipe()),
        architecture,
        fixed=("seed", "trunk", "num_classes", "in_channels"),
    )
    splits = Splits(source, architecture.resolution, recipe.extra_views, device)

    def say(text: str) -> None:
        print(f"{time.perf_counter() - begin:6.1f} s  {text}", flush=True)

    for seed in args.seed:
        name = f"{args.name or args.kind}-{seed}"
        file = args.state / f"{name}.safetensors"
        plan = TrunkPlan(source.record(), architecture, replace(recipe, seed=seed), args.imagenet, source.classes)
        if not runs.made(file, plan):
            train, validation = splits.images("train"), splits.images("validation")
            assert train is not None
            say(f"{name}: {tuple(train.views.shape)} training views on {device}")
            left = args.seconds - (time.perf_counter() - begin)
            if left <= 0 or not runs.make(file, plan, train, validation, seconds=left, log=say):
                say(f"{name}: not finished; run the same command again")
                return
        numbers = keep(args.out / name, file, source, splits)
        say(f"{name}: " + " ".join(f"{key}={value:.4f}" for key, value in numbers.items()))


def keep(out: Path, file: Path, source: Source, splits: Splits) -> dict[str, float]:
    """Writes the weights in `file`, their logits and their record beside `out`; returns the validation numbers."""
    model, about = weights.load(file, device=splits.torch_device)
    tensors, header = files.read_tensors(file)
    pieces = list(parts(tensors))
    for number, piece in enumerate(pieces, 1):
        suffix = f".{number}.safetensors" if len(pieces) > 1 else ".safetensors"
        files.write_tensors(out.with_name(out.name + suffix), piece, header)
    kept: dict[str, Tensor] = {}
    numbers: dict[str, float] = {}
    held_out: tuple[Split, ...] = ("validation", "test")
    for which in held_out:
        images = splits.images(which)
        if images is not None:
            logits = predictions(model, images, single=True)
            kept[which], kept[f"{which}_index"] = logits.half(), torch.from_numpy(source.rows[which])
            if which == "validation":
                one_view = (logits.argmax(-1) == images.labels[:, None]).double().mean(1)
                no_noise = (predictions(model, images).argmax(-1) == images.labels).double()
                for name, right in (("one_view", one_view), ("no_noise", no_noise)):
                    numbers[name] = float(right.mean())
                    per_class = [right[images.labels == c].mean() for c in images.labels.unique()]
                    numbers[f"{name}_classes"] = float(torch.stack(per_class).mean())
    files.write_tensors(out.with_name(f"{out.name}-logits.safetensors"), kept)
    record: dict[str, Any] = {**about, "split": source.split(), "validation": numbers, "torch": torch.__version__}
    record |= {"file": source.path.name, "sha256": runs.sha256(file)}
    files.write(out.with_name(f"{out.name}.json"), json.dumps(record, indent=1) + "\n")
    return numbers


def parts(tensors: dict[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """The tensors in groups of at most LARGEST bytes."""
    part: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if part and sum(each.nbytes for each in part.values()) + tensor.nbytes > LARGEST:
            yield part
            part = {}
        part[name] = tensor
    yield part


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshes", type=Path)
    parser.add_argument("--kind", default="lite2", help="lite0, lite1, lite2 or vgg11")
    parser.add_argument("--imagenet", type=Path, help="ImageNet weights of Lite (pth or safetensors)")
    parser.add_argument("--resolution", type=int, default=0)
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a field of the recipe, as JSON"
    )
    parser.add_argument("--seed", type=int, nargs="+", default=[0])
    parser.add_argument("--name", help="of the files (default: the kind)")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--state", type=Path, required=True, help="folder of checkpoints and finished weights")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="from the start of this command")
    parser.add_argument("--objects", type=int, default=None, help="use at most N objects of each split")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
