"""Soft weights leak nothing more than Scheme 1."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from airpool import Coin, Network, Threshold, guarantee
from airpool.protocol.device import clipped
from airpool.protocol.medium import turned
from airpool.protocol.simulation import receive
from studies.soft import attenuation, softened
from tests.random_networks import channels

R = 5
EXPONENTS = st.one_of(st.floats(0.0, 20.0), st.just(math.inf))
FREE = st.floats(0.0, 6.0)
# Scores and latents as they may come: unbounded, negative, not finite.
ANY_BITS = st.floats(allow_nan=True, allow_infinity=True, width=32)


def latents(n: int) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.float64, (1, n, R), elements=st.floats(-1e3, 1e3))


# Loudness


@given(bits=arrays(np.float64, 6, elements=ANY_BITS), exponent=EXPONENTS, free=FREE)
def test_loudness_is_between_nothing_and_all(bits, exponent, free):
    s = attenuation(bits, exponent=exponent, free_bits=free)
    assert np.all((s >= 0) & (s <= 1))


@given(bits=arrays(np.float64, 6, elements=st.floats(0.0, 6.0)), exponent=EXPONENTS, free=FREE)
def test_who_is_less_sure_is_never_louder(bits, exponent, free):
    s = attenuation(np.sort(bits), exponent=exponent, free_bits=free)
    assert np.all(np.diff(s) <= 0)


@given(z=latents(3), bits=arrays(np.float64, (1, 3), elements=ANY_BITS), exponent=EXPONENTS, free=FREE)
def test_a_latent_never_grows_in_any_coordinate(z, bits, exponent, free):
    assert np.all(np.abs(softened(z, bits, exponent=exponent, free_bits=free)) <= np.abs(z))


@given(z=latents(3), bits=arrays(np.float64, (1, 3), elements=ANY_BITS), free=FREE)
def test_exponent_zero_is_plain_scheme_1(z, bits, free):
    assert np.array_equal(softened(z, bits, exponent=0.0, free_bits=free), z)


def test_loudness_is_the_perplexity_to_a_power():
    posterior = np.array([0.5, 0.25, 0.125, 0.125])
    perplexity = float(np.prod(posterior**-posterior))
    assert float(attenuation(np.array(1.75), exponent=0.7)) == pytest.approx(perplexity**-0.7)


def test_numpy_and_torch_agree():
    bits = np.linspace(0, 5, 11)
    for exponent in (0.0, 0.5, math.inf):
        ours = attenuation(bits, exponent=exponent, free_bits=1.0)
        theirs = attenuation(torch.from_numpy(bits), exponent=exponent, free_bits=1.0)
        assert np.allclose(ours, theirs.numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"exponent": -0.5}, r"exponent=-0.5 must be >= 0"),
        ({"exponent": math.nan}, r"exponent=nan must be >= 0"),
        ({"exponent": 1.0, "free_bits": -1.0}, r"free_bits=-1.0 must be >= 0"),
        ({"exponent": 1.0, "free_bits": math.inf}, r"free_bits=inf must be >= 0 and finite"),
    ],
)
def test_a_rule_that_is_none_is_refused(given_, message):
    with pytest.raises(ValueError, match=message):
        attenuation(np.zeros(3), **given_)


def test_one_score_for_each_latent():
    with pytest.raises(ValueError, match=r"bits has shape \(3,\), must be \(1, 3\)"):
        softened(np.zeros((1, 3, R)), np.zeros(3), exponent=1.0)


# Why it costs nothing


@st.composite
def settings_of_two(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Latents and scores of three devices, and the same with one of them changed at will."""
    z, bits = draw(latents(3)), draw(arrays(np.float64, (1, 3), elements=ANY_BITS))
    other, other_bits = z.copy(), bits.copy()
    other[0, 0], other_bits[0, 0] = draw(latents(1))[0, 0], draw(ANY_BITS)
    return z, bits, other, other_bits


@given(two=settings_of_two(), exponent=EXPONENTS, free=FREE, clip_first=st.booleans())
def test_one_device_moves_the_sum_by_no_more_than_scheme_1_accounts_for(two, exponent, free, clip_first):
    z, bits, other, other_bits = two
    net = Network.uniform(num_devices=3, clip_norm=0.7, weight=0.4, noise_std=0.0, dimension=R)

    def heard(latent, score):
        latent = clipped(latent, 0.7) if clip_first else latent
        sent = softened(latent, score, exponent=exponent, free_bits=free)
        return receive(sent, net, rng=np.random.default_rng(0)).estimate[0, 0]

    hair = 1 + 1e-12
    assert np.linalg.norm(heard(z, bits) - heard(other, other_bits)) <= 2 * 0.4 * 0.7 * hair
    nothing = z.copy()
    nothing[0, 0] = 0.0  # zeroed out: whatever its score
    assert np.linalg.norm(heard(z, bits) - heard(nothing, other_bits)) <= 0.4 * 0.7 * hair


@given(channel=channels(), exponent=EXPONENTS)
def test_nothing_but_the_feature_looks_at_the_score(channel, exponent):
    """Gains, outage, participation, power and noise are the same, draw by draw, whatever the scores."""
    net = Network.uniform(num_devices=3, participation=0.6, noise_std=0.2, dimension=R, power_dbm=15.0, channel=channel)
    z = np.full((2, 3, R), 0.3)
    bits = np.array([[0.1, 2.0, 4.0], [3.0, 0.0, 1.0]])
    soft = softened(z, bits, exponent=exponent, free_bits=0.5)
    plain, softer = (receive(x, net, rng=np.random.default_rng(1), trials=4) for x in (z, soft))
    assert np.array_equal(plain.alignment, softer.alignment)
    assert np.array_equal(plain.taking_part, softer.taking_part)
    assert np.array_equal(plain.scale, softer.scale)
    across = plain.sent.quadrature
    across = np.zeros(plain.alignment.shape) if across is None else across
    heard = [plain.alignment @ (x / 3) + across @ turned(x / 3) for x in (z, soft)]
    assert plain.estimate - heard[0] == pytest.approx(softer.estimate - heard[1], abs=1e-12)


def test_the_gate_is_scheme_21_with_hidden_silence_and_no_noise_on_the_score():
    z = np.random.default_rng(0).standard_normal((4, 3, R)) / 10
    bits = np.random.default_rng(1).uniform(0, 2, (4, 3))
    scheme = Threshold(score_bound=3.0, score_noise_std=0.0, threshold=1.0)
    chosen = Network.uniform(num_devices=3, noise_std=0.2, dimension=R, scheme=scheme, cover_noise=True)
    plain = replace(chosen, scheme=Coin(), cover_noise=False)
    ours = receive(softened(z, bits, exponent=math.inf, free_bits=1.0), plain, rng=np.random.default_rng(2), trials=3)
    theirs = receive(z, chosen, rng=np.random.default_rng(2), trials=3, scores=bits)
    assert ours.estimate == pytest.approx(theirs.estimate, abs=1e-12)
    # What is heard is the same; that ε is infinite on one side is the price of letting silence be known.
    assert guarantee(plain).worst < 20
    assert guarantee(chosen).worst == math.inf
