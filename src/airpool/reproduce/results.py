"""Result tables: measured by a sweep, committed in the package as results/ID.json, read back as rows.

    table = measured(row, grid(epsilon=[1, 2]), result="fig-dim")
    write(table, folder / "fig-dim.json")
    read(folder / "fig-dim.json").rows                               # [{"epsilon": 1, "accuracy": ..., ...}, ...]

Parameters, seeds, version and the command that made it travel with a table.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airpool.figures import write_csv
from airpool.sweep import Table, run
from airpool.table import number

Rows = list[dict[str, Any]]
OnStep = Callable[[int], None]

RESULTS = Path(__file__).parent / "results"
GPU_RUN = "a GPU run (python -m studies.train_codecs, then python -m studies.gpu_runs RUNS.json)"

# What a result was measured on, for the page; the paper's own beside it.
RENDERS = "Data: voxel renders of ModelNet40; the paper renders the CAD models."
IDEAL = (
    "Channel: ideal, with unit gain and no receiver noise; the paper has Rician fading, receiver noise σ_m² = 0.1 and "
    "30 dBm of power."
)


@dataclass(frozen=True, eq=False)
class Stored:
    """A table as it lies on disk. about: the function that made it, seed, version and command."""

    rows: Rows
    about: dict[str, Any]

    def line(self) -> str:
        """How it came about, in one line."""
        return "airpool {version}; {function}; seed {seed}; {command}".format(**self.about)


def unheard(steps: int) -> None:
    """For whoever does not want to know how far a computation is."""


def measured(
    function: Callable[..., Any],
    points: Iterable[Mapping[str, Any]],
    *,
    result: str,
    seed: int = 0,
    on_step: OnStep = unheard,
) -> Table:
    """The table of a function over points, whole or not at all: a point that fails is an error."""

    @contextmanager
    def told(what: str, total: int) -> Iterator[OnStep]:
        yield on_step

    table = run(function, points, seed=seed, progress=told, command=f"airpool reproduce {result} --fresh")
    if table.failures:
        raise RuntimeError("\n".join(map(str, table.failures)))
    return table


def elsewhere(result: str, how: str) -> ValueError:
    """The error of a result that the package cannot measure: its table comes from `how`, run in the repository."""
    return ValueError(
        f"{result} cannot be measured again here: its table comes from {how}, run in airpool's repository; "
        "leave --fresh out to draw it"
    )


def write(table: Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table.write(path)


def read(path: Path) -> Stored:
    """A table written by `write`; "inf" and "nan" are numbers again."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such result table; airpool reproduce {path.stem} --fresh makes one")
    try:
        data = json.loads(path.read_text("utf-8"))
        columns = data["columns"]
        rows = [dict(zip(columns, map(number, row), strict=True)) for row in zip(*columns.values(), strict=True)]
        about = {name: data[name] for name in ("function", "seed", "version", "command", "parameters")}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: no result table ({type(error).__name__}: {error})") from None
    return Stored(rows, about)


def rows_of(table: Table) -> Rows:
    """The rows of a table in memory, as `read` gives them."""
    return [{name: number(value) for name, value in row.items()} for row in table.rows()]


def where(rows: Rows, **chosen: Any) -> Rows:
    """The rows with these values.

    >>> where([{"scheme": "1", "accuracy": 0.5}, {"scheme": "2.1", "accuracy": 0.6}], scheme="2.1")
    [{'scheme': '2.1', 'accuracy': 0.6}]
    """
    return [row for row in rows if all(row[name] == value for name, value in chosen.items())]


def column(rows: Rows, name: str) -> list[Any]:
    return [row[name] for row in rows]


def as_csv(rows: Rows, path: Path) -> Path:
    """The rows as the data beside a figure; how they came about is written on top when the figure is made."""
    write_csv(path, {name: column(rows, name) for name in rows[0]})
    return path


def both(folder: Path, name: str) -> tuple[Path, Path]:
    """Where a figure goes, as PNG and as SVG."""
    return folder / f"{name}.png", folder / f"{name}.svg"
