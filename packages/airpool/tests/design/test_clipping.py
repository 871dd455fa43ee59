"""Clip norms under per-device targets: as large as they may be, at a noise that serves both kinds of device."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airpool.account.calibration import calibrate
from airpool.account.guarantee import guarantee
from airpool.evaluation.design import weights
from airpool.evaluation.design.clipping import design, largest_clip_norm
from airpool.network import Channel, Claim, Devices, Neighbours, Network

R = 6


def some_latents(count: int = 4, *, full: bool = True) -> np.ndarray:
    rng = np.random.default_rng(0)
    z = rng.standard_normal((8, 1, R)) + rng.standard_normal((8, count, R)) / 3
    return z / np.linalg.norm(z, axis=-1, keepdims=True) if full else z / 3


def noisy(**given) -> Network:
    return Network.uniform(**{"num_devices": 4, "noise_std": 0.3, "dimension": R} | given)


@settings(max_examples=3, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    channel=st.sampled_from([Channel(), Channel(gamma=2.0), Channel("rician", noise_std=0.3, outage=0.1)]),
    full=st.booleans(),
)
def test_every_design_keeps_every_promise_and_clips_no_less_than_before(seed, channel, full):
    rng = np.random.default_rng(seed)
    devices = Devices(
        3,
        weight=tuple(rng.uniform(0.1, 0.5, 3)),
        noise_std=tuple(rng.uniform(0.1, 0.6, 3)),
        participation=tuple(rng.uniform(0.5, 1, 3)),
    )
    target = rng.uniform(0.5, 8, 3)
    net = Network(devices, channel=channel, dimension=R)
    found = design(net, some_latents(3, full=full), epsilon=target.tolist())
    assert np.all(guarantee(found.network).epsilon <= target)
    assert np.all(np.array(found.network.devices.clip_norm) <= 1.0)
    assert found.network.devices.weight == net.devices.weight
    assert found.network.devices.noise_std == pytest.approx(found.noise_factor * np.array(net.devices.noise_std))


def test_the_largest_clip_norm_is_what_calibrate_finds():
    net, target = noisy(num_devices=2, participation=0.8), [0.5, 3.0]
    found = calibrate(net, epsilon=target, adjust="clip").devices.column("clip_norm")
    assert largest_clip_norm(net, Claim(), target) == pytest.approx(found, rel=1e-7)
    silent = replace(net, devices=replace(net.devices, weight=(0.0, 1.0)))
    assert np.isinf(largest_clip_norm(silent, Claim(), target)).tolist() == [True, False]


def test_no_other_noise_is_better():
    z, target = some_latents(), [0.5, 0.5, 6.0, 6.0]
    found = design(noisy(), z, epsilon=target)
    std = np.array(noisy().devices.noise_std)
    for factor in found.noise_factor * np.array([0.5, 0.9, 1.1, 5.0]):
        other = replace(noisy(), devices=replace(noisy().devices, noise_std=tuple(std * factor)))
        clip = np.minimum(1.0, largest_clip_norm(other, Claim(), target))
        other = replace(other, devices=replace(other.devices, clip_norm=tuple(clip)))
        assert weights.scaled_error(z, other) >= found.mse * (1 - 1e-6)


def test_equal_targets_leave_the_clip_norms_alone_and_find_calibrates_noise():
    found = design(noisy(), some_latents(), epsilon=2.0)
    assert found.network.devices.clip_norm == pytest.approx((1.0,) * 4, rel=1e-9)
    assert found.network.devices.noise_std == pytest.approx(calibrate(noisy(), epsilon=2.0).devices.noise_std, rel=1e-6)


def test_clipping_full_latents_is_weighting_them():
    z, target = some_latents(), [0.5, 0.5, 6.0, 6.0]
    by_clip, by_weight = (
        design(noisy(), z, epsilon=target),
        weights.design(noisy(), z, epsilon=target, normalise="free"),
    )
    assert by_weight.mse <= by_clip.mse * (1 + 1e-6)
    assert by_clip.mse == pytest.approx(by_weight.mse, rel=0.02)


def test_a_design_meets_its_targets_with_the_noise_that_runs():
    net, live = noisy(channel=Channel(fading="rician", power_rule="backoff")), Claim(live=True)
    found = design(net, some_latents(), live, epsilon=[1.0, 1.0, 4.0, 8.0])
    spent = guarantee(found.network, live).epsilon
    assert np.all(spent <= [1.0, 1.0, 4.0, 8.0])
    assert np.array_equal(found.epsilon, spent)
    simulated = design(net, some_latents(), epsilon=[1.0, 1.0, 4.0, 8.0]).network
    assert np.any(guarantee(simulated, live).epsilon > [1.0, 1.0, 4.0, 8.0])


@pytest.mark.parametrize(
    ("network", "claim", "epsilon", "message"),
    [
        (noisy(noise_std=0.0), Claim(), 2.0, "noise_std is 0 everywhere"),
        (noisy(), Claim(), [1.0, 2.0], "epsilon has 2 values for 4 devices"),
        (noisy(), Claim(), -1.0, "epsilon=-1 must be > 0"),
        (noisy(), Claim(neighbours=Neighbours.REMOVE), 1e-3, "the smallest ε that can is"),
    ],
)
def test_what_cannot_be_met_is_refused(network, claim, epsilon, message):
    with pytest.raises(ValueError, match=message):
        design(network, some_latents(), claim, epsilon=epsilon)
