"""Readers of live pictures: a camera, a video in real time, a stream (OpenCV); MJPEG or pictures over HTTP (Pillow).

Frames are (h, w, 3): red, green, blue. A reader waits for its next frame, at most some seconds.
"""

import base64
import http.client
import io
import os
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from airpool._support.extras import load
from airpool.models.vision import picture
from airpool.runtime.capture import Pixels, Reader

_SECONDS = 5.0  # that a camera may take to answer, or a frame to come
_LARGEST = 32 * 2**20  # bytes of one picture
_POLL_SECONDS = 0.2  # between two pictures of a camera that gives one at a time
_HEADERS, _LINE = 100, 65536  # of a picture in a stream, and bytes of one
_FASTEST = 120.0  # frames a second


def camera(index: int) -> Reader:
    """A camera of this machine."""
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


def pictures(url: str) -> Reader:
    """A camera's MJPEG stream over HTTP, or its newest picture, asked for again and again."""
    return _Http(url)


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


class _Http:
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
