"""Labelled objects as packed voxels, in memory and in a file (npz).

The file holds `vox` (N, 12, 3375) uint8, `label` (N,) int64, `classes` (C,) str, `split` (N,) str and `name` (N,) str.
"""

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from airpool import files
from airpool.data.voxels import NUM_POSES, PACKED_BYTES

SPLITS = ("train", "test")
ARRAYS = ("vox", "label", "classes", "split", "name")


@dataclass(frozen=True, eq=False)
class Dataset:
    objects: NDArray[np.uint8]  # (N, 12, 3375), packed
    labels: NDArray[np.int64]  # (N,), indices into `classes`
    classes: tuple[str, ...]
    names: NDArray[np.str_]  # (N,)
    split: NDArray[np.str_]  # (N,), 'train' or 'test', as published

    def __post_init__(self) -> None:
        n = len(self.labels)
        _check("vox", self.objects, (n, NUM_POSES, PACKED_BYTES), np.uint8)
        _check("label", self.labels, (n,), np.integer)
        _check("split", self.split, (n,), np.str_)
        _check("name", self.names, (n,), np.str_)
        if n and not 0 <= self.labels.min() <= self.labels.max() < len(self.classes):
            bad = self.labels[(self.labels < 0) | (self.labels >= len(self.classes))][0]
            raise ValueError(f"label {bad} must be from 0 to {len(self.classes) - 1}, an index into classes")
        if len(set(self.classes)) < len(self.classes):
            raise ValueError("classes must all differ")
        if strange := set(np.unique(self.split).tolist()) - set(SPLITS):
            raise ValueError(f"split {min(strange)!r} must be {' or '.join(SPLITS)}")

    def __len__(self) -> int:
        return len(self.labels)


def read(path: Path) -> Dataset:
    """The packed file, checked. Takes seconds and half a gigabyte for all of ModelNet40."""
    if not path.exists():
        raise ValueError(f"{path}: no such file")
    if path.is_dir():
        raise ValueError(f"{path} is no packed voxel file: `airpool data prepare` makes one of meshes")
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path}: not a packed voxel file (npz), or cut short")
    try:
        with np.load(path, allow_pickle=False) as file:
            if missing := [name for name in ARRAYS if name not in file]:
                hint = "; `airpool data prepare` packs meshes" if len(missing) == len(ARRAYS) else ""
                raise ValueError(f"{', '.join(missing)} missing, of the arrays {', '.join(ARRAYS)}{hint}")
            vox, label, classes, split, name = (file[array] for array in ARRAYS)
        _check("classes", classes, (classes.size,), np.str_)
        _check("label", label, (label.size,), np.integer)
        return Dataset(vox, label.astype(np.int64), tuple(classes.tolist()), name, split)
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path}: {error}") from None


def write(path: Path, dataset: Dataset) -> None:
    """Writes the whole packed file or nothing."""
    columns = (dataset.objects, dataset.labels, np.array(dataset.classes), dataset.split, dataset.names)
    with files.opened(path) as file:
        np.savez_compressed(file, **dict(zip(ARRAYS, columns, strict=True)))


def _check(name: str, array: NDArray, shape: tuple[int, ...], kind: type[np.generic]) -> None:
    if array.shape != shape or not np.issubdtype(array.dtype, kind):
        words = {np.uint8: "uint8", np.integer: "integers", np.str_: "text"}[kind]
        raise ValueError(f"{name} is {array.dtype} {array.shape}: must be {words} {shape}")
