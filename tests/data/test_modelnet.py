import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import binary_fill_holes

from airpool.data import dataset as packed
from airpool.data import modelnet, shapes
from airpool.data import prepare as preparation
from airpool.data.dataset import Dataset
from airpool.data.meshes import Limits
from airpool.data.prepare import entries, prepare
from airpool.data.voxels import NUM_POSES, PACKED_BYTES, unpack, voxelise

pytest.importorskip("trimesh", reason="needs the extra mesh")

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
    return (
        np.array_equal(one.objects, other.objects)
        and np.array_equal(one.labels, other.labels)
        and one.classes == other.classes
        and np.array_equal(one.names, other.names)
        and np.array_equal(one.split, other.split)
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return lay_out(tmp_path_factory.mktemp("meshes"))


@pytest.fixture(scope="module")
def data(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("packed") / "voxels.npz"
    assert prepare(folder, out) == []
    return packed.read(out)


def test_what_is_read_is_what_was_voxelised(data):
    assert data.classes == ("bottle", "chair", "cone")
    assert len(data) == len(SHAPES)
    assert list(data.split) == sorted(data.split)
    for shape in SHAPES:
        (i,) = np.flatnonzero(data.names == shape.name)
        assert data.classes[data.labels[i]] == shape.label
        assert data.split[i] == ("train" if shape.variant else "test")
        # OFF text rounds to six digits, which moves a voxel now and then.
        assert (unpack(data.objects[i]) != voxelise(shape.vertices, shape.faces)).mean() < 1e-3


def test_a_zip_gives_what_its_folder_gives(folder, data, tmp_path):
    archive = Path(shutil.make_archive(str(tmp_path / "ModelNet40"), "zip", folder))
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr("__MACOSX/ModelNet40/chair/train/._chair_1.off", "litter")
    out = tmp_path / "voxels.npz"
    assert prepare(archive, out) == []
    assert same(packed.read(out), data)


def test_two_workers_give_what_one_gives(folder, data, tmp_path, monkeypatch):
    monkeypatch.setattr(preparation, "CHUNK", 4)
    assert prepare(folder, tmp_path / "two.npz", workers=2) == []
    assert same(packed.read(tmp_path / "two.npz"), data)


def test_interrupted_work_is_resumed_and_nothing_is_done_twice(folder, data, tmp_path, monkeypatch):
    monkeypatch.setattr(preparation, "CHUNK", 2)
    out = tmp_path / "voxels.npz"
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
    (tmp_path / "voxels.npz.work" / "half.123.tmp").write_bytes(b"what a killed worker leaves")
    seen.clear()
    assert prepare(folder, out, on_objects=seen.append) == []
    assert sum(seen) == len(SHAPES)
    assert len(made) == len(set(made)) == -(-len(SHAPES) // 2)
    assert same(packed.read(out), data)
    assert [path.name for path in tmp_path.iterdir()] == ["voxels.npz"]


def test_work_of_other_meshes_is_not_taken_for_this(data, tmp_path, monkeypatch):
    monkeypatch.setattr(preparation, "CHUNK", 2)
    source = lay_out(tmp_path / "meshes")
    out = tmp_path / "voxels.npz"
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
    assert same(packed.read(out), data)


def test_a_killed_run_leaves_its_chunks_and_no_worker(folder, data, tmp_path, monkeypatch):
    out = tmp_path / "voxels.npz"
    script = (
        "import sys, time; from pathlib import Path\n"
        "from airpool.data import prepare as p; p.CHUNK = 1\n"
        "if __name__ == '__main__': p.prepare(Path(sys.argv[1]), Path(sys.argv[2]), workers=2,"
        " on_objects=lambda n: time.sleep(600))\n"
    )
    main = tmp_path / "main.py"
    main.write_text(script)
    process = subprocess.Popen([sys.executable, main, folder, out], stdout=subprocess.PIPE)
    work = tmp_path / "voxels.npz.work"
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
    assert same(packed.read(out), data)


def test_what_cannot_be_read_is_named_and_left_out(data, tmp_path):
    source = lay_out(tmp_path / "meshes")
    train = source / "ModelNet40" / "chair" / "train"
    (train / "broken.off").write_text("OFF\n3 1 0\n0 0 0\n")
    (train / "glued.off").write_text(SHAPES[0].off.replace("OFF\n", "OFF", 1))
    (train / "picture.stl").write_bytes(b"\x89PNG" * 100)
    (train / "notes.txt").write_text("not a mesh")
    unreadable = prepare(source, tmp_path / "voxels.npz")
    assert [line.split(":")[0] for line in unreadable] == [
        "ModelNet40/chair/train/broken.off",
        "ModelNet40/chair/train/picture.stl",
    ]
    result = packed.read(tmp_path / "voxels.npz")
    assert len(result) == len(data) + 1
    (glued,) = np.flatnonzero(result.names == "glued")
    (whole,) = np.flatnonzero(result.names == SHAPES[0].name)
    assert np.array_equal(result.objects[glued], result.objects[whole])


def test_limits_hold_for_every_mesh(folder, tmp_path):
    with pytest.raises(ValueError, match=r"none of the .* meshes can be read, first .* bytes; at most 10"):
        prepare(folder, tmp_path / "voxels.npz", limits=Limits(num_bytes=10))


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


def arrays(**changes):
    n = 3
    good = {
        "vox": np.zeros((n, NUM_POSES, PACKED_BYTES), np.uint8),
        "label": np.zeros(n, np.int64),
        "classes": np.array(["chair"]),
        "split": np.array(["train", "train", "test"]),
        "name": np.array(["a", "b", "c"]),
    }
    return {name: array for name, array in (good | changes).items() if array is not None}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"vox": None}, "vox missing"),
        ({"name": None, "split": None}, "split, name missing"),
        ({"vox": np.zeros((3, 12, 3374), np.uint8)}, r"vox is uint8 \(3, 12, 3374\): must be uint8 \(3, 12, 3375\)"),
        ({"vox": np.zeros((3, 12, 3375), np.int16)}, "vox is int16"),
        ({"label": np.zeros(3)}, "label is float64"),
        ({"label": np.array(0)}, "label is int64"),
        ({"label": np.array([0, 1, 0])}, "label 1 must be from 0 to 0"),
        ({"split": np.array(["train", "train", "dev"])}, "split 'dev' must be train or test"),
        ({"name": np.array(["a", "b"])}, r"name is .* must be text \(3,\)"),
        ({"classes": np.array(["chair", "chair"])}, "classes must all differ"),
        ({"name": np.array(["a", "b", None])}, "allow_pickle"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(changes, reason, tmp_path):
    path = tmp_path / "wrong.npz"
    np.savez(path, **arrays(**changes))
    with pytest.raises(ValueError, match=f"wrong.npz: .*{reason}"):
        packed.read(path)


def test_a_truncated_or_damaged_file_is_refused(tmp_path):
    path = tmp_path / "file.npz"
    np.savez(path, **arrays())
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="cut short"):
        packed.read(path)
    path.write_bytes(whole[:5000] + b"\xff" + whole[5001:])
    with pytest.raises(ValueError, match=r"file.npz: "):
        packed.read(path)
    with pytest.raises(ValueError, match="no such file"):
        packed.read(tmp_path / "absent.npz")


def synthetic(groups, *, test=0):
    """Training objects of two classes; those with the same number look alike."""
    labels = np.array([label for label, _ in groups] + [0] * test)
    objects = np.zeros((len(labels), NUM_POSES, PACKED_BYTES), np.uint8)
    for i, (_, look) in enumerate(groups):
        objects[i] = look
    split = np.array(["train"] * len(groups) + ["test"] * test)
    names = np.array([f"object_{i}" for i in range(len(labels))])
    return Dataset(objects, labels, ("chair", "table"), names, split)


def test_validation_is_a_tenth_of_every_class_and_look_alikes_stay_together():
    groups = [(0, 1 + i // 2) for i in range(100)] + [(1, 100 + i) for i in range(50)]
    mixed = synthetic([*groups, (0, 200), (1, 200)], test=3)
    aside, rest = modelnet.split(mixed, "validation"), modelnet.split(mixed, "train")
    assert np.bincount(mixed.labels[aside]).tolist() == [10, 5]
    assert sorted([*aside, *rest]) == list(range(len(groups) + 2))
    looks = mixed.objects[:, 0, 0]
    assert not set(looks[aside]) & set(looks[rest])
    assert 200 not in looks[aside]  # the same look under two labels
    assert modelnet.split(mixed, "test").tolist() == [152, 153, 154]
    assert np.array_equal(aside, modelnet.chosen(mixed))
    assert not np.array_equal(aside, modelnet.chosen(mixed, seed=1))
    with pytest.raises(ValueError, match="split 'dev' must be train, validation, test"):
        modelnet.split(mixed, "dev")  # pyright: ignore[reportArgumentType]


def test_listed_names_are_the_validation_objects():
    listed = sorted(modelnet.listed())
    label, name = listed[0].split("/")
    few = Dataset(
        np.zeros((3, NUM_POSES, PACKED_BYTES), np.uint8),
        np.zeros(3, np.int64),
        (label,),
        np.array(["other", name, name]),
        np.array(["train", "train", "test"]),
    )
    assert modelnet.split(few, "validation").tolist() == [1]
    assert modelnet.split(few, "train").tolist() == [0]


def test_duplicates_are_test_objects_that_equal_a_training_object_in_every_pose():
    twins = synthetic([(0, 1), (1, 2), (0, 3)], test=3)
    twins.objects[3], twins.objects[4], twins.objects[5] = 2, 3, 9
    twins.objects[4, 11, 7] = 0
    assert modelnet.duplicates(twins).tolist() == [3]


MODELNET = Path(
    os.environ.get("AIRPOOL_MODELNET")
    or Path(__file__).parents[2] / ".." / "shared" / "data" / "modelnet40_voxels_30x12.npz"
)


@pytest.mark.modelnet
@pytest.mark.skipif(not MODELNET.is_file(), reason="no ModelNet40 voxel file; AIRPOOL_MODELNET can name it")
def test_the_voxel_release_is_whole_and_as_we_describe_it():
    whole = packed.read(MODELNET)
    assert len(whole) == 12311
    assert len(whole.classes) == 40
    sizes = {which: len(modelnet.split(whole, which)) for which in modelnet.SPLITS}
    assert sizes == {"train": 8858, "validation": 985, "test": 2468}
    assert len(modelnet.duplicates(whole)) == 162

    aside, rest = modelnet.split(whole, "validation"), modelnet.split(whole, "train")
    assert np.array_equal(aside, modelnet.chosen(whole))
    assert len(aside) == len(modelnet.listed())
    train = np.bincount(whole.labels[whole.split == "train"])
    assert np.abs(np.bincount(whole.labels[aside]) - train / 10).max() <= 0.5
    looks = {whole.objects[i, 0].tobytes() for i in rest}
    assert not any(whole.objects[i, 0].tobytes() in looks for i in aside)

    some = unpack(whole.objects[np.random.default_rng(0).choice(len(whole), 100, replace=False)])
    pose_0, pose_3 = some[:, 0], some[:, 3]
    assert all(np.array_equal(binary_fill_holes(grid), grid) for grid in pose_0)
    assert np.argwhere(pose_0)[:, 1:].min() == 3
    assert np.argwhere(pose_0)[:, 1:].max() == 26
    quarter = [np.array_equal(np.rot90(a), b) for a, b in zip(pose_0, pose_3, strict=True)]
    assert np.mean(quarter) > 0.9
