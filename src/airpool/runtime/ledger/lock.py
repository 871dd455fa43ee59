"""Lock of a file among processes."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from airpool.runtime.ledger.refused import SpendingError

_WAIT_S = 5.0


@contextmanager
def locked(path: Path, flags: int) -> Iterator[None]:
    """Holds a lock that ends with the process; waits for it for a few seconds."""
    file = os.open(path, flags, 0o600)
    try:
        end = time.monotonic() + _WAIT_S
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() > end:
                raise SpendingError("busy", f"{path} is held by another process for more than {_WAIT_S:g} s")
            time.sleep(0.001)
        yield
    finally:
        os.close(file)
