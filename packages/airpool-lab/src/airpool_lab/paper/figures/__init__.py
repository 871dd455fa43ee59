"""Every figure and table of the paper: redrawn, beside the exact account, with a verdict on each of its statements.

fig_*.py, table_*.py    one module per result: how it is measured, drawn and judged, as one RESULT; two have a sibling
statements.toml         what the paper shows and states, as text
figures.toml            the figures as data: panels, axes and marks
description.py          the description that every result fills in, its table, and the rule by which a finding holds
plot.py                 draws any result
results/                the committed tables
report.py               one page of everything
"""

from importlib import import_module
from pathlib import Path

from airpool._support.figures import write_csv
from airpool_lab.paper.figures import plot
from airpool_lab.paper.figures.description import (
    RESULTS,
    OnStep,
    Result,
    Stored,
    column,
    read,
    sections,
    text,
)

# In the order of the paper.
IDS = tuple(name for name, section in sections("statements.toml").items() if "paper" in section)
# Results that stand in the module of another: at other points, or of another codec.
_SIBLINGS = {"fig-hetero-512": ("fig_hetero_16", "RESULT_512"), "fig-schemes": ("table_2", "FIG_SCHEMES")}


def result(name: str) -> Result:
    """The description of a result, by its id.

    >>> result("table-2").title
    "Accuracy of Schemes 1, 2.1 and 2.2 at three ε (the paper's Table 2)"
    """
    if name not in IDS:
        raise ValueError(f"no result {name!r}: there are {', '.join(IDS)}, or all")
    module, attribute = _SIBLINGS.get(name, (name.replace("-", "_"), "RESULT"))
    return getattr(import_module(f"airpool_lab.paper.figures.{module}"), attribute)


def stored(name: str, *, folder: Path = RESULTS) -> Stored:
    """The committed table of a result."""
    return read(folder / f"{name}.json")


def fresh(name: str, folder: Path, *, seed: int = 0, on_step: OnStep | None = None) -> Stored:
    """The table of a result, measured again and written to a folder."""
    result(name).compute(seed=seed, on_step=on_step).write(folder / f"{name}.json")
    return stored(name, folder=folder)


def drawn(name: str, table: Stored, folder: Path) -> list[Path]:
    """Writes the figure of a result (PNG, SVG) and its data (CSV) to a folder."""
    png, svg, data = (folder / f"{name}.{kind}" for kind in ("png", "svg", "csv"))
    plot.draw(result(name).drawn(table.rows), text(name, file="figures.toml"), png, svg)
    rows = result(name).data(table.rows)
    write_csv(data, {key: column(rows, key) for key in rows[0]}, comment=table.line())
    return [png, svg, data]
