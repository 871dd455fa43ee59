"""A folder of one's own photographs: whatever a camera left out is a missing sensor."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image")


@pytest.fixture(scope="module")
def photos():
    spec = importlib.util.spec_from_file_location("photos", Path(__file__).parents[2] / "examples" / "photos.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def photograph(path, mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, (8, 6), 200 if mode == "L" else (200, 100, 50)).save(path)
    return path


def test_an_object_is_one_whatever_its_suffix_and_what_is_not_there_is_none(photos, tmp_path):
    first = photograph(tmp_path / "a" / "mug" / "1.jpg")
    other = photograph(tmp_path / "b" / "mug" / "1.png", "L")
    alone = photograph(tmp_path / "b" / "pear" / "v.2.jpg")
    (tmp_path / "a" / "mug" / ".DS_Store").write_text("no photograph")
    (tmp_path / "c").mkdir()
    found, labels = photos.folder(tmp_path)
    assert found == [[first, other, None], [None, alone, None]]
    assert labels.tolist() == ["mug", "pear"]


def test_a_file_that_cannot_be_read_is_missing_and_grey_has_three_channels(photos, tmp_path, capsys):
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no photograph")
    assert photos.pixels(broken) is None
    assert "missing: cannot identify image file" in capsys.readouterr().out
    assert photos.pixels(None) is None
    assert photos.pixels(photograph(tmp_path / "grey.png", "L")).shape == (224, 224, 3)


def test_features_of_another_folder_are_not_taken_for_these(photos, tmp_path):
    np.savez(tmp_path / "features.npz", features=np.zeros((1, 1, 1)), labels=["mug"], source="elsewhere")
    with pytest.raises(SystemExit, match="was made of elsewhere: give another --out"):
        photos.seen(tmp_path, tmp_path, tmp_path / "features.npz")
    with pytest.raises(SystemExit, match="holds nothing, must be two classes or more of 5 objects"):
        photos.seen(tmp_path, tmp_path, tmp_path / "other.npz")
