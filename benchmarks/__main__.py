"""`python -m benchmarks`: times what has to be fast, beside the limits that were asked for."""

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.table import Table

from airpool.version import __version__

from . import Row, noise, privacy


def noise_rows() -> list[Row]:
    def row(what: str, measured: str) -> Row:
        value, unit = measured.split(" ", 1)
        return Row("noise", what.removeprefix("noise: "), float(value), unit)

    return [row(*pair) for pair in noise.rows()]


TOPICS: dict[str, Callable[[], list[Row]]] = {
    "privacy": privacy.rows,
    "noise": noise_rows,
    "audit": privacy.audit_rows,
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
    table = Table(title=f"airpool {__version__}, {os.cpu_count()} CPUs; medians, δ = 1e-5", title_justify="left")
    for name in ("topic", "what", "measured", "asked for", "note"):
        table.add_column(name, justify="right" if name in ("measured", "asked for") else "left")
    for topic, group in groupby(rows, key=lambda row: row.topic):
        for i, row in enumerate(group):
            limit = "" if row.limit is None else f"< {row.limit:g} {row.unit}"
            measured = f"{row.value:,.3g}" if row.value < 1000 else f"{row.value:,.0f}"
            style = "bold red" if row.missed else None
            table.add_row("" if i else topic, row.what, f"{measured} {row.unit}", limit, row.note, style=style)
        table.add_section()
    Console().print(table)


if __name__ == "__main__":
    main()
