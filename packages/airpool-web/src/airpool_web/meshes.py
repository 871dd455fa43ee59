"""Meshes that somebody gives to the page: parsed and seen by the cameras in a process of their own, which is ended
after a few seconds. A few are kept in memory, by the hash of their bytes; nothing is written to disk.
"""

import asyncio
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock
from typing import Generic, TypeVar
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from airpool.models.vision.meshes import SUFFIXES, Limits, MeshError, parse
from airpool_web.asked import AskedError
from airpool_web.jobs import Jobs, Tell

LIMITS = Limits(num_bytes=8 * 2**20, num_vertices=200_000, num_faces=200_000)
SECONDS = 30.0  # to parse one and to render its views, the start of the process included
_MEMORY = 6 * 2**30  # address space of that process, most of which torch reserves and never touches
_NAME = 80

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class OwnMesh:
    """A mesh that was given: name of its file, vertices (V, 3), faces (F, 3), views (1, 12, 2, H, H) as floats."""

    name: str
    vertices: NDArray[np.float64]
    faces: NDArray[np.int64]
    views: NDArray[np.float32]

    @property
    def size(self) -> int:
        return self.vertices.nbytes + self.faces.nbytes + self.views.nbytes


class LastUsed(Generic[T]):
    """The things that were used last: at most `most` of them, of at most `most_bytes` together."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._kept, self._lock = OrderedDict[str, tuple[T, int]](), Lock()

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size(self) -> int:
        """Bytes of all."""
        return sum(size for _, size in self._kept.values())

    def get(self, key: str) -> T | None:
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def put(self, key: str, value: T, size: int) -> None:
        with self._lock:
            self._kept[key] = value, size
            self._kept.move_to_end(key)
            while len(self._kept) > 1 and (len(self._kept) > self._most or self.size > self._most_bytes):
                self._kept.popitem(last=False)


def file_name(header: str | None) -> str:
    """The name of a file as it may be shown: without folders, of printable characters, not long."""
    plain = unquote(header or "", errors="replace").replace("\\", "/").rpartition("/")[2]
    plain = "".join(each for each in plain if each.isprintable()).strip()
    return plain if len(plain) <= _NAME else "…" + plain[-_NAME:]


async def read(jobs: Jobs, data: bytes, name: str) -> tuple[str, OwnMesh]:
    """A mesh and its id; an error that says why it is none. jobs: the process that parses meshes and does nothing else.

    What can be told without parsing is told at once.
    """
    if not name.lower().endswith(SUFFIXES):
        raise _none(name or "this file", f"its name must end in {', '.join(SUFFIXES)}")
    if not data.strip(b"\0 \t\r\n"):
        raise _none(name, "it is empty")
    found: OwnMesh | None = None
    try:
        async with asyncio.timeout(SECONDS):
            async for part in jobs.run(looked_at, data, name):
                found = part.get("mesh", found)
    except TimeoutError:
        seconds = f"{SECONDS:.0f} seconds"
        raise AskedError(f"{name}: its views take more than {seconds}; give a simpler mesh", field="object") from None
    except AskedError as error:
        if error.status != 400:
            raise
        raise _none(name, str(error).removeprefix(f"{name}: ")) from None
    except RuntimeError:
        raise _none(name, "reading it needs too much memory") from None
    if found is None:
        raise RuntimeError("the process that reads meshes gave none")
    return sha256(data + name.encode()).hexdigest()[:16], found


def _none(name: str, reason: str) -> AskedError:
    return AskedError(f"{name} is no mesh that can be shown: {reason}", field="object")


def looked_at(tell: Tell, data: bytes, name: str) -> None:
    """Job: parses a mesh and renders its views. A limit of memory holds from the first mesh on."""
    from airpool.models.vision.views import Cameras, views

    with suppress(ImportError, ValueError, OSError):  # not every system has such a limit
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, hard))
    try:
        mesh = parse(data, name=name, limits=LIMITS)
        seen = views([(mesh.vertices, mesh.faces)], Cameras()).numpy()
    except (MemoryError, RuntimeError):
        raise MeshError(f"{name}: reading it needs too much memory") from None
    tell({"mesh": OwnMesh(name, mesh.vertices, mesh.faces, seen)})
