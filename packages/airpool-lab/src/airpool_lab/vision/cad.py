"""Labelled CAD models, such as ModelNet40's: the packed file of triangle meshes, and its fixed validation split.

Validation is a tenth of the training objects, by a hash of class and name. A training object whose mesh is also that
of a test object, or of an object that the hash leaves in training, stays in training: nothing in validation is seen
anywhere else.
"""

import hashlib
import io
import lzma
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from airpool._support import files
from airpool._support.brief import Brief

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
GRID = 4096  # steps along the longest side

_KINDS = {"i": "integers", "U": "text", "b": "booleans"}
_VALIDATION = 0.1
Packed = tuple[NDArray[np.int16], NDArray[np.int16]]


@dataclass(frozen=True, eq=False, repr=False)
class Meshes(Brief):
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

    def __post_init__(self) -> None:
        n = len(self.label)
        columns = {"label": "i", "split": "U", "name": "U", "source": "U", "twin": "b"}
        shapes = {name: ((n,), kind) for name, kind in columns.items()}
        shapes |= {
            "classes": ((self.classes.size,), "U"),
            "vertex_start": ((n + 1,), "i"),
            "face_start": ((n + 1,), "i"),
        }
        shapes |= {each: ((3, getattr(self, each).shape[-1]), "i") for each in ("vertex_delta", "face_delta")}
        for name, (shape, kind) in shapes.items():
            array = getattr(self, name)
            if array.shape != shape or array.dtype.kind != kind:
                raise ValueError(f"{name} is {array.dtype} {array.shape}, must be {_KINDS[kind]} {shape}")
        if n and not 0 <= self.label.min() <= self.label.max() < self.classes.size:
            raise ValueError(f"label must be from 0 to {self.classes.size - 1}, an index into classes")
        if strange := set(np.unique(self.split).tolist()) - {"train", "test"}:
            raise ValueError(f"split {min(strange)!r} must be train or test")
        for start, delta in ((self.vertex_start, self.vertex_delta), (self.face_start, self.face_delta)):
            if start[0] != 0 or start[-1] != delta.shape[1] or (np.diff(start) < 0).any():
                raise ValueError("vertex_start and face_start must rise from 0 to the number of vertices and of faces")

    def __len__(self) -> int:
        return len(self.label)

    def mesh(self, index: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Vertices (V, 3), 0 to 4095, z up, and faces (F, 3) of one object."""
        vertices, faces = self._packed(index)
        first = np.cumsum(faces[0], dtype=np.int32)
        corners = np.stack([first, first + faces[1], first + faces[2]], 1)
        return np.cumsum(vertices, axis=1, dtype=np.int32).T, corners

    def indices(self, split: Split) -> NDArray[np.intp]:
        """Indices of the objects of a split, in the order of the file."""
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
        numbers = map(_hashed, self.classes[self.label].tolist(), self.name.tolist())
        chosen = (self.split == "train") & np.array([number < _VALIDATION for number in numbers], bool)
        elsewhere = Counter(digest for digest, inside in zip(self.digests, chosen, strict=True) if not inside)
        return chosen & np.array([digest not in elsewhere for digest in self.digests], bool)

    def _packed(self, index: int) -> Packed:
        vertices = slice(*self.vertex_start[index : index + 2])
        faces = slice(*self.face_start[index : index + 2])
        return self.vertex_delta[:, vertices], self.face_delta[:, faces]


def pack(vertices: NDArray[np.integer], faces: NDArray[np.integer]) -> Packed:
    """One mesh as stored: differences (3, V) between vertices, and (3, F) between first corners and within faces.

    >>> vertices, faces = pack(np.array([[0, 0, 0], [9, 0, 0], [9, 9, 0]]), np.array([[0, 1, 2]]))
    >>> vertices.tolist(), faces.tolist()
    ([[0, 9, 0], [0, 0, 9], [0, 0, 0]], [[0], [1], [2]])
    """
    first = faces[:, :1]
    corners = np.concatenate((np.diff(first, axis=0, prepend=0), faces[:, 1:] - first), 1)
    return np.diff(vertices, axis=0, prepend=0).T.astype(np.int16), corners.T.astype(np.int16)


def joined(
    packed: Sequence[Packed],
    *,
    label: NDArray[np.int64],
    classes: NDArray[np.str_],
    split: NDArray[np.str_],
    name: NDArray[np.str_],
    source: NDArray[np.str_],
) -> Meshes:
    """Packed meshes one after another, with the other columns of `Meshes`. Twins are found: equal meshes."""
    vertex_start, face_start = (np.cumsum([0, *(each[part].shape[1] for each in packed)]) for part in (0, 1))
    vertices, faces = (np.concatenate([each[part] for each in packed], 1) for part in (0, 1))
    twin = np.zeros(len(packed), bool)
    found = Meshes(vertices, faces, vertex_start, face_start, label, classes, split, name, source, twin)
    known = {digest for digest, split in zip(found.digests, found.split, strict=True) if split == "train"}
    return replace(found, twin=(found.split == "test") & np.array([each in known for each in found.digests], bool))


def read(path: Path) -> Meshes:
    """The packed file, `.npz` or `.npz.xz`, checked (15 s for all of ModelNet40)."""
    if not path.exists():
        raise ValueError(f"{path}: no such file")
    if path.is_dir():
        raise ValueError(f"{path} is no packed file of meshes: `airpool data prepare` makes one of a folder")
    try:
        data = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            return Meshes(**{each.name: file[each.name] for each in fields(Meshes)})
    except Exception as error:  # a damaged file may raise anything, even MemoryError for a size that it claims
        raise ValueError(
            f"{path}: not a packed file of meshes ({' '.join(files.why_unreadable(error).split())[:120]})"
        ) from None


def write(path: Path, meshes: Meshes) -> None:
    """Writes the whole packed file or nothing; compressed by xz, which is smaller and slower, if it ends in `.xz`."""
    arrays = {each.name: getattr(meshes, each.name) for each in fields(Meshes)}
    if path.suffix != ".xz":
        with files.opened(path) as file:
            np.savez_compressed(file, **arrays)
        return
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    files.write(path, lzma.compress(buffer.getvalue()))


def _hashed(label: str, name: str) -> float:
    """A number in [0, 1) that depends on class and name alone; on the name where it begins with its class.

    >>> round(_hashed("airplane", "airplane_0001"), 3), round(_hashed("chair", "1"), 3), round(_hashed("table", "1"), 3)
    (0.386, 0.03, 0.399)
    """
    whole = name if name.startswith(f"{label}_") else f"{label}/{name}"
    return int.from_bytes(hashlib.sha256(whole.encode(errors="surrogatepass")).digest()[:8]) / 2**64
