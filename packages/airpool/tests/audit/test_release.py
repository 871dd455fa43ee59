"""The reference transmission against plain loops, its moments and its own likelihood."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from airpool.evaluation.audit.release import Observed, log_likelihood, log_likelihood_ratio, release, worst_pair
from tests.plain_air import clipped, received, simulated, without

MIXED = release(
    3,
    weight=[0.5, 0.3, 0.2],
    clip_norm=[1.0, 2.0, 0.5],
    noise_std=[0.4, 0.1, 0.3],
    participation=[0.9, 0.5, 0.7],
    receiver_noise_std=0.2,
)
FEATURES = np.array([[3.0, 4.0], [0.5, -0.5], [0.0, 0.2]])


@given(
    arrays(np.float64, (4, 5), elements=st.floats(allow_nan=True, allow_infinity=True)),
    st.floats(1e-6, 1e6),
)
def test_a_clipped_latent_never_exceeds_its_norm_whatever_comes_in(latents, clip_norm):
    out = clipped(latents, np.full(4, clip_norm))
    assert np.isfinite(out).all()
    assert (np.linalg.norm(out, axis=1) <= clip_norm).all()


def test_clipping_keeps_the_direction_and_leaves_short_latents_alone():
    latents = np.array([[3.0, 4.0], [0.3, 0.4], [1e200, 0.0], [0.0, 0.0]])
    out = clipped(latents, np.ones(4))
    assert out[0] == pytest.approx([0.6, 0.8], rel=1e-8)
    assert (out[1] == latents[1]).all()
    assert out[2] == pytest.approx([1.0, 0.0], rel=1e-8)
    assert (out[3] == 0).all()


def test_one_bad_coordinate_turns_a_latent_into_zero():
    out = clipped(np.array([[1.0, np.nan], [np.inf, 0.0], [0.1, 0.2]]), np.ones(3))
    assert (out[:2] == 0).all()
    assert (out[2] == [0.1, 0.2]).all()


@pytest.mark.parametrize("cover_noise", [False, True])
def test_the_sum_equals_a_plain_loop_over_runs_and_devices(cover_noise):
    devices = replace(MIXED, cover_noise=cover_noise, colluders=(1,))
    seeds = [11, 12, 13]
    seen = received(
        devices,
        FEATURES,
        7,
        rngs=[np.random.default_rng(s) for s in seeds],
        receiver_rng=np.random.default_rng(14),
    )
    total = np.zeros((7, 2))
    for k, seed in enumerate(seeds):
        rng = np.random.default_rng(seed)
        length = np.hypot(*FEATURES[k])
        z = FEATURES[k] * min(1.0, devices.clip_norm[k] / length)
        takes_part = [rng.random() < devices.participation[k] for _ in range(7)]
        for run in range(7):
            noise = [devices.noise_std[k] * rng.standard_normal() for _ in range(2)]
            sent = np.zeros(2)
            if takes_part[run]:
                sent = devices.weight[k] * z + noise
            elif cover_noise:
                sent = np.array(noise)
            total[run] += sent
            if k == 1:
                assert seen.sent is not None
                assert seen.sent[run, 0] == pytest.approx(sent, abs=1e-8)
        if seen.participation is not None:
            assert seen.participation[:, k].tolist() == takes_part
    total += 0.2 * np.random.default_rng(14).standard_normal((7, 2))
    assert (seen.participation is None) == cover_noise
    assert seen.total == pytest.approx(total, abs=1e-8)


@pytest.mark.parametrize("cover_noise", [False, True])
def test_mean_and_variance_of_the_sum_are_those_of_the_law(cover_noise):
    n = 200_000
    devices = replace(MIXED, cover_noise=cover_noise)
    y = simulated(devices, FEATURES, n, np.random.default_rng(1)).total
    p, sent_var = devices.participation[:, None], devices.noise_std[:, None] ** 2
    signal = devices.weight[:, None] * clipped(FEATURES, devices.clip_norm)
    mean = (p * signal).sum(axis=0)
    noise_var = (sent_var if cover_noise else p * sent_var).sum() + 0.2**2
    var = (p * (1 - p) * signal**2).sum(axis=0) + noise_var
    # Five standard errors; the sum is lighter-tailed than a Gaussian of twice its variance.
    assert y.mean(axis=0) == pytest.approx(mean, abs=5 * np.sqrt(var.max() / n))
    assert y.var(axis=0) == pytest.approx(var, rel=5 * np.sqrt(2 * 2 / n))


def test_devices_draw_independent_noise_and_runs_do_too():
    n = 100_000
    devices = release(2, clip_norm=1.0, noise_std=1.0, colluders=(0, 1))
    sent = simulated(devices, np.zeros((2, 1)), n, np.random.default_rng(2)).sent
    assert sent is not None
    first, second = sent[:, 0, 0], sent[:, 1, 0]
    # The mean of a product of independent standard normals has standard error 1/√n.
    assert abs(np.mean(first * second)) < 5 / np.sqrt(n)
    assert abs(np.mean(first[1:] * first[:-1])) < 5 / np.sqrt(n)


def test_everybody_silent_means_nothing_is_heard_unless_noise_covers_it():
    silent = release(3, clip_norm=1.0, noise_std=1.0, participation=0.0)
    assert not simulated(silent, np.ones((3, 4)), 5, np.random.default_rng(3)).total.any()
    covered = replace(silent, cover_noise=True)
    assert simulated(covered, np.ones((3, 4)), 5, np.random.default_rng(3)).total.all()


def test_the_likelihood_with_visible_participation_is_that_of_scipy():
    seen = simulated(MIXED, FEATURES, 20, np.random.default_rng(4))
    assert seen.participation is not None
    expected = [_density(MIXED, tau, y) for tau, y in zip(seen.participation, seen.total, strict=True)]
    assert log_likelihood(seen, MIXED, FEATURES) == pytest.approx(np.log(expected))


def test_the_likelihood_under_cover_noise_is_the_mixture_over_all_patterns_of_silence():
    devices = replace(MIXED, cover_noise=True)
    seen = simulated(devices, FEATURES, 20, np.random.default_rng(5))
    patterns = [np.array(tau) for tau in product([False, True], repeat=3)]
    expected = [sum(_density(devices, tau, y) for tau in patterns) for y in seen.total]
    assert log_likelihood(seen, devices, FEATURES) == pytest.approx(np.log(expected))


def _density(devices, tau, y):
    """Probability of the pattern times the density of the sum given it, written out."""
    z = [f * min(1, c / np.hypot(*f)) for f, c in zip(FEATURES, devices.clip_norm, strict=True)]
    mean = sum(t * w * x for t, w, x in zip(tau, devices.weight, z, strict=True))
    heard = np.ones(3) if devices.cover_noise else tau
    variance = heard @ devices.noise_std**2 + devices.receiver_noise_std**2
    probability = np.prod(np.where(tau, devices.participation, 1 - devices.participation))
    return probability * stats.multivariate_normal(mean, variance * np.eye(2)).pdf(y)


@pytest.mark.parametrize("cover_noise", [False, True])
@pytest.mark.parametrize("colluders", [(), (1,)])
def test_likelihood_ratios_average_to_one_in_the_other_world(cover_noise, colluders):
    devices = replace(MIXED, cover_noise=cover_noise, colluders=colluders)
    features, neighbour = FEATURES.copy(), FEATURES.copy()
    neighbour[0] = 0
    ratio = np.exp(
        log_likelihood_ratio(devices, features, neighbour)(
            simulated(devices, neighbour, 100_000, np.random.default_rng(6))
        )
    )
    assert ratio.mean() == pytest.approx(1.0, abs=5 * ratio.std() / np.sqrt(len(ratio)))
    assert ratio.std() > 0.1


def test_without_any_noise_the_ratio_is_decisive_and_silence_says_nothing():
    devices = release(2, clip_norm=1.0, noise_std=0.0, participation=0.5)
    features, neighbour = worst_pair(devices, 0, dimension=3)
    seen = simulated(devices, features, 100, np.random.default_rng(7))
    assert seen.participation is not None
    score = log_likelihood_ratio(devices, features, neighbour)(seen)
    took_part = seen.participation[:, 0]
    assert (score[took_part] > 1e6).all()
    assert (score[~took_part] == 0).all()


def test_a_removed_device_that_was_seen_to_take_part_gives_itself_away():
    devices = release(3, clip_norm=1.0, noise_std=1.0)
    zeros = np.zeros((3, 2))
    score = log_likelihood_ratio(devices, zeros, zeros, neighbour_devices=without(devices, 1))
    assert (score(simulated(devices, zeros, 10, np.random.default_rng(8))) == np.inf).all()
    assert (score(simulated(without(devices, 1), zeros, 10, np.random.default_rng(8))) == -np.inf).all()


@pytest.mark.parametrize(("neighbours", "distance"), [("zero-out", 2.0), ("replace", 4.0)])
def test_the_worst_pair_is_as_far_apart_as_clipping_allows(neighbours, distance):
    features, neighbour = worst_pair(MIXED, 1, dimension=5, neighbours=neighbours)
    assert np.linalg.norm(features - neighbour) == distance
    assert not np.delete(features - neighbour, 1, axis=0).any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clip_norm": 0.0}, "clip_norm=0 must be > 0 and finite"),
        ({"noise_std": -1.0}, "noise_std=-1 must be >= 0 and finite"),
        ({"noise_std": [1.0, 1.0, np.nan]}, r"noise_std\[2\]=nan must be"),
        ({"participation": 1.5}, "participation=1.5 must be between 0 and 1"),
        ({"weight": [1.0, 1.0]}, r"weight has shape \(2,\): it must be one number or \(3,\)"),
        ({"colluders": [3]}, "colluders=3 must be an index from 0 to 2"),
    ],
)
def test_bad_parameters_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        release(3, **({"clip_norm": 1.0, "noise_std": 1.0} | change))


def test_bad_inputs_of_a_transmission_are_named():
    rngs = np.random.default_rng(9).spawn(3)
    with pytest.raises(ValueError, match=r"features has shape \(2, 2\): it must be \(3, r\)"):
        received(MIXED, FEATURES[:2], 1, rngs=rngs)
    with pytest.raises(ValueError, match="rngs has length 2: it must be 3"):
        received(MIXED, FEATURES, 1, rngs=rngs[:2])
    with pytest.raises(ValueError, match="receiver_rng=None must be a generator"):
        received(MIXED, FEATURES, 1, rngs=rngs)
    many = release(13, clip_norm=1.0, noise_std=1.0, cover_noise=True)
    with pytest.raises(ValueError, match="features has 13 non-zero rows"):
        log_likelihood(Observed(np.zeros((1, 2)), None, None), many, np.ones((13, 2)))
