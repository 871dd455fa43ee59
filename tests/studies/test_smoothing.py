"""Smoothing by the noise that is there anyway: intervals that cover, radii that are attained and never exceeded."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, norm
from studies.smoothing import after_change, proven, radius
from tests.random_servers import random_server

from airpool.evaluation.theory.law import law
from airpool.evaluation.theory.server import LayeredServer, scores
from airpool.network import Network
from airpool.protocol.server import labels as labels_of
from airpool.protocol.simulation import receive

SEEDS = st.integers(0, 2**32 - 1)


def borne_out(before, after, *, runs, change, noise_std):
    """Whether counts before and after a change allow the bound: each by a Clopper-Pearson limit that rarely errs."""
    most = 1 - proven(runs - after, runs, confidence=1 - 1e-6)
    return np.all(after_change(proven(before, runs, confidence=1 - 1e-6), change, noise_std=noise_std) <= most)


# Intervals


@pytest.mark.parametrize("confidence", [0.9, 0.99])
@pytest.mark.parametrize("runs", [1, 7, 40])
def test_the_limit_lies_above_the_truth_no_more_often_than_it_may(confidence, runs):
    """Exactly, over all counts."""
    limits = proven(np.arange(runs + 1), runs, confidence=confidence)
    for truth in np.linspace(0.0, 1.0, 201):
        missed = np.sum(binom.pmf(np.arange(runs + 1), runs, truth)[limits > truth + 1e-12])
        assert missed <= 1 - confidence + 1e-12


def test_the_limits_are_scipys():
    for right in (0, 1, 13, 39, 40):
        twice = binomtest(right, 40).proportion_ci(confidence_level=0.98, method="exact")  # two-sided, 1 % on each side
        assert proven(right, 40, confidence=0.99) == pytest.approx(twice.low, abs=1e-12)


@pytest.mark.parametrize(
    ("right", "runs", "confidence", "message"),
    [
        ([5, 11], 10, 0.99, "right must be from 0 to runs=10"),
        ([-1], 10, 0.99, "right must be from 0 to runs=10"),
        ([np.nan], 10, 0.99, "right must be from 0 to runs=10"),
        ([0], 0, 0.99, "runs=0, which must be ≥ 1"),
        ([5], 10, 1.0, "confidence=1.0 must be > 0 and < 1"),
    ],
)
def test_counts_that_cannot_be_are_refused(right, runs, confidence, message):
    with pytest.raises(ValueError, match=message):
        proven(right, runs, confidence=confidence)


# Radii


@given(ratio=st.floats(0.0, 4.0), std=st.floats(0.3, 2.0), change=st.floats(0.0, 3.0))
def test_a_linear_server_with_two_classes_attains_the_bound(ratio, std, change):
    """At distance `gap` from the border Pr(right) = Φ(gap/σ); moving towards it is the worst that can happen."""
    gap, chance = ratio * std, norm.cdf(ratio)
    assert radius(chance, noise_std=std) == pytest.approx(gap, abs=1e-9)
    assert after_change(chance, change, noise_std=std) == pytest.approx(norm.cdf((gap - change) / std), abs=1e-9)


def test_at_the_radius_one_half_is_left_and_below_it_more():
    chance = np.array([0.51, 0.8, 0.99, 0.999999])
    reach = radius(chance, noise_std=0.3)
    assert after_change(chance, reach, noise_std=0.3) == pytest.approx([0.5] * 4)
    assert np.all(after_change(chance, 0.999 * reach, noise_std=0.3) > 0.5)
    assert radius([0.5, 0.2, 0.0], noise_std=0.3).tolist() == [0.0, 0.0, 0.0]
    assert radius(1.0, noise_std=0.3) == np.inf


def test_certainty_stays_and_the_impossible_too():
    assert after_change([0.0, 1.0], 0.7, noise_std=0.1).tolist() == [0.0, 1.0]
    assert after_change([0.3, 0.7], 0.0, noise_std=0.1) == pytest.approx([0.3, 0.7])


@settings(max_examples=25)
@given(seed=SEEDS, change=st.sampled_from([0.05, 0.2, 0.6]), hidden=st.booleans())
def test_no_server_loses_more_than_the_bound_allows(seed, change, hidden):
    rng, runs, std = np.random.default_rng(seed), 4000, 0.3
    server = random_server(rng, 3, *([6] if hidden else []), 3)
    x = rng.standard_normal((6, 3))
    own = np.argmax(scores(server, x), axis=1)
    step = rng.standard_normal(x.shape)
    step *= change / np.linalg.norm(step, axis=1, keepdims=True)
    before, after = (
        np.sum(
            np.argmax(scores(server, at[:, None] + std * rng.standard_normal((6, runs, 3))), axis=-1) == own[:, None],
            axis=1,
        )
        for at in (x, x + step)
    )
    assert borne_out(before, after, runs=runs, change=change, noise_std=std)


@settings(max_examples=20)
@given(seed=SEEDS, participation=st.sampled_from([0.5, 0.9, 1.0]), cover=st.booleans())
def test_one_lying_camera_costs_no_more_than_the_bound_at_the_least_noise(seed, participation, cover):
    """Over the air, with devices that may be silent: the noise varies, and the least of it is on the safe side."""
    rng, runs = np.random.default_rng(seed), 4000
    network = Network.uniform(
        num_devices=3, noise_std=0.15, participation=participation, dimension=3, cover_noise=cover
    )
    server = random_server(rng, 3, 6, 3)
    z = rng.standard_normal((6, 3, 3))
    z /= np.linalg.norm(z, axis=-1, keepdims=True)
    lying = z.copy()
    lying[:, 1] *= -1
    own = np.argmax(scores(server, z.mean(axis=1)), axis=1)
    before, after = (
        np.sum(labels_of(scores(server, heard.estimate), heard.any_signal) == own[:, None], axis=1)
        for heard in (receive(each, network, rng=rng, trials=runs) for each in (z, lying))
    )
    least = float(np.sqrt(np.min(law(network).variance)))
    assert borne_out(before, after, runs=runs, change=2 / 3, noise_std=least)


def test_the_bound_is_no_more_than_what_is_lost_in_the_worst_case():
    """A border that is hit squarely: the bound holds with equality, so a smaller noise_std or change would not do."""
    server = LayeredServer(((np.array([[1.0], [-1.0]]), np.zeros(2)),))
    rng, runs = np.random.default_rng(0), 200_000
    before, after = (
        int(np.sum(np.argmax(scores(server, x + 0.5 * rng.standard_normal((runs, 1))), axis=-1) == 0))
        for x in (0.4, 0.1)
    )
    assert borne_out(before, after, runs=runs, change=0.3, noise_std=0.5)
    assert not borne_out(before, after, runs=runs, change=0.27, noise_std=0.5)
    assert not borne_out(before, after, runs=runs, change=0.3, noise_std=0.55)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: radius([1.5], noise_std=0.1), r"probability\[0\]=1.5 must be between 0 and 1"),
        (lambda: radius([0.9], noise_std=0.0), "noise_std=0 must be > 0"),
        (lambda: after_change(np.nan, 0.1, noise_std=0.1), "probability=nan must be between 0 and 1"),
        (lambda: after_change(0.9, -0.1, noise_std=0.1), "change=-0.1 must be >= 0"),
        (lambda: after_change(0.9, 0.1, noise_std=-1.0), "noise_std=-1 must be > 0"),
    ],
)
def test_what_is_no_chance_change_or_noise_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
