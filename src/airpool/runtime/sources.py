"""Source of a device's views, named by a short text:

    latents:MODEL/SPLIT    held-out latents, shipped or of a model of your own (a file), one object after the other
    mesh:PATH              a mesh, or a folder of them in turn, rendered from this device's camera (needs torch)
    folder:PATH            a folder of images in turn: .npy (C, H, H) bytes, or what OpenCV reads
    camera:INDEX           a camera, by OpenCV
    MODULE:FUNCTION        a function of your own: number → latent, or (latent, posterior); or a view, with a bundle

Meshes, images and cameras give views (C, H, H), which a bundle makes latents of (bundle.py). "In turn" goes by the
inference's number.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airpool._support import files
from airpool._support.extras import load
from airpool.models.cameras import camera_note
from airpool.runtime import shipped
from airpool.runtime.bundle import Bundle
from airpool.runtime.device import Seen, Source

View = NDArray[Any]
_MESHES = (".off", ".obj", ".stl", ".ply")
_IMAGES = (".npy", ".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")


@dataclass(frozen=True)
class Place:
    """Index of a device and the number of devices."""

    device: int
    devices: int


def source_of(text: str, at: Place, *, codec: str | None = None, bundle: Bundle | None = None) -> tuple[Source, bool]:
    """The source that a text names, and whether it is quick: whether it may run between two messages."""
    kind, _, rest = text.partition(":")
    if not rest:
        known = "latents:MODEL/SPLIT, mesh:PATH, folder:PATH, camera:INDEX or MODULE:FUNCTION"
        raise ValueError(f"source {text!r} must be {known}")
    if kind == "latents":
        return _latents(rest, at, codec), True
    views: dict[str, Callable[[str, Place, Bundle], Callable[[int], View]]]
    views = {"mesh": _mesh, "folder": _folder, "camera": _camera}
    if kind not in views:
        return _function(text, at, bundle), False
    if bundle is None:
        raise ValueError(
            f"source {text!r} gives views: give --bundle FILE, which makes latents of them (airpool bundle)"
        )
    view, encode = views[kind](rest, at, bundle), bundle.encoder(device=at.device, devices=at.devices)
    return lambda number: encode(view(number)), False


def labels_of(text: str, classes: tuple[str, ...]) -> list[int] | None:
    """The true labels of a source's objects, where they are known: of shipped latents, and of files named CLASS_N."""
    kind, _, rest = text.partition(":")
    if kind == "latents":
        return shipped.labels(*_held_out(rest))
    if kind in ("mesh", "folder") and Path(rest).is_dir():
        names = [path.stem.rpartition("_")[0] for path in in_turn(Path(rest), _MESHES if kind == "mesh" else _IMAGES)]
        return [classes.index(name) for name in names] if set(names) <= set(classes) else None
    return None


def cameras_of(text: str, devices: int) -> str | None:
    """A note on a model's sensors left out or repeated where devices have its held-out objects; None without any."""
    kind, _, rest = text.partition(":")
    return camera_note(devices, shipped.cameras(*_held_out(rest))) if kind == "latents" else None


def in_turn(path: Path, endings: tuple[str, ...]) -> list[Path]:
    """The file, or the files of a folder by name."""
    found = sorted(each for each in path.iterdir() if each.suffix.lower() in endings) if path.is_dir() else [path]
    if not found or not found[0].exists():
        raise ValueError(f"{path}: no file that ends with {', '.join(endings)}")
    return found


def _held_out(text: str) -> tuple[str, str]:
    """Model and split of a text such as modelnet40/test; a model may be a path."""
    model, _, split = text.rpartition("/")
    return (model, split) if model and not split.endswith(".safetensors") else (text, "test")


def _latents(text: str, at: Place, codec: str | None) -> Source:
    latents, posteriors = shipped.latents(*_held_out(text), codec, at.device, at.devices)
    return lambda number: Seen(latents[number % len(latents)], posteriors[number % len(latents)])


def _mesh(text: str, at: Place, bundle: Bundle) -> Callable[[int], View]:
    load("torch", "rendering a mesh")
    from airpool.models.vision import meshes
    from airpool.models.vision.views import Cameras, views

    objects = [meshes.read(path) for path in in_turn(Path(text), _MESHES)]
    camera = Cameras(at.devices, resolution=bundle.view_shape[-1]).alone(at.device)

    def view(number: int) -> View:
        mesh = objects[number % len(objects)]
        return views([(mesh.vertices, mesh.faces)], camera)[0, 0].numpy()

    return view


def _folder(text: str, at: Place, bundle: Bundle) -> Callable[[int], View]:
    """Images in turn. A folder of folders named by the device's index holds those of all devices."""
    own = Path(text) / str(at.device)
    paths = in_turn(own if own.is_dir() else Path(text), _IMAGES)

    def view(number: int) -> View:
        path = paths[number % len(paths)]
        if path.suffix == ".npy":
            return files.array(path)
        cv2 = load("cv2", "reading images")
        return fitted(cv2.imread(str(path), cv2.IMREAD_UNCHANGED), bundle.view_shape)

    return view


def _camera(text: str, at: Place, bundle: Bundle) -> Callable[[int], View]:
    cv2 = load("cv2", "a camera")
    if not text.isdecimal():
        raise ValueError(f"camera:{text} must be a number: which camera of this machine")
    taken = cv2.VideoCapture(int(text))
    if not taken.isOpened():
        raise ValueError(f"camera {text} cannot be opened")

    def view(_: int) -> View:
        there, frame = taken.read()
        if not there:
            raise OSError(f"camera {text} gives no image")
        return fitted(frame, bundle.view_shape)

    return view


def fitted(image: View, shape: tuple[int, ...]) -> View:
    """An image of OpenCV, (h, w) or (h, w, channels), as the trunk takes it: cut to a square, resized, channels first.

    A trunk of one channel reads grey; of two, grey and depth, which is the image's alpha; of three, red, green, blue.
    """
    cv2 = load("cv2", "reading images")
    channels, side = shape[0], shape[-1]
    height, width = image.shape[:2]
    cut = min(height, width)
    top, left = (height - cut) // 2, (width - cut) // 2
    square = cv2.resize(image[top : top + cut, left : left + cut], (side, side), interpolation=cv2.INTER_AREA)
    colours = square[..., :3] if square.ndim == 3 else np.repeat(square[..., None], 3, -1)
    if channels == 3:
        return np.ascontiguousarray(colours[..., ::-1].transpose(2, 0, 1))
    grey = cv2.cvtColor(np.ascontiguousarray(colours), cv2.COLOR_BGR2GRAY)[None]
    if channels == 1:
        return grey
    if square.ndim == 3 and square.shape[2] == 4 and channels == 2:
        return np.concatenate([grey, square[None, ..., 3]])
    raise ValueError(f"the trunk reads {channels} channels: of two, the second is depth, as the image's alpha channel")


def _function(text: str, at: Place, bundle: Bundle | None) -> Source:
    """Called with the number, and with device and devices where it names them."""
    module, _, name = text.partition(":")
    try:
        function = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"source {text!r}: {error}; give MODULE:FUNCTION of what can be imported") from None
    wanted = {"device": at.device, "devices": at.devices}
    given = {key: value for key, value in wanted.items() if key in inspect.signature(function).parameters}
    encode = None if bundle is None else bundle.encoder(device=at.device, devices=at.devices)

    def source(number: int) -> Seen:
        found = function(number, **given)
        if encode is not None:
            return encode(np.asarray(found))
        latent, posterior = found if isinstance(found, tuple) else (found, None)
        return Seen(np.asarray(latent, np.float64), None if posterior is None else np.asarray(posterior, np.float64))

    return source
