"""Pictures of a folder in turn, by the inference's number, and a picture as a trunk takes it. Pillow, no OpenCV.

    FOLDER/CAMERA/CLASS/OBJECT.jpg     one folder for each camera, in the order of their names: device 0, 1, ...
    FOLDER/CAMERA/OBJECT.jpg           the same without classes
    FOLDER/CLASS_N.png                 one folder for all devices, or FOLDER/3/ for device 3 (the old form)

The same number is the same object for every device, by its path below the camera's folder.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airpool._support import files
from airpool._support.extras import load
from airpool.models.cameras import camera
from airpool.models.vision import picture
from airpool.runtime.condition import SourceError
from airpool.runtime.shipped import order

View = NDArray[Any]
ENDINGS = (".npy", ".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".ppm")


def in_turn(path: Path, endings: Sequence[str] = ENDINGS) -> list[Path]:
    """The file, or the files of a folder by name."""
    found = sorted(each for each in path.iterdir() if each.suffix.lower() in endings) if path.is_dir() else [path]
    if not found or not found[0].exists():
        raise ValueError(f"{path}: no file that ends with {', '.join(endings)}")
    return found


def cameras(folder: Path) -> list[Path]:
    """The cameras' folders, numbers in their names by value; none where pictures lie in the folder itself."""
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder of pictures")
    below = [each for each in folder.iterdir() if each.is_dir() and not each.name.startswith(".")]
    return sorted(below, key=lambda each: [int(part) if part.isdecimal() else part for part in _parts(each.name)])


def objects(folder: Path) -> list[str]:
    """Objects that any camera of a folder has, such as CLASS/OBJECT, in one shuffled order."""
    held = {
        path.relative_to(each).with_suffix("").as_posix()
        for each in cameras(folder)
        for path in each.rglob("*")
        if path.suffix.lower() in ENDINGS
    }
    found = sorted(held)
    if not found:
        raise ValueError(f"{folder}: no picture in its cameras' folders; FOLDER/CAMERA/CLASS/OBJECT.jpg is expected")
    return [found[i] for i in order(len(found))]


def classes(folder: Path) -> list[str]:
    """The class of every object in turn: its folder, or CLASS of a file CLASS_N."""
    if not cameras(folder):
        return [path.stem.rpartition("_")[0] for path in in_turn(folder)]
    return [each.rpartition("/")[0] or each.rpartition("_")[0] for each in objects(folder)]


class Pictures:
    """Pictures of one device."""

    def __init__(self, folder: Path, device: int, devices: int) -> None:
        every = cameras(folder)
        self._own = every[camera(device, devices, len(every))] if every else folder
        self._objects = objects(folder) if every else [path.stem for path in in_turn(folder)]

    def read(self, number: int, shape: Sequence[int]) -> View:
        """The view (C, H, H) of an inference's object."""
        name = self._objects[number % len(self._objects)]
        path = next((p for end in ENDINGS if (p := self._own / f"{name}{end}").exists()), None)
        path = path or next((p for p in self._own.glob(f"{name}.*") if p.suffix.lower() in ENDINGS), None)
        if path is None:
            raise SourceError("gone", f"{self._own / name}: this camera has no such picture")
        return view(path, shape)


def view(path: Path, shape: Sequence[int]) -> View:
    """The view (C, H, H) that a file holds."""
    try:
        if path.suffix == ".npy":
            return checked(files.array(path), shape)
        return fitted(picture.read(path) if shape[0] == 3 else _planes(path), shape)
    except (OSError, ValueError) as error:
        kind = error.kind if isinstance(error, SourceError) else "damaged"
        raise SourceError(kind, f"{path}: {error}") from None


def checked(found: View, shape: Sequence[int]) -> View:
    """A view of the trunk's own shape as it is; any other picture fitted."""
    if found.shape == tuple(shape):
        return found
    if found.dtype == np.uint8 and (found.ndim == 2 or (found.ndim == 3 and found.shape[2] in (1, 2, 3, 4))):
        return fitted(found, shape)
    wanted = f"a view {tuple(shape)}, or a picture (h, w, 3) of bytes"
    raise SourceError("size", f"a view of shape {found.shape}, {found.dtype}: must be {wanted}")


def fitted(image: View, shape: Sequence[int]) -> View:
    """An image (h, w), (h, w, channels) of bytes as the trunk takes it: cut to a square, resized, channels first.

    A trunk of three channels reads red, green, blue, exactly as in training (models/vision/picture.py); of one, grey;
    of two, grey and depth, which is the image's alpha.
    """
    channels, side = shape[0], shape[-1]
    planes = image[..., None] if image.ndim == 2 else image
    colours, alpha = (planes[..., :-1], planes[..., -1]) if planes.shape[2] in (2, 4) else (planes, None)
    if channels == 3:
        return picture.prepared(np.ascontiguousarray(np.broadcast_to(colours, (*colours.shape[:2], 3))), side)
    if channels not in (1, 2) or (channels == 2 and alpha is None):
        why = f"the trunk reads {channels} channels: of two, the second is depth, as an image's alpha"
        raise SourceError("size", why)
    image_of = load("PIL.Image", "pictures")
    grey = image_of.fromarray(np.ascontiguousarray(colours)).convert("L") if colours.shape[2] == 3 else colours[..., 0]
    wanted = [np.asarray(grey)] if channels == 1 or alpha is None else [np.asarray(grey), alpha]
    cut = min(image.shape[:2])
    top, left = (image.shape[0] - cut) // 2, (image.shape[1] - cut) // 2
    square = [np.ascontiguousarray(each[top : top + cut, left : left + cut]) for each in wanted]
    return np.stack([image_of.fromarray(each).resize((side, side), image_of.Resampling.BOX) for each in square])


def _planes(path: Path) -> View:
    """Grey or colours of a picture, with its alpha where it has one."""
    image_of, upright = load("PIL.Image", "pictures"), load("PIL.ImageOps", "pictures").exif_transpose
    try:
        with image_of.open(path) as photo:
            depth = "A" in photo.getbands() or "transparency" in photo.info
            return np.asarray(upright(photo).convert("RGBA" if depth else "RGB"))
    except Exception as error:  # Pillow's readers raise what their formats' parsers do
        raise OSError(f"no picture that can be read ({type(error).__name__})") from error


def _parts(name: str) -> list[str]:
    return re.split(r"(\d+)", name)
