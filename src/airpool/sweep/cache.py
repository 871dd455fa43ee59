"""Finished points on disk: one file of lines for a function and a version of its code, only ever appended to.

Every record is one write, between line breaks of its own and with a checksum in front. A kill in the middle of one
loses that record and no other, two sweeps may append to one file at the same time, and a damaged line is a point to
measure again, never a wrong row. docs/decisions/0006-sweep-cache.md says why it is not a database or a file per row.
"""

import errno
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Record = dict[str, Any]

# A kill loses nothing that was written; a power cut, at most what was written in so many seconds.
_SYNC_EVERY_S = 1.0
_DIGITS = 16


def file_of(folder: Path, function: str, version: str) -> Path:
    """Where the rows of a function lie, for one version of its code."""
    return folder / f"{re.sub(r'[^A-Za-z0-9_.]', '-', function)}-{version.rpartition('+')[2]}.jsonl"


def key_of(function: str, version: str, parameters: str, seed: int) -> str:
    """What a row is known by: everything that decides it."""
    return hashlib.sha256("\0".join((function, version, parameters, str(seed))).encode()).hexdigest()[:32]


def read(path: Path) -> dict[str, Record]:
    """The records by their keys, the last one where there are several; damaged lines are passed over."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    found = (_record(line) for line in content.split(b"\n"))
    return {record["key"]: record for record in found if record is not None}


def _record(line: bytes) -> Record | None:
    checksum, _, text = line.partition(b" ")
    return json.loads(text) if text and checksum == _checksum(text) else None


def _checksum(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest()[:_DIGITS].encode()


@contextmanager
def appending(path: Path) -> Iterator[Callable[[Record], None]]:
    """Gives the function that adds a record, which has a "key"."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    synced = time.monotonic()

    def append(record: Record) -> None:
        nonlocal synced
        text = json.dumps(record).encode()
        line = b"\n" + _checksum(text) + b" " + text + b"\n"
        try:
            if os.write(file, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            if os.fstat(file).st_size == 0:
                path.unlink(missing_ok=True)
            raise OSError(error.errno, error.strerror, str(path)) from None
        if time.monotonic() - synced > _SYNC_EVERY_S:
            os.fsync(file)
            synced = time.monotonic()

    try:
        yield append
        os.fsync(file)
    finally:
        os.close(file)
