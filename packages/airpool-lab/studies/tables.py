"""The tables behind the figures of the docs: written by sweeps, read as rows, copied as CSV beside the figure."""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from airpool._support.figures import figure, write_csv
from airpool_lab.paper.figures.description import Rows, column, read, where
from airpool_lab.sweep import Table

RESULTS = Path(__file__).parent / "results"
FIGURES = Path(__file__).parents[3] / "docs" / "figures"

__all__ = ["FIGURES", "RESULTS", "Rows", "column", "copy_as_csv", "draw_or_measure", "rows", "save"]


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


def draw_or_measure(
    doc: str | None,
    names: Sequence[str],
    pictures: Mapping[str, Callable[[Axes], None]],
    *,
    measure: Callable[[], None],
) -> None:
    """The command of a study: draws its pictures from results/NAME.json of each name; --fresh measures first."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fresh", action="store_true", help="measure again")
    if parser.parse_args().fresh:
        measure()
    copy_as_csv(names, RESULTS, FIGURES)
    for picture, paint in pictures.items():
        for ending in ("svg", "png"):
            with figure(FIGURES / f"{picture}.{ending}", width=5.6, height=3.8) as (_, axes):
                paint(axes)
