"""Scheme 2.2: whom the ranking server names, and how often, against quadrature, plain loops and Monte Carlo."""

import math
from itertools import product
from statistics import NormalDist

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import integrate, stats

from airpool.selection import ranking
from airpool.selection.ranking import participation, selected, union_bounds

CDF = NormalDist().cdf
GOLDEN = {
    "scores": [0.2, 0.35, 0.5, 0.9, 1.4, 2.0],
    "score_noise_std": [0.3, 0.3, 0.4, 0.2, 0.5, 0.3],
    "num_selected": 3,
}
GOLDEN_P = [0.9754260346, 0.9364140943, 0.7961187408, 0.2159215436, 0.07605199432, 6.759235978e-05]


@st.composite
def rankings(draw, most=7, silent=True):
    """Scores, noises over three orders of magnitude, some of them 0, and how many are selected."""
    count = draw(st.integers(2, most))
    u = draw(st.lists(st.floats(0, 2), min_size=count, max_size=count))
    std = draw(st.lists(st.floats(-2, 0.5).map(lambda x: 10**x), min_size=count, max_size=count))
    still = draw(st.lists(st.booleans(), min_size=count, max_size=count)) if silent else [False] * count
    noise = [0.0 if s and draw(st.booleans()) else x for s, x in zip(still, std, strict=True)]
    return u, noise, draw(st.integers(1, count))


def by_plain_quadrature(u, std, num_selected, k):
    """∫ φ_k(x) Σ over all subsets of others that may be below x, term by term."""
    others = [j for j in range(len(u)) if j != k]

    def integrand(x):
        total = 0.0
        for pattern in product((0, 1), repeat=len(others)):
            if sum(pattern) < num_selected:
                below = [CDF((x - u[j]) / std[j]) for j in others]
                total += math.prod(q if b else 1 - q for q, b in zip(below, pattern, strict=True))
        return total * NormalDist(u[k], std[k]).pdf(x)

    points = sorted(
        {min(max(u[j] + c * std[j], u[k] - 9 * std[k]), u[k] + 9 * std[k]) for j in others for c in (-2, 0, 2)}
    )
    ends = u[k] - 9 * std[k], u[k] + 9 * std[k]
    return integrate.quad(integrand, *ends, points=points, epsabs=1e-11, limit=400)[0]


# --- the server ---


def test_exactly_so_many_are_named_and_none_of_them_is_above_one_who_is_not():
    noisy = np.random.default_rng(0).standard_normal((50, 20, 7))
    for k in range(1, 8):
        chosen = selected(noisy, k)
        assert (chosen.sum(axis=-1) == k).all()
        highest, lowest = np.where(chosen, noisy, -np.inf).max(-1), np.where(chosen, np.inf, noisy).min(-1)
        assert (highest <= lowest).all()


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=9), st.data())
def test_ties_go_to_the_lower_index_and_never_change_how_many(scores, data):
    k = data.draw(st.integers(1, len(scores)))
    by_hand = sorted(range(len(scores)), key=lambda j: (scores[j], j))[:k]
    assert np.flatnonzero(selected(np.array(scores), k)).tolist() == sorted(by_hand)
    assert torch.equal(selected(torch.tensor(scores), k), torch.tensor(selected(np.array(scores), k)))


# --- how often ---


def test_the_golden_values():
    found = participation(GOLDEN["scores"], score_noise_std=GOLDEN["score_noise_std"], num_selected=3)
    np.testing.assert_allclose(found, GOLDEN_P, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_a_term_by_term_integral_agrees(seed):
    rng = np.random.default_rng(seed)
    u, std = rng.uniform(0, 1, 4), rng.uniform(0.05, 0.8, 4)
    for num_selected in (1, 2, 3):
        found = participation(u, score_noise_std=std, num_selected=num_selected)
        for k in range(4):
            assert found[k] == pytest.approx(by_plain_quadrature(u, std, num_selected, k), abs=2e-8)


@given(rankings())
def test_draws_of_the_server_agree(drawn):
    u, std, num_selected = drawn
    n = 20_000
    noisy = np.array(u) + np.array(std) * np.random.default_rng(1).standard_normal((n, len(u)))
    p = participation(u, score_noise_std=std, num_selected=num_selected)
    found = selected(noisy, num_selected).mean(axis=0)
    np.testing.assert_array_less(np.abs(found - p), 5 * np.sqrt(p * (1 - p) / n) + 5 / n)


@given(rankings(most=12))
def test_participations_sum_to_the_number_selected(drawn):
    u, std, num_selected = drawn
    found = participation(u, score_noise_std=std, num_selected=num_selected)
    assert found.sum() == pytest.approx(num_selected, abs=1e-9)
    assert ((found >= 0) & (found <= 1)).all()


@given(rankings(silent=False), st.floats(0.01, 1))
def test_a_device_that_gets_less_sure_is_selected_less_often_and_the_others_more(drawn, more):
    u, std, num_selected = drawn
    assume(num_selected < len(u))
    before = participation(u, score_noise_std=std, num_selected=num_selected)
    after = participation([u[0] + more, *u[1:]], score_noise_std=std, num_selected=num_selected)
    assert after[0] <= before[0] + 1e-9
    assert (after[1:] >= before[1:] - 1e-9).all()


@given(rankings())
def test_the_exact_value_lies_between_the_union_bounds(drawn):
    u, std, num_selected = drawn
    found = participation(u, score_noise_std=std, num_selected=num_selected)
    low, high = union_bounds(u, score_noise_std=std, num_selected=num_selected)
    assert (found >= low - 1e-9).all()
    assert (found <= high + 1e-9).all()
    assert ((low >= 0) & (high <= 1)).all()


def test_union_bounds_are_the_plain_sums():
    u, std, inside = GOLDEN["scores"], GOLDEN["score_noise_std"], {0, 1, 2}

    def swapped(a, b):
        return stats.norm.cdf((u[a] - u[b]) / math.hypot(std[a], std[b]))

    low, high = union_bounds(u, score_noise_std=std, num_selected=3)
    for k in range(6):
        if k in inside:
            assert (low[k], high[k]) == (pytest.approx(max(0, 1 - sum(swapped(k, j) for j in (3, 4, 5)))), 1)
        else:
            assert (low[k], high[k]) == (0, pytest.approx(min(1, sum(swapped(i, k) for i in inside))))


@pytest.mark.parametrize("std", [0.3, [0.3, 1e-4, 0.0, 2.0, 0.05, 0.3]])
def test_a_finer_quadrature_changes_nothing(std, monkeypatch):
    u = np.random.default_rng(2).uniform(0, 1, (3, 6))
    found = participation(u, score_noise_std=std, num_selected=3)
    monkeypatch.setattr(ranking, "_NODES", 32)
    monkeypatch.setattr(ranking, "_PANEL", 0.75)
    np.testing.assert_allclose(participation(u, score_noise_std=std, num_selected=3), found, atol=1e-11)


def test_a_batch_of_objects_is_each_object_by_itself(monkeypatch):
    u = np.random.default_rng(3).uniform(0, 2, (2, 5, 4))
    each = [[participation(row, score_noise_std=0.4, num_selected=2) for row in some] for some in u]
    np.testing.assert_allclose(participation(u, score_noise_std=0.4, num_selected=2), each, atol=1e-12)
    monkeypatch.setattr(ranking, "_CHUNK", 1)
    np.testing.assert_allclose(participation(u, score_noise_std=0.4, num_selected=2), each, atol=1e-12)


def test_devices_alike_are_selected_alike_however_many_there_are():
    """300 like devices: the count passes k̃ within a twentieth of a noise's width."""
    for num_selected in (1, 40, 150, 299):
        found = participation(np.zeros(300), score_noise_std=0.3, num_selected=num_selected)
        np.testing.assert_allclose(found, num_selected / 300, atol=1e-10)


def test_without_noise_the_order_decides_and_equals_go_by_index():
    u = [0.5, 0.1, 0.5, 0.5]
    found = participation(u, score_noise_std=0.0, num_selected=2)
    assert found.tolist() == selected(np.array(u), 2).tolist() == [True, True, False, False]
    # One noisy device among the still ones: it comes first half of the time.
    found = participation([0.5, 0.5, 0.9], score_noise_std=[0.0, 0.3, 0.0], num_selected=1)
    np.testing.assert_allclose(found, [0.5, 0.5, 0.0], atol=1e-12)


def test_much_noise_makes_all_alike_and_everybody_selected_is_certain():
    u = np.linspace(0, 1, 12)
    np.testing.assert_allclose(participation(u, score_noise_std=1e4, num_selected=5), 5 / 12, atol=1e-3)
    assert participation(u, score_noise_std=0.1, num_selected=12).tolist() == [1.0] * 12


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: participation([0.1] * 12, score_noise_std=1.0, num_selected=13),
            "num_selected=13 must not exceed the 12",
        ),
        (lambda: participation([0.1], score_noise_std=1.0, num_selected=0), "num_selected=0 must be >= 1"),
        (
            lambda: participation([0.1, math.nan], score_noise_std=1.0, num_selected=1),
            r"scores\[1\]=nan must be finite",
        ),
        (lambda: participation(0.1, score_noise_std=1.0, num_selected=1), "scores=0.1 must have one number for each"),
        (
            lambda: participation([0.1, 0.2], score_noise_std=[1.0] * 3, num_selected=1),
            r"score_noise_std has shape \(3,\)",
        ),
        (lambda: participation([0.1, 0.2], score_noise_std=-1.0, num_selected=1), "score_noise_std=-1 must be >= 0"),
        (lambda: selected(np.array([0.1, np.nan]), 1), r"noisy_scores\[1\]=nan must be finite"),
        (lambda: selected(np.array([0.1, 0.2]), 3), "num_selected=3 must not exceed the 2 devices"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
