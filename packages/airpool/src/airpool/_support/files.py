"""Atomic writes of files, append-only files of records, and arrays of NumPy's files."""

import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO


def plain(value: Any, constant: Callable[[str], Any] = float) -> Any:
    """The value as JSON returns it: arrays and tuples become lists. constant: reads "Infinity", "-Infinity", "NaN"."""
    return json.loads(json.dumps(value, default=lambda array: array.tolist()), parse_constant=constant)


def jsonable(value: Any) -> Any:
    """The same for a file or a stream. JSON has no infinity and no NaN: they become "inf", "-inf" and "nan"."""
    return plain(value, lambda text: str(float(text)))


def write(path: str | Path, content: str | bytes) -> None:
    """Writes a file, text as UTF-8, in place of what was there."""
    with opened(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def require_writable(path: str | Path, *, folder: bool = False) -> None:
    """Raises the OSError that writing this file, or files in this folder, would raise; nothing is made."""
    target = Path(os.path.realpath(path))
    there = next(each for each in (target, *target.parents) if each.exists())
    wrong = 0
    if (there != target or folder) and not there.is_dir():
        wrong = errno.ENOTDIR
    elif there == target and not folder and there.is_dir():
        wrong = errno.EISDIR
    elif not os.access(there, os.W_OK | (os.X_OK if there.is_dir() else 0)):
        wrong = errno.EACCES
    if wrong:
        raise OSError(wrong, os.strerror(wrong), str(path))


@contextmanager
def opened(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes its place at `path` once all of it is on the disk.

    Its folder is made where there is none.
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
        target.parent.mkdir(parents=True, exist_ok=True)
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


def array(path: Path) -> Any:
    """The array of an npy file; an error that names the file where it holds none."""
    from zipfile import BadZipFile

    import numpy as np

    try:
        found = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, BadZipFile) as error:
        raise ValueError(f"{path}: no npy file that can be read ({why_unreadable(error)})") from None
    if not isinstance(found, np.ndarray):
        found.close()
        raise ValueError(f"{path}: holds several arrays, must be npy, as numpy.save writes it")
    return found


def why_unreadable(error: Exception) -> str:
    """NumPy's reason why a file cannot be read, without its advice to unpickle what it cannot read.

    >>> why_unreadable(ValueError("Cannot load file containing pickled data when allow_pickle=False"))
    'it holds no plain arrays'
    """
    return "it holds no plain arrays" if "pickle" in str(error) else str(error) or type(error).__name__


def log(path: Path) -> BinaryIO:
    """An empty file for what another process prints."""
    return path.open("wb")


@contextmanager
def appending(path: Path) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yields the function that adds a record to a file of JSON lines, each one write behind a checksum.

    A kill costs at most the record being written, two processes may append at the same time, and a damaged line is a
    missing record, never a wrong one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def append(record: dict[str, Any]) -> None:
        text = json.dumps(record).encode()
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


def records(path: Path) -> list[dict[str, Any]]:
    """The whole records of a file written by `appending`; none if there is no such file."""
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    return [json.loads(line[17:]) for line in lines if line[:17] == _checksum(line[17:])]


def _checksum(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest()[:16].encode() + b" "
