"""The tables behind the figures of the docs: written by sweeps, read as rows, copied as CSV beside the figure."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airpool._support.figures import write_csv
from airpool.evaluation.sweep import Table
from airpool.paper.figures.tables import Rows, column, read, where

RESULTS = Path(__file__).parent / "results"
FIGURES = Path(__file__).parent.parent / "docs" / "figures"

__all__ = ["FIGURES", "RESULTS", "Rows", "column", "copy_as_csv", "rows", "save"]


def save(table: Table, path: Path) -> None:
    """Whole or not at all: a point that failed is an error."""
    if table.failures:
        raise RuntimeError("\n".join(map(str, table.failures)))
    table.write(path)


def rows(path: Path, **chosen: Any) -> Rows:
    """The rows of a table written by `save`, those with the values chosen."""
    return where(read(path).rows, **chosen)


def copy_as_csv(names: Sequence[str], results: Path, figures: Path) -> None:
    """Each table as docs/figures/NAME.csv, under a line that says how it came about."""
    for name in names:
        path = results / f"{name}.json"
        write_csv(figures / f"{name}.csv", json.loads(path.read_text("utf-8"))["columns"], comment=read(path).line())
