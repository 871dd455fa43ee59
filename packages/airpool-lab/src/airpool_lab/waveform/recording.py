"""Samples in and out: complex64 recordings with SigMF metadata, and ZeroMQ streams as GNU Radio speaks them."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from airpool._support.extras import load
from airpool._support.version import __version__

Samples = NDArray[np.complex64]


def _file(path: str | Path, what: str) -> Path:
    """PATH.sigmf-WHAT; PATH may have dots of its own, or be that of either file."""
    given = Path(path)
    stem = given.stem if given.suffix in (".sigmf-data", ".sigmf-meta") else given.name
    return given.with_name(f"{stem}.sigmf-{what}")


def write(path: str | Path, samples: NDArray[np.complexfloating], *, sample_rate: float, description: str) -> Path:
    """Writes PATH.sigmf-data and PATH.sigmf-meta; returns the path of the metadata."""
    sigmf = load("sigmf", "a recording")
    if not 0 < sample_rate < np.inf:
        raise ValueError(f"sample_rate={sample_rate} must be > 0 and finite")
    data = _file(path, "data")
    data.parent.mkdir(parents=True, exist_ok=True)
    samples.astype("<c8").tofile(data)
    fields = {
        "core:datatype": "cf32_le",
        "core:sample_rate": float(sample_rate),
        "core:description": description,
        "core:recorder": f"airpool {__version__}",
    }
    recording = sigmf.SigMFFile(data_file=str(data), global_info=fields)
    recording.add_capture(0, metadata={})
    meta = _file(path, "meta")
    recording.tofile(str(meta), overwrite=True)
    return meta


def read(path: str | Path) -> tuple[Samples, float]:
    """The samples of a recording, and its sample rate; an error unless it is complex64, little-endian."""
    sigmf = load("sigmf", "a recording")
    meta = _file(path, "meta")
    if not meta.exists():
        raise ValueError(f"{meta} does not exist: a recording needs its metadata")
    recording = sigmf.fromfile(str(meta))
    kind = recording.get_global_field("core:datatype")
    if kind != "cf32_le":
        raise ValueError(f"{meta}: core:datatype={kind!r} must be cf32_le")
    rate = float(recording.get_global_field("core:sample_rate") or 0.0)
    return np.fromfile(_file(path, "data"), dtype="<c8"), rate


def push(address: str, samples: NDArray[np.complexfloating], *, timeout_s: float = 10.0) -> None:
    """Sends samples to a ZMQ PULL source, such as GNU Radio's: raw complex64 without a header."""
    zmq, limit = load("zmq", "a stream"), _milliseconds(timeout_s)
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.setsockopt(zmq.LINGER, limit)
        socket.setsockopt(zmq.SNDTIMEO, limit)
        try:
            socket.bind(address)
            socket.send(samples.astype("<c8").tobytes())
        except zmq.Again:
            raise ValueError(f"no reader has taken the samples at {address} within {timeout_s:g} s") from None
        except zmq.ZMQError as error:
            socket.setsockopt(zmq.LINGER, 0)
            raise ValueError(f"{address}: {error.strerror}") from None


def pull(address: str, count: int, *, timeout_s: float = 10.0) -> Samples:
    """`count` samples from a ZMQ PUSH sink."""
    zmq, limit = load("zmq", "a stream"), _milliseconds(timeout_s)
    taken = b""
    with zmq.Context() as context, context.socket(zmq.PULL) as socket:
        socket.setsockopt(zmq.RCVTIMEO, limit)
        try:
            socket.connect(address)
        except zmq.ZMQError as error:
            raise ValueError(f"{address}: {error.strerror}") from None
        while len(taken) < 8 * count:
            try:
                taken += socket.recv()
            except zmq.Again:
                raise ValueError(f"{address} sent {len(taken) // 8} of {count} samples in {timeout_s:g} s") from None
    return np.frombuffer(taken[: 8 * count], dtype="<c8")


def _milliseconds(seconds: float) -> int:
    if not 0 < seconds <= 86_400:
        raise ValueError(f"timeout={seconds:g} must be > 0 and at most a day, in seconds")
    return max(1, int(1000 * seconds))
