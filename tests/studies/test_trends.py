"""Laws fitted to points with a known law."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from studies.trends import Trend, trend

FORMS = ("power", "exponential", "linear", "constant")


@given(scale=st.floats(1e-3, 1e3), rate=st.floats(-3, 3), form=st.sampled_from(FORMS))
def test_points_on_a_law_give_that_law_back(scale, rate, form):
    x = np.array([1.0, 2.0, 5.0, 10.0, 20.0])
    rate = 0.0 if form == "constant" else abs(rate) if form == "linear" else rate
    truth = Trend(form, scale, rate, 0.0, 0.0)
    found = trend(x, truth(x), form=form)
    assert found.rate == pytest.approx(rate, abs=1e-7 * max(1, scale))
    assert found(x) == pytest.approx(truth(x), rel=1e-6)
    assert found.misfit < 1e-6


@pytest.mark.parametrize("form", ["power", "exponential", "linear"])
def test_the_law_that_made_the_points_fits_best(form):
    x = np.arange(1.0, 33.0)
    y = Trend(form, 0.5, {"power": 2.0, "exponential": 0.3, "linear": 2.0}[form], 0.0, 0.0)(x)
    misfit = {other: trend(x, y, form=other).misfit for other in FORMS}
    assert min(misfit, key=lambda other: misfit[other]) == form


def test_a_weighted_fit_is_that_of_numpy():
    rng = np.random.default_rng(0)
    x = np.array([12.0, 24.0, 50.0, 100.0, 1000.0])
    spread = np.array([0.01, 0.02, 0.01, 0.05, 0.03])
    y = 3 * x**-1.0 * np.exp(spread * rng.standard_normal(5))
    found = trend(x, y, std=spread * y)
    (slope, _), cov = np.polyfit(np.log(x), np.log(y), 1, w=1 / spread, cov="unscaled")
    chi_square = np.sum(((np.log(y) - np.log(found(x))) / spread) ** 2) / 3
    assert found.rate == pytest.approx(slope)
    assert found.rate_se == pytest.approx(math.sqrt(cov[0, 0] * max(1.0, chi_square)))


def test_standard_errors_cover_the_truth_as_often_as_they_should():
    rng = np.random.default_rng(0)
    x = np.geomspace(12, 1000, 7)
    runs, inside = 2000, 0
    for noisy in np.exp(0.05 * rng.standard_normal((runs, 7))):
        found = trend(x, 2 * x**-1.0 * noisy, std=0.05 * 2 * x**-1.0 * noisy)
        inside += abs(found.rate + 1) < 1.96 * found.rate_se
    # Widened where χ² is large, so a little more often than 95 %.
    assert 0.95 - 4 * math.sqrt(0.95 * 0.05 / runs) < inside / runs < 0.99


def test_points_further_off_than_their_errors_widen_the_error_of_the_rate():
    x, y = np.array([1.0, 2.0, 4.0, 8.0]), np.array([1.0, 3.0, 3.0, 9.0])
    assert trend(x, y, std=0.01 * y).rate_se == pytest.approx(trend(x, y).rate_se)
    assert trend(x, y, std=10 * y).rate_se > 10 * trend(x, y).rate_se


def test_a_point_that_is_hardly_known_hardly_counts():
    x, y = np.array([1.0, 2.0, 4.0, 8.0]), np.array([1.0, 0.5, 0.25, 9.0])
    assert trend(x, y, std=[0.01, 0.005, 0.0025, 9000.0]).rate == pytest.approx(-1, abs=1e-3)


def test_a_line_that_falls_below_zero_misfits_infinitely():
    x = np.array([1.0, 2.0, 4.0, 8.0, 100.0])
    assert trend(x, 1 / x**2, form="linear").misfit > 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": [1.0, 0.0, 2.0]}, r"y\[1\]=0 must be > 0"),
        ({"x": [1.0, -1.0, 2.0]}, r"x\[1\]=-1 must be > 0"),
        ({"x": [1.0, 1.0, 2.0]}, "must be a list with at least 3 different values"),
        ({"y": [1.0, 2.0]}, r"y has shape \(2,\), must be \(3\)"),
        ({"std": [1.0, 0.0, 1.0]}, r"std\[1\]=0 must be > 0"),
        ({"form": "cubic"}, "form='cubic' must be constant, linear, power or exponential"),
    ],
)
def test_points_without_a_law_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        trend(**({"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0]} | given))
