"""Rates: a token bucket, and log lines of which a peer can cause any number."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from airpool.runtime import logs


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
        logs.event(name, **fields)
