"""Scheme 2.1: who transmits, and how often."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from airpool.network import Coin, Network, Ranking, Threshold
from airpool.privacy.leakage import Decision
from airpool.protocol.device import Seeded, Senders, taking_part
from airpool.radio.link import link_of
from airpool.schemes.scores import expected_participation
from airpool.schemes.scores import participation as by_scheme
from airpool.schemes.threshold import participation


@given(st.floats(0, 5), st.floats(-2, 7), st.floats(0.01, 3))
def test_participation_is_the_normal_law_and_what_the_account_assumes(score, threshold, std):
    found = participation(score, threshold=threshold, score_noise_std=std)
    assert found == pytest.approx(stats.norm.cdf((threshold - score) / std), rel=1e-9, abs=1e-300)
    scheme = Decision(np.asarray(0.0), np.asarray(5.0), np.asarray(std), threshold)
    assert found == pytest.approx(np.exp(scheme.log_participation(np.asarray(score))[0]), rel=1e-9, abs=1e-300)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.05, 1))
def test_the_surer_device_transmits_more_often(a, b, std):
    low, high = sorted((a, b))
    more, less = participation([low, high], threshold=0.5, score_noise_std=std)
    assert more >= less


def drawn(network: Network, trials: int, u: Any) -> Any:
    source = Seeded([np.random.default_rng(0)])
    return taking_part(Senders(network, link_of(network)), source, np.ones((1, trials, 3)), scores=u[None])[0][0]


def test_draws_fall_as_often_as_the_formula_says():
    u, std, n = np.array([0.1, 0.5, 0.9]), 0.3, 200_000
    network = Network.uniform(num_devices=3, scheme=Threshold(threshold=0.4, score_noise_std=std, score_bound=1.0))
    spoken = drawn(network, n, u).mean(axis=0)
    p = participation(u, threshold=0.4, score_noise_std=std)
    np.testing.assert_array_less(np.abs(spoken - p), 4.5 * np.sqrt(p * (1 - p) / n))


def test_without_noise_the_comparison_decides():
    u = np.array([0.2, 0.5, 0.8])
    found = participation(u, threshold=0.5, score_noise_std=[0.0, 0.0, 0.0])
    network = Network.uniform(num_devices=3, scheme=Threshold(threshold=0.5, score_noise_std=0.0))
    assert found.tolist() == drawn(network, 1, u)[0].tolist() == [True, True, False]


def test_expectation_is_the_mean_over_calibration_objects():
    scores = np.random.default_rng(1).uniform(0, 3, (50, 4))
    scheme = Threshold(score_bound=1.0, threshold=0.6, score_noise_std=0.4)
    plain = [[stats.norm.cdf((0.6 - min(u, 1.0)) / 0.4) for u in row] for row in scores]
    np.testing.assert_allclose(by_scheme(scores, scheme), plain, rtol=1e-9)
    np.testing.assert_allclose(expected_participation(scores, scheme), np.mean(plain, axis=0), rtol=1e-9)
    ranked = expected_participation(scores, Ranking(num_selected=3))
    assert ranked.sum() == pytest.approx(3, abs=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: participation(0.1, threshold=math.nan, score_noise_std=0.1), "threshold=nan must be finite"),
        (lambda: participation([0.1, math.nan], threshold=1.0, score_noise_std=0.1), r"score\[1\]=nan must be finite"),
        (lambda: participation(0.1, threshold=1.0, score_noise_std=-1.0), "score_noise_std=-1 must be >= 0"),
        (lambda: by_scheme(np.zeros((1, 2)), Coin()), "scheme 1 has no scores: a coin decides"),
        (lambda: by_scheme(np.zeros(2), Threshold()), r"scores has shape \(2,\), must be \(objects, devices\)"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("std", [5e-324, 1e-310, 1e-150, 1e150])
def test_no_noise_is_too_small_or_too_large(std):
    assert participation([0.4, 0.5, 0.6], threshold=0.5, score_noise_std=std).tolist() == (
        [1.0, 0.5, 0.0] if std < 1 else [0.5] * 3
    )
