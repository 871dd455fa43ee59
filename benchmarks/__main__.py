"""`python -m benchmarks`: times what has to be fast, beside the limits that were asked for."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from airpool._support.version import __version__

from . import Row, noise, privacy


def noise_rows() -> list[Row]:
    def row(what: str, measured: str) -> Row:
        value, unit = measured.split(" ", 1)
        return Row("noise", what.removeprefix("noise: "), float(value), unit)

    return [row(*pair) for pair in noise.rows()]


def air_rows() -> list[Row]:
    from . import air

    found, beside = air.run("cpu", trials=256, batch=2**11), air.plain()
    what = f"inferences, {air.DEVICES} devices, r = {air.DIMENSION}, on the CPU"
    slower = 1 / found["fraction"]
    growth = [
        Row("air", f"ten times the {grown}, {path} path", ratio, "times the time", "10 is linear", limit=20.0)
        for path in ("fast", "full")
        for grown, ratio in zip(("devices", "coordinates"), air.tenfold(path), strict=True)
    ]
    return [
        Row("air", what, found["per_second"], "/s", "on an H200: benchmarks/results/air-h200.json"),
        Row(
            "air", "- matrix products and random numbers alone", found["ceiling"], "/s", "the ceiling, in the same run"
        ),
        Row("air", "- time, relative to the ceiling's", slower, "times", "2 is half of the ceiling", limit=2.0),
        Row(
            "air",
            "fast path, K = 12, r = 40, 2 threads, relative to plain torch",
            beside["ours"] / beside["plain"],
            "times the time",
            f"six lines of torch that draw the same law take {beside['plain']:.2f} s",
            limit=1.25,
        ),
        *growth,
    ]


def trunk_rows() -> list[Row]:
    from . import trunk

    return trunk.rows()


def images_rows() -> list[Row]:
    from . import images

    return images.rows()


def waveform_rows() -> list[Row]:
    from . import waveform

    return waveform.rows()


def sweep_rows() -> list[Row]:
    from . import sweep

    return sweep.rows()


def design_rows() -> list[Row]:
    from . import design

    return design.rows()


def secure_rows() -> list[Row]:
    from . import secure

    return secure.rows()


def example_rows() -> list[Row]:
    script = Path(__file__).parent.parent / "examples" / "own_backbone.py"
    took, _ = privacy.timed(lambda: subprocess.run([sys.executable, script], check=True, capture_output=True))
    return [Row("example", "a backbone and data of one's own, examples/own_backbone.py", took, "s", limit=300.0)]


def ledger_rows() -> list[Row]:
    from . import ledger

    return ledger.rows()


def runtime_rows() -> list[Row]:
    from . import runtime

    return runtime.rows()


def report_rows() -> list[Row]:
    from . import reports

    return reports.rows()


def plan_rows() -> list[Row]:
    from . import plan

    return plan.rows()


def start_rows() -> list[Row]:
    from . import start

    return start.rows()


def loaded_rows() -> list[Row]:
    from . import loaded

    return loaded.rows()


def page_rows() -> list[Row]:
    from . import page

    return page.rows()


TOPICS: dict[str, Callable[[], list[Row]]] = {
    "start": start_rows,
    "loaded": loaded_rows,
    "privacy": privacy.rows,
    "reports": report_rows,
    "noise": noise_rows,
    "audit": privacy.audit_rows,
    "air": air_rows,
    "waveform": waveform_rows,
    "trunk": trunk_rows,
    "images": images_rows,
    "sweep": sweep_rows,
    "design": design_rows,
    "plan": plan_rows,
    "ledger": ledger_rows,
    "runtime": runtime_rows,
    "secure": secure_rows,
    "page": page_rows,
    "example": example_rows,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", choices=TOPICS, help="one topic instead of all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to FILE")
    options = parser.parse_args()

    found: list[Row] = []
    for name in [options.only] if options.only else TOPICS:
        with Console(stderr=True).status(f"measuring {name}"):
            found += TOPICS[name]()
    print_table(found)
    if options.json is not None:
        rows = [asdict(row) | {"missed": row.missed} for row in found]
        data = {"version": __version__, "cpu_count": os.cpu_count(), "rows": rows}
        options.json.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def print_table(rows: list[Row]) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=130)  # a log has no edge to keep to
    table = Table(title=f"airpool {__version__}, {os.cpu_count()} CPUs; medians, δ = 1e-5", title_justify="left")
    for name in ("what", "measured", "asked for", "note"):
        table.add_column(name, justify="right" if name in ("measured", "asked for") else "left")
    for topic, group in groupby(rows, key=lambda row: row.topic):
        table.add_row(topic, style="bold")
        for row in group:
            limit = "" if row.limit is None else f"≤ {shown(row.limit, row.unit)}"
            style = "bold red" if row.missed else None
            table.add_row(f"  {row.what}", shown(row.value, row.unit), limit, escape(row.note), style=style)
        table.add_section()
    console.print(table)


def shown(value: float | None, unit: str) -> str:
    """Three digits, and milliseconds for short times; a dash for what could not be measured."""
    if value is None:
        return "–"
    if unit == "s" and value < 1:
        value, unit = value * 1e3, "ms"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


if __name__ == "__main__":
    main()
