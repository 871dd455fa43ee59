"""Tables for people. One that is too wide changes its form, down to a block of lines for each row: nothing is cut."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

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
