"""The table of `airpool reproduce fig-asymptotics`, a few points of it measured again."""

import numpy as np
import pytest

from airpool.paper import figures as reproduce
from airpool.paper.figures import tables
from studies import fig_asymptotics


def test_a_point_of_the_asymptotics_is_measured_again_within_its_error():
    (kept,) = tables.where(reproduce.stored("fig-asymptotics").rows, kind="fixed local ε", size=25)
    again = fig_asymptotics.row(part="devices", kind="fixed local ε", size=25, rng=np.random.default_rng(5))
    assert abs(again["error"] - kept["error"]) < 5 * (again["error_se"] ** 2 + kept["error_se"] ** 2) ** 0.5


def test_a_random_network_is_measured_within_its_bound():
    found = fig_asymptotics.row(part="depth", kind="random", size=3, rng=np.random.default_rng(5))
    assert 0 < found["error"] < found["bound"]


@pytest.mark.check
def test_a_table_measured_again_agrees_with_the_formula(tmp_path):
    fig_asymptotics.main(["--out", str(tmp_path), "--seed", "1"])
    again = reproduce.stored("fig-asymptotics", folder=tmp_path).rows
    assert len(again) == len(reproduce.stored("fig-asymptotics").rows)
    for row in tables.where(again, part="devices"):
        assert abs(row["error"] - row["exact"]) < 5 * row["error_se"]
