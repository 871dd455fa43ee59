"""What a run starts from, and takes from ModelNet40 itself. The rest is tested from the command line."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from airpool.models.vision.mvcnn import Architecture
from airpool_lab.training.work import Splits
from airpool_lab.vision import runs
from airpool_lab.vision.training import TrunkRecipe

MODELNET = Path(
    os.environ.get("AIRPOOL_MODELNET") or Path(__file__).parents[4] / "../shared/data/modelnet40_meshes.npz.xz"
)


def test_wrong_imagenet_weights_are_refused_before_any_work_and_leave_nothing(tmp_path):
    torch.save({"other": torch.zeros(1)}, tmp_path / "other.pth")
    data, recipe, file = {"sha256": "", "objects": "all"}, TrunkRecipe(epochs=1), tmp_path / "trunk-0.safetensors"
    wrong = runs.TrunkPlan(data, Architecture("lite0"), recipe, tmp_path / "other.pth")
    with pytest.raises(ValueError, match=r"other\.pth: not the ImageNet weights of this trunk"):
        runs.made(file, wrong)
    with pytest.raises(ValueError, match="ImageNet weights are for lite0, lite1, lite2, not for vgg11"):
        runs.made(file, replace(wrong, architecture=Architecture("vgg11")))
    # A run that failed before its first checkpoint does not stand in the way of another.
    (tmp_path / "trunk-0.plan.json").write_text(json.dumps(wrong.record()))
    assert not runs.made(file, replace(wrong, imagenet=None))


@pytest.mark.modelnet
@pytest.mark.skipif(not MODELNET.is_file(), reason="no packed meshes of ModelNet40; AIRPOOL_MODELNET can name them")
def test_modelnet_is_known_by_its_classes_and_its_card_says_what_it_is(monkeypatch):
    source = runs.source(MODELNET)
    about, split = source.about(), source.split()
    assert about["what"] == "renders of the CAD models of ModelNet40"
    assert "academic research" in about["licence"]
    assert (about["objects"], about["classes"]) == (12311, 40)
    assert (split["train"], split["validation"], split["test"]) == (8867, 976, 2468)
    assert len(source.duplicates) == 113
    monkeypatch.setattr(runs.cad, "read", lambda _: source.meshes)  # which takes seconds
    trial = runs.source(MODELNET, limit=120)
    assert trial.split()["train"] == trial.split()["test"] == 120
    # Spread over the file, which is sorted by class, they come from every class but the smallest.
    assert len(np.unique(trial.meshes.label[trial.rows["train"]])) > 30
    few = Splits(runs.source(MODELNET, limit=3), 112, extra_views=2)
    shown, aside = few.images("train"), few.images("validation")
    assert shown is not None
    assert aside is not None
    assert shown.views.shape == (3, 14, 2, 112, 112)
    assert aside.views.shape == (3, 12, 2, 112, 112)
    assert (shown.views.flatten(3) > 0).any(3).all()
