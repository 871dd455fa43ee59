"""Meshes in, one packed voxel file out: many at a time, and from where it stopped if it was stopped.

Objects are voxelised in chunks. A finished chunk is a file in a folder beside the output; its name is a fingerprint of
what went into it, so that nothing is lost, done twice or taken from other data when the work is resumed.
"""

import hashlib
import multiprocessing
import os
import signal
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from airpool import files
from airpool.data import dataset as packed
from airpool.data import meshes
from airpool.data.dataset import SPLITS, Dataset
from airpool.data.voxels import NUM_POSES, PACKED_BYTES, pack, voxelise

CHUNK = 32
_VERSION = 1  # part of every fingerprint: raise it when the voxels of a mesh change


@dataclass(frozen=True, order=True)
class Entry:
    """One mesh of a folder or zip. In the order of the packed file: test before train, then class, then name."""

    split: str
    label: str
    name: str
    path: str  # inside the folder or zip
    num_bytes: int
    stamp: int  # changes with the content: time of the last change, or the checksum in the zip


def holds_meshes(source: Path) -> bool:
    """Whether this is a folder or a zip with something else than packed voxels in it."""
    if source.is_dir():
        return True
    if not zipfile.is_zipfile(source):
        return False
    with zipfile.ZipFile(source) as archive:
        return not any(f"{array}.npy" in archive.namelist() for array in packed.ARRAYS)


def entries(source: Path) -> list[Entry]:
    """The meshes CLASS/{train,test}/NAME.off (or obj, stl, ply) of a folder or zip, at any depth."""
    if source.is_dir():
        files = [(path.relative_to(source).as_posix(), path.stat()) for path in source.rglob("*") if path.is_file()]
        found = [(path, stat.st_size, stat.st_mtime_ns) for path, stat in files]
    elif zipfile.is_zipfile(source):
        with zipfile.ZipFile(source) as archive:
            found = [(info.filename, info.file_size, info.CRC) for info in archive.infolist()]
    elif not source.exists():
        raise ValueError(f"{source}: no such file or folder")
    else:
        raise ValueError(f"{source}: must be a folder or a zip of meshes; it is neither, or cut short")
    listed = []
    for path, num_bytes, stamp in found:
        parts = PurePosixPath(path)
        below = parts.parts[-3:]
        hidden = parts.name.startswith(".") or "__MACOSX" in parts.parts
        if len(below) == 3 and below[1] in SPLITS and parts.suffix.lower() in meshes.SUFFIXES and not hidden:
            listed.append(Entry(below[1], below[0], parts.stem, path, num_bytes, stamp))
    if not listed:
        raise ValueError(f"{source}: no meshes; they must lie in CLASS/train/ and CLASS/test/ and end in .off, …")
    return sorted(set(listed))


def prepare(
    source: Path,
    out: Path,
    *,
    workers: int = 1,
    limits: meshes.Limits = meshes.LIMITS,
    on_objects: Callable[[int], None] = lambda _: None,
) -> list[str]:
    """Writes the packed file of a folder or zip of meshes; returns a line for each that could not be read.

    `on_objects` is told how many more are done. Interrupted, it goes on with the next call: finished chunks are kept in
    the folder `out`.work until the output is written.
    """
    if out.exists():
        raise ValueError(f"{out} exists: remove it, or write to another file")
    if workers < 1:
        raise ValueError(f"workers={workers} must be at least 1")
    listed = entries(source)
    work = out.with_name(out.name + ".work")
    work.mkdir(parents=True, exist_ok=True)
    chunks = {_fingerprint(part, limits): part for part in _cut(listed)}
    todo = {}
    for key, part in chunks.items():
        if _file(work, key).exists():
            on_objects(len(part))
        else:
            todo[key] = part
    for key in _run(source, work, todo, limits, min(workers, len(todo))):
        on_objects(len(todo[key]))
    unreadable = _assemble(work, chunks, out)
    for leftover in (*work.glob("*.chunk"), *work.glob("*.tmp")):
        leftover.unlink()
    if not any(work.iterdir()):
        work.rmdir()
    return unreadable


def _cut(listed: list[Entry]) -> Iterator[list[Entry]]:
    for start in range(0, len(listed), CHUNK):
        yield listed[start : start + CHUNK]


def _fingerprint(part: list[Entry], limits: meshes.Limits) -> str:
    content = repr((_VERSION, astuple(limits), [astuple(entry) for entry in part]))
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def _file(work: Path, key: str) -> Path:
    return work / f"{key}.chunk"


def _run(source: Path, work: Path, todo: dict[str, list[Entry]], limits: meshes.Limits, workers: int) -> Iterator[str]:
    """Makes the chunks that are missing, and names each when it is done."""
    if workers <= 1:
        for key, part in todo.items():
            yield _make(source, work, key, part, limits)
        return
    # Spawned, not forked: the caller may have threads, such as those of a progress bar.
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_worker)
    try:
        for done in as_completed([pool.submit(_make, source, work, *item, limits) for item in todo.items()]):
            yield done.result()
    except BrokenProcessPool:
        raise OSError("a worker was killed, perhaps for lack of memory: run again with fewer --workers") from None
    finally:
        pool.shutdown(cancel_futures=True)


def _worker() -> None:
    """A worker leaves Ctrl-C to the process that started it, and ends when that process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:

        def follow() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=follow, daemon=True).start()


def _make(source: Path, work: Path, key: str, part: list[Entry], limits: meshes.Limits) -> str:
    objects = np.zeros((len(part), NUM_POSES, PACKED_BYTES), np.uint8)
    errors = [""] * len(part)
    with _opened(source) as content:
        for i, entry in enumerate(part):
            try:
                meshes.check_bytes(entry.num_bytes, entry.path, limits)
                mesh = meshes.parse(content(entry.path), name=entry.path, limits=limits)
                objects[i] = pack(voxelise(mesh.vertices, mesh.faces))
            except meshes.MeshError as error:
                errors[i] = str(error)
            except (PermissionError, MemoryError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
                errors[i] = f"{entry.path}: {error or type(error).__name__}"
    with files.opened(_file(work, key)) as file:
        np.savez_compressed(file, vox=objects, error=np.array(errors))
    return key


@contextmanager
def _opened(source: Path) -> Iterator[Callable[[str], bytes]]:
    """What gives the content of a path inside the folder or zip."""
    if source.is_dir():
        yield lambda path: (source / path).read_bytes()
    else:
        with zipfile.ZipFile(source) as archive:
            yield archive.read


def _assemble(work: Path, chunks: dict[str, list[Entry]], out: Path) -> list[str]:
    """The output from its chunks, in order; and what could not be read."""
    objects, kept, unreadable = [], [], []
    for key, part in chunks.items():
        try:
            with np.load(_file(work, key), allow_pickle=False) as chunk:
                vox, errors = chunk["vox"], chunk["error"]
        except (ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
            raise ValueError(f"{_file(work, key)}: damaged ({error}); remove it and run again") from None
        readable = errors == ""
        objects.append(vox[readable])
        kept += [entry for entry, good in zip(part, readable, strict=True) if good]
        unreadable += errors[~readable].tolist()
    if not kept:
        raise ValueError(f"none of the {len(unreadable)} meshes can be read, first {unreadable[0]}")
    classes = sorted({entry.label for entry in kept})
    packed.write(
        out,
        Dataset(
            objects=np.concatenate(objects),
            labels=np.array([classes.index(entry.label) for entry in kept], np.int64),
            classes=tuple(classes),
            names=np.array([entry.name for entry in kept]),
            split=np.array([entry.split for entry in kept]),
        ),
    )
    return unreadable
