"""Condition of a source of views, told to the device's operator once per change: in its log and its metrics.

Never to the server: a device whose source fails sends noise alone, as one that sees nothing.
"""

import threading
import time
from collections.abc import Callable
from weakref import WeakSet

from airpool._support.errors import AirpoolError
from airpool.runtime import logs

STEADY_SECONDS = 3.0  # that a source must work before it counts as back: one that flickers is one fault
FAILED, BACK = "source failed", "source back"


_known: "WeakSet[Condition]" = WeakSet()


def faults() -> list[tuple[int, str]]:
    """Device and kind of all that is wrong in this process now."""
    return sorted((each.device, each.kind) for each in tuple(_known) if each.kind)


class SourceError(AirpoolError, OSError):
    """No view. kind: one word for the log and the metrics. told: the operator knows it already."""

    def __init__(self, kind: str, reason: str, *, told: bool = False) -> None:
        super().__init__(reason)
        self.kind, self.told = kind, told


class Condition:
    """State of the source of one device. May be used from several threads.

    kind: one word; "": nothing is wrong.
    """

    def __init__(self, device: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.device, self._clock, self._lock = device, clock, threading.Lock()
        self.kind, self._since, self._last = "", 0.0, 0.0
        _known.add(self)

    def failed(self, kind: str, reason: str) -> None:
        """Notes a fault, and logs it unless it is the one before."""
        with self._lock:
            self._last = self._clock()
            if kind != self.kind:
                self._since = self._since if self.kind else self._last
                self.kind = kind
                logs.event(FAILED, device=self.device, status=kind, reason=reason)

    def works(self) -> None:
        """Notes a good view, and logs that the source is back once it has worked for a while."""
        with self._lock:
            now = self._clock()
            if self.kind and now - self._last >= STEADY_SECONDS:
                was, self.kind = self.kind, ""
                reason = "the source works again; noise alone was sent meanwhile"
                logs.event(BACK, device=self.device, status=was, seconds=round(now - self._since, 1), reason=reason)
