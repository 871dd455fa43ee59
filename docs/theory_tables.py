"""The tables behind the figures of docs/theory.md: written by sweeps, read as rows, copied as CSV beside the figure."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airpool.figures import write_csv
from airpool.sweep import Table

Rows = list[dict[str, Any]]


def save(table: Table, path: Path) -> None:
    """Whole or not at all: a point that failed is an error."""
    if table.failures:
        raise RuntimeError("\n".join(map(str, table.failures)))
    table.write(path)


def rows(path: Path, **chosen: Any) -> Rows:
    """The rows of a table written by `save`, those with the values chosen."""
    columns = json.loads(path.read_text("utf-8"))["columns"]
    every = [dict(zip(columns, map(_number, row), strict=True)) for row in zip(*columns.values(), strict=True)]
    return [row for row in every if all(row[name] == value for name, value in chosen.items())]


def _number(value: Any) -> Any:
    return float(value) if value in ("inf", "nan") else value


def column(table: Rows, name: str) -> list[Any]:
    return [row[name] for row in table]


def copy_as_csv(names: Sequence[str], results: Path, figures: Path) -> None:
    """Each table as docs/figures/NAME.csv, under a line that says how it came about."""
    for name in names:
        about = json.loads((results / f"{name}.json").read_text("utf-8"))
        comment = f"airpool {about['version']}; {about['function']}; seed {about['seed']}; {about['command']}"
        write_csv(figures / f"{name}.csv", about["columns"], comment=comment)
