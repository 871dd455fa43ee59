"""Features (N, K, 1280) that a trunk makes of pictures, and the names of those that could not be read."""

import sqlite3
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from airpool._support.brief import Brief
from airpool._support.progress import Progress, silent
from airpool.models.images.pictures import Pictures, Shot, named
from airpool.models.images.trunk import SIDE, WIDTH, ImageTrunk
from airpool.models.vision.picture import Picture, prepared

Feature = NDArray[np.float32]

_TABLE = "CREATE TABLE IF NOT EXISTS features (trunk TEXT, picture TEXT, feature BLOB, PRIMARY KEY (trunk, picture))"


class FeatureCache:
    """Features by the SHA-256 of trunk and picture."""

    def __init__(self, connection: sqlite3.Connection, trunk: str) -> None:
        self._connection, self._trunk = connection, trunk

    def get(self, picture: str) -> Feature | None:
        query = "SELECT feature FROM features WHERE trunk = ? AND picture = ?"
        row = self._connection.execute(query, (self._trunk, picture)).fetchone()
        return None if row is None else np.frombuffer(row[0], np.float32)

    def put(self, found: Mapping[str, Feature]) -> None:
        with self._connection:
            rows = [(self._trunk, picture, each.astype(np.float32).tobytes()) for picture, each in found.items()]
            self._connection.executemany("INSERT OR REPLACE INTO features VALUES (?, ?, ?)", rows)


@contextmanager
def kept_features(path: Path | None, trunk: str) -> Iterator[FeatureCache]:
    """The cache in a file, which is made where there is none; None: in memory."""
    try:
        connection = sqlite3.connect(":memory:" if path is None else path, timeout=60.0)
    except sqlite3.Error as error:
        raise OSError(f"{path}: cannot be opened ({error})") from None
    try:
        with connection:
            connection.execute(_TABLE)
        yield FeatureCache(connection, trunk)
    except sqlite3.DatabaseError as error:
        raise ValueError(f"{path}: damaged, or no cache of features ({error}); delete it") from None
    finally:
        connection.close()


_BATCH = 16  # pictures through the trunk at once
_READERS = 4


@dataclass(frozen=True, eq=False, repr=False)
class PictureFeatures(Brief):
    """Features (N, K, F), zero where there is none, and which are there (N, K), of the pictures that could be read.

    pictures: without objects and cameras of which nothing could be read; their notes say so. unreadable: names.
    """

    features: NDArray[np.float32]
    present: NDArray[np.bool_]
    pictures: Pictures
    unreadable: tuple[str, ...]


def features(
    pictures: Pictures, trunk: ImageTrunk, *, kept: Path | None = None, progress: Progress = silent
) -> PictureFeatures:
    """Features of all pictures; those in the file `kept` are not computed again. One that cannot be read is missing.

    Pictures with the same content end up in one group, whatever they are called: they would be known in advance.
    """
    out = np.zeros((len(pictures.objects), len(pictures.cameras), WIDTH), np.float32)
    there = np.zeros(out.shape[:2], bool)
    unreadable: list[str] = []
    first: dict[str, Shot] = {}
    same: list[tuple[Shot, Shot]] = []
    with kept_features(kept, trunk.sha256) as known, progress("pictures", len(pictures.shots)) as advance:
        for start in range(0, len(pictures.shots), _BATCH):
            shots = pictures.shots[start : start + _BATCH]
            for shot, (digest, found) in zip(shots, _batch(shots, trunk, known, pictures.ordered), strict=True):
                if found is None:
                    unreadable.append(shot.name)
                    continue
                out[shot.object, shot.camera], there[shot.object, shot.camera] = found, True
                if (other := first.setdefault(digest, shot)).object != shot.object:
                    same.append((other, shot))
            advance(len(shots))
    if not there.any():
        raise ValueError(f"none of {len(pictures.shots)} pictures can be read: {named(unreadable)}")
    return _pruned(PictureFeatures(out, there, _joined(pictures, same), tuple(unreadable)))


def views(shots: Sequence[Shot], *, ordered: bool = False) -> Iterator[Picture | None]:
    """Each picture as a trunk takes it, (3, 224, 224); None where it cannot be read."""
    for _, view in _read(shots, lambda _: None, ordered):
        yield view if isinstance(view, np.ndarray) else None


def _batch(
    shots: Sequence[Shot], trunk: ImageTrunk, known: FeatureCache, ordered: bool
) -> list[tuple[str, Feature | None]]:
    read = list(_read(shots, known.get, ordered))
    new = {digest: view for digest, view in read if isinstance(view, np.ndarray) and view.ndim == 3}
    made: dict[str, Feature] = {}
    if new:
        together = torch.from_numpy(np.stack([*new.values()]))
        found = trunk.features(together[:, None])[:, 0].numpy()
        made = dict(zip(new, found, strict=True))
        known.put(made)
    return [(digest, made.get(digest, view if view is None or view.ndim == 1 else None)) for digest, view in read]


def _read(
    shots: Iterable[Shot], known: Callable[[str], Feature | None], ordered: bool
) -> Iterator[tuple[str, NDArray | None]]:
    """Of each picture its digest, and its feature if that is known, else its view; None where it cannot be read."""
    with ThreadPoolExecutor(1 if ordered else _READERS) as pool, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of large pictures, and of odd metadata
        opened = list(pool.map(_opened, shots))
        have = [None if each is None else known(each[0]) for each in opened]
        decoded = pool.map(lambda pair: _view(*pair), zip(opened, have, strict=True))
        for each, feature, view in zip(opened, have, decoded, strict=True):
            yield "" if each is None else each[0], view if feature is None else feature


def _opened(shot: Shot) -> tuple[str, Callable[[], Picture]] | None:
    try:
        return shot.read()
    except (OSError, ValueError):  # a name that no file can have
        return None


def _view(opened: tuple[str, Callable[[], Picture]] | None, known: Feature | None) -> Picture | None:
    if opened is None or known is not None:
        return None
    try:
        return prepared(opened[1](), SIDE)
    except (OSError, ValueError):
        return None


def _joined(pictures: Pictures, same: Sequence[tuple[Shot, Shot]]) -> Pictures:
    """The pictures with the groups of equal ones joined, and a note of it."""
    if not same:
        return pictures
    groups = list(pictures.groups)
    for one, other in same:
        old, new = groups[other.object], groups[one.object]
        groups = [new if each == old else each for each in groups]
    pairs = [f"{one.name} = {other.name}" for one, other in same]
    labels = {pictures.labels[one.object] != pictures.labels[other.object] for one, other in same}
    more = "; some of them have two classes" if True in labels else ""
    note = f"{len(same)} pictures are also those of another object, kept on one side: {named(pairs)}{more}"
    return replace(pictures, groups=tuple(groups), notes=(*pictures.notes, note))


def _pruned(found: PictureFeatures) -> PictureFeatures:
    """Without objects and cameras of which no picture could be read."""
    pictures, notes = found.pictures, list(found.pictures.notes)
    if found.unreadable:
        notes.append(f"{len(found.unreadable)} pictures cannot be read, taken as missing: {named(found.unreadable)}")
    objects, cameras = (np.asarray(found.present.any(axis), bool) for axis in (1, 0))
    for what, names, kept in (("cameras", pictures.cameras, cameras), ("objects", pictures.objects, objects)):
        if gone := [name for name, there in zip(names, kept, strict=True) if not there]:
            notes.append(f"{len(gone)} {what} without a picture that can be read, left out: {named(gone)}")

    def some(names: tuple[str, ...], kept: NDArray[np.bool_]) -> tuple[str, ...]:
        return tuple(name for name, there in zip(names, kept, strict=True) if there)

    place, which = np.cumsum(objects) - 1, np.cumsum(cameras) - 1
    shots = tuple(
        shot._replace(object=int(place[shot.object]), camera=int(which[shot.camera]))
        for shot in pictures.shots
        if found.present[shot.object, shot.camera]
    )
    rest = replace(
        pictures,
        cameras=some(pictures.cameras, cameras),
        objects=some(pictures.objects, objects),
        labels=some(pictures.labels, objects),
        groups=some(pictures.groups, objects),
        split=None if pictures.split is None else some(pictures.split, objects),
        shots=shots,
        notes=tuple(notes),
    )
    at = np.ix_(objects, cameras)
    return PictureFeatures(found.features[at], found.present[at], rest, found.unreadable)
