import os
import shutil
import subprocess
import sys
import time
import zipfile
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from airpool.models.vision import shapes
from airpool.models.vision.meshes import Limits, Mesh, MeshError
from airpool.models.vision.views import Cameras, views
from airpool_lab.vision import cad
from airpool_lab.vision import prepare as preparation
from airpool_lab.vision.prepare import entries, gridded, prepare

pytest.importorskip("trimesh", reason="needs the extra mesh")

ARRAYS = [each.name for each in fields(cad.Meshes)]
SHAPES = [shape for shape in shapes.all() if shape.label in ("bottle", "chair", "cone")]


def lay_out(root):
    """Our shapes as the official zip lays out its meshes: variant 0 to test, the others to train."""
    for shape in SHAPES:
        folder = root / "ModelNet40" / shape.label / ("train" if shape.variant else "test")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{shape.name}.off").write_text(shape.off)
    (root / "ModelNet40" / "README.txt").write_text("not a mesh, and not where a mesh would be")
    return root


def same(one, other):
    return all(np.array_equal(mine, getattr(other, name)) for name, mine in vars(one).items() if name in ARRAYS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return lay_out(tmp_path_factory.mktemp("meshes"))


@pytest.fixture(scope="module")
def data(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("packed") / "meshes.npz"
    assert prepare(folder, out) == []
    return cad.read(out)


def test_what_is_read_is_what_was_packed(data):
    assert data.classes.tolist() == ["bottle", "chair", "cone"]
    assert len(data) == len(SHAPES)
    assert list(data.split) == sorted(data.split)
    assert set(data.source) == {"cad"}
    assert not data.twin.any()
    for shape in SHAPES:
        (i,) = np.flatnonzero(data.name == shape.name)
        assert data.classes[data.label[i]] == shape.label
        assert data.split[i] == ("train" if shape.variant else "test")
        vertices, faces = data.mesh(i)
        assert vertices.min() == 0
        assert vertices.max() == cad.GRID - 1
        assert len(faces) <= len(shape.faces)
        both = ((vertices, faces), (shape.vertices, shape.faces))
        seen, own = views(both, Cameras(num_views=1, resolution=48))
        assert (seen - own).abs().mean() < 2e-3


def test_a_zip_gives_what_its_folder_gives(folder, data, tmp_path):
    archive = Path(shutil.make_archive(str(tmp_path / "ModelNet40"), "zip", folder))
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr("__MACOSX/ModelNet40/chair/train/._chair_1.off", "litter")
    out = tmp_path / "meshes.npz"
    assert prepare(archive, out) == []
    assert same(cad.read(out), data)


def test_two_workers_give_what_one_gives(folder, data, tmp_path, monkeypatch):
    monkeypatch.setattr(preparation, "CHUNK", 4)
    assert prepare(folder, tmp_path / "two.npz", workers=2) == []
    assert same(cad.read(tmp_path / "two.npz"), data)


def test_interrupted_work_is_resumed_and_nothing_is_done_twice(folder, data, tmp_path, monkeypatch):
    monkeypatch.setattr(preparation, "CHUNK", 2)
    out = tmp_path / "meshes.npz"
    made = []
    make = preparation._make
    monkeypatch.setattr(preparation, "_make", lambda *args: made.append(args[1].name) or make(*args))
    seen = []

    def stop_after_three(number):
        seen.append(number)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(folder, out, on_objects=stop_after_three)
    assert not out.exists()
    assert len(made) == 3
    (tmp_path / "meshes.npz.work" / "half.123.tmp").write_bytes(b"what a killed worker leaves")
    seen.clear()
    assert prepare(folder, out, on_objects=seen.append) == []
    assert sum(seen) == len(SHAPES)
    assert len(made) == len(set(made)) == -(-len(SHAPES) // 2)
    assert same(cad.read(out), data)
    assert [path.name for path in tmp_path.iterdir()] == ["meshes.npz"]


def test_work_of_other_meshes_is_not_taken_for_this(data, tmp_path, monkeypatch):
    monkeypatch.setattr(preparation, "CHUNK", 2)
    source = lay_out(tmp_path / "meshes")
    out = tmp_path / "meshes.npz"
    first = source / entries(source)[0].path
    right = first.read_text()
    first.write_text(SHAPES[-1].off)

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(source, out, on_objects=stop)
    first.write_text(right)
    os.utime(first, ns=(1, 1))
    prepare(source, out)
    assert same(cad.read(out), data)


def test_a_killed_run_leaves_its_chunks_and_no_worker(folder, data, tmp_path, monkeypatch):
    out = tmp_path / "meshes.npz"
    script = (
        "import sys, time; from pathlib import Path\n"
        "from airpool_lab.vision import prepare as p; p.CHUNK = 1\n"
        "if __name__ == '__main__': p.prepare(Path(sys.argv[1]), Path(sys.argv[2]), workers=2,"
        " on_objects=lambda n: time.sleep(600))\n"
    )
    main = tmp_path / "main.py"
    main.write_text(script)
    process = subprocess.Popen([sys.executable, main, folder, out], stdout=subprocess.PIPE)
    work = tmp_path / "meshes.npz.work"
    deadline = time.monotonic() + 600
    while not list(work.glob("*.chunk")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.communicate(timeout=600)  # ends when the last worker has let go of the pipe
    finished = {path.name: path.stat().st_mtime_ns for path in work.glob("*.chunk")}
    assert finished
    monkeypatch.setattr(preparation, "CHUNK", 1)
    made = []
    make = preparation._make
    monkeypatch.setattr(preparation, "_make", lambda *args: made.append(args[1].name) or make(*args))
    prepare(folder, out)
    assert not set(made) & set(finished)
    assert same(cad.read(out), data)


def test_what_cannot_be_read_is_named_and_left_out(data, tmp_path):
    source = lay_out(tmp_path / "meshes")
    train = source / "ModelNet40" / "chair" / "train"
    (train / "broken.off").write_text("OFF\n3 1 0\n0 0 0\n")
    (train / "glued.off").write_text(SHAPES[0].off.replace("OFF\n", "OFF", 1))
    (train / "picture.stl").write_bytes(b"\x89PNG" * 100)
    (train / "notes.txt").write_text("not a mesh")
    unreadable = prepare(source, tmp_path / "meshes.npz")
    assert [line.split(":")[0] for line in unreadable] == [
        "ModelNet40/chair/train/broken.off",
        "ModelNet40/chair/train/picture.stl",
    ]
    result = cad.read(tmp_path / "meshes.npz")
    assert len(result) == len(data) + 1
    (glued,) = np.flatnonzero(result.name == "glued")
    (same_mesh,) = np.flatnonzero(result.name == SHAPES[0].name)
    assert result.digests[glued] == result.digests[same_mesh]
    # The one of the two that is a test object has a twin among the training objects.
    assert result.name[result.twin].tolist() == [SHAPES[0].name]


def test_limits_hold_for_every_mesh(folder, tmp_path):
    with pytest.raises(ValueError, match=r"none of the .* meshes can be read, first .* bytes; at most 10"):
        prepare(folder, tmp_path / "meshes.npz", limits=Limits(num_bytes=10))


def test_bad_input_is_one_clear_line(folder, tmp_path):
    with pytest.raises(ValueError, match="no such file or folder"):
        prepare(tmp_path / "nothing", tmp_path / "out.npz")
    with pytest.raises(ValueError, match="no meshes; they must lie in CLASS/train/"):
        prepare(tmp_path, tmp_path / "out.npz")
    (tmp_path / "cut.zip").write_bytes(b"PK\x03\x04")
    with pytest.raises(ValueError, match="neither, or cut short"):
        prepare(tmp_path / "cut.zip", tmp_path / "out.npz")
    with pytest.raises(ValueError, match="workers=0 must be at least 1"):
        prepare(folder, tmp_path / "out.npz", workers=0)
    (tmp_path / "out.npz").write_bytes(b"")
    with pytest.raises(ValueError, match="exists"):
        prepare(folder, tmp_path / "out.npz")


def sphere(steps):
    """A unit sphere of 2·steps² faces, seams unmerged."""
    a, b = np.meshgrid(np.linspace(0, np.pi, steps + 1), np.linspace(0, 2 * np.pi, steps + 1), indexing="ij")
    vertices = np.stack((np.sin(a) * np.cos(b), np.sin(a) * np.sin(b), np.cos(a)), -1).reshape(-1, 3)
    first = (np.arange(steps)[:, None] * (steps + 1) + np.arange(steps)).reshape(-1, 1)
    faces = np.concatenate((first + np.array([0, 1, steps + 1]), first + np.array([1, steps + 2, steps + 1])))
    return Mesh(vertices, faces)


def test_a_mesh_of_many_faces_is_simplified_and_looks_the_same():
    pytest.importorskip("fast_simplification", reason="needs fast-simplification, of the extra mesh")
    ball = sphere(60)
    vertices, faces = gridded(ball)
    assert 1000 < len(faces) <= 2100
    cameras = Cameras(num_views=2, resolution=64)
    full, small = (views([each], cameras) for each in ((ball.vertices, ball.faces), (vertices, faces)))
    assert ((full[:, :, 1] > 0) != (small[:, :, 1] > 0)).float().mean() < 0.01
    assert (full[:, :, 1] - small[:, :, 1]).abs().mean() < 0.01


def test_without_the_package_a_large_mesh_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "fast_simplification", None)
    with pytest.raises(ValueError, match=r"needs fast_simplification: pip install .*'./packages/airpool-lab\[mesh\]'"):
        gridded(sphere(40))


def test_unused_vertices_and_faces_of_no_area_are_left_out():
    vertices = np.array([[0, 0, 0], [2, 0, 0], [0, 1, 0], [99, 99, 99], [2, 0, 1e-9]], float)
    cells, faces = gridded(Mesh(vertices, np.array([[0, 1, 2], [1, 4, 0], [2, 2, 0]])))
    assert cells.tolist() == [[0, 0, 0], [0, 2048, 0], [4095, 0, 0]]
    assert sorted(faces[0].tolist()) == [0, 1, 2]
    assert len(faces) == 1
    with pytest.raises(MeshError, match="no face has an area"):
        gridded(Mesh(vertices, np.array([[1, 4, 0]])))
