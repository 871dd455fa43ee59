"""Codecs trained through the air, on clusters of features: what the noise teaches, and that the seed decides all."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from airpool.account.calibration import calibrate
from airpool.models.codecs.codec import Codec
from airpool.models.codecs.dense import CodecShape
from airpool.models.codecs.training import CodecRecipe, Setting, decoded, fit, setting
from airpool.network import Channel, Network
from airpool.protocol.inference import Simulation, infer_features

CLASSES, WIDTH, DEVICES, R = 30, 32, 12, 40
SHAPE = CodecShape(dimension=R, num_classes=CLASSES, features=WIDTH, hidden=64, server_hidden=64)
RECIPE = CodecRecipe(
    epochs=30,
    objects=100,
    trials=1,
    learning_rate=0.01,
    warm_up=0.1,
    weight_decay=0.02,
    label_smoothing=0.0,
    dropout=0.0,
    balance=0.0,
)
QUICK = replace(RECIPE, epochs=2, objects=50)
CHANNEL = Channel("rician", noise_std=0.3)
NETWORK = Network.uniform(num_devices=DEVICES, dimension=R, noise_std=0.1, channel=CHANNEL)


def seen(count: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Features (count, 12, 32) around a mean for each class, every device's off by its own; and labels (count,)."""
    means = torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(99))
    rng = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (count,), generator=rng)
    return 5 + means[labels][:, None] + torch.randn(count, DEVICES, WIDTH, generator=rng), labels


@torch.no_grad()
def accuracy(codec: Codec, here: Setting, objects: tuple[Tensor, Tensor] | None = None) -> float:
    """Over objects that were not trained on, 30 times each."""
    features, labels = objects or seen(300, seed=1)
    found = decoded(codec, codec.encoder(features), here, torch.Generator().manual_seed(2), trials=30).argmax(-1)
    return float((found == labels[:, None]).double().mean())


@pytest.fixture(scope="module")
def settings() -> dict[float, Setting]:
    """By ε."""
    return {epsilon: setting(calibrate(NETWORK, epsilon=epsilon)) for epsilon in (1.0, 10.0)}


@pytest.fixture(scope="module")
def quiet() -> Setting:
    """Next to no noise."""
    devices, channel = replace(NETWORK.devices, noise_std=1e-4), replace(CHANNEL, noise_std=0.0)
    return setting(replace(NETWORK, devices=devices, channel=channel))


@pytest.fixture(scope="module")
def through_noise(settings) -> Codec:
    return fit(RECIPE, SHAPE, *seen(1000), settings=[settings[1.0]])


# --- what is learnt ---


@pytest.mark.parametrize("told", [True, False])
def test_at_a_strict_budget_training_through_the_noise_beats_training_without_it(told, through_noise, settings, quiet):
    without = fit(RECIPE, replace(SHAPE, told=told), *seen(1000), settings=[quiet])
    # Not for want of training: where there is no noise, both find everything.
    assert accuracy(without, quiet) > 0.99
    assert accuracy(through_noise, quiet) > 0.99
    # The same objects and the same noise: a difference of 300 objects' means is known to within 0.02.
    assert accuracy(through_noise, settings[1.0]) > accuracy(without, settings[1.0]) + 0.06
    assert accuracy(without, settings[1.0]) > 5 / CLASSES


def test_one_codec_serves_several_budgets(settings):
    codec = fit(replace(RECIPE, epochs=15), SHAPE, *seen(600), settings=list(settings.values()))
    strict, loose = (accuracy(codec, here) for here in settings.values())
    assert 0.5 < strict < loose
    assert loose > 0.98
    assert codec.drop is None


def test_a_codec_for_whole_maps_learns_where_things_are(quiet):
    """Every class has the same average; only the place of what stands out tells them apart."""
    rng = torch.Generator().manual_seed(3)
    labels = torch.randint(0, 4, (300,), generator=rng)
    maps = torch.randn(300, DEVICES, 2, 49, generator=rng)
    maps[torch.arange(300), :, 0, 12 * labels] += 6
    shape = CodecShape("map", dimension=R, num_classes=4, features=2, hidden=4, server_hidden=16)
    train, test = ((part.flatten(2), own) for part, own in ((maps[:200], labels[:200]), (maps[200:], labels[200:])))
    codec = fit(replace(RECIPE, objects=20), shape, *train, settings=[quiet])
    assert accuracy(codec, quiet, test) > 0.9


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_scale_of_the_features_does_not_matter(scale, settings):
    features, labels = seen(200)
    one, other = (fit(QUICK, SHAPE, factor * features, labels, settings=[settings[1.0]]) for factor in (1.0, scale))
    torch.testing.assert_close(other.encoder(scale * features), one.encoder(features), rtol=0, atol=1e-3)


def test_features_in_half_precision_will_do(settings):
    features, labels = seen(200)
    one, other = (fit(QUICK, SHAPE, each, labels, settings=[settings[1.0]]) for each in (features, features.half()))
    latents = one.encoder(features)
    assert (latents * other.encoder(features)).sum(-1).mean() > 0.999  # nearly the same directions


@pytest.mark.parametrize("balance", [0.0, 0.5, 1.0])
def test_balance_says_how_far_rare_classes_count_as_much_as_frequent_ones(balance, quiet):
    features, labels = torch.ones(200, DEVICES, WIDTH), (torch.arange(200) % 10 == 0).long()  # nothing to go by
    shape = replace(SHAPE, num_classes=2)
    codec = fit(replace(RECIPE, epochs=60, balance=balance), shape, features, labels, settings=[quiet])
    with torch.no_grad():
        logits = decoded(codec, codec.encoder(features[:1]), quiet, torch.Generator().manual_seed(0), trials=200)
    odds = logits.softmax(-1).mean((0, 1))
    # p ∝ (how often)^(1 − balance): 9 to 1, 3 to 1, even.
    assert float(odds[0] / odds[1]) == pytest.approx(9 ** (1 - balance), rel=0.1)


# --- the seed decides ---


def test_the_seed_decides_everything_and_torchs_own_random_state_nothing(settings):
    recipe, data, over = replace(QUICK, dropout=0.2), seen(200), list(settings.values())
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = fit(recipe, SHAPE, *data, settings=over).arrays
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    two = fit(recipe, SHAPE, *data, settings=over).arrays
    other = fit(replace(recipe, seed=3), SHAPE, *data, settings=over).arrays
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["decoder.out.weight"], other["decoder.out.weight"])


def test_every_epoch_is_told_and_what_comes_over_the_air_is_what_infer_hears(settings):
    told: list[int] = []
    codec, here = fit(QUICK, SHAPE, *seen(200), settings=[settings[1.0]], on_epochs=told.append), settings[1.0]
    assert told == [1, 1]
    features, _ = seen(5, seed=1)
    with torch.no_grad():
        logits = decoded(codec, codec.encoder(features), here, torch.Generator().manual_seed(4), trials=7)
        assert logits.shape == (5, 7, CLASSES)
        server, rng = codec.server(here.level), torch.Generator().manual_seed(4)
        out = infer_features(
            features,
            here.network,
            encoder=codec.encoder,
            server=server,
            rng=rng,
            simulation=Simulation(trials=7, path="fast"),
        )
    assert torch.equal(out.logits, logits)


# --- what is refused ---


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "epochs=0 must be ≥ 1"),
        ({"objects": 0}, "objects=0 must be ≥ 1"),
        ({"trials": 0}, "trials=0 must be ≥ 1"),
        ({"learning_rate": 0.0}, "learning_rate=0.0 must be between 0 and 1"),
        ({"warm_up": 1.0}, "warm_up=1.0 must be ≥ 0 and < 1"),
        ({"dropout": -0.1}, "dropout=-0.1 must be ≥ 0 and < 1"),
        ({"label_smoothing": 1.0}, "label_smoothing=1.0"),
        ({"weight_decay": -1.0}, "weight_decay=-1.0 must be ≥ 0"),
    ],
)
def test_a_recipe_that_cannot_be_followed_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(RECIPE, **change)


def test_data_that_do_not_match_are_refused(quiet):
    features, labels = seen(10)
    broken = features.clone()
    broken[3, 4, 5] = torch.nan
    over = [quiet]
    for data, message in (
        ((features, labels[:9]), r"features \(10, 12, 32\) and labels \(9,\) must be"),
        ((features[0], labels), r"must be \(N, K, d\) and \(N,\), N ≥ 1"),
        ((features[:0], labels[:0]), r"N ≥ 1"),
        ((features[..., :31], labels), "features of width 31 must have 32"),
        ((broken, labels), "features are not finite"),
        (((1e6 * features).half(), labels), "features are not finite, in half precision perhaps"),
        ((features[:, :11], labels), "a network of 12 devices and dimension 40 does not fit features of 11 devices"),
        ((features, labels + 25), "labels must be 0 to 29"),
        ((features, labels - 25), "labels must be 0 to 29"),
    ):
        with pytest.raises(ValueError, match=message):
            fit(QUICK, SHAPE, *data, settings=over)
    with pytest.raises(ValueError, match="does not fit features of 12 devices and a codec of dimension 41"):
        fit(QUICK, replace(SHAPE, dimension=41), features, labels, settings=over)
    with pytest.raises(ValueError, match="features of width 32 must have 1568"):
        fit(QUICK, replace(SHAPE, kind="map"), features, labels, settings=over)
    with pytest.raises(ValueError, match="settings is empty"):
        fit(QUICK, SHAPE, features, labels, settings=[])


def test_networks_that_a_codec_cannot_be_trained_for_are_refused():
    with pytest.raises(ValueError, match="clip_norm=100 must be ≤ 1, the length of a codec's latents"):
        setting(replace(NETWORK, devices=replace(NETWORK.devices, clip_norm=100.0)))
    with pytest.raises(ValueError, match="power_rule='paper' looks at the noise"):
        setting(replace(NETWORK, channel=replace(CHANNEL, power_rule="paper")))
