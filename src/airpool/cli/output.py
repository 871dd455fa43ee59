"""Output of the commands: JSON, tables that fit a terminal of 80 columns, and progress."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any, TextIO

import typer

_BAR_AFTER = 1.0  # seconds
_LINE_AFTER, _LINE_EVERY = 5.0, 15.0


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


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Shows progress: a bar on a terminal, else a line on stderr now and then. Yields the function that advances it."""
    done, stop, stream = [0], Event(), sys.stderr

    def advance(steps: int) -> None:
        done[0] += steps

    show = _bar if stream.isatty() else _lines
    shown = Thread(target=show, args=(what, total, done, stop, stream), daemon=True)
    shown.start()
    try:
        yield advance
    finally:
        stop.set()
        shown.join()


def _lines(what: str, total: int | None, done: list[int], stop: Event, stream: TextIO) -> None:
    began, wait = time.monotonic(), _LINE_AFTER
    while not stop.wait(wait):
        wait = _LINE_EVERY
        far = f" {done[0]} of {total}," if total else ""
        print(f"{what}:{far} {time.monotonic() - began:.0f} s", file=stream, flush=True)


def _bar(what: str, total: int | None, done: list[int], stop: Event, stream: TextIO) -> None:
    if stop.wait(_BAR_AFTER):
        return
    from rich.console import Console
    from rich.progress import Progress

    # With a bar that moves back and forth where the total is not known.
    with Progress(console=Console(file=stream), transient=True) as bar:
        task = bar.add_task(what, total=total)
        while not stop.wait(0.1):
            bar.update(task, completed=done[0])
