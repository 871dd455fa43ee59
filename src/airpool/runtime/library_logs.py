"""Log records of libraries as single JSON lines, without tracebacks, at a bounded rate: peers cause any number."""

import logging
from pathlib import Path
from traceback import walk_tb

from airpool.runtime import logs
from airpool.runtime.limits import SparseLog

_NAMES = ("grpc._cython.cygrpc", "asyncio", "uvicorn.error", "airpool.keys")
_LONGEST = 200


class OneLine(logging.Filter):
    """Replaces a record by an event of our own log. The text of an exception is left out: it may quote a message."""

    def __init__(self) -> None:
        super().__init__()
        self._log = SparseLog()

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if type(error).__name__ == "DecodeError":
            self._log.event("rejected", reason="a message that cannot be read")
            return False
        if not logs.is_on() or record.levelno < logging.WARNING:
            return True
        reason = (record.getMessage().splitlines() or [""])[0][:_LONGEST]
        if error is None:
            self._log.event("library", reason=reason)
        else:
            frames = [frame for frame, _ in walk_tb(error.__traceback__)]
            place = f"{Path(frames[-1].f_code.co_filename).name}:{frames[-1].f_lineno}" if frames else None
            self._log.event("failed", reason=f"{reason}: {type(error).__name__}", file=place)
        return False


def install() -> None:
    """Filters the loggers of libraries, once. While our log is off, all but unreadable messages stay as they are."""
    for name in _NAMES:
        logger = logging.getLogger(name)
        if not any(isinstance(each, OneLine) for each in logger.filters):
            logger.addFilter(OneLine())
