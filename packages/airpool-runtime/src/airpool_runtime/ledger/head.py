"""The newest row, kept outside the ledger's file: an old copy, cut-off rows or a deleted file are noticed by it.

Two slots that are written in turn, each with a checksum: a kill in the middle leaves the other one. Written in place,
because a rename costs two more waits for the disk.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import NamedTuple

from airpool_runtime.keys import secret
from airpool_runtime.ledger.chain import Tip
from airpool_runtime.ledger.refused import SpendingError

_SLOT = 512


class Head(NamedTuple):
    """ledger: the hash of its origin, so that one head belongs to one ledger."""

    ledger: str
    tip: Tip


def read(path: Path) -> Head | None:
    """The newest head that was written; None if there never was one. SpendingError where both slots are damaged."""
    try:
        content = _content(path)
    except FileNotFoundError:
        return None
    found = [slot for slot in _slots(content) if slot is not None]
    if not found:
        raise SpendingError("corrupt", f"{path} is damaged: the newest row is not known, so nothing is sent")
    return max(found, key=lambda head: head.tip.seq)


def _content(path: Path) -> bytes:
    """Content of a file, read at every charge: without updating its access time, which would cost a write."""
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NOATIME", 0))
    except PermissionError:  # of another owner
        file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 2 * _SLOT)
    finally:
        os.close(file)


def _slots(content: bytes) -> tuple[Head | None, Head | None]:
    return _parsed(content[:_SLOT]), _parsed(content[_SLOT:])


def write(path: Path, head: Head) -> None:
    """Writes a head over the older slot; it is on the disk when this returns."""
    try:
        first, second = _slots(_content(path))
    except FileNotFoundError:  # whole or not at all: an empty file would be a damaged one
        secret.write(path, _text(head))
        sync_folder(path.parent)
        return
    at = _SLOT if first is not None and (second is None or second.tip.seq < first.tip.seq) else 0
    file = os.open(path, os.O_WRONLY)
    try:
        if os.pwrite(file, _text(head), at) != _SLOT:
            raise OSError("the head was not written whole")
        getattr(os, "fdatasync", os.fsync)(file)
    finally:
        os.close(file)


def sync_folder(folder: Path) -> None:
    """A new file's name is on the disk when this returns."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _text(head: Head) -> bytes:
    body = json.dumps({"ledger": head.ledger, "count": head.tip.seq, "hash": head.tip.hash}, sort_keys=True)
    return f"{_checksum(body)} {body}\n".encode().ljust(_SLOT, b"\n")


def _parsed(slot: bytes) -> Head | None:
    checksum, _, body = slot.rstrip(b"\n").decode("utf-8", "replace").partition(" ")
    if not body or checksum != _checksum(body):
        return None
    try:
        data = json.loads(body)
        return Head(str(data["ledger"]), Tip(int(data["count"]), str(data["hash"])))
    except (ValueError, KeyError, TypeError, RecursionError):  # anyone can compute a checksum
        return None


def _checksum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()
