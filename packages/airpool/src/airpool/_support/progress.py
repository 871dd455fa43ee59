"""Progress of a long computation: a context manager that yields the function that advances it.

silent      nothing is shown
automatic   of a call of the library: a bar in a terminal or a notebook, nothing elsewhere
always      of a command: a bar in a terminal, elsewhere a line now and then
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from html import escape
from threading import Event, Lock, Thread
from typing import Any, TextIO

# The name of the task and its number of steps, where known.
Progress = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]

_BAR_AFTER = 1.0  # seconds
_LINE_AFTER, _LINE_EVERY = 5.0, 15.0
_NOTEBOOK_AFTER, _NOTEBOOK_EVERY = 2.0, 1.0
# Held while progress is shown: calls within that call show none of their own.
_shown = Lock()


@contextmanager
def silent(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """No progress is shown."""
    del what, total
    yield lambda _: None


@contextmanager
def automatic(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Shows progress where somebody is looking, from the second second on; not within other progress."""
    terminal = sys.stderr is not None and sys.stderr.isatty()
    show = _bar if terminal else _notebook if "ipykernel" in sys.modules else None
    with silent(what, total) if show is None or _shown.locked() else _showing(show, what, total) as advance:
        yield advance


@contextmanager
def always(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Shows progress: a bar on a terminal, else a line on stderr now and then. Yields the function that advances it."""
    with _showing(_bar if sys.stderr.isatty() else _lines, what, total) as advance:
        yield advance


_Show = Callable[[str, int | None, list[int], Event, TextIO], None]


@contextmanager
def _showing(show: _Show, what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    done, stop = [0], Event()

    def advance(steps: int) -> None:
        done[0] += steps

    thread = Thread(target=show, args=(what, total, done, stop, sys.stderr), daemon=True)
    first = _shown.acquire(blocking=False)
    thread.start()
    try:
        yield advance
    finally:
        stop.set()
        thread.join()
        if first:
            _shown.release()


def line(what: str, total: int | None, done: int, seconds: float) -> str:
    """The state in words, with an estimate of the time left.

    >>> line("codec", 200, 50, 10.0), line("computing ε", None, 0, 7.0)
    ('codec: 50 of 200, 10 s, about 30 s left', 'computing ε: 7 s')
    """
    far = f" {done} of {total}," if total else ""
    left = f", about {seconds * (total - done) / done:.0f} s left" if total and done else ""
    return f"{what}:{far} {seconds:.0f} s{left}"


def _lines(what: str, total: int | None, done: list[int], stop: Event, stream: TextIO) -> None:
    began, wait = time.monotonic(), _LINE_AFTER
    while not stop.wait(wait):
        wait = _LINE_EVERY
        print(line(what, total, done[0], time.monotonic() - began), file=stream, flush=True)


def _notebook(what: str, total: int | None, done: list[int], stop: Event, stream: TextIO) -> None:
    """One bar that is drawn over, and gone at the end; the words alone where a page shows no HTML."""
    del stream
    began = time.monotonic()
    if stop.wait(_NOTEBOOK_AFTER):
        return
    from IPython.display import display  # pyright: ignore[reportMissingImports]

    def state() -> dict[str, str]:
        text = line(what, total, done[0], time.monotonic() - began)
        far = f' value="{done[0]}" max="{total}"' if total else ""
        return {"text/plain": text, "text/html": f"<progress{far}></progress> {escape(text)}"}

    shown: Any = display(state(), raw=True, display_id=True)
    while not stop.wait(_NOTEBOOK_EVERY):
        shown.update(state(), raw=True)
    shown.update({"text/plain": "", "text/html": ""}, raw=True)


def _bar(what: str, total: int | None, done: list[int], stop: Event, stream: TextIO) -> None:
    if stop.wait(_BAR_AFTER):
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    more = () if total is None else (TextColumn("about"), TimeRemainingColumn(), TextColumn("left"))
    # With a bar that moves back and forth where the total is not known.
    with Progress(*columns, *more, console=Console(file=stream), transient=True) as bar:
        task = bar.add_task(what, total=total)
        while not stop.wait(0.1):
            bar.update(task, completed=done[0])
