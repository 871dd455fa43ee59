"""What a run takes from ModelNet40 itself. The rest is tested from the command line."""

import os
from pathlib import Path

import numpy as np
import pytest

from airpool.models import runs

MODELNET = Path(
    os.environ.get("AIRPOOL_MODELNET")
    or Path(__file__).parents[2] / ".." / "shared" / "data" / "modelnet40_voxels_30x12.npz"
)


@pytest.mark.modelnet
@pytest.mark.skipif(not MODELNET.is_file(), reason="no ModelNet40 voxel file; AIRPOOL_MODELNET can name it")
def test_modelnet_is_known_by_its_classes_and_its_card_says_what_it_is(monkeypatch):
    source = runs.source(MODELNET)
    about, split = source.about(), source.split()
    assert about["what"] == "voxel renders of ModelNet40 (24³ detail), not CAD renders"
    assert "academic research" in about["licence"]
    assert (about["objects"], about["classes"]) == (12311, 40)
    assert (split["train"], split["validation"], split["test"]) == (8858, 985, 2468)
    assert "validation.txt" in split["how"]
    assert len(source.duplicates) == 162
    monkeypatch.setattr(runs.dataset, "read", lambda _: source.dataset)  # which takes seconds
    trial = runs.source(MODELNET, limit=120)
    assert trial.split()["train"] == trial.split()["test"] == 120
    # Spread over the file, which is sorted by class, they come from every class but the smallest.
    assert len(np.unique(trial.dataset.labels[trial.rows["train"]])) > 30
