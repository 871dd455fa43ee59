"""Structured logs: one JSON object a line on stderr. Never a feature, a score, or who took part.

Only the fields listed here can be logged, and each holds a short text or a number. `device` occurs in what concerns a
device's connection or a fault, never its decision to transmit. What peers can cause any number of, and what libraries
log, comes at a bounded rate (`SparseLog`, `OneLine`).
"""

import json
import logging
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from traceback import walk_tb

_TEXTS = ("role", "id", "address", "http", "metrics", "reason", "status", "file", "version")
_NUMBERS = ("number", "device", "devices", "connected", "missing", "seconds", "pid", "omitted")
FIELDS = frozenset(_TEXTS + _NUMBERS)
_LONGEST = 200  # characters of a text: a peer may have sent it
_state = {"role": "", "on": False}
observers: list[Callable[[str, Mapping[str, str | int | float | None]], None]] = []  # of every event, for metrics


def start(role: str) -> None:
    """Turns logging on, for this process."""
    _state.update(role=role, on=True)


def event(name: str, **fields: str | int | float | None) -> None:
    if unknown := fields.keys() - FIELDS:
        raise ValueError(f"{sorted(unknown)[0]} must not be logged; known are {', '.join(sorted(FIELDS))}")
    if any(not isinstance(value, str | int | float | None) for value in fields.values()):
        raise TypeError(f"a field of {name} is neither text nor number: it must not be logged")
    for observe in observers:
        observe(name, fields)
    if _state["on"]:
        short = {key: value[:_LONGEST] if isinstance(value, str) else value for key, value in fields.items()}
        line = {"time": round(time.time(), 3), "role": _state["role"], "event": name, **short}
        print(json.dumps(line, ensure_ascii=False), file=sys.stderr, flush=True)


@dataclass
class Bucket:
    """Lets `per_second` calls through in the long run, and `burst` at once.

    >>> one = Bucket(per_second=1.0, burst=2, clock=lambda: 0.0)
    >>> [one.take() for _ in range(3)]
    [True, True, False]
    """

    per_second: float
    burst: int
    clock: Callable[[], float] = time.monotonic
    _left: float = field(init=False)
    _last: float = field(init=False)

    def __post_init__(self) -> None:
        self._left, self._last = float(self.burst), self.clock()

    def take(self) -> bool:
        """Whether one more call is allowed now."""
        now = self.clock()
        self._left = min(self.burst, self._left + (now - self._last) * self.per_second)
        self._last = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


@dataclass
class SparseLog:
    """Logs events that strangers cause, at a bounded rate; a line says how many were left out before it."""

    bucket: Bucket = field(default_factory=lambda: Bucket(per_second=2.0, burst=50))
    _omitted: int = 0

    def event(self, name: str, **fields: str | int | float | None) -> None:
        if not self.bucket.take():
            self._omitted += 1
            return
        if self._omitted:
            fields["omitted"] = self._omitted
            self._omitted = 0
        event(name, **fields)


_NAMES = ("grpc._cython.cygrpc", "asyncio", "uvicorn.error", "airpool.keys")


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
        if not _state["on"] or record.levelno < logging.WARNING:
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
