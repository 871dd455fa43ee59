"""The Gaussian curve against reference values, 50-digit arithmetic and dp-accounting."""

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given
from hypothesis import strategies as st

from airpool.account import theorem1
from airpool.privacy import gaussian

MULTIPLIERS = [
    (0.1, 1e-5, 30.74956613198),
    (1, 1e-5, 3.730631634816),
    (1, 1e-8, 5.10030878753),
    (4, 1e-5, 1.08116184952),
    (10, 1e-5, 0.499888619709),
    (1, 1e-15, 7.487009467987),
]


@pytest.mark.parametrize(("epsilon", "delta", "multiplier"), MULTIPLIERS)
def test_the_noise_multiplier_is_the_reference_value(epsilon, delta, multiplier):
    assert gaussian.noise_multiplier(epsilon, delta) == pytest.approx(multiplier, rel=1e-11)
    assert gaussian.epsilon(1 / multiplier, delta) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("mu", [1e-6, 1e-3, 0.0199, 0.0201, 0.3, 1.0, 7.0, 300.0])
@pytest.mark.parametrize("epsilon", [1e-6, 1e-2, 0.5, 3.0, 40.0, 600.0])
def test_delta_has_ten_digits_of_fifty_digit_arithmetic(epsilon, mu, sign):
    with mpmath.workdps(50):
        e, m = mpmath.mpf(sign * epsilon), mpmath.mpf(mu)
        # δ_G far below what a double holds needs more working digits than its exponent.
        with mpmath.extradps(60):
            exact = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
        expected = float(exact) if exact > mpmath.mpf(10) ** -280 else 0.0
    assert gaussian.delta(sign * epsilon, mu) == pytest.approx(expected, rel=1e-9, abs=1e-279)


def test_delta_of_two_equal_gaussians_is_zero_and_of_infinitely_distant_ones_is_one():
    assert gaussian.delta([0.0, 1.0, -1.0], 0.0) == pytest.approx([0.0, 0.0, 1 - np.exp(-1)], rel=1e-15)
    assert (gaussian.delta([-5.0, 0.0, 5.0, 500.0], np.inf) == 1).all()
    assert gaussian.delta(np.inf, 3.0) == 0
    assert gaussian.delta(-np.inf, 3.0) == 1


def test_epsilon_is_zero_where_delta_suffices_alone_and_infinite_without_noise():
    assert gaussian.epsilon([0.0, 1e-7, np.inf], 1e-5).tolist() == [0.0, 0.0, np.inf]


def test_no_noise_is_needed_for_an_infinite_epsilon():
    assert gaussian.noise_multiplier(np.inf, 1e-5) == 0


@given(st.floats(1e-4, 100), st.floats(-50, -0.01))
def test_epsilon_meets_delta_and_anything_smaller_does_not(mu, log10_delta):
    delta = 10**log10_delta
    epsilon = float(gaussian.epsilon(mu, delta))
    assert gaussian.log_delta(epsilon, mu) <= np.log(delta)
    if epsilon > 0:
        assert gaussian.log_delta(epsilon * (1 - 1e-9), mu) > np.log(delta)


@given(st.floats(0, 300), st.floats(-50, -0.01))
def test_the_noise_multiplier_meets_delta_and_anything_smaller_does_not(epsilon, log10_delta):
    delta = 10**log10_delta
    multiplier = float(gaussian.noise_multiplier(epsilon, delta))
    assert gaussian.log_delta(epsilon, 1 / multiplier) <= np.log(delta)
    assert gaussian.log_delta(epsilon, 1 / (multiplier * (1 - 1e-9))) > np.log(delta)


@given(st.floats(1e-3, 50), st.floats(-20, 20), st.floats(1e-3, 2))
def test_delta_falls_with_epsilon_and_rises_with_mu(mu, epsilon, more):
    slack = 1e-12  # of ln δ, for rounding
    assert gaussian.log_delta(epsilon + more, mu) <= gaussian.log_delta(epsilon, mu) + slack
    assert gaussian.log_delta(epsilon, mu + more) >= gaussian.log_delta(epsilon, mu) - slack


@given(st.floats(1e-3, 30), st.floats(0, 30))
def test_swapping_the_two_gaussians_changes_nothing(mu, epsilon):
    turned = 1 - np.exp(-epsilon) + np.exp(-epsilon) * gaussian.delta(epsilon, mu)
    assert gaussian.delta(-epsilon, mu) == pytest.approx(float(turned), rel=1e-12)


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-10])
@pytest.mark.parametrize("epsilon", [0.05, 0.7, 3.0, 12.0])
def test_dp_accounting_gives_the_same_sigma_and_epsilon(epsilon, delta):
    sigma = dp_accounting.get_sigma_gaussian(epsilon, delta)
    assert gaussian.noise_multiplier(epsilon, delta) == pytest.approx(sigma, rel=1e-10)
    assert gaussian.epsilon(1 / sigma, delta) == pytest.approx(
        dp_accounting.get_epsilon_gaussian(sigma, delta), rel=1e-9
    )


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
def test_dp_accountings_loss_distribution_brackets_the_curve(mu):
    upper, lower = (
        pld.from_gaussian_mechanism(
            1 / mu, value_discretization_interval=1e-3, pessimistic_estimate=side, use_connect_dots=side
        )
        for side in (True, False)
    )
    for epsilon in (0.1, 0.5, 1.0, 2.0, 5.0):
        ours = float(gaussian.delta(epsilon, mu))
        # Its truncated tails hold e^−50 at most.
        assert lower.get_delta_for_epsilon(epsilon) <= ours + 1e-15
        assert upper.get_delta_for_epsilon(epsilon) >= ours - 1e-15
        # At a grid point connecting the dots is exact.
        assert upper.get_delta_for_epsilon(epsilon) == pytest.approx(ours, rel=1e-6, abs=1e-15)


def test_the_classical_formula_at_epsilon_10_has_twice_the_delta_it_claims():
    mu = 10 / np.sqrt(2 * np.log(1.25 / 1e-5))
    assert theorem1.gaussian_epsilon(mu, 1e-5, beyond_proof=True) == pytest.approx(10, rel=1e-14)
    assert gaussian.delta(10.0, mu) == pytest.approx(2.27e-5, abs=0.005e-5)


def test_the_classical_formula_fails_above_8_42_and_wastes_noise_below():
    def truth(claim):
        return float(gaussian.epsilon(claim / np.sqrt(2 * np.log(1.25 / 1e-5)), 1e-5))

    assert truth(8.41) < 8.41
    assert truth(8.43) > 8.43
    assert truth(1.0) < 0.9


def test_the_classical_formula_is_refused_beyond_its_proof():
    assert theorem1.gaussian_epsilon(0.2, 1e-5) == pytest.approx(0.2 * np.sqrt(2 * np.log(1.25e5)))
    with pytest.raises(ValueError, match=r"proved for ε <= 1 only and gives 4\.8"):
        theorem1.gaussian_epsilon(1.0, 1e-5)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, 2.0, np.nan])
def test_a_delta_outside_zero_to_one_is_refused_by_name(delta):
    for function in (gaussian.epsilon, gaussian.noise_multiplier, theorem1.gaussian_epsilon):
        with pytest.raises(ValueError, match=rf"^delta={delta:g} must be > 0 and < 1$"):
            function(0.1, delta)


@pytest.mark.parametrize("value", [-1.0, np.nan])
def test_a_negative_or_missing_mu_or_epsilon_is_refused_by_name(value):
    with pytest.raises(ValueError, match=rf"^mu={value:g} must be >= 0$"):
        gaussian.epsilon(value, 1e-5)
    with pytest.raises(ValueError, match=rf"^mu={value:g} must be >= 0$"):
        gaussian.delta(1.0, value)
    with pytest.raises(ValueError, match=rf"^epsilon={value:g} must be >= 0$"):
        gaussian.noise_multiplier(value, 1e-5)


def test_an_error_names_the_bad_entry_of_a_list():
    with pytest.raises(ValueError, match=r"^mu\[2\]=-3 must be >= 0$"):
        gaussian.epsilon([1.0, 2.0, -3.0], 1e-5)


def test_what_is_not_a_number_is_refused_in_words():
    with pytest.raises(ValueError, match=r"^mu='many' must be a number or a list of numbers$"):
        gaussian.epsilon("many", 1e-5)
