"""The packed file of CAD models, on a small one made here."""

import io
import lzma

import numpy as np
import pytest

from airpool.data import cad


def packed(tmp_path, meshes, names, split):
    vertices = [np.diff(v, axis=0, prepend=0).T for v, _ in meshes]
    faces = [np.stack((np.diff(f[:, 0], prepend=0), f[:, 1] - f[:, 0], f[:, 2] - f[:, 0])) for _, f in meshes]
    count = len(meshes)
    arrays = {
        "vertex_delta": np.concatenate(vertices, 1).astype(np.int16),
        "face_delta": np.concatenate(faces, 1).astype(np.int16),
        "vertex_start": np.cumsum([0, *(each.shape[1] for each in vertices)]),
        "face_start": np.cumsum([0, *(each.shape[1] for each in faces)]),
        "label": np.arange(count) % 2,
        "classes": np.array(["bed", "car"]),
        "split": np.array(split),
        "name": np.array(names),
        "source": np.array(["cad"] * count),
        "twin": np.zeros(count, bool),
    }
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    path = tmp_path / "meshes.npz.xz"
    path.write_bytes(lzma.compress(buffer.getvalue()))
    return path


def some_mesh(number):
    rng = np.random.default_rng(number)
    return rng.integers(0, 4096, (9, 3)), rng.integers(0, 9, (5, 3))


def test_meshes_come_back_as_they_were(tmp_path):
    meshes = [some_mesh(i) for i in range(4)]
    data = cad.read(packed(tmp_path, meshes, ["a", "b", "c", "d"], ["train"] * 4))
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


def test_another_file_is_refused_in_one_line(tmp_path):
    path = tmp_path / "other.npz.xz"
    path.write_bytes(b"no such thing")
    with pytest.raises(ValueError, match="not a packed file of meshes"):
        cad.read(path)
