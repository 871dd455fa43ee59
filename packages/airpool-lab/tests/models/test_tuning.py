"""Fine-tuning: the trunk changes, on training pictures alone, and a CPU must be asked for."""

from dataclasses import fields, replace

import numpy as np
import pytest

pytest.importorskip("PIL.Image")

from tests.models.photographs import shop

from airpool.models.codecs.training import CodecRecipe
from airpool.models.images import features, folder, trunk
from airpool.models.local import HeadRecipe
from airpool_lab.pictures import tuning
from airpool_lab.vision.training import TrunkRecipe


@pytest.mark.check
def test_a_trunk_trained_on_has_weights_of_its_own_and_looks_at_no_test_object(tmp_path, monkeypatch):
    shop(tmp_path, cameras=2, objects=3)
    found = features.features(folder.found(tmp_path), trunk.shipped())
    number = np.array([int(name[-1]) for name in found.pictures.objects])
    looked_at = []
    views = features.views

    def watched(shots, **how):
        looked_at.extend(shot.object for shot in shots)
        return views(shots, **how)

    monkeypatch.setattr(features, "views", watched)
    recipe = tuning.TuningRecipe(epochs=2, pictures=4)
    own, seen = tuning.tuned(found, number == 0, number == 1, recipe=recipe, device="cpu")
    assert set(number[looked_at].tolist()) == {0, 1}
    assert own.own is not None
    assert own.sha256 != trunk.shipped().sha256
    assert seen.features.shape == found.features.shape
    assert not np.allclose(seen.features, found.features)
    assert np.isfinite(seen.features).all()


@pytest.mark.parametrize("recipe", [tuning.TuningRecipe(), TrunkRecipe(), HeadRecipe(), CodecRecipe()])
def test_no_field_of_a_recipe_is_left_unchecked(recipe):
    for each in fields(recipe):
        wrong = (0.5, 0.2) if each.name == "erase" else "yes" if each.name == "mirror" else -1
        with pytest.raises(ValueError, match=f"{each.name}=.* must be "):
            replace(recipe, **{each.name: wrong})
    if isinstance(recipe, tuning.TuningRecipe):
        with pytest.raises(ValueError, match="pictures=0 must be ≥ 1"):
            replace(recipe, pictures=0)


def test_a_cpu_must_be_asked_for(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    recipe = tuning.TuningRecipe(epochs=10)
    with pytest.raises(ValueError, match="On a CPU it would take about 25 minutes"):
        tuning.torch_device(None, 1000, recipe)
    with pytest.raises(ValueError, match="torch finds no CUDA device here"):
        tuning.torch_device("cuda", 1000, recipe)
    assert tuning.torch_device("cpu", 1000, recipe) == "cpu"
