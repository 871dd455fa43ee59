"""Meshes in, one packed file out: in parallel, and resumed after an interruption.

A mesh is scaled to a grid of 4,096 steps along its longest side and, if it has many faces, simplified. Objects are
packed in chunks. A finished chunk is a file in a folder beside the output, named by a fingerprint of its
input: nothing is lost, repeated or taken from other data when the work is resumed.
"""

import hashlib
import multiprocessing
import os
import signal
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import astuple, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airpool._support import extras, files
from airpool.models.vision import meshes
from airpool_lab.vision import cad

CHUNK = 32
FACES = 2000  # beyond which a mesh is simplified, to about this number
_VERSION = 2  # part of every fingerprint: raise it when what is packed of a mesh changes


@dataclass(frozen=True, order=True)
class Entry:
    """One mesh of a folder or zip. Sorted as in the packed file: test before train, then class, then name."""

    split: str
    label: str
    name: str
    path: str  # inside the folder or zip
    num_bytes: int
    stamp: int  # changes with the content: time of the last change, or the checksum in the zip


def entries(source: Path) -> list[Entry]:
    """The meshes CLASS/{train,test}/NAME.off (or obj, stl, ply) of a folder or zip, at any depth."""
    if source.is_dir():
        stats = {path: path.stat() for path in source.rglob("*") if path.is_file()}
        found = [(path.relative_to(source).as_posix(), s.st_size, s.st_mtime_ns) for path, s in stats.items()]
    elif zipfile.is_zipfile(source):
        with zipfile.ZipFile(source) as archive:
            found = [(info.filename, info.file_size, info.CRC) for info in archive.infolist()]
    elif not source.exists():
        raise ValueError(f"{source}: no such file or folder")
    else:
        raise ValueError(f"{source}: must be a folder or a zip of meshes; it is neither, or cut short")
    listed = set()
    for path, num_bytes, stamp in found:
        parts = PurePosixPath(path)
        below = parts.parts[-3:]
        hidden = parts.name.startswith(".") or "__MACOSX" in parts.parts
        if len(below) == 3 and below[1] in ("train", "test") and parts.suffix.lower() in meshes.SUFFIXES and not hidden:
            listed.add(Entry(below[1], below[0], parts.stem, path, num_bytes, stamp))
    if not listed:
        raise ValueError(f"{source}: no meshes; they must lie in CLASS/train/ and CLASS/test/ and end in .off, …")
    return sorted(listed)


def prepare(
    source: Path,
    out: Path,
    *,
    workers: int = 1,
    limits: meshes.Limits = meshes.LIMITS,
    on_objects: Callable[[int], None] = lambda _: None,
) -> list[str]:
    """Writes the packed file of a folder or zip of meshes; returns a line for each that could not be read.

    `on_objects` receives the number of newly finished objects. Resumes after an interruption, even a kill: finished
    chunks are kept in the folder `out`.work until the output is written.
    """
    if out.exists():
        raise ValueError(f"{out} exists: remove it, or write to another file")
    if workers < 1:
        raise ValueError(f"workers={workers} must be at least 1")
    listed = entries(source)
    work = out.with_name(out.name + ".work")
    work.mkdir(parents=True, exist_ok=True)
    chunks: dict[Path, list[Entry]] = {}
    for start in range(0, len(listed), CHUNK):
        part = listed[start : start + CHUNK]
        content = repr((_VERSION, astuple(limits), [astuple(entry) for entry in part]))
        chunks[work / f"{hashlib.sha256(content.encode()).hexdigest()[:32]}.chunk"] = part
    todo = {file: part for file, part in chunks.items() if not file.exists()}
    if finished := len(listed) - sum(map(len, todo.values())):
        on_objects(finished)
    for file in _run(source, todo, limits, min(workers, len(todo))):
        on_objects(len(todo[file]))
    unreadable = _assemble(chunks, out)
    for leftover in (*work.glob("*.chunk"), *work.glob("*.tmp")):
        leftover.unlink()
    if not any(work.iterdir()):
        work.rmdir()
    return unreadable


def _run(source: Path, todo: Mapping[Path, list[Entry]], limits: meshes.Limits, workers: int) -> Iterator[Path]:
    """Makes the missing chunks; yields the file of each when it is done."""
    if workers <= 1:
        for file, part in todo.items():
            yield _make(source, file, part, limits)
        return
    # Spawned, not forked: the caller may have threads, such as those of a progress bar.
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_worker)
    try:
        for done in as_completed([pool.submit(_make, source, *item, limits) for item in todo.items()]):
            yield done.result()
    except BrokenProcessPool:
        raise OSError("a worker was killed, perhaps for lack of memory: run again with fewer --workers") from None
    finally:
        pool.shutdown(cancel_futures=True)


def _worker() -> None:
    """Leaves Ctrl-C to the parent process, and ends when that process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if parent := multiprocessing.parent_process():
        threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def _make(source: Path, file: Path, part: list[Entry], limits: meshes.Limits) -> Path:
    arrays: dict[str, NDArray[Any]] = {}
    errors = [""] * len(part)
    archive = None if source.is_dir() else zipfile.ZipFile(source)
    for i, entry in enumerate(part):
        try:
            meshes.check_bytes(entry.num_bytes, entry.path, limits)
            content = (source / entry.path).read_bytes() if archive is None else archive.read(entry.path)
            mesh = meshes.parse(content, name=entry.path, limits=limits)
            arrays[f"vertices{i}"], arrays[f"faces{i}"] = cad.pack(*gridded(mesh))
        except meshes.MeshError as error:
            errors[i] = str(error) if str(error).startswith(entry.path) else f"{entry.path}: {error}"
        except (PermissionError, MemoryError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
            errors[i] = f"{entry.path}: {error or type(error).__name__}"
    if archive is not None:
        archive.close()
    with files.opened(file) as opened:
        np.savez_compressed(opened, error=np.array(errors), **arrays)  # pyright: ignore[reportArgumentType]
    return file


def gridded(mesh: meshes.Mesh, *, faces: int = FACES) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Vertices (V, 3) from 0 to 4095 and faces (F, 3) of a mesh, without faces of no area and unused vertices.

    The longest side spans the grid, the others begin at 0. A mesh of more than `faces` faces is simplified before.
    """
    points, corners = mesh.vertices, mesh.faces
    used, corners = np.unique(corners, return_inverse=True)
    points, corners = points[used] - points[used].min(0), corners.reshape(-1, 3)
    points = points / points.max()
    if len(corners) > faces:
        library = extras.load("fast_simplification", "simplifying meshes")  # by quadric error
        points, corners = library.simplify(points.astype(np.float32), corners.astype(np.int32), target_count=faces)
    cells = np.rint(points.clip(0, 1) * (cad.GRID - 1)).astype(np.int32)
    cells, merged = np.unique(cells, axis=0, return_inverse=True)
    corners = merged.reshape(-1)[corners]
    a, b, c = np.moveaxis(cells[corners].astype(np.int64), 1, 0)
    corners = corners[np.cross(b - a, c - a).any(1)]
    if not len(corners):
        raise meshes.MeshError("no face has an area on a grid of 4096 steps")
    used, corners = np.unique(corners, return_inverse=True)
    corners = corners.reshape(-1, 3)
    corners = corners[np.lexsort(corners.T[::-1])]
    if len(used) > np.iinfo(np.int16).max:
        raise meshes.MeshError(f"{len(used)} vertices are left after simplification; at most 32767 can be packed")
    return cells[used], corners.astype(np.int32)


def _assemble(chunks: Mapping[Path, list[Entry]], out: Path) -> list[str]:
    """Writes the output from its chunks, in order; returns what could not be read."""
    packed, kept, unreadable = [], [], []
    for file, part in chunks.items():
        try:
            with np.load(file, allow_pickle=False) as chunk:
                errors = chunk["error"].tolist()
                readable = [i for i, error in enumerate(errors) if not error]
                packed += [(chunk[f"vertices{i}"], chunk[f"faces{i}"]) for i in readable]
        except (ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
            raise ValueError(f"{file}: damaged ({files.why_unreadable(error)}); remove it and run again") from None
        kept += [part[i] for i in readable]
        unreadable += [error for error in errors if error]
    if not kept:
        raise ValueError(f"none of the {len(unreadable)} meshes can be read, first {unreadable[0]}")
    classes = sorted({entry.label for entry in kept})
    labels = np.array([classes.index(entry.label) for entry in kept], np.int64)
    names, split = (np.array([getattr(entry, field) for entry in kept]) for field in ("name", "split"))
    source = np.full(len(kept), "cad")
    cad.write(out, cad.joined(packed, label=labels, classes=np.array(classes), split=split, name=names, source=source))
    return unreadable
