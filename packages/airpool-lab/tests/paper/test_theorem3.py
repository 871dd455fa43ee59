"""The paper's Theorem 3: the printed formulas, and where they are not bounds."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from airpool.schemes.ranking import participation, union_bounds
from airpool_lab.paper.formulas import theorem3

U = [0.3, 0.1, 0.8, 1.5]
STD = [0.4, 0.2, 0.3, 0.1]


def lower(std, gap):
    """It does not depend on the scores, and is the same for every device."""
    found = theorem3.bounds(np.arange(len(std)), score_noise_std=std, num_selected=1, gap=gap).lower
    assert (found == found[0]).all()
    return found[0]


def test_the_smallest_gap_is_that_of_sorted_scores():
    assert theorem3.smallest_gap(U) == pytest.approx(0.2)


def test_the_lower_formula_is_the_printed_sum_in_the_order_of_the_devices():
    gap = 0.2
    terms = [stats.norm.cdf(-gap / math.hypot(STD[k], STD[k + 1])) for k in range(3)]
    assert lower(STD, gap=gap) == pytest.approx(max(0.0, 1 - sum(terms)))
    assert lower([1.0] * 12, gap=0.005) == 0.0


def test_the_upper_formula_is_the_printed_product_and_last_term():
    ascending = sorted(STD)
    product = math.prod(stats.norm.cdf(0.2 / math.hypot(ascending[k + 1], ascending[k])) for k in range(3))
    # Two are selected: devices 1 and 0. Outside, device 2 has the smallest score.
    last = [stats.norm.cdf((U[k] - U[2]) / math.hypot(STD[k], STD[2])) for k in range(4)]
    expected = [product + last[0], product + last[1], last[2], last[3]]
    np.testing.assert_allclose(theorem3.bounds(U, score_noise_std=STD, num_selected=2).upper, expected)
    given_gap = theorem3.bounds(U, score_noise_std=STD, num_selected=2, gap=0.2)
    np.testing.assert_allclose(given_gap.upper, expected)
    np.testing.assert_allclose(given_gap.lower, lower(STD, gap=0.2))


def test_the_product_is_not_an_upper_bound():
    """Two devices that are hard to tell apart are both selected, and the smallest gap is between them."""
    u = [0.0, 0.01, 5.0]
    printed = theorem3.bounds(u, score_noise_std=[0.3] * 3, num_selected=2).upper
    truth = participation(u, score_noise_std=0.3, num_selected=2)
    assert printed[0] < 0.3
    assert truth[0] > 0.999


def test_the_last_term_has_its_sign_turned_around():
    """It grows with the device's own score: nearly 1 for who is never selected, where the valid bound is nearly 0."""
    u = np.array([0.0, 1.0, 2.0, 3.0])
    printed = theorem3.bounds(u, score_noise_std=0.2, num_selected=2).upper
    assert participation(u, score_noise_std=0.2, num_selected=2)[3] < 1e-5
    assert printed[2] == pytest.approx(0.5)
    assert printed[3] > 0.999
    assert union_bounds(u, score_noise_std=0.2, num_selected=2).upper[3] < 1e-3


def test_the_lower_formula_fails_for_who_is_not_in_the_true_set():
    u = [0.0, 5.0, 10.0]
    assert theorem3.bounds(u, score_noise_std=0.3, num_selected=1).lower[2] > 0.999
    assert participation(u, score_noise_std=0.3, num_selected=1)[2] < 1e-9


@given(
    st.lists(st.floats(0.001, 2), min_size=2, max_size=6),
    st.lists(st.floats(0.01, 1), min_size=6, max_size=6),
    st.data(),
)
def test_the_lower_formula_holds_for_the_true_set_where_devices_are_numbered_by_score(gaps, std, data):
    u = np.cumsum(gaps)
    num_selected = data.draw(st.integers(1, len(u)))
    noise = std[: len(u)]
    printed = theorem3.bounds(u, score_noise_std=noise, num_selected=num_selected).lower
    truth = participation(u, score_noise_std=noise, num_selected=num_selected)
    assert (truth[:num_selected] >= printed[:num_selected] - 1e-9).all()


def test_the_settings_of_its_figures_can_be_drawn():
    reliability = np.linspace(0.5, 0.9, 12)
    bars = theorem3.bounds(reliability, score_noise_std=1 / (reliability + 0.01), num_selected=11, gap=0.005)
    assert np.isfinite(bars.lower).all()
    assert np.isfinite(bars.upper).all()
    curve = [lower(np.full(12, std), gap=0.1) for std in (0.01, 0.03, 0.1, 0.3)]
    assert curve == sorted(curve, reverse=True)
    assert curve[0] == pytest.approx(1.0)
    assert curve[-1] == 0.0


def test_where_everybody_is_selected_there_is_no_last_term():
    printed = theorem3.bounds(U, score_noise_std=STD, num_selected=4).upper
    assert (printed == printed[0]).all()
    assert theorem3.bounds([0.3], score_noise_std=0.1, num_selected=1).upper.tolist() == [1.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theorem3.smallest_gap([1.0]), "at least 2 devices to have a gap"),
        (lambda: theorem3.bounds(U, score_noise_std=0.3, num_selected=1, gap=-0.1), "gap=-0.1 must be >= 0"),
        (lambda: theorem3.bounds([[0.3]], score_noise_std=0.1, num_selected=1), r"scores \(1, 1\) and score_noise_std"),
        (
            lambda: theorem3.bounds(U, score_noise_std=STD, num_selected=5),
            "num_selected=5 must not exceed the 4 devices",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("std", [5e-324, 1e-310])
def test_next_to_no_noise_gives_what_no_noise_gives(std):
    found, still = (theorem3.bounds(U, score_noise_std=noise, num_selected=1) for noise in (std, 0.0))
    assert found.lower.tolist() == still.lower.tolist()
    assert found.upper.tolist() == still.upper.tolist()
