"""The yes-or-no question: an honest network stays below its bound, and planted faults do not."""

from dataclasses import replace

import numpy as np
import pytest

from airpool import Adversary, Network
from airpool.evaluation.attacks.antipodal import antipodal
from airpool.evaluation.attacks.attack import AttackSetting
from airpool.evaluation.attacks.positions import POSITIONS
from airpool.protocol import device

# One antenna and one other device: the eavesdropper hears close to what its bound allows.
NETWORK = Network.uniform(num_devices=4, noise_std=0.25, dimension=3, adversary=Adversary(3), inferences=3)


def setting(name, **more):
    return AttackSetting(NETWORK, POSITIONS[name], device=1, trials=20_000, **more)


@pytest.mark.parametrize("name", list(POSITIONS))
def test_an_honest_network_stays_below_its_bound(name):
    result = antipodal(setting(name))
    assert not result.exceeds
    assert result.trials == 20_000


@pytest.mark.parametrize("name", [name for name in POSITIONS if name != "antennas"])
def test_the_question_attains_the_bound(name):
    result = antipodal(setting(name, seed=1))
    assert abs(result.success - result.bound) < 4.5 * result.standard_error


@pytest.mark.parametrize("name", list(POSITIONS))
def test_half_the_noise_is_caught(name):
    half = replace(NETWORK, devices=replace(NETWORK.devices, noise_std=0.125))
    assert antipodal(setting(name), played=half).exceeds


@pytest.mark.parametrize("name", list(POSITIONS))
def test_a_device_without_its_clip_is_caught(name, monkeypatch):
    monkeypatch.setattr(device, "clipped", lambda latents, clip_norm: latents)
    assert antipodal(setting(name)).exceeds


def test_a_device_without_its_clip_shows_by_long_features_alone(monkeypatch):
    monkeypatch.setattr(device, "clipped", lambda latents, clip_norm: latents)
    assert not antipodal(setting("link"), length=1.0).exceeds


def test_a_silent_device_answers_nothing():
    silent = replace(NETWORK, devices=replace(NETWORK.devices, participation=(1.0, 0.0, 1.0, 1.0)))
    result = antipodal(setting("link"), played=silent)
    assert abs(result.success - 0.5) < 4.5 * result.standard_error


def test_the_same_seed_gives_the_same_answers():
    once, again = (antipodal(setting("sum", seed=3)) for _ in range(2))
    assert once.successes == again.successes
    assert np.isfinite(once.bound)
