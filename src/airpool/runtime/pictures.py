"""Pictures of a folder in turn, by the inference's number, and a picture as a trunk takes it. Pillow, no OpenCV.

    FOLDER/CAMERA/CLASS/OBJECT.jpg     one folder for each camera, in the order of their names: device 0, 1, ...
    FOLDER/CLASS/OBJECT_CAMERA.jpg     the camera in the file's name; both as `airpool fit --images` takes them
    FOLDER/CLASS_N.png                 one folder for all devices

The same number is the same object for every device.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class ListedPictures:
    """Pictures of a folder. cameras, objects: names, numbers in them by value. files: by object and camera."""

    cameras: tuple[str, ...]
    objects: tuple[tuple[str, str], ...]
    files: Mapping[tuple[tuple[str, str], str], Path]

    @property
    def turn(self) -> list[tuple[str, str]]:
        """The objects, class and name, in one shuffled order; by name where one folder serves all devices."""
        if self.cameras == ("",):
            return list(self.objects)
        return [self.objects[i] for i in order(len(self.objects))]


def listed(folder: Path) -> ListedPictures:
    """The pictures of a folder. Raises ValueError where they do not lie as one of the three forms."""
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder of pictures")
    found = [path.relative_to(folder) for path in folder.rglob("*") if path.suffix.lower() in ENDINGS]
    found = [path for path in found if not any(part.startswith(".") for part in path.parts)]
    if len(depths := {len(path.parts) for path in found}) != 1 or max(depths) > 3:
        where = "pictures at different depths" if depths else "no picture"
        raise ValueError(f"{folder}: {where}; all must be CAMERA/CLASS/OBJECT.jpg, or all CLASS/OBJECT_CAMERA.jpg")
    files = {_named(path): folder / path for path in found}
    objects, names = {object_of for object_of, _ in files}, {camera_of for _, camera_of in files}
    if depths == {3}:  # a camera without a picture is one, too: else the others would be taken for their neighbours
        names |= {each.name for each in folder.iterdir() if each.is_dir() and not each.name.startswith(".")}
    return ListedPictures(
        tuple(sorted(names, key=natural)),
        tuple(sorted(objects, key=lambda each: (natural(each[0]), natural(each[1])))),
        files,
    )


def _named(path: Path) -> tuple[tuple[str, str], str]:
    """Class and name of the object, and the camera."""
    match path.parts:
        case (camera_of, label, _):
            return (label, path.stem), camera_of
        case (label, _):
            name, _, camera_of = path.stem.rpartition("_")
            return (label, name), camera_of
        case _:
            return (path.stem.rpartition("_")[0], path.stem), ""


class DevicePictures:
    """Pictures of one device."""

    def __init__(self, folder: Path, device: int, devices: int) -> None:
        self._listed = listed(folder)
        self._turn, every = self._listed.turn, self._listed.cameras
        self._camera = every[camera(device, devices, len(every))]

    def read(self, number: int, shape: Sequence[int]) -> View:
        """The view (C, H, H) of an inference's object."""
        wanted = self._turn[number % len(self._turn)]
        path = self._listed.files.get((wanted, self._camera))
        if path is None:
            raise SourceError("gone", f"{'/'.join(wanted)}: camera {self._camera} has no such picture")
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


def natural(name: str) -> list[Any]:
    """A key by which names are sorted, whole numbers in them by value.

    >>> sorted(["cam10", "cam2", "Cam1"], key=natural)
    ['Cam1', 'cam2', 'cam10']
    """
    parts = re.split(r"([0-9]+)", name.casefold())
    return [[(int(part), "") if i % 2 else (-1, part) for i, part in enumerate(parts)], name]
