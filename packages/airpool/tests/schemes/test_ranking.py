"""Scheme 2.2: whom the ranking server names, and how often, against quadrature, plain loops and Monte Carlo."""

import math
from fractions import Fraction
from itertools import product
from statistics import NormalDist

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import integrate, stats

from airpool.network import Ranking
from airpool.schemes import ranking
from airpool.schemes import scores as expected
from airpool.schemes.ranking import participation, selected, union_bounds

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


@st.composite
def extremes(draw, most=6):
    """Noise from none to 1e150, alike or not; scores of any size, equal, or so few noises or roundings apart."""
    count = draw(st.integers(2, most))
    noises = st.sampled_from([0.0, 5e-324]) | st.floats(-323, 150).map(lambda x: 10.0**x)
    std = [draw(noises)] * count if draw(st.booleans()) else draw(st.lists(noises, min_size=count, max_size=count))
    u = [draw(st.floats(0, 2) | st.floats(-1e150, 1e150))]
    for noise in std[1:]:
        near = draw(st.sampled_from(u))
        steps = st.floats(-30, 30).map(lambda x, near=near, noise=noise: near + x * noise)
        ulps = st.integers(-9, 9).map(lambda x, near=near: near + x * float(np.spacing(near)))
        u.append(draw(st.just(near) | steps | ulps | st.floats(-1e150, 1e150)))
    return u, std, draw(st.integers(1, count))


@pytest.fixture
def nodes(monkeypatch):
    """Points of quadrature so far."""
    seats, found = ranking._seats, [0]

    def counted(below, num_selected):
        found[0] += below.shape[0] * below.shape[1]
        return seats(below, num_selected)

    monkeypatch.setattr(ranking, "_seats", counted)
    return lambda: found[0]


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


# --- any noise ---


@pytest.mark.parametrize("std", [0.0, 5e-324, 1e-150, 1e-17, 1e-6, 0.003, 0.1, 1.0, 1e6, 1e150])
@pytest.mark.parametrize(
    "u", [[14.6, 29.2, 53.5], [0.1, 0.15, 0.2, 0.25, 0.3], [0.1] * 5, [0.0, 5e-324, 1e-323], [0.1, 0.1, 0.3, -1e150]]
)
def test_no_noise_needs_more_than_a_few_hundred_nodes(u, std, nodes):
    for num_selected in range(1, len(u)):
        before = nodes()
        found = participation(u, score_noise_std=std, num_selected=num_selected)
        assert nodes() - before <= 20 * ranking._NODES
        assert found.sum() == pytest.approx(num_selected, abs=1e-12)
    assert participation(u, score_noise_std=0.0, num_selected=2).tolist() == selected(np.array(u), 2).tolist()


def test_gaps_between_scores_cost_nothing(nodes):
    found = participation(np.arange(3000.0), score_noise_std=0.5, num_selected=1500)
    assert nodes() <= 20 * ranking._NODES
    np.testing.assert_allclose(found, np.arange(3000) < 1500, atol=0.08)
    # Φ(−1/(.5√2)): the two on either side of the border change places; further away much less often.
    assert found[1500] == pytest.approx(1 - found[1499], abs=1e-12)
    assert found[0] == 1
    assert found[-1] == 0


def test_scores_that_are_far_apart_for_their_noise_are_ranked_in_bulk(nodes):
    """Calibration objects of a network with score_bound = 5 and score_noise_std = .03."""
    scheme = Ranking(score_bound=5.0, score_noise_std=0.03, num_selected=8)
    found = expected.participation(np.random.default_rng(0).uniform(0, 5, (200, 12)), scheme)
    assert nodes() <= 200 * 20 * ranking._NODES
    np.testing.assert_allclose(found.sum(axis=1), 8, atol=1e-12)


@given(extremes())
def test_whatever_the_noise_participations_are_bounded_work_and_sum_to_the_number_selected(drawn):
    u, std, num_selected = drawn
    done, seats, count = [], ranking._seats, len(u)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "_seats", lambda q, k: (done.append(q.shape[0] * q.shape[1]), seats(q, k))[1])
        found = participation(u, score_noise_std=std, num_selected=num_selected)
    assert sum(done) <= (12 * count**1.5 + 2 * count + 1) * ranking._NODES
    assert found.sum() == pytest.approx(num_selected, abs=1e-10)
    assert ((found >= 0) & (found <= 1)).all()
    low, high = union_bounds(u, score_noise_std=std, num_selected=num_selected)
    assert (found >= low - 1e-10).all()
    assert (found <= high + 1e-10).all()


@given(extremes(most=2))
def test_of_two_devices_the_difference_decides_at_any_noise(drawn):
    u, std, _ = drawn
    found = participation(u, score_noise_std=std, num_selected=1)[0]
    spread = Fraction(std[0]) ** 2 + Fraction(std[1]) ** 2
    gap = Fraction(u[1]) - Fraction(u[0])
    if spread == 0:
        assert found == (gap >= 0)
    else:
        ratio = gap**2 / spread
        assert found == pytest.approx(CDF(math.copysign(math.sqrt(min(ratio, 10**4)), gap)), abs=1e-11)


@given(rankings(), st.integers(-900, 900))
def test_the_unit_of_the_scores_does_not_matter(drawn, exponent):
    u, std, num_selected = drawn
    assume(all(x == 0 or x > 1e-30 for x in u))
    scaled = (np.ldexp(x, exponent) for x in (u, std))
    found = participation(next(scaled), score_noise_std=next(scaled), num_selected=num_selected)
    assert found.tolist() == participation(u, score_noise_std=std, num_selected=num_selected).tolist()


@given(extremes(), st.randoms(use_true_random=False))
def test_the_order_of_noisy_devices_does_not_matter(drawn, random):
    u, std, num_selected = drawn
    assume(all(std))
    order = list(range(len(u)))
    random.shuffle(order)
    found = participation(np.array(u)[order], score_noise_std=np.array(std)[order], num_selected=num_selected)
    straight = participation(u, score_noise_std=std, num_selected=num_selected)
    np.testing.assert_allclose(found, straight[order], atol=1e-11)


def test_a_noise_within_another_is_found_however_narrow_it_is():
    """Two scores that are all but still share what the wide one leaves; the lower of them is σ/√π below .3."""
    for narrow in (1e-3, 1e-10, 1e-30, 1e-300):
        found = participation([0.3, 0.0, 0.3], score_noise_std=[narrow, 1.0, narrow], num_selected=1)
        wide = CDF(0.3 - narrow / math.sqrt(math.pi))
        np.testing.assert_allclose(found, [(1 - wide) / 2, wide, (1 - wide) / 2], atol=narrow**2 + 1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_noises_of_different_size_agree_with_a_term_by_term_integral(seed):
    rng = np.random.default_rng(seed)
    u, std = rng.uniform(0, 1, 4), np.array([1.0, 0.3, 0.03, 0.003])
    found = participation(u, score_noise_std=std, num_selected=2)
    for k in range(4):
        assert found[k] == pytest.approx(by_plain_quadrature(u, std, 2, k), abs=2e-8)


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
