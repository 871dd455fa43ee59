"""Latents and labels of held-out objects, as one device has them.

Those of ModelNet40 are read with NumPy and safetensors; a model of your own sensors needs torch. Files hold one class
after the other. Here objects come in a shuffled order, the same for every device and machine, so that the first hundred
are of many classes.
"""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import airpool
from airpool.arrays import Floats
from airpool.runtime.encoders import voted

SPLITS = ("test", "validation")
_ASSETS = Path(airpool.__file__).parent / "assets"


def latents(model: str, split: str, codec: str | None, device: int, devices: int) -> tuple[Floats, Floats]:
    """Latents (N, r) and posteriors (N, L) of one device; with more devices than cameras, these repeat."""
    if not _has_manifest(model):
        held = _fitted(model, split, codec).fitted(devices)
        turn = order(len(held))
        mine = (each[turn, device].double().numpy() for each in (held.latents, held.posteriors))
        return next(mine), next(mine)
    manifest = _manifest(model)
    codec = codec or next(iter(manifest["codecs"]))
    if codec not in manifest["codecs"]:
        raise ValueError(f"codec {codec!r} must be one of {', '.join(manifest['codecs'])}")
    posteriors = _tensors(model, f"{manifest['codecs'][codec]}-{split}.safetensors")["posteriors"]
    view = camera(device, devices, posteriors.shape[1])
    turn = order(len(posteriors))
    own = posteriors[turn, view].astype(np.float32)
    if codec.startswith("vote"):
        return voted(own, sharpness(model, codec)).astype(np.float64), own.astype(np.float64)
    packed = _tensors(model, f"{codec}-{split}.safetensors")
    inside = packed["latents"][turn, view].astype(np.float32) * packed["step"]
    if "basis" in packed:
        inside = inside @ packed["basis"].astype(np.float32) + packed["centre"]
    return inside.astype(np.float64), own.astype(np.float64)


def labels(model: str, split: str) -> list[int]:
    if not _has_manifest(model):
        known = _fitted(model, split, None).labels.tolist()
        return [int(known[place]) for place in order(len(known))]
    first = next(iter(_manifest(model)["codecs"].values()))
    found = _tensors(model, f"{first}-{split}.safetensors")["labels"]
    return found[order(len(found))].astype(int).tolist()


@cache
def order(objects: int) -> list[int]:
    """The place in the file of the first object, of the second, and so on."""
    return sorted(range(objects), key=lambda place: hashlib.sha256(b"%d" % place).digest())


def camera(device: int, devices: int, cameras: int) -> int:
    """Which of the model's cameras a device has: evenly spaced ones, or all of them in turn (Objects.fitted)."""
    return device * cameras // devices if devices < cameras else device % cameras


def sharpness(model: str, codec: str) -> float:
    from safetensors import safe_open

    with safe_open(_file(model, f"{codec}.safetensors"), framework="np") as file:  # pyright: ignore
        return float(json.loads((file.metadata() or {})["about"])["vote"]["sharpness"])


def _has_manifest(model: str) -> bool:
    return (_ASSETS / model / "manifest.json").is_file()


def _fitted(model: str, split: str, codec: str | None) -> Any:
    """The held-out objects of a model that `airpool.fit` made: shipped, or your own file. Needs torch."""
    from airpool.models.pretrained import load

    if split not in SPLITS:
        raise ValueError(f"held-out objects {split!r} must be {' or '.join(SPLITS)}")
    return load(model).held_out(split, codec=codec)


def _manifest(model: str) -> dict[str, Any]:
    return json.loads((_ASSETS / model / "manifest.json").read_text("utf-8"))


@cache
def _file(model: str, name: str) -> Path:
    known = _manifest(model)["files"]
    if name not in known:
        raise ValueError(f"{name} is not a file of {model!r}; held-out objects are test or validation")
    path = _ASSETS / model / name
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != known[name]["sha256"]:
            raise ValueError(f"{path}: damaged; install airpool again")
    return path


@cache
def _tensors(model: str, name: str) -> dict[str, Any]:
    from safetensors.numpy import load_file

    return load_file(_file(model, name))
