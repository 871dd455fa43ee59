"""Every figure and table of the paper, redrawn: in the paper's terms, the exact one beside it, and whether it holds.

One small module for each result, with ID, TITLE, PAPER, SETTING, FRESH and three functions:

    compute(seed=0, on_step=...)    measures the table again
    draw(rows, folder)              figures (PNG, SVG) and their data (CSV)
    finding(rows)                   the paper's statements, tested, and what to do

results/ holds the committed tables, results.py reads and writes them, verdicts.py
has the rule by which a finding holds, report.py makes one page of everything.
"""

from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from airpool import files
from airpool.reproduce.results import RESULTS, OnStep, Rows, Stored, read, rows_of, unheard, write
from airpool.reproduce.verdicts import Finding

# In the order of the paper.
IDS = (
    "fig-dim",
    "fig-entropy",
    "fig-p21",
    "table-1",
    "fig-p22",
    "fig-psigma",
    "fig-hetero-16",
    "fig-hetero-512",
    "fig-schemes",
    "table-2",
    "fig-feasible",
    "fig-asymptotics",
)


class Result(Protocol):
    """What a module of this package offers.

    SETTING: data and channel. FRESH: whether `compute` measures its table; if not, it says where that is done.
    """

    ID: str
    TITLE: str
    PAPER: str
    SETTING: str
    FRESH: bool

    def compute(self, *, seed: int = 0, on_step: OnStep = unheard) -> Any: ...

    def draw(self, table: Rows, folder: Path) -> list[Path]: ...

    def finding(self, table: Rows) -> Finding: ...


def result(name: str) -> Result:
    """The module of a result, by its id.

    >>> result("table-2").ID
    'table-2'
    """
    if name not in IDS:
        raise ValueError(f"no result {name!r}: there are {', '.join(IDS)}, or all")
    found: Any = import_module(f".{name.replace('-', '_')}", __name__)
    return found


def stored(name: str, *, folder: Path = RESULTS) -> Stored:
    """The committed table of a result."""
    return read(folder / f"{name}.json")


def fresh(name: str, folder: Path, *, seed: int = 0, on_step: OnStep = unheard) -> Stored:
    """The table of a result measured again, and written to a folder."""
    table = result(name).compute(seed=seed, on_step=on_step)
    write(table, folder / f"{name}.json")
    return read(folder / f"{name}.json")


def drawn(name: str, table: Stored, folder: Path) -> list[Path]:
    """The figures of a result and their data, in a folder; the data say on top how they came about."""
    folder.mkdir(parents=True, exist_ok=True)
    made = result(name).draw(table.rows, folder)
    for path in made:
        if path.suffix == ".csv":
            text = path.read_text("utf-8")
            files.write(path, f"# {table.line()}\n" + text if not text.startswith("#") else text)
    return made


__all__ = ["IDS", "Finding", "Result", "Rows", "Stored", "drawn", "fresh", "result", "rows_of", "stored"]
