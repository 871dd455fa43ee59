"""Output of the commands: JSON, tables that fit a terminal of 80 columns, and progress."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from airpool._support.progress import always as progress

__all__ = ["print_json", "print_table", "progress", "say_written"]


def print_json(data: Any) -> None:
    typer.echo(json.dumps(data, ensure_ascii=False, allow_nan=False))


def say_written(files: Mapping[str, Path | None]) -> None:
    """Prints the path of each written file, after what it is."""
    for what, path in files.items():
        if path is not None:
            typer.echo(f"{what}: {path}")


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None) -> None:
    """A table; columns after the first are to the right. Headings are wrapped where it is too wide, never cut."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    rows, console = list(rows), Console(highlight=False)
    width = sum(1 + max(map(len, column)) for column in zip(header, *rows, strict=True))
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_header=any(header))
    for k, name in enumerate(header):
        heading = name if width + len(header) < console.width else name.replace(" ", "\n")
        table.add_column(heading, justify="right" if k and any(header) else "left")
    for row in rows:
        table.add_row(*row)
    if title:
        console.print(title, style="bold", markup=False)
    console.print(table)
