"""The training loop, on our own shapes: small enough for a CPU, real from voxels to accuracy."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from airpool.data import shapes, views, voxels
from airpool.models import loop
from airpool.models.features import Images
from airpool.models.train import Recipe, accuracy, drawn, train
from airpool.models.vgg import Architecture

TINY = Recipe(epochs=2, objects=4, views=2, learning_rate=1e-3, average=0.5)
TWO = Architecture(num_classes=2, in_channels=2)


@pytest.fixture(scope="module")
def bottles_and_tables() -> Images:
    """Two variants of each, seen by three cameras."""
    wanted = [s for label in ("bottle", "table") for s in shapes.all() if s.label == label][:8:2]
    labels = torch.tensor([int(s.label == "table") for s in wanted])
    grids = torch.from_numpy(np.stack([voxels.voxelise(s.vertices, s.faces)[0] for s in wanted]))
    seen = views.object_views(grids, num_views=3, resolution=112)
    return Images((seen * 255).round().byte(), labels)


def test_a_run_that_was_interrupted_goes_on_as_if_it_had_not_been(bottles_and_tables, tmp_path, monkeypatch):
    whole = train(TINY, TWO, bottles_and_tables)
    checkpoint = tmp_path / "run.safetensors"
    save = loop.save

    def save_and_die(*args):
        save(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "save", save_and_die)
    with pytest.raises(KeyboardInterrupt):
        train(TINY, TWO, bottles_and_tables, checkpoint=checkpoint)
    monkeypatch.setattr(loop, "save", save)
    resumed = train(TINY, TWO, bottles_and_tables, checkpoint=checkpoint)
    assert [e["loss"] for e in resumed.history] == pytest.approx([e["loss"] for e in whole.history], rel=1e-5)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name]), name
    with pytest.raises(ValueError, match="was made by another recipe"):
        train(replace(TINY, learning_rate=1e-4), TWO, bottles_and_tables, checkpoint=checkpoint)


@pytest.mark.check
def test_a_small_model_learns_to_tell_bottles_from_tables(bottles_and_tables):
    # Batch norm's running variances begin at 1, far above those of dark images: a hundred steps to forget that.
    recipe = replace(TINY, epochs=120, views=1, mirror=False, scale=0.0, stretch=0.0, shift=0.0, erase=0.0)
    assert accuracy(train(recipe, TWO, bottles_and_tables).model, bottles_and_tables) == 1.0


def test_views_are_drawn_moved_and_mirrored_but_stay_pictures(bottles_and_tables):
    rows = torch.arange(4)
    moved, labels, sides = drawn(
        bottles_and_tables, rows, replace(TINY, scale=0.2, shift=0.1), torch.Generator().manual_seed(0)
    )
    assert sides.shape == (4, 2)
    assert set(sides.flatten().tolist()) <= {0, 1, 2}
    assert moved.shape == (4, 2, 2, 112, 112)
    assert moved.min() >= 0
    assert moved.max() <= 1
    assert labels.tolist() == bottles_and_tables.labels.tolist()
    still = replace(TINY, scale=0.0, stretch=0.0, shift=0.0, erase=0.0, mirror=False, views=3)
    same, _, sides = drawn(bottles_and_tables, rows, still, torch.Generator().manual_seed(0))
    original = bottles_and_tables.views.float() / 255
    for seen, own, side in zip(same, original, sides, strict=True):
        assert (seen - own[side]).abs().max() < 1e-3


def test_part_of_a_view_is_hidden_and_never_more_than_the_recipe_allows(bottles_and_tables):
    hide = replace(TINY, scale=0.0, stretch=0.0, shift=0.0, erase=0.5, mirror=False, views=3)
    white = Images(torch.full_like(bottles_and_tables.views, 255), bottles_and_tables.labels)
    hidden = (drawn(white, torch.arange(4), hide, torch.Generator().manual_seed(0))[0] < 0.5).float().mean((2, 3, 4))
    assert 0 < hidden.max() <= 0.26


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "epochs=0 must be ≥ 1"),
        ({"learning_rate": 0.0}, "learning_rate=0.0"),
        ({"average": 1.0}, "average=1.0"),
    ],
)
def test_a_recipe_that_cannot_be_followed_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(TINY, **change)


def test_images_of_the_wrong_kind_are_refused():
    with pytest.raises(ValueError, match=r"views is torch.float32 \(1, 1, 2, 8, 8\): must be uint8"):
        Images(torch.zeros(1, 1, 2, 8, 8), torch.zeros(1, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"labels has shape \(2,\): must be \(1,\)"):
        Images(torch.zeros(1, 1, 2, 8, 8, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64))
