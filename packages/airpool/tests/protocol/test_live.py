"""A device that is really on the air: the right law, within its power, silent where it must be, and never seeded."""

import inspect
import math
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from airpool._support.arrays import Floats
from airpool.network import Channel, Claim, Devices, Network, Ranking, Threshold
from airpool.privacy.noise import grid_of
from airpool.protocol import live as transmission
from airpool.protocol.alone import Signal
from airpool.protocol.live import OperatingSystem, noisy_score, signal
from airpool.radio.link import link_of

SIGMAS = 4.5
LEAST_P = 1e-3
R = 16


@pytest.fixture
def the_same_entropy_in_every_run(monkeypatch):
    """Statistics need a fixed seed: the operating system's entropy is all that there is to replace."""
    monkeypatch.setattr(os, "urandom", np.random.default_rng(0).bytes)


def three_devices(channel: dict[str, Any] | None = None, **changed: Any) -> Network:
    fading: dict[str, Any] = {"fading": "rician"}
    given: dict[str, Any] = {
        "num_devices": 3,
        "noise_std": (0.1, 0.05, 0.2),
        "weight": (0.5, 0.3, 0.2),
        "clip_norm": (1.0, 2.0, 0.5),
        "dimension": R,
        "channel": Channel(**(fading | (channel or {}))),
    }
    return Network.uniform(**(given | changed))


@contextmanager
def without_noise() -> Iterator[None]:
    """What is sent besides the noise."""

    def nothing(noise_std: float, size: tuple[int, ...]) -> Floats:
        return np.zeros(size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transmission, "live_noise", nothing)
        yield


# --- no seed anywhere ---


def test_nothing_in_the_module_takes_a_generator_or_a_seed():
    names = [
        parameter
        for function in vars(transmission).values()
        if inspect.isfunction(function) and function.__module__ == transmission.__name__
        for parameter in inspect.signature(function).parameters
    ]
    assert {"latent", "network", "device", "gain"} <= set(names)
    assert not [name for name in names if any(word in name.lower() for word in ("rng", "seed", "generator", "random"))]
    source = inspect.getsource(transmission)
    for word in ("default_rng", "np.random", "import random", "simulated_noise", "torch"):
        assert word not in source


def test_the_source_of_a_live_device_takes_nothing():
    assert not inspect.signature(OperatingSystem).parameters


def test_seeding_everything_that_can_be_seeded_changes_nothing():
    network = three_devices()
    sent = []
    for _ in range(2):
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        sent.append(signal(np.zeros(R), network, device=0, gain=1.0).samples)
    assert not np.any(sent[0] == sent[1])


def test_a_signal_tells_nothing_but_itself():
    assert is_dataclass(Signal)
    assert {field.name for field in fields(Signal)} == {"samples", "scale", "report"}


# --- the law ---


@pytest.mark.parametrize("cover_noise", [False, True])
@pytest.mark.parametrize("participation", [1.0, 0.6])
@pytest.mark.usefixtures("the_same_entropy_in_every_run")
def test_signals_add_up_to_the_sum_of_the_spec(cover_noise, participation):
    """Σ h x / γ has mean Σ p w z and the variance of coin and noise, as the simulation has it."""
    network = three_devices(participation=participation, cover_noise=cover_noise)
    link, runs = link_of(network), 800
    z = np.random.default_rng(1).standard_normal((3, R)) / math.sqrt(R)
    z *= 0.4 / np.linalg.norm(z, axis=1, keepdims=True)
    gains = (1.0, 0.8, 1.3)
    total = np.zeros((runs, R))
    for k, h in enumerate(gains):
        total += [h * signal(z[k], network, device=k, gain=h).samples / link.gamma for _ in range(runs)]
    d, p = network.devices, participation
    std = np.array([grid_of(s).sampled_std for s in d.column("noise_std")])
    weighted = np.array(d.column("weight"))[:, None] * z
    noisy = 1.0 if cover_noise else p
    variance = (noisy * std**2).sum() + p * (1 - p) * (weighted**2).sum(axis=0)
    mean = p * weighted.sum(axis=0)
    np.testing.assert_array_less(np.abs(total.mean(axis=0) - mean), SIGMAS * np.sqrt(variance / runs))
    # A mixture's kurtosis is above a Gaussian's 3; 8 is above that of any case here.
    np.testing.assert_allclose(total.var(axis=0).mean(), variance.mean(), rtol=SIGMAS * math.sqrt(7 / (runs * R)))
    if participation == 1:
        u = (total - mean) / np.sqrt((std**2).sum())
        assert stats.kstest(u.ravel(), "norm").pvalue > LEAST_P


@pytest.mark.usefixtures("the_same_entropy_in_every_run")
def test_devices_take_part_as_often_as_they_should():
    network = three_devices(participation=0.3)
    sends = [signal(np.ones(R), network, device=1, gain=1.0).sends for _ in range(2_000)]
    assert abs(np.mean(sends) - 0.3) < SIGMAS * math.sqrt(0.3 * 0.7 / 2_000)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_never_is_never_and_always_is_always(p):
    network = three_devices(participation=p)
    assert {signal(np.ones(R), network, device=0, gain=1.0).sends for _ in range(300)} == {p == 1}


@given(
    latent=arrays(np.float64, R, elements=st.floats(allow_nan=True, allow_infinity=True)),
    weight=st.floats(0, 10),
    clip_norm=st.floats(1e-3, 1e3),
)
def test_no_feature_is_ever_longer_than_its_clip_norm_nor_makes_the_device_fail(latent, weight, clip_norm):
    network = three_devices({"gamma": 1e-3}, weight=weight, clip_norm=clip_norm, power_dbm=90.0)
    with without_noise():
        sent = signal(latent, network, device=0, gain=1e-3)
    # γ/h = 1: the samples are w z on the grid.
    square = sum((Fraction(float(x)) ** 2 for x in sent.samples), Fraction(0))
    assert square <= (Fraction(weight) * Fraction(clip_norm) * Fraction(1 + 2**-50)) ** 2
    if not np.isfinite(latent).all():
        assert not sent.samples.any()


def test_what_is_sent_besides_noise_is_the_weighted_latent_on_the_grid():
    network = three_devices({"gamma": 1.0})
    z = 0.1 * np.random.default_rng(2).standard_normal(R)
    with without_noise():
        sent = signal(z, network, device=0, gain=2.0)
    step = grid_of(0.1).step
    np.testing.assert_allclose(2.0 * sent.samples, 0.5 * z, atol=step)
    assert not np.any((2.0 * sent.samples) % step)


# --- power and silence ---


@pytest.mark.usefixtures("the_same_entropy_in_every_run")
def test_the_device_inverts_its_channel_and_accounts_for_its_power():
    network = three_devices({"gamma": 2.0})
    sent = signal(np.zeros(R), network, device=0, gain=0.5)
    assert sent.sends
    assert sent.power == pytest.approx(float(np.sum(sent.samples**2)))
    powers = [signal(np.zeros(R), network, device=0, gain=0.5).power for _ in range(300)]
    # (γ/h)²·σ²·χ²_r, whose relative variance is 2/r.
    assert np.mean(powers) == pytest.approx(16 * R * 0.1**2, rel=SIGMAS * math.sqrt(2 / R / 300) + 1e-3)


@pytest.mark.parametrize("cover_noise", [False, True])
def test_a_device_whose_channel_is_too_weak_is_silent_to_the_last_bit(cover_noise):
    network = three_devices(cover_noise=cover_noise)
    link = link_of(network)
    weakest = link.gamma / link.transmitters.reach[0]
    for gain in (0.0, 1e-12, weakest * 0.999):
        sent = signal(-np.ones(R), network, device=0, gain=gain)
        assert not sent.sends
        assert sent.power == 0
        # Not even the sign of a zero tells.
        assert sent.samples.tobytes() == bytes(8 * R)
    assert signal(-np.ones(R), network, device=0, gain=weakest * 1.001).sends


def test_a_silent_device_sends_the_same_bits_whatever_it_sees():
    network = three_devices(participation=0.0)
    assert signal(-np.ones(R), network, device=0, gain=1.0).samples.tobytes() == bytes(8 * R)


@pytest.mark.parametrize("rule", ["truncate", "backoff"])
@pytest.mark.usefixtures("the_same_entropy_in_every_run")
def test_power_stays_within_the_limit(rule):
    network = three_devices({"gamma": 3.0, "power_rule": rule}, power_dbm=10.0)
    link = link_of(network)
    gains = stats.rice.rvs(2.45, scale=1 / math.sqrt(8), size=400, random_state=3)
    sent = [signal(np.ones(R), network, device=0, gain=float(h)) for h in gains]
    above = sum(x.power > 10.0 * (1 + 1e-9) for x in sent)
    assert any(x.sends for x in sent)
    # A device exactly at its limit exceeds it once in 1,000 at most.
    assert above <= stats.binom.isf(1e-4, 400, 1e-3)
    limited = [h < link.gamma / link.transmitters.reach[0] for h in gains]
    assert 0.1 < np.mean(limited) < 0.9
    if rule == "truncate":
        assert [x.sends for x in sent] == [not weak for weak in limited]
    else:
        assert all(x.sends for x in sent)


# --- bad input ---


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"device": 3}, "device=3 must be from 0 to 2"),
        ({"device": -1}, "device=-1 must be from 0 to 2"),
        ({"latent": np.zeros(R + 1)}, r"latent has shape \(17,\), must be \(16,\)"),
        ({"latent": np.zeros((1, R))}, r"latent has shape \(1, 16\), must be \(16,\)"),
        ({"gain": -1.0}, "gain=-1.0 must be >= 0 and finite"),
        ({"gain": math.nan}, "gain=nan must be >= 0 and finite"),
        ({"gain": math.inf}, "gain=inf must be >= 0 and finite"),
        ({"network": three_devices({"power_rule": "paper"})}, "power_rule='paper' must not go on the air"),
        ({"network": three_devices(noise_std=0.0)}, r"noise_std\[0\]=0 must be > 0"),
    ],
)
def test_bad_input_is_named(change, message):
    given: dict[str, Any] = {"latent": np.zeros(R), "network": three_devices(), "device": 0, "gain": 1.0}
    with pytest.raises(ValueError, match=message):
        signal(**(given | change))


# --- going live ---


def test_noise_too_unlike_for_one_grid_is_refused():
    """σ = (1, 1e8): the sum modulo the coarse step would give device 0's signal away."""
    devices = Devices(count=2, weight=1.0, noise_std=(1.0, 1e8))
    network = Network(devices=devices, dimension=4, channel=Channel(gamma=1e-9))
    for device in (0, 1):
        with pytest.raises(ValueError, match=r"noise_std from 1 to 1e\+08 must lie within a factor of 1e5"):
            signal(np.ones(4), network, device=device, gain=1.0)


def test_a_delta_below_what_the_sampler_supports_is_refused():
    with pytest.raises(ValueError, match="delta=1e-80 must be >= "):
        signal(np.zeros(R), three_devices(), Claim(delta=1e-80), device=0, gain=1.0)


def test_what_is_sent_carries_the_live_report_of_its_network():
    network = three_devices()
    sent = signal(np.zeros(R), network, device=0, gain=1.0)
    assert sent.report is not None
    assert sent.report.claim.live
    assert sent.report.network == network


@given(
    arrays(np.float64, R, elements=st.floats(width=64) | st.sampled_from([5e-324, -5e-324, 1e308, math.nan, math.inf])),
    st.floats(width=64),
)
def test_no_feature_and_no_score_raises_however_strict_the_arithmetic(latent, score):
    scored = replace(three_devices(), scheme=Threshold())
    ranked = replace(three_devices(), scheme=Ranking(num_selected=2))
    with np.errstate(all="raise"):
        signal(latent, three_devices(), device=0, gain=1.0)
        signal(latent, scored, device=1, gain=1.0, score=score)
        noisy_score(score, ranked)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"network": "net.toml"}, "network is of type str, must be a Network"),
        ({"device": 1.0}, "device=1.0 must be a whole number"),
        ({"device": True}, "device=True must be a whole number"),
        ({"latent": np.ones(R) * 1j}, "latent is complex, must be real"),
    ],
)
def test_wrong_types_are_named(change, message):
    given: dict[str, Any] = {"latent": np.zeros(R), "network": three_devices(), "device": 0, "gain": 1.0} | change
    with pytest.raises(TypeError, match=message):
        signal(given.pop("latent"), given.pop("network"), **given)


def test_nobody_can_change_the_report_that_signals_share():
    sent = signal(np.zeros(R), three_devices(), device=0, gain=1.0)
    assert sent.report is not None
    with pytest.raises(ValueError, match="read-only"):
        sent.report.epsilon[:] = 0.0
