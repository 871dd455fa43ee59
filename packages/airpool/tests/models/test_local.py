"""The classifier of each device: what it learns, and whether its confidence can be believed."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from airpool.models import local
from airpool.models.heads import expected_calibration_error, fit_temperature
from airpool.models.local import HeadRecipe, calibration, crossed_temperatures, fit, local_distribution

CLASSES, WIDTH = 5, 32
QUICK = HeadRecipe(epochs=8, views=64, learning_rate=0.01)


def seen(count: int, *, spread: tuple[float, ...] = (2.0, 4.0), scale: float = 1.0, seed: int = 0):
    """Features (count, K, 32) around a mean for each class, device k's off by spread[k]; and labels (count,)."""
    means = torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(99))
    rng = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (count,), generator=rng)
    off = torch.randn(count, len(spread), WIDTH, generator=rng) * torch.tensor(spread)[:, None]
    return scale * (3 + means[labels][:, None] + off), labels


def best(features: Tensor, labels: Tensor) -> Tensor:
    """Accuracy (K,) of the nearest mean, which no classifier can beat here."""
    means = 3 + torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(99))
    return (torch.cdist(features, means.expand(len(features), -1, -1)).argmin(-1) == labels[:, None]).double().mean(0)


@pytest.fixture(scope="module")
def fitted():
    return fit(QUICK, *seen(1000), validation=seen(600, seed=1), num_classes=CLASSES)


def test_it_is_nearly_as_good_as_can_be_and_the_device_with_the_worse_view_is_worse(fitted):
    unseen = seen(2000, seed=2)
    found = torch.tensor(fitted.measured(*unseen).accuracy)
    assert (found > best(*unseen) - 0.05).all()
    assert found[0] > found[1] + 0.1


@pytest.mark.parametrize("hidden", [0, 16])
def test_the_seed_decides_everything_and_torchs_own_random_state_nothing(hidden):
    recipe = replace(QUICK, epochs=2, hidden=hidden)
    data, aside = seen(100), seen(50, seed=1)
    torch.manual_seed(1)
    one = fit(recipe, *data, validation=aside, num_classes=CLASSES)
    before = torch.get_rng_state()
    torch.manual_seed(2)
    two = fit(recipe, *data, validation=aside, num_classes=CLASSES)
    other = fit(replace(recipe, seed=3), *data, validation=aside, num_classes=CLASSES)
    assert torch.equal(torch.manual_seed(1).get_state(), before)
    assert torch.equal(one.classifier.get_parameter("0.weight"), two.classifier.get_parameter("0.weight"))
    assert torch.equal(one.temperatures, two.temperatures)
    assert not torch.equal(one.classifier.get_parameter("0.weight"), other.classifier.get_parameter("0.weight"))


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_scale_of_the_features_does_not_matter(fitted, scale):
    scaled = fit(QUICK, *seen(1000, scale=scale), validation=seen(600, seed=1, scale=scale), num_classes=CLASSES)
    assert scaled.validation.accuracy == pytest.approx(fitted.validation.accuracy, abs=0.01)
    assert scaled.temperatures.tolist() == pytest.approx(fitted.temperatures.tolist(), rel=0.02)


def test_features_that_never_change_give_the_share_of_each_class():
    features, labels = torch.ones(100, 2, WIDTH), torch.arange(100) % CLASSES
    flat = fit(QUICK, features, labels, validation=(features, labels), num_classes=CLASSES)
    probs = local_distribution(features[:1], flat.classifier, flat.temperatures)
    assert torch.allclose(probs, torch.full((1, 2, CLASSES), 1 / CLASSES), atol=0.02)


def test_posteriors_are_softmax_at_each_devices_own_temperature(fitted):
    features, _ = seen(7, seed=3)
    probs = local_distribution(features, fitted.classifier, fitted.temperatures)
    assert probs.shape == (7, 2, CLASSES)
    for k, temperature in enumerate(fitted.temperatures):
        logits = fitted.classifier(features[:, k, :, None, None])
        assert torch.allclose(probs[:, k], (logits / temperature).softmax(1), atol=1e-6)
    assert torch.allclose(probs.sum(-1), torch.ones(7, 2))


def test_each_temperature_is_the_best_for_its_device(fitted):
    features, labels = seen(600, seed=1)
    logits = [fitted.classifier(features[:, k, :, None, None]) for k in range(2)]
    expected = [fit_temperature(each, labels) for each in logits]
    assert fitted.temperatures.tolist() == pytest.approx(expected, rel=1e-4)


def test_a_head_that_is_too_sure_of_itself_is_mended_by_its_temperatures():
    recipe, validation = replace(QUICK, epochs=200), seen(1000, seed=1)
    sure = fit(recipe, *seen(200), validation=validation, num_classes=CLASSES)
    unseen = sure.measured(*seen(4000, seed=2))
    # The device that sees well is too modest, the other one far too sure: no single temperature would do.
    assert sure.temperatures[0] < 1 < sure.temperatures[1]
    assert unseen.error_raw[1] > 5 * unseen.error_by_chance[1]
    assert unseen.error[1] < 2 * unseen.error_by_chance[1]
    # Measured on validation, but by temperatures from the other half, it is no flattery: within sampling error of that.
    assert sure.validation.error_raw[1] == pytest.approx(unseen.error_raw[1], abs=3 * 0.5 / math.sqrt(1000))


def test_a_device_that_was_never_seen_to_err_is_not_made_certain():
    logits = torch.tensor([[[2.0, 0.0], [2.0, 0.0]], [[0.0, 2.0], [2.0, 0.0]]])
    first, second = local.fit_temperatures(logits, torch.tensor([0, 1])).tolist()
    assert first == 1.0
    assert second == pytest.approx(1000, rel=1e-6)  # right half of the time: it knows nothing


def test_cross_fitting_takes_each_temperature_from_the_other_half():
    logits, labels = torch.randn(9, 2, 4, generator=torch.Generator().manual_seed(0)), torch.arange(9) % 4
    crossed = crossed_temperatures(logits, labels)
    assert crossed.shape == (9, 2)
    halves = [(crossed[:, 0] == value).nonzero()[:, 0] for value in crossed[:, 0].unique()]
    assert sorted(map(len, halves)) == [4, 5]
    for own, other in (halves, halves[::-1]):
        for k in range(2):
            expected = fit_temperature(logits[other, k], labels[other])
            assert crossed[own, k].tolist() == pytest.approx([expected] * len(own), rel=1e-5)


def test_calibration_is_measured_device_by_device():
    rng = torch.Generator().manual_seed(0)
    logits, labels = 2 * torch.randn(200, 3, 4, generator=rng), torch.randint(0, 4, (200,), generator=rng)
    temperatures = torch.tensor([0.5, 1.0, 4.0])
    found = calibration(logits, labels, temperatures)
    assert found.objects == 200
    for k, t in enumerate(temperatures):
        assert found.accuracy[k] == pytest.approx(float((logits[:, k].argmax(1) == labels).double().mean()))
        assert found.error_raw[k] == pytest.approx(expected_calibration_error(logits[:, k].softmax(1), labels))
        assert found.error[k] == pytest.approx(expected_calibration_error((logits[:, k] / t).softmax(1), labels))


@pytest.mark.parametrize("count", [100, 10_000])
def test_perfect_probabilities_err_by_chance_alone_and_less_with_more_objects(count):
    rng = torch.Generator().manual_seed(4)
    logits = 2 * torch.randn(count, 1, 4, generator=rng)
    labels = torch.multinomial(logits[:, 0].softmax(1), 1, generator=rng)[:, 0]
    found = calibration(logits, labels, torch.ones(1))
    # Bins off by their own sampling error: Σ √(n_b c(1-c))/N ≤ √15 / (2√N), and on average √(2/π) of that.
    bound = math.sqrt(15 / count) / 2
    assert 0 < found.error_by_chance[0] < bound
    assert found.error[0] < 2 * bound


def test_a_head_comes_back_from_its_file(fitted, tmp_path):
    file = tmp_path / "head.safetensors"
    local.save(file, fitted, {"trunk": ["t.safetensors"]})
    back, about = local.load(file)
    assert about["trunk"] == ["t.safetensors"]
    assert back.recipe == fitted.recipe
    assert back.validation == fitted.validation
    assert torch.equal(back.temperatures, fitted.temperatures)
    unseen = seen(50, seed=5)
    # It was rounded to what is stored before it was calibrated.
    assert back.measured(*unseen) == fitted.measured(*unseen)


def test_a_hidden_layer_comes_back_too(tmp_path):
    deep = fit(replace(QUICK, hidden=8), *seen(100), validation=seen(50, seed=1), num_classes=CLASSES)
    local.save(tmp_path / "h.safetensors", deep, {})
    back, _ = local.load(tmp_path / "h.safetensors")
    assert list(back.classifier.state_dict()) == ["0.weight", "0.bias", "3.weight", "3.bias"]
    assert back.measured(*seen(50, seed=5)) == deep.measured(*seen(50, seed=5))


def test_a_file_that_holds_no_head_is_refused(tmp_path):
    local.weights.write(tmp_path / "x.safetensors", {"0.weight": torch.ones(2, 2)}, {"head": {"recipe": {}}})
    with pytest.raises(ValueError, match=r"x.safetensors: holds no local head"):
        local.load(tmp_path / "x.safetensors")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": -1}, "epochs=-1 must be ≥ 1"),
        ({"views": 0}, "views=0"),
        ({"hidden": -1}, "hidden=-1 must be ≥ 0"),
        ({"learning_rate": 0.0}, "learning_rate=0.0"),
        ({"weight_decay": -0.1}, "weight_decay=-0.1"),
        ({"label_smoothing": 1.0}, "label_smoothing=1.0"),
    ],
)
def test_a_recipe_that_cannot_be_followed_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(QUICK, **change)


def test_data_that_do_not_match_are_refused():
    features, labels = seen(10)
    with pytest.raises(ValueError, match=r"features \(10, 2, 32\) and labels \(9,\) must be"):
        fit(QUICK, features, labels[:9], validation=(features, labels), num_classes=CLASSES)
    with pytest.raises(ValueError, match="1 validation objects: temperatures need 2 at least"):
        fit(QUICK, features, labels, validation=(features[:1], labels[:1]), num_classes=CLASSES)
