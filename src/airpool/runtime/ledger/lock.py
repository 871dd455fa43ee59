"""Lock of a file among processes."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from airpool.runtime.ledger.refused import SpendingError

WAIT_S = 5.0
_HELD_S = 0.25


@contextmanager
def locked(path: Path, flags: int, *, held_s: float | None = None) -> Iterator[None]:
    """Holds a lock that ends with the process; waits up to 5 s while others take turns.

    held_s: how long one holder is waited for (default: a quarter of a second). The devices of a process share a thread:
    a ledger that is held must not stop the others.
    """
    patience = _HELD_S if held_s is None else held_s
    file = os.open(path, flags, 0o600)
    try:
        start = turn = time.monotonic()
        stamp = os.fstat(file).st_mtime_ns
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            now, seen = time.monotonic(), os.fstat(file).st_mtime_ns
            if seen != stamp:
                stamp, turn = seen, now
            if now - turn > patience or now - start > WAIT_S:
                raise SpendingError("busy", f"{path} is held by another process for more than {now - turn:.2g} s")
            time.sleep(0.001)
        with suppress(OSError):  # of another owner, or on a disk that is read-only
            os.utime(file)  # for those who wait
        yield
    finally:
        os.close(file)
