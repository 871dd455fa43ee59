"""Pictures in a folder. Classes are folders, and so are cameras, unless they stand in the file's name:

FOLDER/CAMERA/CLASS/OBJECT.jpg       one subfolder for each camera
FOLDER/CLASS/OBJECT_CAMERA.jpg       the camera after the last underscore
"""

import csv
import os
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

from airpool._support.extras import load
from airpool.models.images.pictures import PictureRow, Pictures, gathered, named, shown
from airpool.models.vision import picture

_JUNK = {"thumbs.db", "desktop.ini", "ehthumbs.db"}


def found(path: Path | str, *, more: Collection[str] = ()) -> Pictures:
    """The pictures of a folder, or those that a CSV file lists. more: endings beside those that Pillow reads."""
    path = Path(path)
    if not path.exists():
        raise ValueError(f"{shown(path)}: no such folder")
    if path.is_file():
        if path.suffix.lower() != ".csv":
            raise ValueError(f"{shown(path)} is a file, must be a folder of pictures, or a CSV file that lists them")
        return of_list(path)
    files, notes = _walked(path, endings().union(more))
    depths = Counter(len(each) for each in files)
    if 1 in depths and max(depths) == 1:
        raise ValueError(
            f"{shown(path)}: {depths[1]} pictures lie in the folder itself; put them into CAMERA/CLASS/OBJECT.jpg or "
            "CLASS/OBJECT_CAMERA.jpg, or list them in a CSV file"
        )
    wrong = [each for each in files if len(each) != max(depths)] if depths else []
    if wrong or (depths and max(depths) > 3):
        odd = wrong or list(files)
        raise ValueError(
            f"{shown(path)}: pictures at different depths, such as {shown('/'.join(odd[0]))}; all must be "
            "CAMERA/CLASS/OBJECT.jpg, or all CLASS/OBJECT_CAMERA.jpg"
        )
    rows = [_row(path, each) for each in files]
    return gathered(rows, path, notes)


def _row(root: Path, parts: tuple[str, ...]) -> PictureRow:
    file, stem = root.joinpath(*parts), shown(Path(parts[-1]).stem)
    if len(parts) == 3:
        return PictureRow(file, shown(parts[0]), shown(parts[1]), stem)
    name, bar, camera = stem.rpartition("_")
    if not (bar and name and camera):
        raise ValueError(
            f"{shown(file)}: the camera must stand after an underscore, as in {shown(parts[0])}/{stem}_CAMERA; or make "
            "a subfolder for each camera"
        )
    return PictureRow(file, camera, shown(parts[0]), name)


def _walked(root: Path, known: Collection[str]) -> tuple[list[tuple[str, ...]], list[str]]:
    """Picture files below a folder, as parts of their paths, and notes on what was passed over."""
    files: list[tuple[str, ...]] = []
    others: list[str] = []
    links: list[str] = []
    for folder, inside, names in os.walk(root):
        inside[:] = sorted(name for name in inside if not name.startswith((".", "__")))
        here = Path(folder).relative_to(root)
        links += [shown(here / name) for name in inside if Path(folder, name).is_symlink()]
        for name in sorted(names):
            if name.startswith(".") or name.lower() in _JUNK:
                continue
            regular = Path(folder, name).is_file() or Path(folder, name).is_symlink()
            if regular and Path(name).suffix.lower() in known:
                files.append((*here.parts, name))
            else:
                others.append(shown(here / name))
    notes = [f"{len(links)} links to folders not followed: {named(links)}"] if links else []
    notes += [f"{len(others)} files that are no pictures by their names: {named(others)}"] if others else []
    return files, notes


@cache
def endings() -> frozenset[str]:
    """Endings of pictures that Pillow reads, in lower case."""
    image = load("PIL.Image", "reading pictures")
    known = image.registered_extensions()
    return frozenset(ending.lower() for ending, kind in known.items() if kind in picture.formats())


_NEEDED = ("file", "camera", "class", "object")
_KNOWN = (*_NEEDED, "group", "split")


def of_list(path: Path) -> Pictures:
    """The pictures of a CSV file, in which an object's name stands for itself."""
    rows: list[PictureRow] = []
    classes: dict[str, str] = {}
    for line, row in table(path, _NEEDED, _KNOWN):
        split, name, label = row.get("split", ""), row["object"], row["class"]
        if split and split not in ("train", "validation", "test"):
            raise ValueError(f"{shown(path)}, line {line}: split {split!r} must be train, validation or test")
        if classes.setdefault(name, label) != label:  # a slip
            raise ValueError(f"{shown(path)}: object {name} has the classes {classes[name]} and {label}, must be one")
        rows.append(PictureRow(path.parent / row["file"], row["camera"], label, name, row.get("group", ""), split))
    return gathered(rows, path, [f"{shown(path)} has no rows"] if not rows else [])


def table(path: Path, needed: tuple[str, ...], known: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """Line number and fields of each row, by column in lower case. `event` is another word for `object`."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            header = [name.strip().casefold() for name in next(reader, [])]
            header = ["object" if name == "event" and "object" not in header else name for name in header]
            if missing := [name for name in needed if name not in header]:
                raise ValueError(
                    f"{shown(path)}: no column {', '.join(missing)}; there is {', '.join(header) or 'nothing'}, and "
                    f"there can be {', '.join(known)}"
                )
            for fields in reader:
                if not any(each.strip() for each in fields):
                    continue
                row = dict(zip(header, (shown(each.strip()) for each in fields), strict=False))
                if absent := [name for name in needed if not row.get(name)]:
                    raise ValueError(f"{shown(path)}, line {reader.line_num}: no {', '.join(absent)}")
                yield reader.line_num, row
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{shown(path)}: no CSV file in UTF-8 ({error})") from None
