"""Labels that int8 changes: of the shipped trunk on ModelNet40's objects, and of the ImageNet trunk on photographs.

    python -m benchmarks.int8_labels --meshes MESHES.npz.xz --photos ETH80.npz --json FILE [--objects 100]

Float32 and ONNX Runtime see the same views. On 16 cores and a GPU, all objects take five minutes; on 2 cores an hour.
"""

import argparse
import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import airpool
from airpool._support.version import __version__
from airpool.models.codecs import codec as codecs
from airpool.models.images import trunk as image_trunk
from airpool.models.vision import picture
from airpool.models.vision.int8 import Int8Trunk
from airpool.models.vision.views import Cameras
from airpool_lab.bundle import calibration_views
from airpool_lab.vision import cad
from airpool_lab.vision.quantisation import quantise
from airpool_lab.vision.renders import renders
from airpool_lab.vision.runs import some_rows

TORCH_DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CALIBRATION_VIEWS = 120
FOLDS = 5


@torch.no_grad()
def exact(trunk: nn.Module, views: Tensor) -> Tensor:
    """Averages (n, F) of the maps of views (n, C, H, H), bytes, in float32."""
    trunk = trunk.to(TORCH_DEVICE).eval()
    return torch.cat([trunk(some.to(TORCH_DEVICE).float() / 255).mean((-2, -1)).cpu() for some in views.split(64)])


def rounded(trunk: Int8Trunk, views: Tensor) -> Tensor:
    """The same in int8."""
    return torch.cat([torch.from_numpy(trunk(some.numpy())).mean((-2, -1)) for some in views.split(16)])


def differences(labels: Callable[[Tensor], tuple[Tensor, Tensor]], one: Tensor, other: Tensor) -> dict[str, Any]:
    """Of single views and of the vote over all views: how many labels there are, and how many change."""
    (single, vote), (new_single, new_vote) = labels(one), labels(other)
    return {
        "views": single.numel(),
        "views_changed": int((single != new_single).sum()),
        "objects": vote.numel(),
        "votes_changed": int((vote != new_vote).sum()),
        "feature_error": float((other - one).norm() / one.norm()),
    }


def modelnet(meshes: Path, objects: int | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """The shipped model, int8 fitted to our own shapes, as `airpool bundle` does."""
    model, data = airpool.load("modelnet40"), cad.read(meshes)
    whole = quantise(model.trunk.features, calibration_views(model, CALIBRATION_VIEWS), threads=os.cpu_count())
    vote = model.codec("vote")

    @torch.no_grad()
    def labels(averages: Tensor) -> tuple[Tensor, Tensor]:
        posteriors = model._posteriors(averages)
        return posteriors.argmax(-1), codecs.encoded(vote, {"posterior": posteriors}).sum(1).argmax(-1)

    for split in ("validation", "test"):
        rows, found = some_rows(data.indices(split), objects), []
        for start in range(0, len(rows), 128):
            views = renders(data, rows[start : start + 128], Cameras(resolution=224), torch_device=TORCH_DEVICE).cpu()
            flat = views.flatten(0, 1)
            pair = exact(model.trunk.features, flat), rounded(whole, flat)
            found.append(torch.stack([each.unflatten(0, views.shape[:2]) for each in pair]))
        yield f"ModelNet40, {split}", differences(labels, *torch.cat(found, 1))


def photographs(path: Path) -> tuple[str, dict[str, Any]]:
    """ETH-80 with linear heads that were fitted to other objects; int8 is fitted to pictures of four fifths of them."""
    z = np.load(path)
    jpeg, start, fold = z["jpeg"], z["start"], z["object"] % FOLDS
    rows = np.arange(len(fold))
    pictures = (io.BytesIO(jpeg[start[i] : start[i + 1]].tobytes()) for i in rows)
    views = torch.from_numpy(np.stack([picture.prepared(picture.read(each), image_trunk.SIDE) for each in pictures]))
    shown = np.flatnonzero(fold[rows] > 0)
    some = np.random.default_rng(0).choice(shown, min(CALIBRATION_VIEWS, len(shown)), replace=False)
    layers = image_trunk.shipped().layers()
    whole = quantise(layers, views[np.sort(some)], threads=os.cpu_count())
    one, other = exact(layers, views), rounded(whole, views)
    targets, named = torch.from_numpy(z["label"][rows].astype(np.int64)), torch.from_numpy(z["object"][rows])
    posteriors = {}
    for each in range(FOLDS):
        held = torch.from_numpy(fold[rows] == each)
        head = _linear(one[~held], targets[~held])
        posteriors |= {int(name): (held & (named == name), head) for name in named[held].unique()}

    @torch.no_grad()
    def labels(averages: Tensor) -> tuple[Tensor, Tensor]:
        said = [head(averages[mine]).softmax(-1) for mine, head in posteriors.values()]
        return torch.cat([each.argmax(-1) for each in said]), torch.stack([each.sum(0).argmax() for each in said])

    return "ETH-80", differences(labels, one, other)


def _linear(features: Tensor, labels: Tensor) -> Callable[[Tensor], Tensor]:
    """A linear classifier of standardised features."""
    centre, scale = features.mean(0), features.std(0) + 1e-3
    layer = nn.Linear(features.shape[1], int(labels.max()) + 1)
    optimizer = torch.optim.AdamW(layer.parameters(), 3e-3, weight_decay=0.1)
    for _ in range(300):
        loss = nn.functional.cross_entropy(layer((features - centre) / scale), labels, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return lambda x: layer((x - centre) / scale)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--meshes", type=Path, required=True)
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--objects", type=int, default=None, help="so many of each split of ModelNet40, evenly; all")
    parser.add_argument("--json", type=Path, required=True)
    args = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    found: dict[str, Any] = {"version": __version__, "seed": 0, "calibration_views": CALIBRATION_VIEWS}
    for name, each in (photographs(args.photos), *modelnet(args.meshes, args.objects)):
        found[name] = each
        print(name, each, flush=True)
    args.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
