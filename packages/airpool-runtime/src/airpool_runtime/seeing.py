"""The view that a device answers an announcement with: its source's, if that is of the announced moment; or nothing.

With nothing to see a device sends noise alone: as for a feature of zeros, charged as ever, so that neither the server
nor anybody who listens can tell. The reason goes to the device's own log, once (condition.py).
"""

import time
from collections.abc import Callable

import numpy as np

from airpool.network import Network, scheme_rules
from airpool.runtime.condition import Condition, SourceError
from airpool.runtime.messages import Announcement
from airpool.runtime.under_way import Seen

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
    if scheme_rules(network.scheme).scored and not (len(own) == 1 and own[0] > 1):
        raise SourceError("size", f"it gives a posterior of shape {own}, not (L,)")


def _require_moment(taken: float | None, told: Announcement, now: float) -> None:
    """Raises SourceError where a frame is not of the announced moment. Stored objects have no time."""
    if taken is None or told.moment == 0 or told.window == 0:
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
