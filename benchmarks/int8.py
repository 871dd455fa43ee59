"""What int8 costs: accuracy on real views, of a trunk in float32 and of the same trunk in int8, side by side.

    python -m benchmarks.int8 WEIGHTS.safetensors --meshes MESHES.npz.xz [--objects 100] [--json FILE]

Weights in several parts are named one after the other. Int8 is fitted to views of the training split, and both are
measured on the validation split; the test set is not read. All 976 objects take several minutes on 2 cores.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from airpool.models.vision.mvcnn import MVCNN, pool_views
from airpool.models.vision.views import Cameras
from airpool_lab.vision.cad import Meshes, read
from airpool_lab.vision.quantisation import Int8Module, quantise
from airpool_lab.vision.renders import renders
from airpool_lab.vision.runs import some_rows

CALIBRATION_VIEWS = 120
_OBJECTS = 8  # at a time


def calibration_views(data: Meshes, count: int, resolution: int) -> Tensor:
    """Views (count, 2, H, H) of the training split: one each of so many objects, evenly over objects and cameras."""
    rows = some_rows(data.indices("train"), count)
    views = renders(data, rows, Cameras(resolution=resolution))
    return views[torch.arange(len(rows)), torch.arange(len(rows)) % views.shape[1]].float() / 255


def batches(data: Meshes, rows: NDArray[np.intp], resolution: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Views (n, 12, 2, H, H) and labels (n,) of these objects, a few at a time."""
    for start in range(0, len(rows), _OBJECTS):
        some = rows[start : start + _OBJECTS]
        views = renders(data, some, Cameras(resolution=resolution))
        yield views.float() / 255, torch.from_numpy(data.label[some])


@torch.no_grad()
def compared(model: MVCNN, whole: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
    """Accuracy of the model with its own trunk and with `whole`, each over all views of an object, and how they differ.

    difference_std: of the difference, the objects drawn anew; both see the same ones, so it is small.
    changed: share of objects whose label differs. map_error: ‖int8 - float32‖ / ‖float32‖ over all single maps;
    pooled_error: over the maps pooled over views, which are what is classified.
    """
    model = model.eval().to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    right: list[Tensor] = []
    changed, seconds = 0, np.zeros(2)
    errors = torch.zeros(2, 2, dtype=torch.float64)  # single and pooled; of the difference and of float32
    for views, labels in batches:
        flat = views.flatten(0, 1).contiguous(memory_format=torch.channels_last)
        start = time.perf_counter()
        exact = model.features(flat)
        middle = time.perf_counter()
        rounded = whole(flat)
        seconds += middle - start, time.perf_counter() - middle
        maps = [each.unflatten(0, views.shape[:2]) for each in (exact, rounded)]
        pooled = [pool_views(each, pooling=model.architecture.pooling) for each in maps]
        found = torch.stack([model.classifier(each).argmax(1) for each in pooled])
        right.append(found == labels)
        changed += int((found[0] != found[1]).sum())
        for index, (one, other) in enumerate((maps, pooled)):
            errors[index] += torch.stack([(other - one).double().square().sum(), one.double().square().sum()])
    hits = torch.cat(right, 1).double()
    count = hits.shape[1]
    single, pooled_error = (errors[:, 0] / errors[:, 1]).sqrt().tolist()
    return {
        "objects": count,
        "float32": float(hits[0].mean()),
        "int8": float(hits[1].mean()),
        "difference": float((hits[1] - hits[0]).mean()),
        "difference_std": float((hits[1] - hits[0]).std()) / count**0.5,
        "changed": changed / count,
        "map_error": single,
        "pooled_error": pooled_error,
        "times_faster": float(seconds[0] / seconds[1]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", type=Path, nargs="+")
    parser.add_argument("--meshes", type=Path, required=True)
    parser.add_argument("--objects", type=int, default=None, help="so many of the validation split, evenly; all of it")
    parser.add_argument("--calibration", type=int, default=CALIBRATION_VIEWS, help="views that int8 is fitted to")
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    from airpool.models import weights

    model, _ = weights.load(args.weights)
    data, resolution = read(args.meshes), model.architecture.resolution
    whole = Int8Module(quantise(model.features, calibration_views(data, args.calibration, resolution)))
    rows = some_rows(data.indices("validation"), args.objects)

    def shown() -> Iterator[tuple[Tensor, Tensor]]:
        for done, batch in enumerate(batches(data, rows, resolution)):
            print(f"\r{done * _OBJECTS} of {len(rows)} objects", end="", file=sys.stderr, flush=True)
            yield batch
        print("\r", end="", file=sys.stderr)

    result: dict[str, Any] = {"split": "validation", "calibration_views": args.calibration}
    result |= compared(model, whole, shown())
    text = json.dumps(result, indent=1)
    print(text)
    if args.json:
        args.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
