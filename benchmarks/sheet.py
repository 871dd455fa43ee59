"""A record of `python -m benchmarks` as one page: each part beside its simplest rival, and growth curves.

    python -m benchmarks.sheet [RECORD.json]      draws docs/results/benchmarks.md and its figures again

The record kept is benchmarks/results/all.json.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Any

from airpool._support import figures, files
from airpool._support.page import Badge, Figure, Items, PageTable, Part, Section, Text, page

from . import Curve, Row

ROOT = Path(__file__).parents[1]
RECORD, PAGE = ROOT / "benchmarks" / "results" / "all.json", ROOT / "docs" / "results" / "benchmarks.md"
HEADER = ("what", "measured", "target", "rival", "measured", "ratio", "note")
# Longer runs: record → what it is, and the command.
KEPT = {
    "air-h200": ("inferences a second over the air, on an H200", "air --device cuda"),
    "budget": ("how many inferences a budget of ε = 8 lasts for, slots beside one slot", "budget"),
    "kills": ("1,708 roles killed in a running system", "kills"),
    "kills-slots": ("503 roles killed between slots", "kills --slots 8"),
    "load": ("many clients at once, before and after a change", "load --seconds 8"),
    "fuzz": ("100,000 hostile messages to every role", "fuzz"),
    "page-browser": ("the page in a browser: paint, moves, ten clients", "page_browser"),
    "page-fuzz": ("10,000 hostile requests to the page", "page_fuzz"),
    "shelf-onnxruntime": ("a camera's device: size, memory, latency", "shelf"),
    "int8-labels": ("labels that int8 changes", "int8_labels"),
}
_COLOURS = (figures.OURS, figures.RED, figures.GREEN, figures.PURPLE)
_LEAD = (
    "Each part beside the simplest thing that could do its job, measured in the same run. Compare ratios rather than "
    "times: another machine has other times. A ratio below 1 means that airpool takes less. A target is the most that "
    "was asked for; a part without one is measured for comparison alone."
)
# Topic of a row → the heading of its table, where the topic's own name is too short for one.
_TITLES = {
    "loaded": "on a busy machine",
    "reports": "slow reports",
    "way": "way of an ε through the code",
    "example": "your own data",
}


def read(path: Path) -> tuple[dict[str, Any], list[Row], list[Curve]]:
    """Machine and date, rows and curves of a record."""
    data = json.loads(path.read_text("utf-8"))
    rows, curves = data.pop("rows"), data.pop("curves")
    return data, [Row(**row) for row in rows], [Curve(**curve) for curve in curves]


def shown(value: float | None, unit: str) -> str:
    """Three digits, and milliseconds for short times; a dash for what could not be measured."""
    if value is None:
        return "–"
    if unit == "s" and value < 1:
        value, unit = value * 1e3, "ms"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def cells(row: Row) -> tuple[str, ...]:
    """The cells of a row under HEADER."""
    limit = "" if row.limit is None else f"≤ {shown(row.limit, row.unit)}"
    rival = "" if row.rival is None else shown(row.rival, row.unit)
    ratio = "" if row.ratio is None else f"{row.ratio:.2g}"
    return row.what, shown(row.value, row.unit), limit, row.beside, rival, ratio, row.note


def origin(about: Mapping[str, Any]) -> str:
    return (
        f"Measured on {about['date']} by `{about['command']}`, airpool {about['version']}, Python {about['python']}, "
        f"{about['cpus']} cores of {about['processor']}, {about['system']}; load {about['load']} at the start."
    )


def draw(curve: Curve, *paths: Path | BytesIO) -> None:
    """Both axes are logarithmic; a line ends where the next point would take too long."""
    files_ = [path for path in paths if isinstance(path, Path)]
    with figures.figure(*files_, width=6.0, height=3.6) as (fig, axes):
        for (name, line), colour in zip(curve.lines.items(), _COLOURS, strict=False):
            known = [(x, y) for x, y in zip(curve.x, line, strict=True) if y is not None]
            axes.plot(*zip(*known, strict=True), marker="o", markersize=4, label=name, color=colour)
        axes.set(xscale="log", yscale="log", xlabel=curve.x_axis, ylabel=f"{curve.title}, {curve.y_axis}")
        axes.legend()
        for path in paths:
            if isinstance(path, BytesIO):
                fig.savefig(path, format="svg", metadata={"Date": None})


def html(about: Mapping[str, Any], rows: Sequence[Row], curves: Sequence[Curve]) -> str:
    """The page that `make bench` writes."""
    growth: list[Part] = []
    for curve in curves:
        draw(curve, picture := BytesIO())
        caption = f"{curve.title} ({curve.y_axis}). {curve.note}".strip()
        growth.append(Figure(picture.getvalue(), f"{curve.title} over {curve.x_axis}", caption))
    missed = [f"{row.topic}: {row.what}: {shown(row.value, row.unit)}" for row in rows if row.missed]
    sections = [Section("Missed", [Items(missed)])] if missed else []
    for topic, group in groupby(rows, key=lambda row: row.topic):
        table = [[_marked(row, cell, k) for k, cell in enumerate(cells(row))] for row in group]
        title = _TITLES.get(topic, topic)
        sections.append(Section(title, [PageTable(f"{title}: medians, δ = 1e-5", HEADER, table)]))
    return page(
        "Benchmarks", lead=_LEAD, origin=[origin(about)], sections=[*sections, Section("Growth", [Text(""), *growth])]
    )


def _marked(row: Row, cell: str, column: int) -> str:
    return Badge(cell, "bad" if row.missed else "good") if column == 1 and row.limit is not None else cell


def markdown(about: Mapping[str, Any], rows: Sequence[Row], curves: Sequence[Curve]) -> str:
    """The page of the site."""
    missed = [row for row in rows if row.missed]
    met = sum(row.limit is not None for row in rows) - len(missed)
    told = f"{met} targets are met, {len(missed)} missed."
    again = f"""Measure again: `make bench` ({about["minutes"]:.0f} minutes), which writes `out/benchmarks.html` and
`out/benchmarks.json`. This page is drawn from `benchmarks/results/all.json`, by `python -m benchmarks.sheet`."""
    text = [f"# Benchmarks\n\n{_LEAD}\n\n{origin(about)} {told}\n\n{again}\n"]
    for topic, group in groupby(rows, key=lambda row: row.topic):
        title = _TITLES.get(topic, topic)
        text.append(f"\n## {title[0].upper()}{title[1:]}\n\n| {' | '.join(HEADER)} |\n|{' --- |' * len(HEADER)}")
        for row in group:
            what, measured, *rest = (cell.replace("|", "\\|") for cell in cells(row))
            text.append(f"| {' | '.join((what, f'**{measured}** (missed)' if row.missed else measured, *rest))} |")
    text.append("\n## Growth\n")
    for curve in curves:
        told = f" {curve.note}" if curve.note else ""
        text.append(f"![{curve.title} over {curve.x_axis}](../figures/bench-{curve.name}.svg)\n")
        text.append(f"*{curve.title} ({curve.y_axis}).{told}*\n")
    text.append("## Longer runs\n\nRun once, by commands of their own; the records are in `benchmarks/results`.\n")
    text += ["| run | record | command |", "| --- | --- | --- |"]
    text += [f"| {what} | `{name}.json` | `python -m benchmarks.{command}` |" for name, (what, command) in KEPT.items()]
    return "\n".join(text) + "\n"


def main() -> None:
    about, rows, curves = read(Path(sys.argv[1]) if len(sys.argv) > 1 else RECORD)
    for curve in curves:
        draw(curve, ROOT / "docs" / "figures" / f"bench-{curve.name}.svg")
    files.write(PAGE, markdown(about, rows, curves))


if __name__ == "__main__":
    main()
