"""Pictures of objects by cameras, wherever they lie: which object each shows, its class, and what stays together."""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from airpool._support.brief import Brief
from airpool.models.vision import picture
from airpool.models.vision.picture import Picture

_NAMED = 3  # names in a note


class Shot(NamedTuple):
    """One picture: object and camera by number, a name for reports, how it is read, and its file, if it has one.

    read: a digest of what is to be read, and the function that decodes it; both raise OSError where nothing can be.
    """

    object: int
    camera: int
    name: str
    read: Callable[[], tuple[str, Callable[[], Picture]]]
    file: Path | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Pictures(Brief):
    """Pictures of N objects by K cameras.

    cameras: names (K,). objects, labels: names and classes (N,). groups: (N,), what no split tears apart. split: (N,)
    or None. ordered: shots must be read one after the other. notes: what was left out, in words.
    """

    cameras: tuple[str, ...]
    objects: tuple[str, ...]
    labels: tuple[str, ...]
    groups: tuple[str, ...]
    shots: tuple[Shot, ...]
    split: tuple[str, ...] | None = None
    ordered: bool = False
    notes: tuple[str, ...] = field(default=())


class PictureRow(NamedTuple):
    """A picture file as it is listed. `object` is unique within its class; an empty group is the object itself."""

    file: Path
    camera: str
    label: str
    object: str
    group: str = ""
    split: str = ""


def gathered(rows: Sequence[PictureRow], where: Path, notes: Iterable[str] = ()) -> Pictures:
    """Pictures by object and camera, both in natural order (2 before 10)."""
    if not rows:
        raise ValueError(f"{where}: no pictures; {'; '.join(notes) or 'the folder is empty'}")
    cameras = sorted({row.camera for row in rows}, key=natural)
    objects = sorted({(row.label, row.object) for row in rows}, key=lambda each: (natural(each[0]), natural(each[1])))
    _require_one_spelling("cameras", cameras, where)
    _require_one_spelling("classes", {label for label, _ in objects}, where)
    place, which = ({each: i for i, each in enumerate(names)} for names in (objects, cameras))
    seen: dict[tuple[int, int], PictureRow] = {}
    about: dict[int, tuple[str, str]] = {}
    for row in rows:
        at = place[row.label, row.object], which[row.camera]
        if at in seen:
            raise ValueError(
                f"two pictures of {row.label}/{row.object} by camera {row.camera}: {shown(seen[at].file)} and "
                f"{shown(row.file)}; keep one"
            )
        seen[at] = row
        if about.setdefault(at[0], (row.group, row.split)) != (row.group, row.split):
            raise ValueError(f"{row.label}/{row.object} has two groups or splits in {where}: an object has one of each")
    names = tuple("/".join(each) for each in objects)
    splits = tuple(about[i][1] for i in range(len(objects)))
    spelled: dict[str, str] = {}
    groups = [about[i][0] or f"object {name}" for i, name in enumerate(names)]
    _require_pooled(seen, cameras, where)
    return Pictures(
        tuple(cameras),
        names,
        tuple(label for label, _ in objects),
        tuple(spelled.setdefault(_spoken(each), each) for each in groups),  # else one thing may be on both sides
        tuple(Shot(*at, shown(file := seen[at].file), of_file(file), file) for at in sorted(seen)),
        split=_required_splits(splits, where),
        notes=tuple(notes),
    )


def of_file(path: Path) -> Callable[[], tuple[str, Callable[[], Picture]]]:
    def read() -> tuple[str, Callable[[], Picture]]:
        if path.exists() and not path.is_file():
            raise OSError(f"{shown(path)}: no file, but a device or a pipe, which need not end")
        content = path.read_bytes()
        return hashlib.sha256(content).hexdigest(), lambda: picture.read(BytesIO(content))

    return read


def natural(name: str) -> list[Any]:
    """A key by which names are sorted, whole numbers in them by size.

    >>> sorted(["cam10", "cam2", "Cam1"], key=natural)
    ['Cam1', 'cam2', 'cam10']
    """
    parts = re.split(r"([0-9]+)", name.casefold())
    return [[(int(part), "") if i % 2 else (-1, part) for i, part in enumerate(parts)], name]


def shown(path: Path | str) -> str:
    """A file's name as it can be printed, composed and in UTF-8, whatever the file system holds."""
    return unicodedata.normalize("NFC", str(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def named(names: Sequence[str]) -> str:
    """The first names, and how many more there are.

    >>> named(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _spoken(name: str) -> str:
    """A name without what is not heard: case, and spaces at its ends or doubled."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _require_one_spelling(what: str, names: Iterable[str], where: Path) -> None:
    first: dict[str, str] = {}
    for name in sorted(names):
        if (other := first.setdefault(_spoken(name), name)) != name:
            raise ValueError(
                f"{shown(where)}: {what} {other!r} and {name!r} differ by case or spaces alone: name both alike"
            )


def require_enough(labels: Iterable[str], groups: Iterable[str], least: int) -> None:
    """Raises an error unless there are two classes or more, and `least` groups or more of each."""
    counts = Counter(label for label, _ in {*zip(labels, groups, strict=True)})
    held = ", ".join(f"{label} {count}" for label, count in sorted(counts.items()))
    if len(counts) < 2:
        raise ValueError(f"one class ({held}): there is nothing to tell apart; the folder's levels are CAMERA/CLASS")
    if few := [label for label, count in sorted(counts.items()) if count < least]:
        raise ValueError(
            f"too few objects of {named(few)}: there is {held}; must be {least} of each class or more, so that some "
            "can be set aside"
        )


def _require_pooled(seen: Iterable[tuple[int, int]], cameras: Sequence[str], where: Path) -> None:
    per_object = Counter(at[0] for at in seen)
    if len(cameras) > 1 and max(per_object.values()) < 2:
        raise ValueError(
            f"{where}: no object was seen by two cameras ({named(cameras)}): pictures of one object must have the same "
            "CLASS/OBJECT under every camera"
        )


def _required_splits(splits: tuple[str, ...], where: Path) -> tuple[str, ...] | None:
    if not any(splits):
        return None
    if not all(splits):
        raise ValueError(f"{where}: some objects have a split and {splits.count('')} have none: give one to all")
    return splits
