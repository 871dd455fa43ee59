"""Frames of videos, one file for each camera, all of which begin at the same moment. Labels are stretches of time:

    start,end,class,event          seconds, or h:mm:ss; event if you like: stretches that belong together
    0,12.5,empty,
    0:00:15,0:00:40,mug,first visit

Every moment that is sampled is an object, seen by all cameras. Frames of one stretch, or of one event, are one group,
which no split tears apart; and frames near the end of a stretch are left out, so that frames of two groups are never
neighbours.
"""

import hashlib
import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from airpool._support.extras import load
from airpool.models.images.folder import table
from airpool.models.images.pictures import Pictures, Shot, named, natural, shown
from airpool.models.vision.picture import Picture

EVERY = 1.0  # seconds between two frames
LABELS = "labels.csv"

_ENDINGS = (".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg", ".ts", ".mjpeg", ".wmv")
_MOST = 10**6  # frames of a video
_LATE = 10.0  # seconds ahead, from which on a video is sought rather than read on
_BEFORE = 2.0  # seconds before the moment, to which it is sought


class Stretch(NamedTuple):
    """A labelled stretch of time, in seconds."""

    start: float
    end: float
    label: str
    group: str


def found(folder: Path | str, labels: Path | str | None = None, *, every: float = EVERY) -> Pictures:
    """Frames of the videos of a folder, every so many seconds. labels: the CSV file; left out, labels.csv in it."""
    folder = Path(folder)
    cameras = files(folder)
    if not (math.isfinite(every) and every > 0):
        raise ValueError(f"every={every} must be > 0, seconds between two frames")
    spans = stretches(folder / LABELS if labels is None else Path(labels))
    if (most := sum((span.end - span.start) / every for span in spans)) > _MOST:
        raise ValueError(f"{most:.3g} frames of each camera, must be {_MOST} at most: are the times of labels right?")
    moments = [(at, span) for span in spans for at in _moments(span, every)]
    if not moments:
        raise ValueError(f"no stretch is long enough for a frame: each needs more than {2 * every:g} s")
    short = [f"{span.label} at {span.start:g} s" for span in spans if not _moments(span, every)]
    notes = [f"{len(short)} stretches are too short for a frame: {named(short)}"] if short else []
    readers = [_VideoReader(path) for path in cameras.values()]
    shots = [
        Shot(i, k, f"{name} at {at:.15g} s", _frame(readers[k], at))
        for k, name in enumerate(cameras)
        for i, (at, _) in enumerate(moments)
    ]
    return Pictures(
        tuple(cameras),
        tuple(f"{span.label}/{at:.15g} s" for at, span in moments),
        tuple(span.label for _, span in moments),
        tuple(span.group for _, span in moments),
        tuple(shots),
        ordered=True,
        notes=tuple(notes),
    )


def files(folder: Path) -> dict[str, Path]:
    """The videos of a folder by the names of their cameras, in natural order."""
    if not folder.is_dir():
        raise ValueError(f"{shown(folder)}: no such folder of videos")
    named = (each for each in folder.glob("[!.]*") if each.suffix.lower() in _ENDINGS and each.is_file())
    videos = sorted(named, key=lambda each: natural(shown(each.name)))
    names = [shown(each.stem) for each in videos]
    if not videos:
        raise ValueError(f"{shown(folder)}: no video; must hold one file for each camera, such as left.mp4")
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{shown(folder)}: two videos of camera {twice[0]}: keep one")
    return dict(zip(names, videos, strict=True))


def stretches(path: Path) -> list[Stretch]:
    """The stretches of a CSV file, by time."""
    if not path.is_file():
        raise ValueError(f"{shown(path)}: no such file; labels of videos are a CSV file: start, end, class[, event]")
    out = []
    for line, row in table(path, ("start", "end", "class"), ("start", "end", "class", "event")):
        start, end = (_seconds(row[name], f"{shown(path)}, line {line}: {name}") for name in ("start", "end"))
        if not start < end:
            raise ValueError(f"{shown(path)}, line {line}: it ends at {row['end']}, must be after {row['start']}")
        event = row.get("object", "")  # `table` calls an event so
        out.append(Stretch(start, end, row["class"], f"event {event}" if event else f"stretch of line {line}"))
    out.sort()
    for before, after in pairwise(out):
        if after.start < before.end:
            raise ValueError(
                f"{shown(path)}: {before.label} from {before.start:g} to {before.end:g} s and {after.label} from "
                f"{after.start:g} s overlap: a moment has one class"
            )
    return out


def _moments(span: Stretch, every: float) -> list[float]:
    """Seconds at which frames are taken: `every` apart, and no nearer than that to either end."""
    count = math.floor((span.end - span.start) / every - 2 + 1e-9) + 1
    return [round(span.start + every * (k + 1), 6) for k in range(count)]


def _seconds(text: str, where: str) -> float:
    """Seconds of a time as it is written.

    >>> _seconds("1:02:03.5", ""), _seconds("75", ""), _seconds("1:15", "")
    (3723.5, 75.0, 75.0)
    """
    try:
        parts = [float(part) for part in text.split(":")]
    except ValueError:
        parts = []
    if not 1 <= len(parts) <= 3 or not all(math.isfinite(part) and part >= 0 for part in parts):
        raise ValueError(f"{where} is {text!r}, must be seconds, or h:mm:ss")
    return sum(part * 60**k for k, part in enumerate(reversed(parts)))


class _VideoReader:
    """Frames of one video, by time, cheapest in order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._digest = ""
        self._taken: Any = None
        self._at = -1.0  # seconds of the frame that was read last

    def digest(self) -> str:
        if not self._digest:
            with self.path.open("rb") as file:
                self._digest = hashlib.file_digest(file, "sha256").hexdigest()
        return self._digest

    def frame(self, at: float) -> Picture:
        """The first frame at a moment or after it."""
        cv2 = load("cv2", "reading videos")
        if self._taken is None or at <= self._at:
            self._taken, self._at = cv2.VideoCapture(str(self.path)), -1.0
        if not self._taken.isOpened():
            raise OSError(f"{shown(self.path)}: no video that can be read")
        if at - self._at > _LATE:
            self._taken.set(cv2.CAP_PROP_POS_MSEC, max(0.0, at - _BEFORE) * 1000)
        step = 1 / max(self._taken.get(cv2.CAP_PROP_FPS) or 0, 1.0)
        while True:
            if not self._taken.grab():
                raise OSError(f"{shown(self.path)}: ends before {at:g} s")
            self._at = self._taken.get(cv2.CAP_PROP_POS_MSEC) / 1000
            if self._at >= at - step / 2:
                break
        there, frame = self._taken.retrieve()
        if not there or frame.ndim != 3:
            raise OSError(f"{shown(self.path)}: no frame at {at:g} s")
        return np.ascontiguousarray(frame[..., ::-1])


def _frame(reader: _VideoReader, at: float) -> Callable[[], tuple[str, Callable[[], Picture]]]:
    return lambda: (f"{reader.digest()}@{at:.15g}", lambda: reader.frame(at))
