"""Pictures by a gallery: laws of the posterior mean, and no more right guesses than the bound allows."""

import numpy as np
import pytest

from airpool import Claim, Network
from airpool_lab.attacks.attackers import beliefs, named
from airpool_lab.attacks.positions import POSITIONS

K, R, SIZE = 4, 6, 10
NETWORK = Network.uniform(num_devices=K, noise_std=0.1, dimension=R)
DRAWN = np.random.default_rng(0).standard_normal((SIZE, K, R))
LATENTS = DRAWN / np.linalg.norm(DRAWN, axis=-1, keepdims=True)
PICTURES = np.random.default_rng(1).random((SIZE, 3, 3))


def painted(std, place="link", **how):
    net = Network.uniform(num_devices=K, noise_std=std, dimension=R, **how)
    found = beliefs(net, Claim(), POSITIONS[place], LATENTS, LATENTS, rng=np.random.default_rng(2))
    return found, found.painted(PICTURES)[:, 0]


@pytest.mark.parametrize("place", ["link", "sum"])
def test_without_noise_the_picture_is_the_view(place):
    assert painted(0.0, place)[1] == pytest.approx(PICTURES, abs=1e-9)


@pytest.mark.parametrize("place", ["link", "sum"])
def test_in_much_noise_the_picture_is_the_mean_of_the_gallery(place):
    assert painted(1e6, place)[1] == pytest.approx(np.broadcast_to(PICTURES.mean(0), PICTURES.shape), abs=1e-3)


def test_of_a_silent_device_the_mean_is_painted():
    found, pictures = painted(0.05, participation=1e-12)
    assert not found.present.any()
    assert pictures == pytest.approx(np.broadcast_to(PICTURES.mean(0), PICTURES.shape))


def test_no_other_estimate_from_the_same_signals_is_closer_on_average():
    """Of the posterior mean: any mix with another picture raises the mean squared error, up to the sample's error."""
    found = beliefs(NETWORK, Claim(), POSITIONS["link"], LATENTS, LATENTS, rng=np.random.default_rng(3), trials=2000)
    best = found.painted(PICTURES)
    true = PICTURES[:, None]
    error = ((best - true) ** 2).mean()
    for other in (PICTURES.mean(0), PICTURES[found.weight.argmax(-1)]):
        assert ((0.5 * best + 0.5 * other - true) ** 2).mean() > error


@pytest.mark.parametrize("place", ["link", "sum"])
def test_the_object_is_named_no_more_often_than_the_bound_allows(place):
    result = named(NETWORK, Claim(), POSITIONS[place], LATENTS, seed=1, trials=400)
    assert result.trials == 400 * SIZE
    assert not result.exceeds
    assert (result.success or 0) > 1 / SIZE


def test_antennas_have_no_gallery():
    with pytest.raises(ValueError, match="antennas"):
        beliefs(NETWORK, Claim(), POSITIONS["antennas"], LATENTS, LATENTS, rng=np.random.default_rng(0))
