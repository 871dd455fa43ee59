"""Reasons why a device stays silent: a status for programs, a line of text for people."""

import errno
import sqlite3
from typing import Literal

from airpool._support.errors import AirpoolError

Status = Literal["over budget", "disk full", "read-only", "corrupt", "missing", "restored", "busy", "clash", "failed"]


class SpendingError(AirpoolError):
    """Nothing may be sent. `status` is one of a few words; the text names what is wrong and what to do."""

    def __init__(self, status: Status, text: str) -> None:
        super().__init__(text)
        self.status: Status = status


_SQLITE: dict[int, Status] = {
    sqlite3.SQLITE_FULL: "disk full",
    sqlite3.SQLITE_READONLY: "read-only",
    sqlite3.SQLITE_CANTOPEN: "missing",
    sqlite3.SQLITE_PERM: "read-only",
    sqlite3.SQLITE_BUSY: "busy",
    sqlite3.SQLITE_LOCKED: "busy",
    sqlite3.SQLITE_CORRUPT: "corrupt",
    sqlite3.SQLITE_NOTADB: "corrupt",
}
_SYSTEM: dict[int, Status] = {
    errno.ENOSPC: "disk full",
    errno.EDQUOT: "disk full",
    errno.EFBIG: "disk full",
    errno.EROFS: "read-only",
    errno.EACCES: "read-only",
    errno.EPERM: "read-only",
    errno.ENOENT: "missing",
}


def because(error: Exception, what: str) -> SpendingError:
    """The refusal that an error of SQLite or of the operating system means."""
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", None)
        status = _SQLITE.get(code & 0xFF, "failed") if code is not None else "corrupt"
        return SpendingError(status, f"{what}: {error}")
    number = error.errno if isinstance(error, OSError) else None
    return SpendingError(_SYSTEM.get(number or 0, "failed"), f"{what}: {error}")
