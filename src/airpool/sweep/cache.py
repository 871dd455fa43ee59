"""Finished rows on disk: one file of lines for a function and a version of its code, only ever appended to.

Each row is one write, between line breaks of its own and behind a checksum. A kill costs the row that is being written,
two sweeps may append at the same time, and a damaged line is a point to measure again, never a wrong row.
"""

import errno
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def file_of(folder: Path, function: str, version: str) -> Path:
    return folder / f"{re.sub(r'[^A-Za-z0-9_.]', '-', function)}-{version.rpartition('+')[2]}.jsonl"


def read(path: Path) -> dict[str, Row]:
    """The rows by their keys, the last one where there are several."""
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    found = [json.loads(line[17:]) for line in lines if line[:17] == _checksum(line[17:])]
    return {row["key"]: row for row in found}


def _checksum(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest()[:16].encode() + b" "


@contextmanager
def appending(path: Path) -> Iterator[Callable[[Row], None]]:
    """Gives the function that adds a row, which has a "key"."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def append(row: Row) -> None:
        text = json.dumps(row).encode()
        line = b"\n" + _checksum(text) + text + b"\n"
        try:
            if os.write(file, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            if os.fstat(file).st_size == 0:
                path.unlink(missing_ok=True)
            raise OSError(error.errno, error.strerror, str(path)) from None

    try:
        yield append
        os.fsync(file)
    finally:
        os.close(file)
