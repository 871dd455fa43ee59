"""The packed file of CAD models, on a small one made here."""

import hashlib
import os
import zipfile
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from airpool_lab.vision import cad


def packed(tmp_path, meshes, names, split, name="meshes.npz.xz"):
    columns = {"label": np.arange(len(meshes)) % 2, "classes": np.array(["bed", "car"])}
    columns |= {"split": np.array(split), "name": np.array(names), "source": np.array(["cad"] * len(meshes))}
    cad.write(tmp_path / name, cad.joined([cad.pack(*mesh) for mesh in meshes], **columns))
    return tmp_path / name


def some_mesh(number):
    rng = np.random.default_rng(number)
    return rng.integers(0, 4096, (9, 3)), rng.integers(0, 9, (5, 3))


@pytest.mark.parametrize("name", ["meshes.npz.xz", "meshes.npz"])
def test_meshes_come_back_as_they_were(tmp_path, name):
    meshes = [some_mesh(i) for i in range(4)]
    data = cad.read(packed(tmp_path, meshes, ["a", "b", "c", "d"], ["train"] * 4, name))
    for i, (vertices, faces) in enumerate(meshes):
        np.testing.assert_array_equal(data.mesh(i)[0], vertices)
        np.testing.assert_array_equal(data.mesh(i)[1], faces)


def test_validation_is_a_tenth_and_shares_no_mesh(tmp_path):
    names = [f"bed_{i:04}" for i in range(600)]
    meshes = [some_mesh(i % 500) for i in range(600)]  # the last hundred repeat the first
    split = ["train"] * 550 + ["test"] * 50
    data = cad.read(packed(tmp_path, meshes, names, split))
    train, validation, test = (data.indices(name) for name in cad.SPLITS)
    assert sorted([*train, *validation, *test]) == list(range(600))
    assert test.tolist() == list(range(550, 600))
    assert 30 < len(validation) < 70
    digests = [{data.digests[i] for i in part} for part in (train, validation, test)]
    assert not digests[1] & (digests[0] | digests[2])


def test_equal_names_in_two_classes_are_split_apart(tmp_path):
    names = [f"{i // 2:04}" for i in range(400)]  # bed/0000, car/0000, bed/0001, …
    data = cad.read(packed(tmp_path, [some_mesh(i) for i in range(400)], names, ["train"] * 400))
    bed, car = ({str(data.name[i]) for i in data.indices("validation") if data.label[i] == label} for label in range(2))
    assert min(len(bed), len(car)) > 10
    assert len(bed & car) < 0.5 * min(len(bed), len(car))  # a tenth, by chance


def test_twins_are_test_objects_with_the_mesh_of_a_training_object(tmp_path):
    meshes = [some_mesh(i) for i in (0, 1, 1, 2, 0)]
    data = cad.read(packed(tmp_path, meshes, list("abcde"), ["train", "train", "train", "test", "test"]))
    assert data.twin.tolist() == [False, False, False, False, True]
    with pytest.raises(ValueError, match="split 'dev' must be train, validation, test"):
        data.indices("dev")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"twin": None}, "twin"),
        ({"label": np.zeros(2)}, r"label is float64 \(2,\), must be integers"),
        ({"label": np.array([0, 2])}, "label must be from 0 to 1"),
        ({"split": np.array(["train", "dev"])}, "split 'dev' must be train or test"),
        ({"name": np.array(["a"])}, r"name is <U1 \(1,\), must be text \(2,\)"),
        ({"face_start": np.array([0, 5, 99])}, "must rise from 0 to the number"),
        ({"vertex_delta": np.zeros((2, 18), np.int16)}, r"must be integers \(3, 18\)"),
        ({"name": np.array(["a", None])}, "it holds no plain arrays"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(tmp_path, changes, reason):
    good = cad.read(packed(tmp_path, [some_mesh(0), some_mesh(1)], ["a", "b"], ["train", "test"]))
    arrays = {each.name: getattr(good, each.name) for each in fields(cad.Meshes)} | changes
    np.savez(tmp_path / "wrong.npz", **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(ValueError, match=f"wrong.npz: not a packed file of meshes .*{reason}"):
        cad.read(tmp_path / "wrong.npz")


def test_a_size_that_no_memory_holds_is_refused(tmp_path):
    whole = packed(tmp_path, [some_mesh(0)], ["a"], ["train"], "m.npz")
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(tmp_path / "huge.npz", "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, content.replace(b"'shape': (1,)", b"'shape': (%d,)" % 10**15))
    with pytest.raises(ValueError, match="not a packed file of meshes"):
        cad.read(tmp_path / "huge.npz")


def test_a_name_in_another_encoding_has_its_place_in_the_split(tmp_path):
    names = [os.fsdecode(b"caf\xe9"), "b"]
    data = cad.read(packed(tmp_path, [some_mesh(0), some_mesh(1)], names, ["train"] * 2))
    assert len(data.indices("train")) + len(data.indices("validation")) == 2


def test_another_file_is_refused_in_one_line(tmp_path):
    whole = packed(tmp_path, [some_mesh(0)], ["a"], ["train"], "m.npz").read_bytes()
    np.save(tmp_path / "array.npy", np.zeros(3))
    contents = {
        "a.npz.xz": b"no such thing",
        "b.npz": b"",
        "c.npz": whole[:400],
        "d.npz": whole[:99] + b"\xff" + whole[100:],
    }
    for name, content in contents.items() | {("e.npz", (tmp_path / "array.npy").read_bytes())}:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match="not a packed file of meshes"):
            cad.read(tmp_path / name)
    with pytest.raises(ValueError, match="`airpool data prepare` makes one"):
        cad.read(tmp_path)
    with pytest.raises(ValueError, match="no such file"):
        cad.read(tmp_path / "absent.npz")


MODELNET = Path(
    os.environ.get("AIRPOOL_MODELNET") or Path(__file__).parents[4] / "../shared/data/modelnet40_meshes.npz.xz"
)


@pytest.mark.modelnet
@pytest.mark.skipif(not MODELNET.is_file(), reason="no packed meshes of ModelNet40; AIRPOOL_MODELNET can name them")
def test_modelnet_is_whole_and_as_we_describe_it():
    data = cad.read(MODELNET)
    assert (len(data), len(data.classes)) == (12311, 40)
    assert {which: len(data.indices(which)) for which in cad.SPLITS} == {"train": 8867, "validation": 976, "test": 2468}
    aside = ",".join(data.name[data.indices("validation")].tolist())  # what ships was made without just these
    assert hashlib.sha256(aside.encode()).hexdigest()[:16] == "3d3c517cacc4e2cb"
    assert int(data.twin.sum()) == 113
    assert int((data.source[data.indices("test")] == "points").sum()) == 22
    known = {digest for digest, split in zip(data.digests, data.split, strict=True) if split == "train"}
    assert [digest in known for digest in data.digests] == (data.twin | (data.split == "train")).tolist()
    vertices, faces = data.mesh(0)
    assert (vertices.min(), vertices.max()) == (0, cad.GRID - 1)
    assert faces.max() < len(vertices)
