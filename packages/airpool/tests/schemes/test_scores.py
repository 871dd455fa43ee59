"""Scores: entropies that agree with plain sums, bounded for certain, whatever a posterior contains."""

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from airpool.network import Coin, Ranking, Threshold
from airpool.protocol.device import Seeded, noisy
from airpool.schemes.scores import Uncertainty, check_scores, uncertainty

ANYTHING = st.floats(allow_nan=True, allow_infinity=True, width=64)


@st.composite
def posteriors(draw):
    shape = draw(st.tuples(st.integers(1, 4), st.integers(2, 9)))
    p = draw(arrays(np.float64, shape, elements=st.floats(0, 1)))
    p[:, 0] += 1e-3
    return p / p.sum(axis=-1, keepdims=True)


@given(posteriors())
def test_entropies_are_the_plain_sums(p):
    for row, u, least in zip(p, uncertainty(p, "shannon"), uncertainty(p, "min"), strict=True):
        assert u == pytest.approx(-sum(x * math.log2(x) for x in row if x > 0), abs=1e-12)
        assert least == pytest.approx(-math.log2(max(row)), abs=1e-12)
        assert -1e-12 <= least <= u + 1e-12
        assert u <= math.log2(len(row)) + 1e-12


def test_a_sure_device_has_no_uncertainty_and_a_clueless_one_all_of_it():
    sure, clueless = np.eye(40)[:3], np.full((3, 40), 1 / 40)
    for score in ("shannon", "min"):
        assert uncertainty(sure, score) == pytest.approx(np.zeros(3), abs=1e-12)
        assert uncertainty(clueless, score) == pytest.approx(np.full(3, math.log2(40)))


@pytest.mark.parametrize("score", ["shannon", "min"])
def test_torch_and_numpy_agree(score):
    p = np.random.default_rng(0).dirichlet(np.ones(40), size=(5, 12))
    there = uncertainty(torch.tensor(p), score)
    assert isinstance(there, torch.Tensor)
    np.testing.assert_allclose(there.numpy(), uncertainty(p, score), atol=1e-12)
    np.testing.assert_allclose(uncertainty(torch.tensor(p).float(), score).numpy(), uncertainty(p, score), atol=1e-5)


@given(
    arrays(np.float64, (3, 5), elements=ANYTHING), st.sampled_from(["clip", "scale"]), st.sampled_from([0.3, 1.0, 9.0])
)
def test_nothing_in_a_posterior_raises_warns_or_leaves_the_range(p, rule, bound):
    scheme = Threshold(score_rule=rule, score_bound=bound)
    for values in (p, p.astype(np.float32) if np.all(np.abs(p[np.isfinite(p)]) < 1e38) else p):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for raw_score in (uncertainty(values, "shannon"), uncertainty(values, "min"), values[:, 0]):
                u = scheme.bounded(raw_score, 5)
                low, high = scheme.score_range(5)
                assert np.all((u >= low) & (u.astype(np.float64) <= high))


def test_what_is_not_finite_counts_as_the_upper_end():
    scheme = Ranking(score_bound=0.7)
    u = scheme.bounded(np.array([np.nan, np.inf, -np.inf, 0.2, -3.0]))
    np.testing.assert_allclose(u, [0.7, 0.7, 0.7, 0.2, 0.0], rtol=1e-12)
    spoilt = np.array([[np.nan, 0.5, 0.5], [0.0, 0.0, 0.0], [-0.1, 0.6, 0.5]])
    np.testing.assert_allclose(scheme.bounded(uncertainty(spoilt, "shannon")), np.full(3, 0.7), rtol=1e-12)


@pytest.mark.parametrize(
    ("rule", "bound", "classes", "high"),
    [
        ("clip", 1.0, None, 1.0),
        ("clip", 9.0, 40, math.log2(40)),
        ("scale", 1.0, None, 0.5),
        ("scale", 1.0, 40, 0.5),
        ("scale", 20.0, 40, math.log2(40)),
    ],
)
def test_the_range_is_the_true_one_and_is_reached(rule, bound, classes, high):
    scheme = Threshold(score_rule=rule, score_bound=bound)
    assert scheme.score_range(classes) == (0.0, pytest.approx(high))
    if classes is not None:
        ends = scheme.bounded(np.array([0.0, math.log2(classes)]), classes)
        np.testing.assert_allclose(ends, [0.0, high], rtol=1e-12)


def test_the_papers_scaling_halves_its_own_bound():
    scheme = Threshold(score_rule="scale", score_bound=1.0)
    u = np.linspace(0, math.log2(40), 7)
    np.testing.assert_allclose(scheme.bounded(u, 40), u * min(1, 1.0 / (2 * math.log2(40))), rtol=1e-12)


def test_noise_comes_from_each_devices_own_generator():
    own = [np.random.default_rng(k) for k in range(3)]
    u = np.array([[0.1, 0.2, 0.3]])
    found = noisy(u, 0.5, trials=4, source=Seeded(own), limit=1.0)
    for k in range(3):
        np.testing.assert_allclose(found[0, :, k], u[0, k] + 0.5 * np.random.default_rng(k).standard_normal((1, 4))[0])
    assert noisy(u, 0.0, trials=2, source=Seeded(own), limit=1.0).tolist() == [[[0.1, 0.2, 0.3]] * 2]


LATENTS = np.zeros((2, 3, 4))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Threshold(score_rule="scale").bounded(np.zeros(2)), "score_rule='scale' needs num_classes"),
        (lambda: Threshold().score_range(1), "num_classes=1 must be a whole number >= 2"),
        (lambda: uncertainty(np.ones((2, 1)), "shannon"), r"posteriors has shape \(2, 1\), must be"),
        (lambda: Threshold(score_bound=0.0), "score_bound=0.0 must be > 0"),
        (lambda: Threshold(threshold=math.nan), "scheme.threshold=nan must be finite"),
        (lambda: check_scores(None, Threshold(), example=LATENTS), "scheme 2.1 needs scores"),
        (lambda: check_scores(np.zeros((2, 3)), Coin(), example=LATENTS), "scores are for Schemes 2.1 and 2.2"),
        (
            lambda: check_scores(np.zeros((3, 2)), Ranking(), example=LATENTS),
            r"scores has shape \(3, 2\), must be \(2",
        ),
        (lambda: check_scores(np.zeros((2, 3), int), Ranking(), example=LATENTS), "must be real floating"),
        (
            lambda: check_scores(torch.zeros(2, 3), Ranking(), example=LATENTS),
            "must be real floating as the latents",
        ),
        (lambda: Uncertainty(scores=1, posteriors=2).raw(Threshold()), "give scores or posteriors, not both"),
        (lambda: Uncertainty(posteriors=2).raw(Coin()), "posteriors are for Schemes 2.1 and 2.2"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
