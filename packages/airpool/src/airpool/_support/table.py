"""Result tables: one row per point, in the order of the points, as plain columns; written as CSV, JSON or Parquet."""

import json
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airpool._support import files
from airpool._support.brief import Brief
from airpool._support.extras import load
from airpool._support.figures import write_csv
from airpool._support.rounding import shown

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_SHOWN = 30  # rows in a notebook


@dataclass(frozen=True)
class Failure:
    """A point without a row, and why."""

    parameters: dict[str, Any]
    error: str

    def __str__(self) -> str:
        return f"{', '.join(f'{name}={value}' for name, value in self.parameters.items())}: {self.error}"


@dataclass(frozen=True)
class Effort:
    """Seconds from the first point to the last, and within points; numbers of points measured and from the cache."""

    seconds: float = 0.0
    work: float = 0.0
    measured: int = 0
    cached: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Table(Brief):
    """Columns by name: the parameters, `seed`, and what the function returned; None where a row has no such value.

    Tables are equal if all but `command`, `measured`, `machine` and `effort` is. version: of airpool and the
    function's code. measured: the day on which the last point was; machine: its class; both may be unknown.
    """

    columns: dict[str, list[Any]]
    parameters: tuple[str, ...]
    failures: tuple[Failure, ...]
    function: str
    seed: int
    version: str
    effort: Effort = Effort()
    command: str = ""
    measured: str = ""
    machine: str = ""

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]], **about: Any) -> "Table":
        """The table of rows {"parameters", "seed", "results", "error"}; "results" is None where a point failed."""
        made = [row for row in rows if row["results"] is not None]
        parameters = tuple(dict.fromkeys(name for row in rows for name in row["parameters"]))
        columns = {name: [row["parameters"].get(name) for row in made] for name in parameters}
        columns["seed"] = [row["seed"] for row in made]
        for name in dict.fromkeys(name for row in made for name in row["results"]):
            columns[name] = [row["results"].get(name) for row in made]
        failures = tuple(Failure(row["parameters"], row["error"]) for row in rows if row["results"] is None)
        return cls(columns, parameters, failures, **about)

    def __len__(self) -> int:
        return len(self.columns["seed"])

    def __eq__(self, other: object) -> bool:
        aside = dict.fromkeys(("command", "measured", "machine"))
        return isinstance(other, Table) and self.to_json() | aside == other.to_json() | aside

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def rows(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*self.columns.values(), strict=True)]

    def _repr_html_(self) -> str:
        from airpool._support import notebook

        rows = [[_cell(name, value) for name, value in row.items()] for row in self.rows()[:_SHOWN]]
        notes = [f"… {len(self)} rows in all."] if len(self) > _SHOWN else []
        notes += [f"failed: {failure}" for failure in self.failures]
        table = notebook.rows_of(list(self.columns), rows)
        return notebook.shown(
            f"Table of {self.function}, seed {self.seed}", self._drawn, table, notebook.sentences(notes)
        )

    @property
    def _drawn(self) -> str:
        """A curve, where a single parameter varies: of the accuracy, or else of the first result."""
        varied = [name for name in self.parameters if len(set(map(str, self.columns[name]))) > 1]
        results = [name for name in self.columns if name not in (*self.parameters, "seed")]
        wanted = next((name for name in results if name.startswith("accuracy")), results[0] if results else None)
        if len(varied) != 1 or wanted is None:
            return ""
        xs, ys = self.columns[varied[0]], self.columns[wanted]
        if not all(isinstance(x, int | float) for x in (*xs, *ys)):
            return ""
        from airpool._support.notebook import curve

        return curve(xs, ys, varied[0], wanted)

    def to_json(self) -> dict[str, Any]:
        """The table as plain data; "inf", "-inf" and "nan" stand for the numbers that JSON does not have."""
        failures = [vars(failure) for failure in self.failures]
        data = {"parameters": self.parameters, "columns": self.columns, "failures": failures}
        return self._about() | files.jsonable(data)

    def _about(self) -> dict[str, Any]:
        names = ("function", "seed", "version", "command", "measured", "machine")
        return {name: getattr(self, name) for name in names}

    def write(self, path: Path) -> None:
        """Writes a file by the ending of its name, whole or not at all."""
        writer = writer_for(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        writer(self, path)

    def to_csv(self, path: Path) -> None:
        """The columns below comment lines with function, seed, version and failures; a list in a cell is JSON."""
        header = f"airpool {self.version}; {self.function}; seed {self.seed}"
        lines = [f"{header}; {self.command}" if self.command else header, *(f"failed: {f}" for f in self.failures)]
        text = {name: [json.dumps(v) if isinstance(v, list) else v for v in c] for name, c in self.columns.items()}
        write_csv(path, text, comment="\n# ".join(lines))

    def to_parquet(self, path: Path) -> None:
        """The columns with their types, and the header as metadata (extra `parquet`)."""
        pyarrow, parquet = load("pyarrow", "Parquet"), import_module("pyarrow.parquet")
        about = {**self._about(), "failures": [str(failure) for failure in self.failures]}
        content, arrays = BytesIO(), {}
        for name, column in self.columns.items():
            try:
                arrays[name] = pyarrow.array(column)
            except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
                raise ValueError(f"{name}: values of several types do not fit into one Parquet column") from None
        table = pyarrow.table(arrays).replace_schema_metadata({"airpool": json.dumps(about, ensure_ascii=False)})
        parquet.write_table(table, content)
        files.write(path, content.getvalue())

    def _to_json_file(self, path: Path) -> None:
        files.write(path, json.dumps(self.to_json(), ensure_ascii=False, allow_nan=False, indent=1) + "\n")


def _cell(name: str, value: Any) -> str:
    """A value as text; an ε is rounded up."""
    if isinstance(value, float):
        return shown(value) if "epsilon" in name else f"{value:.4g}"
    return "" if value is None else str(value)


def one_row(record: Mapping[str, Any], *, function: str) -> Table:
    """A record with its seed and version as a table of one row. "inf" becomes the number."""
    columns = {name: [number(value)] for name, value in record.items() if name != "version"}
    return Table(columns, (), (), function, record["seed"], record["version"])


def writer_for(path: Path) -> Callable[[Table, Path], None]:
    """The method that writes a file of this name. A ValueError if there is none, before anything is measured."""
    writers = {".csv": Table.to_csv, ".json": Table._to_json_file, ".parquet": Table.to_parquet}
    if path.suffix not in writers:
        raise ValueError(f"{path}: a table's name must end in {', '.join(writers)}")
    if path.suffix == ".parquet":
        load("pyarrow", "Parquet")
    return writers[path.suffix]


def number(value: Any) -> Any:
    """A value from JSON: "inf", "-inf" and "nan" are numbers again, in lists too."""
    if isinstance(value, list):
        return [number(each) for each in value]
    return float(value) if value in ("inf", "-inf", "nan") else value


_GAP = 2
_PROSE = 24  # columns at least, for a column of sentences


@dataclass(frozen=True)
class TextTable:
    """Rows of text under a header; without one ("", ""), names and their values. rich prints it in the room there is.

    >>> rows = [("0 to 10", "1.910"), ("11, the one behind the door", "12.5")]
    >>> print(TextTable(("device", "ε of the sum"), rows).text(60))
    device                       ε of the sum
    ───────────────────────────  ────────────
    0 to 10                             1.910
    11, the one behind the door          12.5
    >>> print(TextTable(("device", "ε of the sum"), rows).text(20))
    device 0 to 10
      ε of the sum 1.910
    device 11, the one
        behind the door
      ε of the sum 12.5
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self, width: int) -> str:
        """Lines of at most `width` characters, unless a single word is longer."""
        names, stacked = [[name] for name in self.header], [name.split(" ") for name in self.header]
        for heading, wrap in ((names, False), (stacked, False), (stacked, True)):
            if (room := self._columns(heading, width, wrap=wrap)) is not None:
                return "\n".join(_lines(heading if any(self.header) else None, self.rows, room))
        return "\n".join(line for row in self.rows for line in self._block(row, width))

    def _columns(self, heading: Sequence[Sequence[str]], width: int, *, wrap: bool) -> list[int] | None:
        """The width of each column, None if they do not fit. wrap: cells break at spaces, the widest column first."""
        columns = [(*lines, *(row[k] for row in self.rows)) for k, lines in enumerate(heading)]
        room = [max(map(len, cells)) for cells in columns]
        words = [max(len(word) for cell in cells for word in cell.split(" ")) for cells in columns]
        least = [max(word, _PROSE) if size > _PROSE else word for word, size in zip(words, room, strict=True)]
        while sum(room) + _GAP * (len(room) - 1) > width:
            large = [k for k in range(len(room)) if wrap and room[k] > least[k]]
            if not large:
                return None
            room[max(large, key=room.__getitem__)] -= 1
        return room

    def _block(self, row: Sequence[str], width: int) -> Iterator[str]:
        """A row as lines: the first cell, and below it every other one after its heading."""
        names = [name.replace("\u00a0", " ") for name in self.header]
        longest = max(map(len, names[1:]), default=0)
        for k, (name, cell) in enumerate(zip(names, row, strict=True)):
            if k and not cell:
                continue
            begin = f"{name} ".lstrip() if k == 0 else f"  {name:<{longest}} " if longest else "  "
            yield from wrapped(begin + cell, width, indent="    ")

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.text import Text

        yield Text(self.text(options.max_width), overflow="fold")


def runs_of(lines: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Equal neighbouring lines as one, with the devices that share it.

    >>> list(runs_of([("1", "2"), ("1", "2"), ("3", "4")]))
    [('0 to 1', ('1', '2')), ('2', ('3', '4'))]
    """
    for line, run in groupby(range(len(lines)), key=lambda k: lines[k]):
        first, *rest = run
        yield f"{first} to {rest[-1]}" if rest else str(first), line


def _lines(heading: Sequence[Sequence[str]] | None, rows: Sequence[Sequence[str]], room: list[int]) -> Iterator[str]:
    """A table: columns after the first to the right where it has headings, and a rule below these."""
    if heading is not None:
        depth = max(map(len, heading))
        for level in range(depth):  # headings stand at the bottom
            cells = [lines[level - depth] if level >= depth - len(lines) else "" for lines in heading]
            yield _line(cells, room, right=True)
        yield _line(["─" * width for width in room], room, right=True)
    for row in rows:
        parts = [wrapped(cell, width) for cell, width in zip(row, room, strict=True)]
        for level in range(max(map(len, parts))):
            cells = [lines[level] if level < len(lines) else "" for lines in parts]
            yield _line(cells, room, right=heading is not None)


def _line(cells: Sequence[str], room: list[int], *, right: bool) -> str:
    sides = ["<", *(">" if right else "<") * (len(room) - 1)]
    placed = [f"{cell:{side}{width}}" for cell, side, width in zip(cells, sides, room, strict=True)]
    return (" " * _GAP).join(placed).rstrip()


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Lines of at most `width` characters, broken at spaces alone; a longer word stands by itself."""
    how = {"break_long_words": False, "break_on_hyphens": False, "subsequent_indent": indent}
    return textwrap.wrap(text, max(width, len(indent) + 1), **how) or [""]
