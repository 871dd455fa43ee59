"""One thread for arithmetic on small arrays: several wait for each other, many times longer on a busy machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

_lock = Lock()
# How many calls are inside, and what restores the number of threads.
_inside: list[Any] = []


@contextmanager
def single_thread() -> Iterator[None]:
    """Limits BLAS and OpenMP to one thread until the last of those who asked for it has left.

    The limit is the whole process's: while it lasts, other threads of the program compute on one thread as well.
    """
    from threadpoolctl import threadpool_limits

    with _lock:
        _inside.append(None if _inside else threadpool_limits(1))
    try:
        yield
    finally:
        with _lock:
            limits = _inside.pop()  # the first one's are at the bottom, so they go last
            if limits is not None:
                limits.restore_original_limits()
