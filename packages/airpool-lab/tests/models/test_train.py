"""The training loop, on our own shapes: small enough for a CPU, real from meshes to accuracy."""

from dataclasses import replace

import pytest
import torch

from airpool.models import loop, weights
from airpool.models.vision import shapes
from airpool.models.vision.features import Images
from airpool.models.vision.mvcnn import TRUNKS, Architecture, Trunk
from airpool.models.vision.views import Cameras, views
from airpool_lab.vision import training
from airpool_lab.vision.training import RECIPES, TrunkRecipe, accuracy, drawn, predictions, train

TINY = TrunkRecipe(epochs=2, objects=4, views=2, learning_rate=1e-3, average=0.5)
STILL = replace(TINY, scale=0.0, stretch=0.0, shift=0.0, erased=0.0, mirror=False, views=3)
TWO = Architecture(num_classes=2)


@pytest.fixture(scope="module")
def bottles_and_tables() -> Images:
    """Two variants of each, seen by three cameras."""
    wanted = [s for label in ("bottle", "table") for s in shapes.all() if s.label == label][:8:2]
    labels = torch.tensor([int(s.label == "table") for s in wanted])
    seen = views([(s.vertices, s.faces) for s in wanted], Cameras(num_views=3, resolution=112), dtype=torch.uint8)
    return Images(seen, labels)


def test_a_run_that_was_interrupted_goes_on_as_if_it_had_not_been(bottles_and_tables, tmp_path, monkeypatch):
    whole = train(TINY, TWO, bottles_and_tables)
    checkpoint = tmp_path / "run.safetensors"
    save = loop.save

    def save_and_die(*args):
        save(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
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
    recipe = replace(STILL, epochs=120, views=1)
    assert accuracy(train(recipe, TWO, bottles_and_tables).model, bottles_and_tables) == 1.0


def test_views_are_drawn_moved_and_mirrored_but_stay_pictures(bottles_and_tables):
    rows = torch.arange(4)
    moved, labels, sides = drawn(
        bottles_and_tables, rows, replace(TINY, light=0.3, turn_deg=9), torch.Generator().manual_seed(0), num_sides=3
    )
    assert sides.shape == (4, 2)
    assert set(sides.flatten().tolist()) <= {0, 1, 2}
    assert moved.shape == (4, 2, 2, 112, 112)
    assert moved.min() >= 0
    assert moved.max() <= 1
    assert labels.tolist() == bottles_and_tables.labels.tolist()
    same, _, sides = drawn(bottles_and_tables, rows, STILL, torch.Generator().manual_seed(0), num_sides=3)
    original = bottles_and_tables.views.float() / 255
    for seen, own, side in zip(same, original, sides, strict=True):
        assert (seen - own[side]).abs().max() < 1e-3


def test_part_of_a_view_is_hidden_and_never_more_than_the_recipe_allows(bottles_and_tables):
    white = Images(torch.full_like(bottles_and_tables.views, 255), bottles_and_tables.labels)

    def hidden(**change):
        rng = torch.Generator().manual_seed(0)
        return (
            (drawn(white, torch.arange(4), replace(STILL, **change), rng, num_sides=3)[0] < 0.5).float().mean((2, 3, 4))
        )

    assert 0 < hidden(erased=1.0).max() <= 0.26
    assert hidden(erased=0.0).max() == 0
    some = hidden(erased=0.5, erase=(0.4, 0.5))
    assert 0 < (some > 0).float().mean() < 1


def test_a_mirrored_view_shows_the_mirrored_side(bottles_and_tables):
    mirror = replace(STILL, mirror=True)
    seen, _, sides = drawn(bottles_and_tables, torch.arange(4), mirror, torch.Generator().manual_seed(1), num_sides=3)
    plain, _, before = drawn(bottles_and_tables, torch.arange(4), STILL, torch.Generator().manual_seed(1), num_sides=3)
    flipped = (seen - plain.flip(-1)).abs().amax((2, 3, 4)) < 1e-3
    assert flipped.any()
    assert torch.equal(sides[flipped], -before[flipped] % 3)


def test_extra_views_show_the_side_of_their_camera(bottles_and_tables):
    more = Images(bottles_and_tables.views[:, [0, 1, 2, 0, 1, 2]], bottles_and_tables.labels)
    recipe = replace(STILL, views=6, extra_views=3)
    seen, _, sides = drawn(more, torch.arange(4), recipe, torch.Generator().manual_seed(0), num_sides=3)
    for own, shown, side in zip(bottles_and_tables.views, seen, sides, strict=True):
        assert side.bincount().tolist() == [2, 2, 2]
        assert (own[side].float() / 255 - shown).abs().max() < 1e-3
    assert train(replace(recipe, epochs=1), TWO, more).finished
    with pytest.raises(ValueError, match="extra_views=3 must be fewer than the 3 views given"):
        train(recipe, TWO, bottles_and_tables)


def test_time_that_runs_out_leaves_a_checkpoint_that_is_gone_on_from(bottles_and_tables, tmp_path):
    checkpoint = tmp_path / "run.safetensors"
    recipe = replace(TINY, epochs=3, consistency=0.5, gradient_norm=5.0, dropout=0.2)
    whole = train(recipe, TWO, bottles_and_tables)
    images = bottles_and_tables
    runs = [train(recipe, TWO, images, validation=images, checkpoint=checkpoint, seconds=0) for _ in range(3)]
    assert [len(trained.history) for trained in runs] == [1, 2, 3]
    assert [trained.finished for trained in runs] == [False, False, True]
    assert all("validation" in trained.history[-1] for trained in runs)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, runs[-1].model.state_dict()[name]), name


def test_what_an_optimizer_resumes_with_is_laid_out_as_its_parameters_are(tmp_path):
    def made():
        layer = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        return layer, torch.optim.AdamW(layer.parameters())

    first, optimizer = made()
    first(torch.rand(1, 3, 8, 8)).sum().backward()
    optimizer.step()
    loop.save(tmp_path / "c", TINY, {"layer": first}, optimizer, [1])
    second, other = made()
    assert loop.load(tmp_path / "c", TINY, {"layer": second}, other) == [1]
    assert torch.equal(second.weight, first.weight)
    for parameter, state in other.state.items():
        assert state["exp_avg"].stride() == state["exp_avg_sq"].stride() == parameter.stride()
    assert torch.equal(other.state[second.weight]["exp_avg"], optimizer.state[first.weight]["exp_avg"])


@pytest.fixture
def small(monkeypatch):
    """A backbone of our own with two residual blocks, from 112 px to maps of 6 × 7 × 7."""

    class Residual(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.drop_path = torch.nn.Conv2d(6, 6, 3, padding=1), 0.0
            seen.append(self)

        def forward(self, x):
            return x + self.layer(x)

    seen = []

    def build(architecture):
        return torch.nn.Sequential(torch.nn.Conv2d(architecture.in_channels, 6, 16, stride=16), Residual(), Residual())

    monkeypatch.setitem(TRUNKS, "small", Trunk(build, channels=6, resolutions=(112,)))
    return seen


@pytest.mark.parametrize("trunk", ["vgg11", "lite0"])
def test_each_trunks_recipe_trains_a_backbone_of_ones_own(small, bottles_and_tables, trunk):
    recipe = replace(RECIPES.get(trunk, TrunkRecipe()), epochs=2, objects=2, views=2, extra_views=0)
    told = []
    images = bottles_and_tables
    trained = train(
        recipe,
        Architecture("small", num_classes=2),
        images,
        validation=images,
        log=told.append,
    )
    assert [line.split()[0] for line in told] == ["epoch=1", "epoch=2"]
    assert "validation" not in trained.history[0]  # less than a minute since the start
    assert trained.history[1]["validation"] == accuracy(trained.model, images)
    assert small[1].drop_path == recipe.drop_path / 2
    single = predictions(trained.model, images, single=True)
    assert single.shape == (4, 3, 2)
    assert torch.allclose(single.mean(1), predictions(trained.model, images), atol=1e-5)


def test_a_file_that_is_no_checkpoint_of_this_model_is_refused(small, bottles_and_tables, tmp_path):
    recipe, own = TrunkRecipe(epochs=1, objects=2, views=2), Architecture("small", num_classes=2)
    trained = train(recipe, own, bottles_and_tables, checkpoint=tmp_path / "kept")
    with pytest.raises(ValueError, match="kept was made for another architecture"):
        train(recipe, replace(own, num_classes=3), bottles_and_tables, checkpoint=tmp_path / "kept")
    weights.save(tmp_path / "weights", trained.model, {})
    with pytest.raises(ValueError, match="weights is no checkpoint"):
        train(recipe, own, bottles_and_tables, checkpoint=tmp_path / "weights")


def test_imagenet_is_for_lite_alone(bottles_and_tables):
    with pytest.raises(ValueError, match="ImageNet weights are for lite0, lite1, lite2, not for vgg11"):
        train(TINY, TWO, bottles_and_tables, imagenet={})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "epochs=0 must be ≥ 1"),
        ({"learning_rate": 0.0}, "learning_rate=0.0"),
        ({"average": 1.0}, "average=1.0"),
        ({"drop_path": 1.0}, "drop_path=1.0 must be ≥ 0 and < 1"),
        ({"erased": 2.0}, "erased=2.0 must be from 0 to 1"),
        ({"erase": (0.5, 0.1)}, "erase=.* must be a smallest and a largest side"),
        ({"object_loss": 0.0, "view_loss": 0.0}, "object_loss or view_loss must be > 0"),
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
