"""A photograph or a frame as a trunk takes it: the same pixels in training and on a device. Pillow, no torch.

view = prepared(read(path), 224)                         # (3, 224, 224), bytes
"""

from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from airpool._support.extras import load

Picture = NDArray[np.uint8]  # (h, w, 3): red, green, blue

# Formats that Pillow hands to another program, or that hold no picture of a camera.
_NOT_PICTURES = {"EPS", "PDF", "MPEG", "WMF", "HDF5", "GRIB", "BUFR"}


def read(file: Path | IO[bytes], *, alpha: bool = False) -> Picture:
    """A picture, upright by its EXIF. Grey becomes three equal channels, transparency is dropped; alpha: it is kept.

    Raises OSError where the file is missing, cut off, or no picture.
    """
    image = load("PIL.Image", "reading pictures")
    try:
        with image.open(file, formats=formats()) as photo:
            kept = alpha and ("A" in photo.getbands() or "transparency" in photo.info)
            upright = load("PIL.ImageOps", "reading pictures").exif_transpose(photo)
            return np.asarray(upright.convert("RGBA" if kept else "RGB"))
    except OSError:
        raise
    except Exception as error:  # Pillow's readers raise what their formats' parsers do
        raise OSError(f"{file}: no picture that can be read ({type(error).__name__})") from error


@cache
def formats() -> tuple[str, ...]:
    """Formats of Pillow that are read. A file's content decides which it is, not its name: a .jpg may be EPS."""
    image = load("PIL.Image", "reading pictures")
    image.init()
    return tuple(kind for kind in image.ID if kind not in _NOT_PICTURES)


def prepared(picture: NDArray[Any], side: int) -> Picture:
    """(3, side, side), bytes: the square in the middle of a picture (h, w, 3), resized with antialiasing."""
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8 or not picture.size:
        raise ValueError(f"a picture is {picture.dtype} {picture.shape}, must be bytes (h, w, 3): red, green, blue")
    height, width, _ = picture.shape
    cut = min(height, width)
    top, left = (height - cut) // 2, (width - cut) // 2
    image = load("PIL.Image", "resizing pictures")
    square = image.fromarray(picture[top : top + cut, left : left + cut])
    resized = np.asarray(square.resize((side, side), image.Resampling.BILINEAR))
    return np.ascontiguousarray(resized.transpose(2, 0, 1))
