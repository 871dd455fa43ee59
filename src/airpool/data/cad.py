"""ModelNet40's CAD models: the packed file of triangle meshes, the published split, and a fixed validation split.

Validation is a tenth of the training objects, by a hash of the official name. A training object whose mesh is also that
of a test object, or of an object that the hash leaves in training, stays in training: nothing in validation is seen
anywhere else.
"""

import hashlib
import io
import lzma
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
GRID = 4096  # steps along the longest side

_ARRAYS = (
    "vertex_delta",
    "face_delta",
    "vertex_start",
    "face_start",
    "label",
    "classes",
    "split",
    "name",
    "source",
    "twin",
)
_VALIDATION = 0.1


@dataclass(frozen=True, eq=False)
class Meshes:
    """N meshes, packed: the differences between neighbouring vertices and faces."""

    vertex_delta: NDArray[np.int16]  # (3, V)
    face_delta: NDArray[np.int16]  # (3, F)
    vertex_start: NDArray[np.int64]  # (N + 1,)
    face_start: NDArray[np.int64]  # (N + 1,)
    label: NDArray[np.int64]  # (N,)
    classes: NDArray[np.str_]  # (C,)
    split: NDArray[np.str_]  # (N,): the published one, "train" or "test"
    name: NDArray[np.str_]  # (N,): official, such as "airplane_0627"
    source: NDArray[np.str_]  # (N,): "cad", or "points" where the mesh was rebuilt from surface points
    twin: NDArray[np.bool_]  # (N,): test objects that have the mesh of a training object

    def __len__(self) -> int:
        return len(self.label)

    def mesh(self, index: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Vertices (V, 3), 0 to 4095, z up, and faces (F, 3) of one object."""
        vertices, faces = self._packed(index)
        first = np.cumsum(faces[0], dtype=np.int32)
        corners = np.stack([first, first + faces[1], first + faces[2]], 1)
        return np.cumsum(vertices, axis=1, dtype=np.int32).T, corners

    def indices(self, split: Split) -> NDArray[np.intp]:
        """Which objects belong to a split, in the order of the file."""
        if split not in SPLITS:
            raise ValueError(f"split {split!r} must be {', '.join(SPLITS)}")
        if split == "test":
            return np.flatnonzero(self.split == "test")
        aside = self._validation
        return np.flatnonzero(aside if split == "validation" else (self.split == "train") & ~aside)

    @cached_property
    def digests(self) -> list[bytes]:
        """One digest per object: equal for equal meshes."""
        packed = (self._packed(index) for index in range(len(self)))
        return [hashlib.sha256(vertices.tobytes() + b"/" + faces.tobytes()).digest() for vertices, faces in packed]

    @cached_property
    def _validation(self) -> NDArray[np.bool_]:
        chosen = (self.split == "train") & np.array([_hashed(name) < _VALIDATION for name in self.name], bool)
        elsewhere = Counter(digest for digest, inside in zip(self.digests, chosen, strict=True) if not inside)
        return chosen & np.array([digest not in elsewhere for digest in self.digests], bool)

    def _packed(self, index: int) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
        vertices = slice(*self.vertex_start[index : index + 2])
        faces = slice(*self.face_start[index : index + 2])
        return self.vertex_delta[:, vertices], self.face_delta[:, faces]


def read(path: Path) -> Meshes:
    """The packed file, `.npz` or `.npz.xz` (15 s for all of ModelNet40)."""
    try:
        data = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            return Meshes(**{name: file[name] for name in _ARRAYS})
    except (lzma.LZMAError, KeyError, ValueError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise ValueError(f"{path}: not a packed file of meshes ({' '.join(str(error).split())[:80]})") from None


def _hashed(name: str) -> float:
    """A number in [0, 1) that depends on the name alone.

    >>> round(_hashed("airplane_0001"), 3)
    0.386
    """
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) / 2**64
