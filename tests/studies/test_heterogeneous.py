"""Half of the devices sensitive: every way keeps every promise; the paper's finding on the shipped latents."""

import numpy as np
import pytest
import torch
from studies.heterogeneous import compare

from airpool.evaluation.design.heterogeneous import WAYS
from airpool.models.pretrained import load


@pytest.fixture(scope="module")
def rows():
    """On validation objects alone: half of them to design with, half to measure on. The test set is for the docs."""
    model = load("modelnet40")
    objects = model.held_out("validation", codec="compact")
    found = compare(
        objects.latents[::2],
        objects.labels[::2],
        calibration=objects.latents[1::2],
        server=model.codec("compact").server,
        epsilon_strict=[0.5, 2.0],
        epsilon_loose=2.0,
        seeds=(0, 1, 2),
    )
    return {(row.way, row.epsilon_strict): row for row in found}


def test_every_way_keeps_every_promise(rows):
    assert len(rows) == 2 * len(WAYS)
    for row in rows.values():
        assert row.strict <= row.epsilon_strict
        assert row.loose <= row.epsilon_loose
        assert len(row.accuracy) == 3
        assert row.accuracy_mean == pytest.approx(np.mean(row.accuracy))
        assert set(row.record()) >= {"way", "accuracy_mean", "accuracy_std"}


@pytest.mark.parametrize("way", ["weights", "clipping"])
def test_at_a_strict_epsilon_weights_and_clipping_beat_uniform_and_leaving_devices_out(rows, way):
    ours = rows[way, 0.5]
    for other in ("uniform", "without"):
        against = rows[other, 0.5]
        # 493 objects, three draws of the noise: 4.5 standard errors of a difference of two proportions.
        assert ours.accuracy_mean - against.accuracy_mean > 4.5 * (0.5 / (493 * 3)) ** 0.5
        assert ours.mse < against.mse


def test_where_all_targets_are_the_same_all_ways_are(rows):
    uniform = rows["uniform", 2.0]
    for way in ("weights", "clipping"):
        # The same network but for rounding in the weights.
        assert rows[way, 2.0].accuracy_mean == pytest.approx(uniform.accuracy_mean, abs=0.01)
        assert rows[way, 2.0].mse == pytest.approx(uniform.mse, rel=1e-3)


def test_uniform_gives_everybody_the_strictest_target(rows):
    row = rows["uniform", 0.5]
    assert row.loose == pytest.approx(row.strict)
    assert row.weight_ratio == row.clip_ratio == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"strict": [4]}, r"strict=\[4\] must name devices from 0 to 3"),
        ({"strict": [0, 1, 2, 3]}, "neither none nor all"),
        ({"strict": []}, "neither none nor all"),
        ({"seeds": ()}, "seeds must name at least one seed"),
        ({"epsilon_strict": [-1.0]}, "must be > 0"),
    ],
)
def test_bad_input_is_refused(given, message):
    z = torch.zeros(3, 4, 5)
    plain = {"calibration": z, "server": lambda _: lambda x: x, "epsilon_strict": [1.0], "epsilon_loose": 2.0}
    with pytest.raises(ValueError, match=message):
        compare(z, torch.zeros(3, dtype=torch.long), **plain | given)
