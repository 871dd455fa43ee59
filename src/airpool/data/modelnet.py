"""ModelNet40's splits. Train and test are the published ones; validation is a fixed tenth of train.

The validation objects of the 3DShapeNets voxel release are listed by name in `validation.txt`, as `chosen` picked them
once. For data with other names (the OFF meshes number their objects differently) `chosen` picks again, reproducibly.
"""

import hashlib
from collections import defaultdict
from functools import cache
from importlib.resources import files
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from airpool.data.dataset import Dataset

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
Indices = NDArray[np.intp]


def split(dataset: Dataset, which: Split) -> Indices:
    """Indices of the objects to train on (without validation), to validate on, or to test on."""
    if which not in SPLITS:
        raise ValueError(f"split {which!r} must be {', '.join(SPLITS)}")
    if which == "test":
        return np.flatnonzero(dataset.split == "test")
    train = np.flatnonzero(dataset.split == "train")
    names = [f"{dataset.classes[dataset.labels[i]]}/{dataset.names[i]}" for i in train]
    aside = train[[name in listed() for name in names]]
    if not len(aside):
        aside = chosen(dataset)
    return aside if which == "validation" else np.setdiff1d(train, aside)


def chosen(dataset: Dataset, *, part: float = 0.1, seed: int = 0) -> Indices:
    """A random part of every class's training objects, such that none has an identical twin left in train.

    Objects with the same pose 0 are taken together, if the class has room for them. Twins under different labels stay
    in train.
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
def listed() -> frozenset[str]:
    """The validation objects by name, CLASS/NAME."""
    text = files("airpool.data").joinpath("validation.txt").read_text("utf-8")
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))
