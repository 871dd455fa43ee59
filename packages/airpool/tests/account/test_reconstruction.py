"""The least error of a reconstruction: the posterior mean attains it, and no estimate of clipped features beats it."""

from dataclasses import replace

import numpy as np
import pytest

from airpool.account.reconstruction import COSINE, reconstruction
from airpool.network import Channel, Claim, Network, Threshold
from airpool.protocol.simulation import receive

R = 16


def four(**settings):
    return Network.uniform(**{"num_devices": 4, "noise_std": 0.02, "dimension": R} | settings)


@pytest.mark.parametrize("settings", [{}, {"participation": 0.6}])
def test_the_posterior_mean_attains_it_for_a_gaussian_prior(settings):
    """Features so short that they are never clipped; estimated from the real path."""
    network, share, n = four(**settings), 0.1, 4_000
    rng = np.random.default_rng(0)
    latents = np.zeros((n, 4, R))
    latents[:, 0] = rng.standard_normal((n, R)) * np.sqrt(share / R)
    got = receive(latents, network, rng=rng, path="full")
    here = np.asarray(got.alignment)[:, 0] > 0
    noise = here.sum(axis=1) * 0.02**2
    gain = np.where(here[:, 0], 0.25 * share / R / (0.25**2 * share / R + noise), 0.0)
    estimate = gain[:, None] * np.asarray(got.estimate)[:, 0]
    error = np.sum((estimate - latents[:, 0]) ** 2, axis=1) / share
    found = float(reconstruction(network, share=share).device[0])
    assert error.mean() == pytest.approx(found, abs=4 * error.std() / np.sqrt(n))


def test_it_is_the_closed_form_and_falls_with_time():
    mu = 0.25 / (0.02 * 2)
    for times in (1, 9):
        found = reconstruction(four(), Claim(inferences=times), share=0.5)
        np.testing.assert_allclose(found.device, 1 / (1 + 0.5 * times * mu**2 / R), rtol=1e-9)
        np.testing.assert_allclose(found.local, 1 / (1 + 0.5 * times * 4 * mu**2 / R), rtol=1e-9)
    often = [reconstruction(four(participation=0.5), Claim(inferences=n)).device[0] for n in (1, 2, 20)]
    assert often[0] > often[1] > often[2]


def test_van_trees_holds_for_features_of_a_cosine_prior():
    """cos² on an interval: the best estimate of one coordinate by numerical integration is not better."""
    x = np.linspace(-1, 1, 2001)
    prior = np.cos(np.pi * x / 2) ** 2
    prior /= prior.sum()
    variance = float(prior @ x**2)
    y = np.linspace(-6, 6, 1201)
    for std in (0.3, 1.0, 3.0):
        joint = prior * np.exp(-((y[:, None] * std - x) ** 2) / (2 * std**2))
        weight = joint.sum(axis=1)
        mean = (joint @ x) / weight
        least = float(np.sum(joint * (x - mean[:, None]) ** 2) / joint.sum()) / variance
        assert least >= 1 / (COSINE + variance / std**2)
    assert reconstruction(four(), information=COSINE).device[0] < reconstruction(four()).device[0]


def test_a_feature_of_many_coordinates_stays_unknown_where_one_question_is_answered():
    found = reconstruction(Network.uniform(num_devices=12, noise_std=0.08975, dimension=784))
    assert found.device[0] > 0.9999
    assert found.local[0] > 0.998
    assert found.to_json()["information"] == 1.0


def test_bad_requests_are_refused():
    with pytest.raises(ValueError, match="also shows scores"):
        reconstruction(four(scheme=Threshold()))
    with pytest.raises(ValueError, match=r"information=0\.5 must be >= 1"):
        reconstruction(four(), information=0.5)
    assert reconstruction(four(noise_std=0.0)).device.tolist() == [0.0] * 4


def test_where_the_law_may_fail_the_error_is_not_promised():
    paper = Channel(fading="rayleigh", power_rule="paper", gamma=1.0, outage=0.3)
    net = Network.uniform(num_devices=4, noise_std=0.3, dimension=8, power_dbm=0.0)
    ideal, failing = reconstruction(net), reconstruction(replace(net, channel=paper))
    assert np.all(failing.local < ideal.local)
