"""Triangle meshes from OFF, OBJ, STL and PLY files, read by trimesh (extra `mesh`) within limits of size.

Only the geometry is read. Files that a mesh refers to (materials, textures) are never opened, so untrusted files are
safe to read.
"""

import io
import logging
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from airpool._support import extras
from airpool._support.errors import AirpoolError

SUFFIXES = (".off", ".obj", ".stl", ".ply")

# Some files of ModelNet40 have their counts glued to the keyword: "OFF490 518 0".
_OFF_HEADER = re.compile(rb"\s*OFF[ \t]*(?=\d)")
# After the keyword, comments and blank lines: the numbers of vertices and faces.
_OFF_COUNTS = re.compile(rb"\s*OFF(?:\s|#[^\n]*\n)+(\d{1,18})\s+(\d{1,18})\s")


class MeshError(AirpoolError, ValueError):
    """A file that is not a usable mesh."""


@dataclass(frozen=True)
class Limits:
    """The largest mesh that is read. Set lower values for untrusted files."""

    num_bytes: int = 2**29
    num_vertices: int = 2**23
    num_faces: int = 2**23


LIMITS = Limits()
_UNSAID = logging.NullHandler()


@dataclass(frozen=True, eq=False)
class Mesh:
    vertices: NDArray[np.float64]  # (V, 3): x, y, z, with z up
    faces: NDArray[np.int64]  # (F, 3)


def read(path: Path, limits: Limits = LIMITS) -> Mesh:
    """The mesh in a file; its suffix gives the format."""
    check_bytes(path.stat().st_size, path.name, limits)
    return parse(path.read_bytes(), name=path.name, limits=limits)


def parse(data: bytes, *, name: str, limits: Limits = LIMITS) -> Mesh:
    """The mesh in the bytes of a file with this name. Polygons become triangles, and several bodies one mesh."""
    suffix = Path(name).suffix.lower()
    if suffix not in SUFFIXES:
        raise MeshError(f"{name}: a mesh must end in {', '.join(SUFFIXES)}")
    check_bytes(len(data), name, limits)
    if suffix in (".off", ".obj"):
        data = data.decode("utf-8", "replace").encode()  # comments may be in any encoding
    if suffix == ".off":
        data = _OFF_HEADER.sub(b"OFF\n", data, count=1) if _OFF_HEADER.match(data) else data
        if b"OFF" not in data[:1000]:
            raise MeshError(f"{name}: not an OFF mesh; it must begin with OFF")
        if counts := _OFF_COUNTS.match(data):
            _check_counts(int(counts[1]), int(counts[2]), name, limits)
    vertices, faces = _load(data, suffix[1:], name)
    _check_counts(len(vertices), len(faces), name, limits)
    if not len(faces):
        raise MeshError(f"{name}: no faces; a mesh needs at least one")
    if faces.min() < 0 or faces.max() >= len(vertices):
        raise MeshError(f"{name}: a face refers to a vertex that is not there (there are {len(vertices)})")
    corners = vertices[np.unique(faces)]
    if not (np.abs(corners) < 1e30).all():
        raise MeshError(f"{name}: every coordinate must be a number, and smaller than 1e30")
    if not np.ptp(corners, axis=0).max() > 1e-30:
        raise MeshError(f"{name}: all vertices coincide; an object must have a size")
    return Mesh(vertices, faces)


def off(mesh: Mesh) -> str:
    """A mesh as the text of an OFF file."""
    lines = ["OFF", f"{len(mesh.vertices)} {len(mesh.faces)} 0"]
    lines += [f"{x:.6g} {y:.6g} {z:.6g}" for x, y, z in mesh.vertices.tolist()]
    lines += [f"3 {a} {b} {c}" for a, b, c in mesh.faces.tolist()]
    return "\n".join(lines) + "\n"


def _load(data: bytes, kind: str, name: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    trimesh = extras.load("trimesh", "reading meshes")
    logging.getLogger("trimesh").addHandler(_UNSAID)  # a texture that it may not open would be told with a traceback
    try:
        mesh = trimesh.load_mesh(io.BytesIO(data), file_type=kind, process=False)
        return np.asarray(mesh.vertices, np.float64).reshape(-1, 3), np.asarray(mesh.faces, np.int64).reshape(-1, 3)
    except MemoryError:
        raise
    except Exception as error:  # a parser fed with anything may raise anything
        # Without its charset_normalizer trimesh cannot say more of an STL file that is neither whole nor text.
        text = "cut short or damaged" if isinstance(error, ImportError) else str(error)
        reason = " ".join(text.split())[:80] or type(error).__name__
        raise MeshError(f"{name}: not a readable {kind.upper()} mesh ({reason})") from None


def check_bytes(number: int, name: str, limits: Limits) -> None:
    """Checks the size of a file before it is read."""
    _within(limits.num_bytes, number, "bytes", name)


def _check_counts(num_vertices: int, num_faces: int, name: str, limits: Limits) -> None:
    _within(limits.num_vertices, num_vertices, "vertices", name)
    _within(limits.num_faces, num_faces, "faces", name)


def _within(limit: int, number: int, what: str, name: str) -> None:
    if number > limit:
        raise MeshError(f"{name}: {number} {what}; at most {limit} are allowed")
