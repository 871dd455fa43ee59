"""Result tables: committed as results/ID.json, read back as rows."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from airpool._support.table import number

Rows = list[dict[str, Any]]
OnStep = Callable[[int], None]

RESULTS = Path(__file__).parent / "results"


class Stored(NamedTuple):
    """A table on disk. about: what measured it, with parameters, seed, version, command, day and machine."""

    rows: Rows
    about: dict[str, Any]

    def line(self) -> str:
        """Its origin, in one line."""
        when = "measured {measured} on {machine}; " if self.about["measured"] else ""
        return ("airpool {version}; " + when + "{function}; seed {seed}; {command}").format(**self.about)


def read(path: Path) -> Stored:
    """A table written by a sweep as JSON; "inf" and "nan" become numbers."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such result table; airpool reproduce {path.stem} --fresh makes one")
    try:
        data = json.loads(path.read_text("utf-8"))
        columns = data["columns"]
        rows = [dict(zip(columns, map(number, row), strict=True)) for row in zip(*columns.values(), strict=True)]
        about = {name: data[name] for name in ("function", "seed", "version", "command", "parameters")}
        # Tables of earlier days do not have them.
        about |= {name: data.get(name, "") for name in ("measured", "machine")}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: no result table ({type(error).__name__}: {error})") from None
    return Stored(rows, about)


def where(rows: Rows, **chosen: Any) -> Rows:
    """The rows with these values."""
    return [row for row in rows if all(row[name] == value for name, value in chosen.items())]


def column(rows: Rows, name: str) -> list[Any]:
    return [row[name] for row in rows]
