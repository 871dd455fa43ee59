"""The channel against plain loops, and the convention for real and complex noise."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from airpool.protocol.medium import channel_uses, pack, receiver_noise, separate, superpose, unpack
from airpool.radio.fading import Fading, sample_gains
from airpool.radio.power import Transmitters, transmit


@pytest.fixture
def sent():
    """Signals, gains and noise of 4 inferences, 3 devices, 5 coordinates."""
    rng = np.random.default_rng(1)
    return rng.standard_normal((4, 3, 5)), rng.exponential(size=(4, 3)), rng.standard_normal((4, 5))


def test_superposition_is_a_plain_sum_with_noise_once(sent):
    x, h, m = sent
    y = superpose(x, h, m)
    for b, i in product(range(4), range(5)):
        expected = m[b, i]
        for k in range(3):
            expected += h[b, k] * x[b, k, i]
        assert y[b, i] == pytest.approx(expected, rel=1e-12)


def test_orthogonal_access_hears_each_device_alone_with_its_own_noise(sent):
    x, h, _ = sent
    m = np.random.default_rng(2).standard_normal(x.shape)
    y = separate(x, h, m)
    for b, k, i in product(range(4), range(3), range(5)):
        assert y[b, k, i] == pytest.approx(h[b, k] * x[b, k, i] + m[b, k, i], rel=1e-12)


def test_the_sum_of_separate_receptions_carries_the_noise_of_every_device(sent):
    x, h, _ = sent
    np.testing.assert_allclose(separate(x, h).sum(axis=-2), superpose(x, h), rtol=1e-12)
    trials, rng = 20_000, np.random.default_rng(3)
    silent, gain = np.zeros((trials, 3, 1)), np.ones((trials, 3))
    once = superpose(silent, gain, receiver_noise((trials, 1), rng, noise_std=0.5))
    each = separate(silent, gain, receiver_noise((trials, 3, 1), rng, noise_std=0.5)).sum(axis=-2)
    error = 4 * (2 / trials) ** 0.5
    assert np.var(once) == pytest.approx(0.25, rel=error)
    assert np.var(each) == pytest.approx(3 * 0.25, rel=error)


def test_numpy_and_torch_agree(sent):
    x, h, m = sent
    tx, th, tm = (torch.from_numpy(a) for a in sent)
    np.testing.assert_allclose(superpose(tx, th, tm).numpy(), superpose(x, h, m), rtol=1e-12)
    np.testing.assert_allclose(separate(tx, th, tx).numpy(), separate(x, h, x), rtol=1e-12)
    np.testing.assert_array_equal(pack(tx).numpy(), pack(x))
    np.testing.assert_array_equal(unpack(pack(tx), 5).numpy(), x)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_agrees_with_numpy(sent):
    x, h, m = sent
    tx, th, tm = (torch.from_numpy(a).cuda() for a in sent)
    np.testing.assert_allclose(superpose(tx, th, tm).cpu().numpy(), superpose(x, h, m), rtol=1e-12)
    np.testing.assert_array_equal(unpack(pack(tx), 5).cpu().numpy(), x)
    noise = receiver_noise((1000,), torch.Generator("cuda").manual_seed(0), noise_std=2.0)
    assert noise.device.type == "cuda"
    assert float(noise.std()) == pytest.approx(2.0, rel=0.1)


def test_what_arrives_is_the_alignment_times_what_was_meant(sent):
    """Σ h·x + m, divided by γ, is Σ g·z̃ + m/γ."""
    z, h, m = sent
    devices = Transmitters.of(weight=1, clip_norm=1.0, noise_std=0.3, power_dbm=[3.0] * 3, dimension=5)
    for rule in ("truncate", "backoff"):
        done = transmit(devices, h, gamma=0.7, rule=rule)
        received = superpose(done.scale[..., None] * z, h, m)
        np.testing.assert_allclose(received / 0.7, superpose(z, done.alignment, m / 0.7), rtol=1e-10)


# --- real and complex ---


@given(
    reals=st.tuples(st.integers(1, 3), st.integers(1, 9)).flatmap(
        lambda shape: arrays(np.float64, shape, elements=st.floats(-1e6, 1e6))
    )
)
def test_unpacking_inverts_packing_and_keeps_the_energy(reals):
    r = reals.shape[-1]
    symbols = pack(reals)
    assert symbols.shape[-1] == channel_uses(r) == -(-r // 2)
    np.testing.assert_array_equal(unpack(symbols, r), reals)
    np.testing.assert_allclose(np.sum(np.abs(symbols) ** 2), np.sum(reals**2), rtol=1e-12)


def test_complex_noise_has_twice_the_variance_of_a_real_coordinate():
    r = 40_000
    noise = receiver_noise((r,), np.random.default_rng(4), noise_std=0.3)
    symbols = pack(noise)
    error = 4 * (2 / r) ** 0.5
    assert np.var(noise) == pytest.approx(0.09, rel=error)
    assert np.mean(np.abs(symbols) ** 2) == pytest.approx(2 * 0.09, rel=error)
    assert np.var(symbols.real) == pytest.approx(0.09, rel=error * 2**0.5)


def test_packed_signals_superpose_to_the_packed_sum(sent):
    x, h, m = sent
    y = superpose(pack(x), h + 0j, pack(m))
    np.testing.assert_allclose(unpack(y, 5), superpose(x, h, m), rtol=1e-12)


def test_with_a_phase_error_packed_coordinates_disturb_each_other(sent):
    """Why csi.py speaks of one coordinate in each channel use: sin φ of the partner is heard as well."""
    x, h, _ = sent
    turned = unpack(superpose(pack(x), h * np.exp(0.3j)), 5)
    even, odd = superpose(x, h)[..., 0], superpose(x, h)[..., 1]
    np.testing.assert_allclose(turned[..., 0], np.cos(0.3) * even - np.sin(0.3) * odd, rtol=1e-10)


def test_single_precision_stays_single():
    reals = np.ones((2, 3), dtype=np.float32)
    assert pack(reals).dtype == np.complex64
    assert pack(torch.ones(2, 3)).dtype == torch.complex64
    rng = torch.Generator().manual_seed(0)
    gain = sample_gains(Fading("rician"), (2, 1), rng)
    assert superpose(torch.ones(2, 1, 3), gain, receiver_noise((2, 3), rng, noise_std=1.0)).dtype == torch.float32


def test_channel_uses_are_counted():
    assert channel_uses(64) == 32
    assert channel_uses(65, num_devices=12) == 12 * 33


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: superpose(np.ones(3), np.ones(3)), r"signals has shape \(3,\), must be \(..., devices, coordinates\)"),
        (lambda: superpose(np.ones((2, 3)), np.ones(3)), r"gain has shape \(3,\), must be \(2\)"),
        (lambda: superpose(np.ones((2, 3)), np.ones(2), np.ones(2)), r"noise has shape \(2,\), must be \(3\)"),
        (lambda: separate(np.ones((2, 3)), np.ones(2), np.ones(3)), r"noise has shape \(3,\), must be \(2, 3\)"),
        (lambda: receiver_noise((2,), np.random.default_rng(0), noise_std=-1.0), r"noise_std=-1 must be >= 0"),
        (lambda: receiver_noise((2,), np.random.default_rng(0), noise_std=np.nan), r"noise_std=nan must be >= 0"),
        (lambda: unpack(np.ones(2) + 0j, 5), r"dimension=5 must be the number of reals in 2 symbols"),
        (lambda: channel_uses(0), r"dimension=0 must be a whole number >= 1"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
