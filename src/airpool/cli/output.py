"""Output of the commands: JSON, tables in the room there is, and progress."""

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from airpool._support.progress import always as progress
from airpool._support.text_table import TextTable, wrapped

__all__ = ["print_json", "print_table", "progress", "say_written"]


def print_json(data: Any) -> None:
    typer.echo(json.dumps(data, ensure_ascii=False, allow_nan=False))


def say_written(files: Mapping[str, Path | None]) -> None:
    """Prints the path of each written file, after what it is."""
    for what, path in files.items():
        if path is not None:
            typer.echo(f"{what}: {path}")


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None) -> None:
    """A table, or a block of lines for each row where it is too wide for the terminal (80 columns in a pipe).

    header: ("", "") for names and their values. Columns after the first are to the right where there are headings.
    """
    width = shutil.get_terminal_size().columns
    if title:
        typer.secho("\n".join(wrapped(title, width)), bold=True)
    typer.echo(TextTable(header, list(rows)).text(width) + "\n" * any(header))
