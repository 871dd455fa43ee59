"""Views of objects in a notebook: tables, sentences and small drawings as HTML that runs nothing and fetches nothing.

Every text is escaped here, and only here. Lines and letters have the colour of the page around them, light or dark.
"""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from airpool._support.figures import BLUE

_CELL = "padding:.15em .8em;vertical-align:top;white-space:normal"
_RULE = "1px solid color-mix(in srgb, currentColor 35%, transparent)"
_WIDTH, _LINE, _LEFT, _RIGHT = 560, 22, 190, 120  # of a drawing, in pixels: in all, of a row, labels and numbers beside
_MOST = 40  # rows of a table, sentences, points of a list
_MOST_PLACES = 400  # of a curve


class Dot(NamedTuple):
    """A row of a drawing: a value as the text says it, its interval where known, and a mark to compare it with."""

    label: str
    value: float
    text: str
    interval: tuple[float, float] | None = None
    mark: float | None = None
    colour: str = BLUE


def shown(title: str, *parts: str) -> str:
    """A title above the parts, each the HTML of one of the functions below; "" is left out."""
    return f'<div style="overflow-x:auto"><p><b>{escape(title)}</b></p>{"".join(parts)}</div>'


def rows_of(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the first cell names its row, and without headings, the others are words. Of many rows, the first."""
    side, rows = "right" if any(header) else "left", list(rows)
    lines = [_cells("th", header, side, f"border-bottom:{_RULE};")] if any(header) else []
    lines += [_cells("td", row, side) for row in rows[:_MOST]]
    style = "border-collapse:collapse;border:0;margin:.3em 0;font-size:90%"
    more = sentences([f"… {len(rows):,} rows in all."]) if len(rows) > _MOST else ""
    return f'<table style="{style}">{"".join(lines)}</table>{more}'


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """A table of names and their values."""
    return rows_of(("", ""), pairs)


def sentences(lines: Iterable[str]) -> str:
    return "".join(f'<p style="margin:.3em 0">{escape(line)}</p>' for line in _first(lines))


def points(title: str, lines: Iterable[str], *, folded: bool = False) -> str:
    """A list below its title, which can be folded up."""
    items = "".join(f"<li>{escape(line)}</li>" for line in _first(lines))
    state = "" if folded else " open"
    return f"<details{state}><summary>{escape(title)}</summary><ul>{items}</ul></details>" if items else ""


def dots(rows: Sequence[Dot], *, ends: tuple[float, float] | None = None, axis: str = "") -> str:
    """A drawing of numbers on one scale, which is logarithmic unless its `ends` are given. Infinity is an arrow."""
    logarithmic = ends is None
    low, high = _ends(rows) if ends is None else ends

    def at(value: float) -> float:
        if not logarithmic:
            share = (value - low) / (high - low)
        elif value <= low:
            share = 0.0
        else:
            share = 1.0 if math.isinf(value) else math.log(value / low) / math.log(high / low)
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(max(share, 0.0), 1.0)

    below = _LINE * len(rows)
    parts = [f'<path d="M{_LEFT} {below + 4}H{_WIDTH - _RIGHT}" stroke="currentColor" stroke-opacity=".5"/>']
    for end, anchor in ((low, "start"), (high, "end")):
        parts.append(_text(at(end), below + 18, f"{end:.3g}", anchor))
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, below + 33, axis, "middle"))
    for number, row in enumerate(rows):
        y = _LINE * number + _LINE / 2
        parts += [_text(_LEFT - 10, y + 4, row.label, "end"), _text(_WIDTH - _RIGHT + 10, y + 4, row.text, "start")]
        if row.interval is not None:
            left, right = map(at, row.interval)
            parts.append(f'<path d="M{left:.1f} {y}H{right:.1f}" stroke="{row.colour}" stroke-width="3"/>')
        if row.mark is not None:
            parts.append(f'<path d="M{at(row.mark):.1f} {y - 8}v16" stroke="currentColor" stroke-width="2"/>')
        x = at(row.value)
        symbol = f'<circle cx="{x:.1f}" cy="{y}" r="5" fill="{row.colour}"/>'
        if math.isinf(row.value):
            symbol = f'<path d="M{x - 9:.1f} {y - 5}l9 5l-9 5z" fill="{row.colour}"/>'
        parts.append(symbol)
    label = "; ".join(f"{row.label}: {row.text}" for row in rows)
    return _drawing(below + (40 if axis else 26), label, parts)


def curve(xs: Sequence[float], ys: Sequence[float], x_name: str, y_name: str) -> str:
    """A drawing of one series over numbers, in their order; not finite ones are left out."""
    pairs = sorted((x, y) for x, y in zip(xs, ys, strict=True) if math.isfinite(x) and math.isfinite(y))
    if len({x for x, _ in pairs}) < 2:
        return ""
    (left, right), (low, high) = ((min(each), max(each)) for each in zip(*pairs, strict=True))
    high = high if high > low else low + (abs(low) or 1.0)
    height, edge = 180, 70

    def at(x: float, y: float) -> tuple[float, float]:
        across, along = (x - left) / (right - left), (y - low) / (high - low)
        return edge + across * (_WIDTH - 2 * edge), 20 + (1 - along) * (height - 60)

    places = [at(*pair) for pair in pairs[:: -(-len(pairs) // _MOST_PLACES)]]
    line = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    parts = [f'<path d="M{line}" fill="none" stroke="{BLUE}" stroke-width="2"/>']
    parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{BLUE}"/>' for x, y in places]
    frame = (
        f'<path d="M{edge} 20V{height - 40}H{_WIDTH - edge}" fill="none" stroke="currentColor" stroke-opacity=".5"/>'
    )
    parts += [frame, _text(edge - 8, 24, f"{high:.4g}", "end"), _text(edge - 8, height - 40, f"{low:.4g}", "end")]
    parts += [
        _text(edge, height - 22, f"{left:.4g}", "start"),
        _text(_WIDTH - edge, height - 22, f"{right:.4g}", "end"),
    ]
    parts += [_text(_WIDTH / 2, height - 8, x_name, "middle"), _text(edge, 12, y_name, "start")]
    return _drawing(height, f"{y_name} over {x_name}", parts)


def _first(lines: Iterable[str]) -> list[str]:
    """The first lines, and how many there are where that is not all of them."""
    every = list(lines)
    return every if len(every) <= _MOST else [*every[:_MOST], f"… {len(every):,} in all."]


def _cells(tag: str, row: Sequence[str], side: str, rule: str = "") -> str:
    aligned = ("left", *(side,) * (len(row) - 1))
    cells = (
        f'<{tag} style="{rule}{_CELL};text-align:{to}">{escape(cell)}</{tag}>'
        for to, cell in zip(aligned, row, strict=True)
    )
    return f"<tr>{''.join(cells)}</tr>"


def _ends(rows: Sequence[Dot]) -> tuple[float, float]:
    """Ends of a logarithmic axis, with every number above 0 and finite between them."""
    numbers = [n for row in rows for n in (row.value, *(row.interval or ()), row.mark or 0.0) if 0 < n < math.inf]
    return (min(numbers) / 1.5, max(numbers) * 1.5) if numbers else (0.1, 10.0)


def _text(x: float, y: float, words: str, anchor: str) -> str:
    about = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="12" fill="currentColor"'
    return f"<text {about}>{escape(words)}</text>"


def _drawing(height: float, label: str, parts: Iterable[str]) -> str:
    size = f'viewBox="0 0 {_WIDTH} {height:.0f}" style="width:{_WIDTH}px;max-width:100%;font-family:sans-serif"'
    return f'<svg role="img" aria-label="{escape(label)}" {size}>{"".join(parts)}</svg>'
