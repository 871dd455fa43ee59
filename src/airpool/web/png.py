"""Pictures for the page: PNG, grey with transparency, as a data: address."""

import struct
import zlib
from base64 import b64encode

import numpy as np
from numpy.typing import ArrayLike

_SIGNATURE, _GREY_ALPHA = b"\x89PNG\r\n\x1a\n", 4


def address(grey: ArrayLike, alpha: ArrayLike) -> str:
    """A picture as a data: address. grey, alpha: (H, W) in [0, 1].

    >>> address(np.zeros((2, 3)), np.ones((2, 3)))[:26]
    'data:image/png;base64,iVBO'
    """
    planes = np.stack([np.asarray(grey, np.float64), np.asarray(alpha, np.float64)], axis=-1)
    height, width, _ = planes.shape
    rows = np.rint(255 * planes.clip(0, 1)).astype(np.uint8).reshape(height, -1)
    filtered = np.pad(rows, ((0, 0), (1, 0)))  # every row begins with its filter: none
    header = struct.pack(">IIBBBBB", width, height, 8, _GREY_ALPHA, 0, 0, 0)
    parts = _chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(filtered.tobytes(), 6)), _chunk(b"IEND", b"")
    return "data:image/png;base64," + b64encode(_SIGNATURE + b"".join(parts)).decode("ascii")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
