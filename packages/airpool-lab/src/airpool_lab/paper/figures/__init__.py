"""Every figure and table of the paper: redrawn, beside the exact account, with a verdict on each of its statements.

fig_*.py, table_*.py    one module per result: how it is measured, drawn and judged, as one RESULT
statements.toml         what the paper shows and states, as text
figures.toml            the figures as data: panels, axes and marks
description.py          the description that every result fills in
plot.py                 draws any result
tables.py, results/     reads tables; the committed ones
uncertainty.py          scores of the test objects
verdicts.py             the rule by which a statement and a finding hold
report.py               one page of everything
"""

from importlib import import_module
from pathlib import Path

from airpool._support.figures import write_csv
from airpool.paper.figures import plot, tables
from airpool.paper.figures.description import Result, sections, text
from airpool.paper.figures.tables import RESULTS, OnStep, Rows, Stored
from airpool.paper.figures.verdicts import Finding

# In the order of the paper.
IDS = tuple(name for name, section in sections("statements.toml").items() if "paper" in section)


def result(name: str) -> Result:
    """The description of a result, by its id.

    >>> result("table-2").title
    "Accuracy of Schemes 1, 2.1 and 2.2 at three ε (the paper's Table 2)"
    """
    if name not in IDS:
        raise ValueError(f"no result {name!r}: there are {', '.join(IDS)}, or all")
    return import_module(f"airpool.paper.figures.{name.replace('-', '_')}").RESULT


def stored(name: str, *, folder: Path = RESULTS) -> Stored:
    """The committed table of a result."""
    return tables.read(folder / f"{name}.json")


def fresh(name: str, folder: Path, *, seed: int = 0, on_step: OnStep | None = None) -> Stored:
    """The table of a result, measured again and written to a folder."""
    result(name).compute(seed=seed, on_step=on_step).write(folder / f"{name}.json")
    return stored(name, folder=folder)


def drawn(name: str, table: Stored, folder: Path) -> list[Path]:
    """Writes the figure of a result (PNG, SVG) and its data (CSV) to a folder."""
    png, svg, data = (folder / f"{name}.{kind}" for kind in ("png", "svg", "csv"))
    plot.draw(result(name).drawn(table.rows), text(name, file="figures.toml"), png, svg)
    rows = result(name).data(table.rows)
    write_csv(data, {key: tables.column(rows, key) for key in rows[0]}, comment=table.line())
    return [png, svg, data]


__all__ = ["IDS", "Finding", "Result", "Rows", "Stored", "drawn", "fresh", "result", "stored"]
