"""Progress of a long computation: a context manager that yields the function that advances it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

# The name of the task and its number of steps, where known.
Progress = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]


@contextmanager
def silent(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """No progress is shown."""
    del what, total
    yield lambda _: None
