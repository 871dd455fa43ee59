"""Pictures that a CSV file lists, a row each: columns file, camera, class, object (or event), and if you like group
and split. Files are relative to the CSV file's folder."""

import csv
from collections.abc import Iterator
from pathlib import Path

from airpool.models.images.pictures import PictureRow, Pictures, gathered, shown

_NEEDED = ("file", "camera", "class", "object")
_KNOWN = (*_NEEDED, "group", "split")


def found(path: Path) -> Pictures:
    """The pictures of a CSV file."""
    rows = [_row(path, number, each) for number, each in table(path, _NEEDED, _KNOWN)]
    _require_one_class(rows, path)
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


def _row(path: Path, line: int, row: dict[str, str]) -> PictureRow:
    split = row.get("split", "")
    if split and split not in ("train", "validation", "test"):
        raise ValueError(f"{shown(path)}, line {line}: split {split!r} must be train, validation or test")
    file = path.parent / row["file"]
    return PictureRow(file, row["camera"], row["class"], row["object"], row.get("group", ""), split)


def _require_one_class(rows: list[PictureRow], path: Path) -> None:
    """In a list an object's name stands for itself; two classes of it are a slip."""
    first: dict[str, str] = {}
    for row in rows:
        if first.setdefault(row.object, row.label) != row.label:
            raise ValueError(
                f"{shown(path)}: object {row.object} has the classes {first[row.object]} and {row.label}, must be one"
            )
