"""Files to write: a path that cannot be is an error before the work."""

import errno
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from airpool import cli
from airpool._support import files

COMMANDS = (
    "attack --out",
    "audit --plot",
    "bundle --out",
    "calibrate --epsilon 2 --out",
    "calibrate --epsilon 2 --plot",
    "data prepare none.zip --out",
    "demo --out",
    "design weights --epsilon 2 --out",
    "epsilon --plot",
    "evaluate --out",
    "fit --images none --out",
    "plan --epsilon 2 --out",
    "plan --epsilon 2 --plot",
    "radio receive none --out",
    "report net.toml --out",
    "reproduce all --out",
    "sweep none.toml --out",
    "train trunk none.npz --out",
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.toml").write_text("version = 3\n")
    return tmp_path


@pytest.mark.parametrize("words", COMMANDS)
def test_a_path_that_cannot_be_written_is_an_error_before_the_work(words, folder):
    done = CliRunner().invoke(cli.app, [*words.split(), "net.toml/b.zip"])
    assert isinstance(done.exception, OSError), done.output
    assert (done.exception.errno, done.exception.filename) == (errno.ENOTDIR, "net.toml/b.zip")
    assert done.output == ""
    assert [each.name for each in folder.iterdir()] == ["net.toml"]


def test_every_option_that_names_a_file_to_write_is_checked():
    def found(command, path=()):
        for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
            yield from found(command.get_command(None, name), (*path, name))
        yield from ((path, each) for each in command.params if each.name in ("out", "plot"))

    options = list(found(typer.main.get_command(cli.app)))
    assert len(options) > len(COMMANDS)
    at_once = {("ledger",), ("radio", "transmit")}  # they take no time; the second may stream
    unchecked = {path for path, each in options if each.callback is None}
    assert {path for path in unchecked if path[:1] not in at_once and path not in at_once} == set()


def test_what_can_be_written_and_what_cannot(folder):
    (folder / "link").symlink_to(folder / "there" / "deeper")
    for path in ("new", "a/b/c", "net.toml", "link", "/dev/null"):
        files.require_writable(path)
    for path in ("new", "a/b", ".", str(folder)):
        files.require_writable(path, folder=True)
    assert sorted(each.name for each in folder.iterdir()) == ["link", "net.toml"]
    for path, which, why in (
        ("net.toml/x", False, errno.ENOTDIR),
        ("net.toml/x/y", True, errno.ENOTDIR),
        ("net.toml", True, errno.ENOTDIR),
        (".", False, errno.EISDIR),
    ):
        with pytest.raises(OSError, match=str(Path(path))) as caught:
            files.require_writable(path, folder=which)
        assert caught.value.errno == why
