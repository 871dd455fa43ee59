"""How loud and how noisy the estimate is: what a server may know beforehand, against what it then hears."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from airpool.network import Channel, Devices, Network, Threshold
from airpool.protocol.simulation import receive
from airpool.radio.link import level
from tests.random_networks import channels, stds

SIGMAS = 4.5
TRIALS = 4000
R = 8


@st.composite
def networks(draw: st.DrawFn) -> Network:
    count = draw(st.integers(1, 5))

    def column(low: float, high: float) -> list[float]:
        return draw(st.lists(st.floats(low, high), min_size=count, max_size=count))

    devices = Devices(
        count=count,
        weight=tuple(column(0.1, 1.0)),
        clip_norm=tuple(column(0.3, 2.0)),
        noise_std=tuple(draw(st.lists(stds(0.5), min_size=count, max_size=count))),
        participation=tuple(column(0.1, 1.0)),
        power_dbm=tuple(column(20.0, 30.0)),
    )
    return Network(devices=devices, channel=draw(channels()), dimension=R, cover_noise=draw(st.booleans()))


def heard(network: Network, *, path: Any = "fast") -> np.ndarray:
    """Estimates (TRIALS, R) where every device sends the same direction, the first axis, as long as it may."""
    latents = np.zeros((1, network.devices.count, R))
    latents[0, :, 0] = 10.0  # clipped to each device's own norm
    return receive(latents, network, rng=np.random.default_rng(0), trials=TRIALS, path=path).estimate[0]


def agrees(values: np.ndarray, expected: float) -> bool:
    """Whether the mean of a sample may well be this."""
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    return abs(float(values.mean()) - expected) <= SIGMAS * error + 1e-9


TOO_WEAK = Network.uniform(
    num_devices=3,
    noise_std=0.1,
    participation=0.7,
    dimension=R,
    channel=Channel("rayleigh", noise_std=3.0, access="orthogonal", power_rule="backoff", outage=0.5),
)


@settings(max_examples=30)
@given(network=networks())
@example(network=TOO_WEAK)  # heard, if softly: its receiver's noise counts in full
@example(network=replace(TOO_WEAK, channel=replace(TOO_WEAK.channel, power_rule="truncate", csi_error_std=0.3)))
def test_signal_and_noise_are_those_of_what_is_received(network):
    known, estimate = level(network), heard(network)
    assert agrees(estimate[:, 0], known.signal)
    # All latents lie along the first axis, so that beyond its symbol there is noise alone.
    assert agrees(np.mean(estimate[:, 2:] ** 2, axis=1), known.noise_std**2)


@pytest.mark.parametrize("cover_noise", [False, True])
def test_the_devices_own_way_through_the_air_has_the_same_level(cover_noise):
    channel = Channel("rician", noise_std=1.0, outage=0.2, phase_error_std=0.3)
    network = Network.uniform(
        num_devices=3, noise_std=0.2, participation=0.6, dimension=R, channel=channel, cover_noise=cover_noise
    )
    known, estimate = level(network), heard(network, path="full")
    assert agrees(estimate[:, 0], known.signal)
    assert agrees(np.mean(estimate[:, 2:] ** 2, axis=1), known.noise_std**2)


@given(network=networks(), factor=st.floats(0.1, 10))
def test_weights_and_noises_that_grow_together_scale_all_of_the_estimate(network, factor):
    quiet = replace(network, channel=replace(network.channel, noise_std=0.0))
    assume(max(network.devices.column("noise_std")) > 1e-3)
    d = quiet.devices
    louder = replace(d, **{name: tuple(factor * x for x in d.column(name)) for name in ("weight", "noise_std")})
    # γ is chosen for the power there is, so that outage and alignment stay as they are.
    one, other = level(quiet), level(replace(quiet, devices=louder))
    assert other.signal == pytest.approx(factor * one.signal, rel=1e-6)
    assert other.noise_std == pytest.approx(factor * one.noise_std, rel=1e-6)


def test_where_nobody_takes_part_there_is_the_receivers_noise_alone():
    net = Network.uniform(num_devices=3, participation=0.0, dimension=R, channel=Channel(noise_std=2.0, gamma=4.0))
    assert (level(net).signal, level(net).noise_std) == (0.0, 0.5)
    apart = replace(net, channel=replace(net.channel, access="orthogonal"))
    assert level(apart).noise_std == 0.0  # nobody is listened to


def test_whom_scores_choose_is_not_known_beforehand():
    net = Network.uniform(num_devices=3, dimension=R, scheme=Threshold())
    with pytest.raises(ValueError, match=r"scheme 2.1 needs participation"):
        level(net)
