"""Triangle meshes from OFF, OBJ, STL and PLY files, of a size that fits, or one line that says what is wrong.

Reading is trimesh's (extra `mesh`). Only the geometry is taken: other files that a mesh mentions (materials, textures)
are never opened, so a file from a stranger can be read.
"""

import io
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SUFFIXES = (".off", ".obj", ".stl", ".ply")

# Some files of ModelNet40 have their counts glued to the keyword: "OFF490 518 0".
_OFF_HEADER = re.compile(rb"\s*OFF[ \t]*(?=\d)")
# After the keyword, comments and blank lines: the numbers of vertices and faces.
_OFF_COUNTS = re.compile(rb"\s*OFF(?:\s|#[^\n]*\n)+(\d{1,18})\s+(\d{1,18})\s")


class MeshError(ValueError):
    """A file that is not a mesh we can take."""


@dataclass(frozen=True)
class Limits:
    """What a mesh may hold at most. Generous; who takes files from strangers sets less."""

    num_bytes: int = 2**29
    num_vertices: int = 2**23
    num_faces: int = 2**23


LIMITS = Limits()


@dataclass(frozen=True, eq=False)
class Mesh:
    vertices: NDArray[np.float64]  # (V, 3): x, y, z, with z up
    faces: NDArray[np.int64]  # (F, 3)


def read(path: Path, limits: Limits = LIMITS) -> Mesh:
    """The mesh in a file; the name's ending says what it is."""
    check_bytes(path.stat().st_size, path.name, limits)
    return parse(path.read_bytes(), name=path.name, limits=limits)


def parse(data: bytes, *, name: str, limits: Limits = LIMITS) -> Mesh:
    """The mesh in the bytes of a file with this name.

    Polygons are cut into triangles; several bodies in one file become one mesh.
    """
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
            _within(limits.num_vertices, int(counts[1]), "vertices", name)
            _within(limits.num_faces, int(counts[2]), "faces", name)
    vertices, faces = _load(data, suffix[1:], name)
    _within(limits.num_vertices, len(vertices), "vertices", name)
    _within(limits.num_faces, len(faces), "faces", name)
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
    try:
        import trimesh
    except ImportError:
        raise ValueError("reading meshes needs trimesh: pip install 'airpool[mesh]'") from None
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
    """For a file that is not read yet."""
    _within(limits.num_bytes, number, "bytes", name)


def _within(limit: int, number: int, what: str, name: str) -> None:
    if number > limit:
        raise MeshError(f"{name}: {number} {what}; at most {limit} are allowed")
