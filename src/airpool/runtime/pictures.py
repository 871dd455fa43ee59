"""Pictures in turn, by the inference's number, and a picture as a trunk takes it. Pillow, no OpenCV, no torch.

Folders and lists are those of `airpool fit --images` (models/images/folder.py); a view of the trunk's own shape may be
a .npy file. The same number is the same object for every device.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airpool._support import files
from airpool._support.extras import load
from airpool.models.images import folder
from airpool.models.images.pictures import Pictures, named, natural, shown
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


def listed(path: Path) -> Pictures:
    """The pictures of a folder or of a CSV file."""
    return folder.found(path, more=(".npy",))


def in_order(found: Pictures) -> list[int]:
    """Objects in one shuffled order; of a list with splits, those to test."""
    some = [k for k in range(len(found.objects)) if found.split is None or found.split[k] == "test"]
    some = some or list(range(len(found.objects)))
    return [some[k] for k in order(len(some))]


def cameras(path: Path, found: Pictures) -> list[str]:
    """Names of the cameras. One whose folder is empty is one, too: else others would be taken for their neighbours."""
    own, file = set(found.cameras), found.shots[0].file
    if path.is_dir() and file is not None and file.parents[2] == path:
        own |= {shown(each.name) for each in path.iterdir() if each.is_dir() and not each.name.startswith((".", "__"))}
    return sorted(own, key=natural)


class DevicePictures:
    """Pictures of one camera, by its name."""

    def __init__(self, found: Pictures, camera: str) -> None:
        self._objects, self._turn, self._camera = found.objects, in_order(found), camera
        self._files = {shot.object: shot.file for shot in found.shots if found.cameras[shot.camera] == camera}
        if not self._files:
            raise ValueError(f"no picture by camera {camera}, which this device is; there is {named(found.cameras)}")

    def read(self, number: int, shape: Sequence[int]) -> View:
        """The view (C, H, H) of an inference's object."""
        wanted = self._turn[number % len(self._turn)]
        path = self._files.get(wanted)
        if path is None:
            raise SourceError("gone", f"{self._objects[wanted]}: camera {self._camera} has no such picture")
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
        with image_of.open(path, formats=picture.formats()) as photo:
            depth = "A" in photo.getbands() or "transparency" in photo.info
            return np.asarray(upright(photo).convert("RGBA" if depth else "RGB"))
    except Exception as error:  # Pillow's readers raise what their formats' parsers do
        raise OSError(f"no picture that can be read ({type(error).__name__})") from error
