"""A live camera: read in a thread of its own, of which the newest frame alone is kept, with its time.

    capture = Capture(lambda: readers.camera(0), device=3)
    frame = capture.newest()                                # never waits; SourceError where there is none that is fit

A reader that ends or fails is opened again, ever less often. What is wrong with the frames is told to the operator once
(condition.py): gone, damaged, stale, frozen, black, of another size.
"""

import atexit
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from airpool.runtime import logs
from airpool.runtime.condition import Condition, SourceError

Pixels = NDArray[np.uint8]
_SHORTEST_WAIT, _LONGEST_WAIT = 1.0, 30.0
_SAMPLES = 128  # pixels along the shorter side that are looked at


@dataclass(frozen=True, eq=False)
class CameraFrame:
    """pixels: (h, w) grey, (h, w, 2) grey and depth, (h, w, 3) red, green, blue, or (h, w, 4) with depth.

    Or what a function of one's own gives: a latent, or a view (C, H, H). time: when taken, in seconds since 1970.
    """

    pixels: NDArray[Any]
    time: float


class Reader(Protocol):
    """An open camera, file or stream."""

    def read(self) -> Pixels | None:
        """Waits for the next frame; None for one that is damaged. Raises OSError where no more will come."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class CaptureLimits:
    """Seconds after which a camera counts as stale, and identical frames as frozen; the grey that counts as black.

    Black: 99 % of the pixels are darker than that, of 255.
    """

    stale: float = 2.0
    frozen: float = 10.0
    black: int = 24


class Capture:
    """name: of the camera in messages, without secrets. device: whose operator is told. The thread starts at once.

    opened: a reader that is open already, so that a camera that is not there is an error of the start.
    """

    def __init__(
        self,
        open_reader: Callable[[], Reader],
        *,
        name: str,
        device: int,
        opened: Reader | None = None,
        limits: CaptureLimits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._open, self._first, self._name = open_reader, opened, name
        self._device, self._limits, self._clock = device, limits or CaptureLimits(), clock
        self._condition, self._stop, self._lock = Condition(device), threading.Event(), threading.Lock()
        self._frame: CameraFrame | None = None
        self._arrived = self._changed = time.monotonic()
        self._trouble: tuple[str, str] | None = ("gone", f"{name}: no frame yet")
        self._mark, self._size = -1, ""
        self._looked = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"capture of device {device}", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def newest(self) -> CameraFrame:
        """The newest frame. Raises SourceError, which the operator has been told, where it is not fit to be sent."""
        with self._lock:
            frame, trouble, age = self._frame, self._trouble, time.monotonic() - self._arrived
        if trouble is None and age > self._limits.stale:
            trouble = ("stale", f"{self._name}: no frame for {age:.1f} s")
        if trouble is None and frame is not None:
            return frame
        kind, why = trouble or ("gone", f"{self._name}: no frame yet")
        self._condition.failed(kind, why)
        raise SourceError(kind, why, told=True)

    @property
    def last(self) -> CameraFrame | None:
        """The last frame, fit to be sent or not."""
        with self._lock:
            return self._frame

    def wait(self, seconds: float) -> None:
        """Waits until the camera has shown whether it gives frames; not longer than this."""
        self._looked.wait(seconds)

    def close(self) -> None:
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join(1.0)
        atexit.unregister(self.close)

    def _run(self) -> None:
        wait = _SHORTEST_WAIT
        while not self._stop.is_set():
            try:
                reader, self._first = self._first or self._open(), None
                try:
                    while not self._stop.is_set():
                        self._take(reader.read())
                        wait = _SHORTEST_WAIT
                finally:
                    reader.close()
            except (OSError, ValueError) as error:
                self._failed("gone", f"{self._name}: {error}; it is opened again")
            except Exception as error:  # a library's own, as of OpenCV
                self._failed("gone", f"{self._name}: {type(error).__name__}; it is opened again")
            self._stop.wait(wait)
            wait = min(2 * wait, _LONGEST_WAIT)

    def _take(self, pixels: Pixels | None) -> None:
        """Keeps a frame in the place of the one before, and says what is wrong with it."""
        now = time.monotonic()
        if pixels is None:
            if self._frame is None or now - self._arrived > self._limits.stale:
                self._failed("damaged", f"{self._name}: its frames cannot be decoded")
            return
        step = max(1, min(pixels.shape[:2]) // _SAMPLES)
        sample = np.ascontiguousarray(pixels[::step, ::step])
        mark = zlib.crc32(sample.data)
        if mark != self._mark:
            self._mark, self._changed = mark, now
        self._note_size(pixels)
        trouble = None
        if np.percentile(sample, 99) < self._limits.black:
            trouble = ("black", f"{self._name}: its frames are black: is the lens covered, or the light off?")
        elif now - self._changed > self._limits.frozen:
            same = f"{now - self._changed:.0f} s"
            trouble = ("frozen", f"{self._name}: all frames of {same} are identical: it hangs")
        with self._lock:
            self._frame, self._arrived, self._trouble = CameraFrame(pixels, self._clock()), now, trouble
        self._looked.set()
        if trouble is None:
            self._condition.works()
        else:
            self._condition.failed(*trouble)

    def _note_size(self, pixels: Pixels) -> None:
        size = f"{pixels.shape[1]} x {pixels.shape[0]}"
        if self._size not in ("", size):
            reason = f"{self._name}: frames are {size} now, they were {self._size}; cut and resized as before"
            logs.event("source size", device=self._device, status="size", reason=reason)
        self._size = size

    def _failed(self, kind: str, reason: str) -> None:
        with self._lock:
            self._trouble = (kind, reason)
        self._looked.set()
        self._condition.failed(kind, reason)
