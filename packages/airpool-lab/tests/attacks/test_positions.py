"""Positions of an adversary: their bounds, and the signals that arrive there."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from airpool import Adversary, Claim, Network
from airpool_lab.attacks.hearing import hear
from airpool_lab.attacks.positions import POSITIONS, bound, position

NETWORK = Network.uniform(num_devices=12, noise_std=0.08975, dimension=4, adversary=Adversary(2))
CLAIM = Claim(inferences=4)


@pytest.mark.parametrize(
    ("name", "scope", "mu"),
    [
        ("link", "view", 0.9285),
        ("link", "object", 0.9285),
        ("sum", "view", 0.26804),
        ("sum", "object", 12 * 0.26804),
        ("colluding", "view", 0.9285),
        ("repeated", "view", 2 * 0.26804),
        ("repeated", "object", 24 * 0.26804),
    ],
)
@pytest.mark.parametrize("prior", [0.5, 0.025])
def test_the_bound_of_a_position_is_that_of_its_curve(name, scope, mu, prior):
    found = bound(NETWORK, CLAIM, position(name), scope, prior=prior)
    assert found == pytest.approx(norm.cdf(norm.ppf(prior) + mu), abs=2e-4)


@pytest.mark.parametrize("name", ["colluding", "antennas"])
def test_nothing_is_claimed_of_the_object_where_views_are_heard_one_by_one(name):
    assert bound(NETWORK, CLAIM, position(name), "object", prior=0.5) == 1


def test_an_array_elsewhere_is_granted_less_than_the_link():
    there, link = (bound(NETWORK, CLAIM, position(name), "view", prior=0.5) for name in ("antennas", "link"))
    assert there <= link


@pytest.mark.parametrize("name", list(POSITIONS))
def test_signals_are_the_weighted_feature_and_noise_of_the_stated_size(name):
    rng = np.random.default_rng(0)
    z = np.zeros((1, 12, 4))
    z[0, 3] = 1.0  # twice as long as the clip norm
    z[0, 5, 1] = 1.0
    heard = hear(NETWORK, CLAIM, position(name), z, rng=rng, device=3, trials=4000, others_known=True)
    assert heard.signal.shape == (1, 4000, 4)
    units = (heard.signal - 0.5 / 12)[0] / heard.noise_std[0][:, None]
    assert np.abs(units.mean(axis=0)).max() < 4.5 / 4000**0.5
    assert abs(units.var() - 1) < 4.5 * (2 / 16000) ** 0.5


def test_the_sum_holds_the_other_features_unless_they_are_known():
    z = np.zeros((1, 12, 4))
    z[0, 5, 1] = 1.0
    quiet = replace(NETWORK, devices=replace(NETWORK.devices, noise_std=1e-9))
    for known, wanted in ((False, 1 / 12), (True, 0.0)):
        heard = hear(quiet, CLAIM, position("sum"), z, rng=np.random.default_rng(0), others_known=known)
        assert heard.signal[0, 0, 1] == pytest.approx(wanted, abs=1e-7)


def test_a_silent_device_is_not_heard():
    rarely = replace(NETWORK, devices=replace(NETWORK.devices, participation=0.25))
    heard = hear(rarely, CLAIM, position("link"), np.ones((1, 12, 4)), rng=np.random.default_rng(0), trials=4000)
    assert abs(heard.present.mean() - 0.25) < 4.5 * (0.1875 / 4000) ** 0.5
    assert not heard.signal[~heard.present].any()
    assert np.isinf(heard.noise_std[~heard.present]).all()


@pytest.mark.parametrize(
    ("change", "name", "message"),
    [
        ({}, "nowhere", "position 'nowhere' must be one of link, sum, colluding"),
        ({"adversary": Adversary()}, "antennas", "needs an eavesdropper"),
        ({}, "repeated", "needs inferences > 1"),
    ],
)
def test_a_position_that_the_network_does_not_have_is_an_error(change, name, message):
    with pytest.raises(ValueError, match=message):
        bound(replace(NETWORK, **change), Claim(), position(name), "view", prior=0.5)


def test_a_prior_is_a_probability():
    with pytest.raises(ValueError, match="prior=0 must be > 0"):
        bound(NETWORK, CLAIM, position("link"), "view", prior=0.0)
