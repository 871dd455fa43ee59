"""The view that a device answers an announcement with: its source's, if that is of the announced moment; or nothing.

With nothing to see a device sends noise alone: as for a feature of zeros, charged as ever, so that neither the server
nor anybody who listens can tell. The reason goes to the device's own log and metrics once per change, never to the
server.
"""

import threading
import time
from collections.abc import Callable
from weakref import WeakSet

import numpy as np

from airpool._support.errors import AirpoolError
from airpool.network import Network
from airpool_runtime import logs
from airpool_runtime.messages import Announcement
from airpool_runtime.under_way import Seen

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


Source = Callable[[int], Seen]  # of the inference's number, which only stored objects go by
_LATEST_SECONDS = 60.0  # that an announcement may take on its way


def seen(
    source: Source,
    told: Announcement,
    network: Network,
    condition: Condition,
    *,
    clock: Callable[[], float] = time.time,
) -> Seen:
    """The encoded view; NaN, which is sent as noise alone, where the source fails or is not of this moment."""
    began = clock()
    try:
        found = source(told.number)
        _require_shape(found, network)
        _require_moment(found.time, told, began)
    except SourceError as error:
        if not error.told:
            condition.failed(error.kind, str(error))
    except OSError as error:  # a picture that is missing or damaged
        condition.failed("error", f"{type(error).__name__}: {error}")
    except Exception as error:  # of a function of the operator's own: its text may tell what it saw
        condition.failed("error", f"{type(error).__name__} in the source")
    else:
        condition.works()
        return found
    return Seen(np.full(network.dimension, np.nan), np.full(2, np.nan))


def _require_shape(found: Seen, network: Network) -> None:
    shape, own = np.shape(found.latent), () if found.posterior is None else np.shape(found.posterior)
    if shape != (network.dimension,):
        raise SourceError("size", f"it gives a latent of shape {shape}, must be ({network.dimension},)")
    if network.scheme.needs_posteriors and not (len(own) == 1 and own[0] > 1):
        raise SourceError("size", f"it gives a posterior of shape {own}, not (L,)")


def _require_moment(taken: float | None, told: Announcement, now: float) -> None:
    """Raises SourceError where a frame is not of the announced moment. Stored objects have no time."""
    if taken is None or told.window == 0:
        return
    off, ahead = taken - told.moment, now - told.moment
    if abs(off) <= told.window:
        return
    if abs(now - taken) <= told.window or abs(ahead) > _LATEST_SECONDS:  # fresh by this machine's clock; or nothing is
        side = "ahead of" if ahead > 0 else "behind"
        late = ", or the announcement came late" if 0 < ahead <= _LATEST_SECONDS else ""
        raise SourceError("clock", f"the clock of this machine is {_words(abs(ahead))} {side} the air's{late}: set it")
    where = f"{_words(abs(off))} {'before' if off < 0 else 'after'} the announced moment"
    raise SourceError("window", f"the newest frame was taken {where}; --frame-window of the air is {told.window:g} s")


def _words(seconds: float) -> str:
    """
    >>> _words(0.71), _words(3600.2), _words(260_000)
    ('0.71 s', '60 minutes', '3.0 days')
    """
    if seconds < 120:
        return f"{seconds:.2f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 86400:.1f} days"
