"""Files written whole or not at all: the only place that writes one, besides the sweep's cache, which appends."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write(path: str | Path, content: str | bytes) -> None:
    """Writes a file, text as UTF-8, in place of what was there."""
    with opened(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def opened(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes its place at `path` once all of it is on the disk.

    Edge cases: after any error no temporary file is left, and a file that was there before is as it was; an OSError
    names `path`. A link is followed. What is no regular file (a pipe, a terminal) is written to directly.
    """
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                yield file
            return
        target = Path(os.path.realpath(path))
        # At most 255 bytes, whatever the alphabet.
        partial = target.with_name(f".{target.name[:48]}.{secrets.token_hex(4)}.tmp")
        try:
            with partial.open("xb") as file:
                if target.exists():
                    shutil.copymode(target, partial)
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None
