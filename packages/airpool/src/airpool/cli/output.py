"""Output of the commands: JSON, tables in the room there is, and progress."""

import codecs
import io
import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from airpool._support import files
from airpool._support.progress import always as progress
from airpool._support.table import TextTable, wrapped

__all__ = ["file_to_write", "folder_to_write", "print_json", "print_plainly", "print_table", "progress", "say_written"]

# Signs that a terminal without Unicode cannot show, in ASCII.
_PLAIN = {"ε": "eps", "δ": "delta", "σ": "sigma", "γ": "gamma", "≤": "<=", "≥": ">=", "±": "+-", "·": "*", "×": "x"}
_PLAIN |= dict.fromkeys("−–—─‐", "-") | dict.fromkeys("“”", '"') | dict.fromkeys("‘’", "'") | {"…": "...", "→": "->"}


def print_plainly() -> None:
    """Signs that the terminal's encoding lacks are printed in ASCII from now on, instead of an error."""

    def plain(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        return "".join(_PLAIN.get(each, "?") for each in error.object[error.start : error.end]), error.end

    codecs.register_error("airpool", plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="airpool")


def print_json(data: Any) -> None:
    typer.echo(json.dumps(data, ensure_ascii=False, allow_nan=False))


def file_to_write(path: Path | None) -> Path | None:
    """The value of an option that names a file to write; an error before the work where that cannot be."""
    if path is not None:
        files.require_writable(path)
    return path


def folder_to_write(path: Path | None) -> Path | None:
    """The same for a folder."""
    if path is not None:
        files.require_writable(path, folder=True)
    return path


def say_written(written: Mapping[str, Path | None]) -> None:
    """Prints the path of each written file, after what it is."""
    for what, path in written.items():
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
