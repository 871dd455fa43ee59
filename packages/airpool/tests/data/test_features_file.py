"""Files of features of one's own sensors: what they may hold, and NaN as a missing sensor."""

from contextlib import suppress

import numpy as np
import pytest

from airpool_lab.training import sensors as features_file

LABELS = np.arange(6) % 2


def written(tmp_path, **arrays):
    np.savez(tmp_path / "own.npz", **arrays)
    return tmp_path / "own.npz"


def test_features_labels_and_groups_come_back(tmp_path):
    x = np.random.default_rng(0).standard_normal((6, 3, 2))
    found = features_file.read(written(tmp_path, features=x, labels=LABELS, groups=LABELS))
    assert np.array_equal(found.features, x)
    assert found.groups is not None
    assert (found.present, found.split, found.missing) == (None, None, 0)


def test_rows_of_nan_are_missing_sensors(tmp_path):
    first, second = np.zeros((6, 2)), np.zeros((6, 3))
    second[4, 1] = np.nan
    present = np.ones((6, 2), dtype=bool)
    present[0, 0] = False
    found = features_file.read(written(tmp_path, features_0=first, features_1=second, labels=LABELS, present=present))
    assert [each.shape for each in found.features] == [(6, 2), (6, 3)]
    assert found.missing == 1
    assert found.present is not None
    assert np.argwhere(~found.present).tolist() == [[0, 0], [4, 1]]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"features": np.zeros((6, 2, 2))}, "labels missing; there is features"),
        ({"labels": LABELS}, r"must hold features \(N, K, F\), or features_0"),
        (
            {"features": np.zeros((6, 2)), "labels": LABELS},
            r"features is float64 \(6, 2\), must be numbers",
        ),
        ({"features": np.full((6, 1, 1), "a"), "labels": LABELS}, r"features is <U1 \(6, 1, 1\), must be numbers"),
        ({"features_0": np.zeros((6, 2)), "features_1": np.zeros((5, 2)), "labels": LABELS}, "must have one length"),
        (
            {"features_0": np.zeros((6, 2)), "features_2": np.zeros((6, 2)), "labels": LABELS},
            "or features_0, features_1",
        ),
        (
            {"features": np.zeros((6, 2, 2)), "labels": LABELS, "subjects": LABELS},
            "subjects is not known",
        ),
        (
            {"features": np.zeros((6, 2, 2)), "labels": LABELS, "present": LABELS},
            r"present is int64 \(6,\), must be",
        ),
    ],
)
def test_what_a_file_cannot_hold_is_a_clear_error(tmp_path, arrays, message):
    with pytest.raises(ValueError, match=message):
        features_file.read(written(tmp_path, **arrays))


def test_another_file_is_a_clear_error(tmp_path):
    (tmp_path / "own.npz").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"own\.npz: no npz file that can be read"):
        features_file.read(tmp_path / "own.npz")
    np.save(tmp_path / "own.npy", LABELS)
    with pytest.raises(ValueError, match=r"own\.npy: no npz file that can be read"):
        features_file.read(tmp_path / "own.npy")
    np.savez_compressed(tmp_path / "own.npz", features=np.zeros((6, 2, 2)), labels=LABELS)
    content = (tmp_path / "own.npz").read_bytes()
    for place in range(0, len(content) - 30, 10):
        (tmp_path / "own.npz").write_bytes(content[:place] + b"\xff" * 30 + content[place + 30 :])
        with suppress(ValueError):  # no other error, and none where nobody reads what was damaged
            features_file.read(tmp_path / "own.npz")
    with pytest.raises(FileNotFoundError):
        features_file.read(tmp_path / "absent.npz")
