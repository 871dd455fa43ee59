"""ModelNet40 and its splits. Train and test are the published ones; validation is a tenth of train, fixed for good.

The validation objects of the 3DShapeNets voxel release are listed by name in `validation.txt`. `chosen` picked them
once; for data with other names (the OFF meshes number their objects differently) it picks anew, always the same.
"""

import hashlib
import tempfile
from collections import defaultdict
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from airpool.data import dataset as packed
from airpool.data.dataset import Dataset
from airpool.data.prepare import holds_meshes, prepare

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
Indices = NDArray[np.intp]


def read(path: Path, *, workers: int = 1) -> Dataset:
    """The packed voxel file, or a folder or zip of meshes, CLASS/{train,test}/NAME.off, voxelised now.

    All of ModelNet40 takes a good quarter of an hour of one core: `airpool data prepare` keeps the result.
    """
    if not holds_meshes(path):
        return packed.read(path)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "voxels.npz"
        if unreadable := prepare(path, out, workers=workers):
            raise ValueError(f"{path}: {len(unreadable)} unreadable, first {unreadable[0]}")
        return packed.read(out)


def split(dataset: Dataset, which: Split) -> Indices:
    """Indices of the objects to train on (without validation), to validate on, or to test on."""
    if which not in SPLITS:
        raise ValueError(f"split {which!r} must be {', '.join(SPLITS)}")
    if which == "test":
        return np.flatnonzero(dataset.split == "test")
    train = np.flatnonzero(dataset.split == "train")
    names = [f"{dataset.classes[label]}/{name}" for label, name in zip(dataset.labels, dataset.names, strict=True)]
    aside = train[[names[i] in _listed() for i in train]]
    if not len(aside):
        aside = chosen(dataset)
    return aside if which == "validation" else np.setdiff1d(train, aside)


def chosen(dataset: Dataset, *, part: float = 0.1, seed: int = 0) -> Indices:
    """A part of every class's training objects, at random. Objects whose pose 0 looks the same stay together.

    Look-alikes are taken as a whole where the class has room for them, so none has its double in train. Those that
    carry different labels stay in train.
    """
    train = np.flatnonzero(dataset.split == "train")
    alike: dict[bytes, list[int]] = defaultdict(list)
    for i in train:
        alike[dataset.objects[i, 0].tobytes()].append(int(i))
    of_class: dict[int, list[list[int]]] = defaultdict(list)
    for group in alike.values():
        if len(labels := set(dataset.labels[group].tolist())) == 1:
            of_class[labels.pop()].append(group)
    rng = np.random.default_rng(seed)
    taken: list[int] = []
    for label in sorted(of_class):
        room = round(part * int(np.sum(dataset.labels[train] == label)))
        for position in rng.permutation(len(of_class[label])):
            group = of_class[label][position]
            if len(group) <= room:
                taken += group
                room -= len(group)
    return np.array(sorted(taken), np.intp)


def duplicates(dataset: Dataset) -> Indices:
    """The test objects that equal some training object in all twelve poses, whatever their labels."""
    prints = np.array([hashlib.blake2b(poses.tobytes(), digest_size=16).hexdigest() for poses in dataset.objects])
    return np.flatnonzero((dataset.split == "test") & np.isin(prints, prints[dataset.split == "train"]))


@cache
def _listed() -> frozenset[str]:
    text = files("airpool.data").joinpath("validation.txt").read_text("utf-8")
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))
