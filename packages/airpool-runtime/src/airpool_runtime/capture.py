"""A live camera, video or stream: read in a thread of its own, of which the newest frame alone is kept, with its time.

    capture = Capture(lambda: camera(0), device=3)
    frame = capture.newest()                                # never waits; SourceError where there is none that is fit

A reader that ends or fails is opened again, ever less often. What is wrong with the frames is told to the operator once
(seeing.py): gone, damaged, stale, frozen, black, of another size. OpenCV reads cameras, videos and streams; MJPEG and
pictures over HTTP take Pillow alone.
"""

import atexit
import base64
import http.client
import io
import os
import threading
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

import numpy as np
from numpy.typing import NDArray

from airpool._support.extras import load
from airpool.models.vision import picture
from airpool_runtime import logs
from airpool_runtime.seeing import Condition, SourceError

Pixels = NDArray[np.uint8]
_SHORTEST_WAIT, _LONGEST_WAIT = 1.0, 30.0
_STALE_SECONDS, _FROZEN_SECONDS = 2.0, 10.0  # without a frame, and with identical ones
_BLACK = 24  # grey, of 255: 99 % of a black frame's pixels are darker
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
    ) -> None:
        self._open, self._first, self._name, self._device = open_reader, opened, name, device
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
        if trouble is None and age > _STALE_SECONDS:
            trouble = ("stale", f"{self._name}: no frame for {age:.1f} s")
        if trouble is None:
            assert frame is not None
            return frame
        kind, why = trouble
        self._condition.failed(kind, why)
        raise SourceError(kind, why, told=True)

    @property
    def last(self) -> CameraFrame | None:
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
            if self._frame is None or now - self._arrived > _STALE_SECONDS:
                self._failed("damaged", f"{self._name}: its frames cannot be decoded")
            return
        step = max(1, min(pixels.shape[:2]) // _SAMPLES)
        sample = np.ascontiguousarray(pixels[::step, ::step])
        mark = zlib.crc32(sample.data)
        if mark != self._mark:
            self._mark, self._changed = mark, now
        self._note_size(pixels)
        trouble = None
        if np.percentile(sample, 99) < _BLACK:
            trouble = ("black", f"{self._name}: its frames are black: is the lens covered, or the light off?")
        elif now - self._changed > _FROZEN_SECONDS:
            same = f"{now - self._changed:.0f} s"
            trouble = ("frozen", f"{self._name}: all frames of {same} are identical: it hangs")
        with self._lock:
            self._frame, self._arrived, self._trouble = CameraFrame(pixels, time.time()), now, trouble
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


_SECONDS = 5.0  # that a camera may take to answer, or a frame to come
_LARGEST = 32 * 2**20  # bytes of one picture
_POLL_SECONDS = 0.2  # between two pictures of a camera that gives one at a time
_HEADERS, _LINE = 100, 65536  # of a picture in a stream, and bytes of one
_FASTEST = 120.0  # frames a second


def camera(index: int) -> Reader:
    cv2 = _opencv("a camera")
    taken = cv2.VideoCapture(index)
    if not taken.isOpened():
        raise OSError(f"camera {index} cannot be opened")
    return _OpenCV(cv2, taken)


def stream(url: str) -> Reader:
    """A stream that FFmpeg reads, such as rtsp://HOST/PATH."""
    cv2 = _opencv("a stream")
    os.environ.setdefault("OPENCV_FFMPEG_CAPTURE_OPTIONS", "rtsp_transport;tcp")
    limits = [cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, int(1e3 * _SECONDS), cv2.CAP_PROP_READ_TIMEOUT_MSEC, int(1e3 * _SECONDS)]
    taken = cv2.VideoCapture(url, cv2.CAP_FFMPEG, limits)
    if not taken.isOpened():
        raise OSError("it cannot be reached, or is no stream")
    return _OpenCV(cv2, taken)


def video(path: Path) -> Reader:
    """A video file, played in a loop and in real time. All that play files of one length show the same moment."""
    if not path.is_file():
        raise ValueError(f"{path}: no such video")
    cv2 = _opencv("a video")
    taken = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    rate, frames = float(taken.get(cv2.CAP_PROP_FPS)), int(taken.get(cv2.CAP_PROP_FRAME_COUNT))
    if not taken.isOpened() or frames < 1 or not 0 < rate <= _FASTEST:
        raise ValueError(f"{path}: no video that can be read, or of unknown length")
    return _Video(cv2, taken, rate, frames)


def _opencv(what: str) -> Any:
    """OpenCV, which reports errors by its results alone."""
    os.environ.setdefault("OPENCV_LOG_LEVEL", "SILENT")
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")
    return load("cv2", what)


class _OpenCV:
    def __init__(self, cv2: Any, taken: Any) -> None:
        self._cv2, self._taken = cv2, taken

    def read(self) -> Pixels | None:
        there, frame = self._taken.read()
        if not there:
            raise OSError("it gives no frame")
        return self._cv2.cvtColor(frame, self._cv2.COLOR_BGR2RGB if frame.ndim == 3 else self._cv2.COLOR_GRAY2RGB)

    def close(self) -> None:
        self._taken.release()


class _Video(_OpenCV):
    def __init__(self, cv2: Any, taken: Any, rate: float, frames: int) -> None:
        super().__init__(cv2, taken)
        self._rate, self._frames, self._next = rate, frames, 0

    def read(self) -> Pixels | None:
        now = time.time() * self._rate
        time.sleep((int(now) + 1 - now) / self._rate)  # until the next frame is due
        due = (int(now) + 1) % self._frames
        if not self._next <= due <= self._next + self._rate:
            self._taken.set(self._cv2.CAP_PROP_POS_FRAMES, due)
            self._next = due
        while self._next < due:
            self._taken.grab()
            self._next += 1
        self._next += 1
        return super().read()


class HttpPictures:
    """A camera's MJPEG stream over HTTP, or its newest picture, asked for again and again."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        self._request = urllib.request.Request(bare, headers={"User-Agent": "airpool"})
        if parts.username is not None:
            who = base64.b64encode(f"{parts.username}:{parts.password or ''}".encode()).decode()
            self._request.add_header("Authorization", f"Basic {who}")
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
        self._answer = self._asked()
        kind = self._answer.headers.get_content_type()
        self._single = kind.startswith("image/")
        if not self._single and kind != "multipart/x-mixed-replace":
            self.close()
            raise OSError(f"it gives {kind}, must be MJPEG (multipart/x-mixed-replace) or a picture")

    def _asked(self) -> Any:
        try:
            return self._open(self._request, timeout=_SECONDS)
        except urllib.error.HTTPError as error:
            error.close()
            raise OSError(f"it answers {error.code} {error.reason}") from None
        except (urllib.error.URLError, http.client.HTTPException) as error:
            raise OSError(f"it cannot be reached ({getattr(error, 'reason', type(error).__name__)})") from None

    def read(self) -> Pixels | None:
        try:
            content = self._alone() if self._single else self._part()
        except (TimeoutError, http.client.HTTPException, ValueError) as error:
            raise OSError(f"it gives no frame ({type(error).__name__})") from None
        try:
            return picture.read(io.BytesIO(content))
        except OSError:
            return None

    def _alone(self) -> bytes:
        content = self._answer.read(_LARGEST)
        self.close()
        time.sleep(_POLL_SECONDS)
        self._answer = self._asked()
        return content

    def _part(self) -> bytes:
        """The next part of the stream: of its stated length, else up to the next boundary."""
        stated = self._headers().get(b"content-length")
        if stated is None:
            lines, size = list[bytes](), 0
            while (line := self._answer.readline(_LARGEST)) and not line.startswith(b"--") and size <= _LARGEST:
                lines.append(line)
                size += len(line)
            content, whole = b"".join(lines), bool(line)
        else:
            size = int(stated)  # read(-1) would not end
            content = self._answer.read(min(size, _LARGEST)) if size >= 0 else b""
            whole = len(content) == size
        if not whole:
            raise OSError("it has ended the stream, or sends a frame that is too large")
        return content

    def _headers(self) -> dict[bytes, bytes]:
        found = dict[bytes, bytes]()
        while (line := self._answer.readline(_LINE)) and len(found) < _HEADERS:
            name, colon, value = line.partition(b":")
            if colon and not line.startswith(b"--"):
                found[name.strip().lower()] = value.strip()
            elif found and not line.strip():
                return found
        raise OSError("it has ended the stream, or sends headers without end")

    def close(self) -> None:
        with suppress(OSError):
            self._answer.close()
