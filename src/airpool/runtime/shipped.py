"""Latents and labels that ship with airpool, as one device has them: NumPy and safetensors, no torch."""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import airpool
from airpool.arrays import Floats
from airpool.runtime.encoders import voted

_ASSETS = Path(airpool.__file__).parent / "assets"


def latents(model: str, split: str, codec: str | None, device: int, devices: int) -> tuple[Floats, Floats]:
    """Latents (N, r) and posteriors (N, L) of one device; with more devices than cameras, these repeat."""
    manifest = _manifest(model)
    codec = codec or next(iter(manifest["codecs"]))
    if codec not in manifest["codecs"]:
        raise ValueError(f"codec {codec!r} must be one of {', '.join(manifest['codecs'])}")
    posteriors = _tensors(model, f"{manifest['codecs'][codec]}-{split}.safetensors")["posteriors"]
    view = camera(device, devices, posteriors.shape[1])
    own = posteriors[:, view].astype(np.float32)
    if codec.startswith("vote"):
        return voted(own, sharpness(model, codec)).astype(np.float64), own.astype(np.float64)
    packed = _tensors(model, f"{codec}-{split}.safetensors")
    inside = packed["latents"][:, view].astype(np.float32) * packed["step"]
    if "basis" in packed:
        inside = inside @ packed["basis"].astype(np.float32) + packed["centre"]
    return inside.astype(np.float64), own.astype(np.float64)


def labels(model: str, split: str) -> list[int]:
    first = next(iter(_manifest(model)["codecs"].values()))
    return _tensors(model, f"{first}-{split}.safetensors")["labels"].astype(int).tolist()


def camera(device: int, devices: int, cameras: int) -> int:
    """Which of the model's cameras a device has: evenly spaced ones, or all of them in turn (Objects.fitted)."""
    return device * cameras // devices if devices < cameras else device % cameras


def sharpness(model: str, codec: str) -> float:
    from safetensors import safe_open

    with safe_open(_file(model, f"{codec}.safetensors"), framework="np") as file:  # pyright: ignore
        return float(json.loads((file.metadata() or {})["about"])["vote"]["sharpness"])


def _manifest(model: str) -> dict[str, Any]:
    path = _ASSETS / model / "manifest.json"
    if not path.exists():
        there = ", ".join(sorted(each.parent.name for each in _ASSETS.glob("*/manifest.json")))
        raise ValueError(f"no shipped latents of model {model!r}: there is {there}")
    return json.loads(path.read_text("utf-8"))


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
