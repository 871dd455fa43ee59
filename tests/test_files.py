"""Files are written whole or not at all, also where the disk is full."""

import ast
import os
import resource
import subprocess
from contextlib import contextmanager
from types import SimpleNamespace

import matplotlib.font_manager  # noqa: F401  it keeps a file of its own, which must not meet the limit below
import numpy as np
import pytest
import torch
from torch import nn

from airpool import Network
from airpool._support import files
from airpool._support.figures import canvas, write_csv
from airpool._support.table import one_row
from airpool.evaluation.audit import bound
from airpool.evaluation.audit import bound as audit
from airpool.models import loop, weights
from airpool.models.vision import int8
from airpool.network import file as network_file
from airpool_lab.sweep import appending, records
from airpool_lab.training import card
from airpool_lab.vision import cad
from airpool_lab.vision import training as train
from tests.sources import MODULES


@contextmanager
def full_disk(*, room=8):
    """No file grows beyond `room` bytes: what a full disk does to a writer, without a file system of its own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def picture(path):
    with canvas(path) as fig:
        fig.subplots().plot([0, 1])


def audited(path):
    rng = np.random.default_rng(0)
    game = audit.audit(
        lambda world, runs, rng: world + rng.standard_normal((runs, 1)),
        1.0,
        0.0,
        runs=200,
        rng=rng,
        delta=1e-5,
    )
    bound.plot(game, path)


def packed(path):
    names = np.array([f"chair_{n}" for n in range(4)])
    columns = {"label": np.zeros(4, np.int64), "classes": np.array(["chair"]), "split": np.array(["train", "test"] * 2)}
    mesh = cad.pack(np.array([[0, 0, 0], [9, 0, 0], [9, 9, 0]]), np.array([[0, 1, 2]]))
    cad.write(path, cad.joined([mesh] * 4, name=names, source=np.array(["cad"] * 4), **columns))


def int8_trunk(path):
    int8.save(path, SimpleNamespace(graph=b"graph" * 8))  # pyright: ignore[reportArgumentType]


def checkpoint(path):
    model = nn.Linear(8, 8)
    loop.save(path, train.TrunkRecipe(), {"learner": model}, torch.optim.SGD(model.parameters()), [])


RECORD = {"seed": 0, "version": "0", "accuracy_mean": 0.5, "epsilon": [1.0, "inf"]}
WRITERS = {
    "net.toml": lambda path: network_file.write(Network.uniform(num_devices=12), path),
    "table.csv": lambda path: one_row(RECORD, function="test").write(path),
    "table.json": lambda path: one_row(RECORD, function="test").write(path),
    "data.csv": lambda path: write_csv(path, {"x": list(range(100))}),
    "picture.png": picture,
    "picture.svg": picture,
    "picture.pdf": picture,
    "audit.png": audited,
    "model.safetensors": lambda path: weights.write(path, {"a": torch.zeros(8, 8)}, {}),
    "int8.zip": int8_trunk,
    "run.checkpoint": checkpoint,
    "meshes.npz": packed,
    "meshes.npz.xz": packed,
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_old_file_and_nothing_else(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(b"good")
    with full_disk(), pytest.raises(OSError, match=name):
        WRITERS[name](path)
    assert path.read_bytes() == b"good"
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_no_file_where_there_was_none(name, tmp_path):
    with full_disk(), pytest.raises(OSError, match=name):
        WRITERS[name](tmp_path / name)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", WRITERS)
def test_with_room_every_writer_replaces_what_was_there(name, tmp_path):
    (tmp_path / name).write_bytes(b"old")
    WRITERS[name](tmp_path / name)
    assert len((tmp_path / name).read_bytes()) > 8
    assert os.listdir(tmp_path) == [name]


def test_a_card_and_a_cache_survive_a_full_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(card, "markdown", str)
    (tmp_path / "trunk.json").write_text("good")
    with full_disk(), pytest.raises(OSError, match=r"trunk\.json"):
        card.write(tmp_path / "trunk", {"name": "trunk"})
    assert (tmp_path / "trunk.json").read_text() == "good"
    with (
        full_disk(room=0),
        pytest.raises(OSError, match=r"rows\.jsonl"),
        appending(tmp_path / "rows.jsonl") as add,
    ):
        add({"key": "a"})
    assert os.listdir(tmp_path) == ["trunk.json"]


def test_a_cache_keeps_its_records_when_the_disk_fills(tmp_path):
    path = tmp_path / "rows.jsonl"
    with appending(path) as add:
        add({"key": "a"})
    for room in (path.stat().st_size, path.stat().st_size + 8):
        with full_disk(room=room), pytest.raises(OSError, match=r"rows\.jsonl"), appending(path) as add:
            add({"key": "b"})
    assert records(path) == [{"key": "a"}]


def test_an_interrupted_writer_leaves_the_old_file(tmp_path):
    path = tmp_path / "net.toml"
    path.write_text("good")

    def interrupted():
        with files.opened(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert os.listdir(tmp_path) == ["net.toml"]
    assert path.read_text() == "good"


def test_a_missing_folder_is_made(tmp_path):
    files.write(tmp_path / "missing" / "deeper" / "net.toml", "text")
    assert (tmp_path / "missing" / "deeper" / "net.toml").read_text() == "text"


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        files.write(tmp_path / "file" / "net.toml", "text")


def test_a_new_file_has_the_usual_rights_and_an_old_one_keeps_its_own(tmp_path):
    (tmp_path / "plain").write_text("")
    files.write(tmp_path / "new", "text")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "new").chmod(0o600)
    files.write(tmp_path / "new", "again")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "net.toml")
    files.write(tmp_path / "link", "through")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "net.toml").read_text() == "through"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    files.write(tmp_path / "pipe", "through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


def test_a_name_as_long_as_names_may_be_can_be_written(tmp_path):
    files.write(tmp_path / ("ε" * 127), "text")
    assert len(os.listdir(tmp_path)) == 1


def test_no_module_but_files_opens_a_file_to_write():
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if path.name == "files.py" or not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            assert name not in ("write_text", "write_bytes", "save_file", "copyfile"), f"{path}:{node.lineno}"
            given = [a.value for a in (*node.args, *(k.value for k in node.keywords)) if isinstance(a, ast.Constant)]
            assert name != "open" or not any(set("wax") & set(str(mode)) for mode in given), f"{path}:{node.lineno}"


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 kB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


COMMANDS = {
    "net.toml": ["calibrate", "--devices", "12", "--epsilon", "2", "--out"],
    "epsilon.png": ["epsilon", "--devices", "12", "--plot"],
    "epsilon.svg": ["epsilon", "--devices", "12", "--plot"],
    "audit.png": ["audit", "--devices", "2", "--dimension", "2", "--runs", "200", "--plot"],
    "table.csv": ["sweep", "epsilon", "--set", "devices=2", "--no-cache", "--out"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_on_a_full_file_system_names_the_file_and_spoils_nothing(name, small_disk, refused):
    good, new = small_disk / f"good-{name}", small_disk / name
    good.write_bytes(b"good")
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "filler").write_bytes(bytes(100_000))
    for path in (good, new):
        assert refused(*COMMANDS[name], path) == f"error: {path}: No space left on device\n"
    assert good.read_bytes() == b"good"
    assert sorted(os.listdir(small_disk)) == sorted(["filler", good.name])
