"""`python -m benchmarks`: each part beside its simplest rival, growth curves and limits, as a table and as one page."""

import argparse
import json
import os
import platform
import time
from dataclasses import asdict
from datetime import date
from importlib import import_module
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from airpool._support import files
from airpool._support.version import __version__

from . import Curve, Row, sheet

# Topic → the function of its rows, in its module.
TOPICS = {
    "start": "rows",
    "loaded": "rows",
    "privacy": "rows",
    "reports": "rows",
    "way": "rows",
    "noise": "rows",
    "audit": "privacy:audit_rows",
    "air": "rows",
    "waveform": "rows",
    "trunk": "rows",
    "images": "rows",
    "sweep": "rows",
    "design": "rows",
    "plan": "rows",
    "ledger": "rows",
    "runtime": "rows",
    "secure": "rows",
    "page": "rows",
    "example": "rows",
}


def measured(topic: str) -> list[Row]:
    module, _, function = TOPICS[topic].rpartition(":")
    return getattr(import_module(f"benchmarks.{module or topic}"), function)()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", choices=[*TOPICS, "growth"], nargs="+", help="some topics instead of all")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="FOLDER", help="of benchmarks.json and .html")
    options = parser.parse_args()

    about = machine("make bench" if options.only is None else f"python -m benchmarks --only {' '.join(options.only)}")
    began, rows, curves = time.monotonic(), list[Row](), list[Curve]()
    for name in options.only or [*TOPICS, "growth"]:
        with Console(stderr=True).status(f"measuring {name}"):
            if name == "growth":
                from . import growth

                curves = growth.curves()
            else:
                rows += measured(name)
    about["minutes"] = (time.monotonic() - began) / 60
    record = about | {"rows": [asdict(row) for row in rows], "curves": [asdict(curve) for curve in curves]}
    options.out.mkdir(parents=True, exist_ok=True)
    files.write(options.out / "benchmarks.json", json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    files.write(options.out / "benchmarks.html", sheet.html(about, rows, curves))
    print_table(rows)
    print(f"{options.out / 'benchmarks.html'}: one page with all of it, and the curves")


def machine(command: str) -> dict[str, float | str | int]:
    """What the numbers depend on."""
    info = Path("/proc/cpuinfo")
    names = (
        [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        if info.exists()
        else []
    )
    return {
        "version": __version__,
        "date": date.today().isoformat(),
        "command": command,
        "python": platform.python_version(),
        "cpus": os.cpu_count() or 0,
        "processor": (names or [platform.processor()])[0],
        "system": f"{platform.system()} {platform.machine()}",
        "load": round(os.getloadavg()[0], 1),
    }


def print_table(rows: list[Row]) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)  # a log has no edge to keep to
    table = Table(title=f"airpool {__version__}, {os.cpu_count()} CPUs; medians, δ = 1e-5", title_justify="left")
    for name in sheet.HEADER:
        table.add_column(name, justify="right" if name in ("measured", "target", "ratio") else "left")
    for topic, group in groupby(rows, key=lambda row: row.topic):
        table.add_row(topic, style="bold")
        for row in group:
            what, *rest = (escape(cell) for cell in sheet.cells(row))
            table.add_row(f"  {what}", *rest, style="bold red" if row.missed else None)
        table.add_section()
    console.print(table)


if __name__ == "__main__":
    main()
