"""Twelve clips for `--source video:demo`: our own shapes on a turntable, in changing light, with a sensor's noise.

The shipped trunk reads shading and depth, so these are depth cameras: their frames are (h, w, 2). Views are rendered
once, in seconds, and kept in a folder of caches; light and noise are added as a clip plays. Clips go by the machine's
clock, so that all cameras show one moment: each object stands there for three seconds, and turns by a third.
"""

import hashlib
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airpool._support import files
from airpool._support.extras import load
from airpool._support.version import __version__
from airpool.models import assets
from airpool.models.vision import shapes
from airpool_runtime.capture import Pixels

MODEL = "modelnet40"
SHAPES = (
    *("airplane_0", "bathtub_1", "bed_2", "bookshelf_1", "bottle_1", "bowl_0", "car_2", "chair_1", "cone_0"),
    *("desk_1", "guitar_0", "keyboard_1", "laptop_2", "monitor_0", "sofa_2", "toilet_1"),
)
ANGLES, SECONDS, RATE = 36, 3.0, 12.0  # views of each shape around it; seconds that it stands there; frames a second
_NOISE = 3.0  # standard deviation, of 255
_DIMMED, _PERIOD = 0.25, 17.0  # depth and period of the light's changes, in seconds
_RESOLUTION = 224


def shape_at(moment: float) -> str:
    """The class of the shape that the clips show at a moment.

    >>> shape_at(0.0), shape_at(SECONDS)
    ('airplane', 'bathtub')
    """
    return SHAPES[int(moment / SECONDS) % len(SHAPES)].rpartition("_")[0]


def folder() -> Path:
    """The folder of caches: AIRPOOL_CACHE, or airpool in that of the system."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("AIRPOOL_CACHE") or Path(home) / "airpool")


def views() -> Path:
    """The file of the views (shapes, ANGLES, 2, H, H), bytes; rendered if it is not there yet."""
    key = hashlib.sha256(shapes.file().read_bytes() + repr((SHAPES, ANGLES, _RESOLUTION)).encode()).hexdigest()[:12]
    path = folder() / f"demo-views-{key}.npy"
    if not path.exists():
        load("torch", "rendering the clips of video:demo, which is done once,")
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with files.opened(path) as file:
            np.save(file, _rendered())
    return path


def bundle(codec: str | None = None) -> Path:
    """The bundle of the shipped model, which reads the clips; made once with torch: a minute."""
    manifest = assets.folder("video:demo") / MODEL / "manifest.json"
    key = hashlib.sha256(manifest.read_bytes() + f"{codec} {__version__}".encode()).hexdigest()[:12]
    path = folder() / f"demo-bundle-{key}.zip"
    if not path.exists():
        load("onnx", "the trunk of video:demo, which is made once,")
        from airpool_runtime import bundle as bundles

        made = load("airpool_lab.bundle", "the trunk of video:demo, which is made once,").made(MODEL, codec=codec)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        bundles.write(path, made)
    return path


class Player:
    """The clip of one camera of the ring, in real time; a reader of capture.py."""

    def __init__(self, device: int, devices: int) -> None:
        self._views: NDArray[Any] = np.load(views(), mmap_mode="r")
        self._first = device * ANGLES / devices
        self._phase = 2 * np.pi * device / devices
        self._rng = np.random.default_rng(device)

    def read(self) -> Pixels | None:
        time.sleep(1 / RATE - time.time() % (1 / RATE))
        return self.at(time.time())

    def at(self, moment: float) -> Pixels:
        """The frame (h, w, 2) of a moment."""
        shape, turned = divmod(moment / SECONDS, 1.0)
        angle = int(self._first + turned * ANGLES / 3) % ANGLES
        grey, depth = self._views[int(shape) % len(SHAPES), angle].astype(np.float32)
        light = 1 - _DIMMED * (1 + np.sin(2 * np.pi * moment / _PERIOD + self._phase)) / 2
        noise = self._rng.normal(0, _NOISE, (2, *grey.shape)).astype(np.float32)
        there = depth > 0  # a depth camera has no return elsewhere
        planes = [grey * light + noise[0], (depth + noise[1]) * there]
        return np.stack(planes, -1).round().clip(0, 255).astype(np.uint8)

    def close(self) -> None:
        pass


def _rendered() -> NDArray[Any]:
    import torch

    from airpool.models.vision.views import Cameras
    from airpool.models.vision.views import views as render

    known, ring = {each.name: each for each in shapes.all()}, Cameras(ANGLES, resolution=_RESOLUTION)
    chosen = [known[name] for name in SHAPES]
    return np.stack([render([(it.vertices, it.faces)], ring, dtype=torch.uint8)[0].numpy() for it in chosen])
