"""A search over slow radios computes few laws, with few draws until its last steps, and ends on the safe side."""

from typing import Any

import numpy as np
import pytest

from airpool.account.calibration import calibrate
from airpool.account.guarantee import guarantee
from airpool.account.received import aggregate
from airpool.evaluation.design import design
from airpool.network import Channel, Claim, Devices, Network
from airpool.privacy import sampled, unaligned
from airpool.privacy.law import Arrivals, in_order

BEAM: dict[str, Any] = {"fading": "rayleigh", "outage": 0.05, "antennas": 2}
ERRORS: dict[str, Any] = {"fading": "rayleigh", "outage": 0.05, "csi_error_std": 0.02}
LOSS = (0.0, 3.0, 6.0)
CLAIM = Claim(delta=1e-3)


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(sampled, "DRAWS", 2**16)
    sampled._laws.cache_clear()
    unaligned._unaligned.cache_clear()


def network(channel: dict[str, Any], **devices: Any) -> Network:
    given: dict[str, Any] = {"noise_std": 0.1, "path_loss_db": LOSS, **devices}
    return Network(devices=Devices(count=3, **given), channel=Channel(**channel), dimension=8)


def test_a_factor_on_all_noise_computes_no_new_law():
    calibrate(network(BEAM), CLAIM, epsilon=2.0)
    assert sampled._laws.cache_info().misses == 2  # one with few draws, one with all
    calibrate(network(ERRORS), CLAIM, epsilon=2.0)
    assert unaligned._unaligned.cache_info().misses == 1


def test_kinds_are_numbered_as_they_occur_whatever_their_noise():
    for code in ([5, 5, 1, 9], [1, 1, 9, 5], [9, 9, 5, 1]):
        assert in_order(np.array(code)).tolist() == [0, 0, 1, 2]


@pytest.mark.parametrize("channel", [BEAM, ERRORS])
@pytest.mark.parametrize("noise_std", [0.1, pytest.param((0.05, 0.1, 0.3), marks=pytest.mark.check)])
def test_the_noise_found_meets_the_target_with_all_draws_and_closely(channel, noise_std):
    target = np.array([1.0, 2.0, 3.0])
    found = guarantee(calibrate(network(channel, noise_std=noise_std), CLAIM, epsilon=target.tolist()), CLAIM)
    assert np.all(found.epsilon <= target)
    assert np.max(found.epsilon / target) > 1 - 1e-3


@pytest.mark.check
@pytest.mark.parametrize("channel", [BEAM, ERRORS])
@pytest.mark.parametrize("adjust", ["weight", "clip"])
def test_weights_and_clip_norms_meet_every_target_closely(channel, adjust):
    target = np.array([1.0, 2.0, 3.0])
    found = guarantee(calibrate(network(channel), CLAIM, epsilon=target.tolist(), adjust=adjust), CLAIM)
    assert np.all(found.epsilon <= target)
    assert np.all(found.epsilon / target > 1 - 1e-3)


@pytest.mark.parametrize("knob", ["weight", pytest.param("clip", marks=pytest.mark.check)])
def test_a_design_meets_its_targets_with_all_draws(knob):
    z = np.random.default_rng(0).standard_normal((20, 3, 8)) / 3
    free: Any = {"normalise": "free"} if knob == "weight" else {}
    found = design(network(BEAM), z, CLAIM, knob=knob, epsilon=[1.0, 2.0, 3.0], **free)
    assert np.all(guarantee(found.network, CLAIM).epsilon <= [1.0, 2.0, 3.0])


def test_few_draws_are_on_the_safe_side():
    net = network(BEAM)
    rough, full = (aggregate(net, CLAIM, rough=rough) for rough in (True, False))
    assert isinstance(rough.strength, Arrivals)
    assert rough.strength != full.strength
    low, fine = (sampled.sampled_floor(each.variance, each.participation, each.strength) for each in (rough, full))  # pyright: ignore[reportArgumentType]
    assert low is not None
    assert fine is not None
    for scale in (0.01, 0.1):
        few, many = (np.sum(law.low.mass * np.exp(-law.low.variance / scale), axis=1) for law in (low, fine))
        assert np.all(few >= many * 0.999)
