"""Keys that are made when the disk is full, or when the process is interrupted or killed: whole or nothing."""

import errno
import os
import shutil

import pytest

from airpool._support import files
from airpool_runtime.keys import authority, credentials, secret
from airpool_runtime.keys.secret import KeyFileError


class Killed(BaseException):
    """The process is gone: nothing is tidied up."""


def failing(monkeypatch, after, error):
    """Lets so many files be written, and then raises."""
    left = [after]

    def limited(real):
        def write(path, content):
            left[0] -= 1
            if left[0] < 0:
                raise error
            real(path, content)

        return write

    monkeypatch.setattr(secret, "write", limited(secret.write))
    monkeypatch.setattr(files, "write", limited(files.write))


def whole(keys):
    """An authority that issues, with credentials of all roles."""
    authority.add(keys, "device-0")
    for name in (*authority.ROLES, "device-0"):
        assert credentials.load(keys / name)[0].name == name
    return not [path for path in keys.rglob("*") if path.name.startswith(".")]


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("after", [0, 1, 2, 7, 15, 21])
@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()], ids=["full", "interrupted"])
@pytest.mark.parametrize("existed", [False, True])
def test_an_interrupted_init_leaves_nothing(tmp_path, monkeypatch, after, error, existed):
    keys = tmp_path / "keys"
    if existed:
        keys.mkdir()
    with monkeypatch.context() as patch:
        failing(patch, after, error)
        with pytest.raises(type(error)):
            authority.create(keys)
    assert list(tmp_path.rglob("*")) == ([keys] if existed else [])
    authority.create(keys)
    assert whole(keys)


@pytest.mark.parametrize("after", [0, 1, 2, 7, 15, 21, None])
def test_init_finishes_or_clears_what_a_kill_has_left(tmp_path, monkeypatch, after):
    keys = tmp_path / "keys"
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        patch.setattr(type(keys), "rmdir", lambda _: None)
        if after is None:  # while all of it is moved up
            patch.setattr(type(keys), "rename", _renamed(3))
        else:
            failing(patch, after, Killed())
        with pytest.raises(Killed):
            authority.create(keys)
    assert keys.exists()
    with pytest.raises(KeyFileError, match="keys init"):
        authority.issued(keys)
    authority.create(keys)
    assert whole(keys)


def _renamed(after):
    left = [after]

    def rename(self, target):
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        os.rename(self, target)

    return rename


@pytest.mark.parametrize("lost", ["issued.json", None])
def test_an_authority_that_was_whole_is_never_cleared(tmp_path, lost):
    keys = tmp_path / "keys"
    authority.create(keys)
    if lost:
        (keys / lost).unlink()
    before = (keys / "ca.key").read_bytes()
    with pytest.raises(KeyFileError, match="not empty"):
        authority.create(keys)
    assert (keys / "ca.key").read_bytes() == before


@pytest.mark.parametrize("after", [0, 1, 3, 5])
@pytest.mark.parametrize("error", [FULL, Killed()], ids=["full", "killed"])
def test_keys_of_a_device_can_be_made_after_an_interruption(tmp_path, monkeypatch, after, error):
    keys = tmp_path / "keys"
    authority.create(keys)
    with monkeypatch.context() as patch:
        if isinstance(error, Killed):
            patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        failing(patch, after, error)
        with pytest.raises(type(error)):
            authority.add(keys, "device-0")
    assert (keys / "device-0").exists() == isinstance(error, Killed)
    assert whole(keys)
