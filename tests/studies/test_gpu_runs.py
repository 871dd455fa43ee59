"""Runs of a GPU as result tables."""

import json

import numpy as np

from airpool.paper.figures import fig_dim, tables
from studies import gpu_runs

RUNS = [
    {
        "dimension": 49 * q,
        "seed": seed,
        "train": ["t3.98"],
        "seconds": 5.0,
        "version": "0.1.0",
        "test": {
            "t1": [[0.2 + seed / 100, 0.1], [0.22 + seed / 100, 0.1]],
            "z2": [[0.8, 0.7], [0.8, 0.7]],
            "hweights-3.98": [[0.9, 0.8], [0.9, 0.8]],
        },
    }
    for q, seed in ((1, 0), (1, 1), (512, 0))
]


def test_runs_of_a_gpu_become_rows_with_plain_means_over_the_noise():
    rows = gpu_runs.dimension_rows(RUNS)
    assert len(rows) == 6
    (row,) = tables.where(rows, q=1, seed=1, account="theorem 1")
    assert np.isclose(row["accuracy"], 0.22)
    assert np.isclose(row["accuracy_std"], 0.01 * 2**0.5)
    unlike = gpu_runs.unlike_rows(RUNS, 512)
    assert [(row["account"], row["way"], row["epsilon"]) for row in unlike] == [
        ("theorem 1", "uniform", 1.0),
        ("exact", "weights", 3.98),
    ]


def test_tables_from_a_gpu_are_read_back(tmp_path):
    (tmp_path / "runs.json").write_text(json.dumps(RUNS))
    gpu_runs.main(tmp_path / "runs.json", folder=tmp_path)
    table = tables.read(tmp_path / "fig-dim.json")
    assert table.about["command"] == "python -m studies.gpu_runs runs.json"
    assert len(table.rows) == 6
    means = fig_dim.over_codecs(table.rows)
    (row,) = tables.where(means, q=512, account="theorem 1")
    # One codec: the deviation is that of the two with q = 1, .21 and .22.
    assert np.isclose(row["codec_std"], 0.01 / 2**0.5)
