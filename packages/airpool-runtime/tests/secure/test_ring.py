"""The grid, its integers, and the word that the sum fits into."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airpool import Network
from airpool.network import Devices, NetworkError
from airpool.privacy.noise import grid_of, live_noise, to_grid
from airpool.protocol.ring import MOST_WRAPS, Ring, ring_of, wrap_probability


def network(std: float | tuple[float, ...] = 0.05, count=12, **more):
    return Network(devices=Devices(count=count, noise_std=std, **more), dimension=40)


@given(st.integers(2, 64), st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=9))
def test_a_sum_of_residues_is_the_residue_of_the_sum(bits, values):
    ring = Ring(1.0, bits)
    each = [np.array([value % 2**64], dtype=np.uint64) for value in values]
    total = ring.integers(ring.total(ring.reduced(one) for one in each))
    assert (int(total[0]) - sum(values)) % 2**bits == 0
    assert -(2 ** (bits - 1)) <= total[0] < 2 ** (bits - 1)


@pytest.mark.parametrize("bits", [2, 17, 32, 40, 64])
def test_residues_travel_as_bytes(bits):
    ring = Ring(0.5, bits)
    residues = ring.reduced(np.random.default_rng(0).integers(0, 2**64, 50, dtype=np.uint64))
    assert np.array_equal(ring.from_bytes(ring.to_bytes(residues)), residues)
    assert len(ring.to_bytes(residues)) == 50 * (4 if bits <= 32 else 8)


def test_what_a_live_device_sends_is_encoded_without_rounding():
    net = network(std=(0.05, 0.7), count=2)
    ring = ring_of(net)
    for std in (0.05, 0.7):
        feature = to_grid(np.random.default_rng(1).uniform(-1, 1, 40), grid_of(std).step, 1.0)
        sent = feature + live_noise(std, 40)
        assert np.array_equal(ring.decode(ring.encode(sent)), sent)


@given(st.floats(1e-3, 1e3), st.integers(2, 200), st.floats(1e-3, 1e3))
def test_the_word_is_the_smallest_in_which_the_sum_wraps_next_to_never(std, count, clip_norm):
    net = network(std, count, clip_norm=clip_norm)
    ring = ring_of(net)
    assert ring.step == grid_of(std).step
    assert wrap_probability(net, ring) < MOST_WRAPS
    assert ring.bits == 32 or wrap_probability(net, Ring(ring.step, 32)) >= MOST_WRAPS


def test_the_grid_is_the_finest_of_all_devices():
    assert ring_of(network(std=(0.001, 50.0), count=2)).step == grid_of(0.001).step
    assert ring_of(network(std=(0.001, 50.0), count=2)).bits == 64


def test_a_bound_on_wrap_around_is_one():
    net = network(std=0.05)
    tight = Ring(grid_of(0.05).step, 24)
    reach = tight.step * (2**23 - 1) - 1.0
    bound = wrap_probability(net, tight)
    assert bound == min(1.0, 2 * 40 * math.exp(-(reach**2) / (2 * 12 * grid_of(0.05).sampled_std ** 2)))
    drawn = sum(live_noise(0.05, (2000, 40)) for _ in range(12))
    assert np.mean(np.any(np.abs(drawn) > reach, axis=1)) <= bound


def test_features_too_large_for_any_word_are_an_error():
    with pytest.raises(NetworkError, match="does not fit 64 bits"):
        ring_of(network(std=1e-12, clip_norm=1e9))


def test_a_network_without_noise_has_a_grid_too():
    assert ring_of(network(std=0.0)).bits == 32


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_encoding_never_raises_on_values(value):
    assert Ring(1.0, 32).encode([value]).shape == (1,)
