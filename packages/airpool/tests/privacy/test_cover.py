"""Cover noise: the subsampled Gaussian against reference values, numerical integration and dp-accounting."""

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from airpool.privacy import cover, gaussian, leak
from airpool.privacy.device import Aggregate, epsilon
from airpool.privacy.device import delta as device_delta

DELTA = 1e-5


def one_device(sigma, p):
    """Sensitivity 1, noise sigma, nobody else."""
    return Aggregate(np.ones(1), np.array([sigma**2]), np.array([p]), cover_noise=True)


def curve(eps, mu, p, *, backward):
    hidden = leak.Hidden(np.array([p]), leak.Gaussian(np.array([mu]), np.ones(1)))
    return float(leak.delta(hidden, np.array([eps]), np.zeros(1, dtype=np.int64), backward=backward)[0])


def replaced(eps, mu, p):
    return float(cover.delta_replace(np.array([eps]), np.array([mu]), np.array([p]))[0])


def mixture(mu, p):
    return lambda y: (1 - p) * stats.norm.pdf(y) + p * stats.norm.pdf(y, mu)


def hockey_stick(first, second, eps):
    y = np.linspace(-30, 30, 200_001)
    return float(np.trapezoid(np.maximum(first(y) - np.exp(eps) * second(y), 0.0), y))


@pytest.mark.parametrize(
    ("sigma", "p", "expected"),
    [(0.5, 0.1, 6.575539806), (1, 0.5, 3.533997985), (1, 0.9, 4.248585993), (2, 0.9, 1.890283263)],
)
def test_one_device_under_cover_noise_is_the_subsampled_gaussian(sigma, p, expected):
    assert epsilon(one_device(sigma, p), DELTA).upper[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("p", [0.01, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("eps", [-1.0, -0.2, 0.1, 1.0, 2.5])
def test_zero_out_is_the_divergence_of_the_mixture_in_both_directions(eps, mu, p):
    hidden, empty = mixture(mu, p), mixture(0.0, p)
    assert curve(eps, mu, p, backward=False) == pytest.approx(hockey_stick(hidden, empty, eps), rel=1e-6, abs=1e-9)
    assert curve(eps, mu, p, backward=True) == pytest.approx(hockey_stick(empty, hidden, eps), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("p", [0.01, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("eps", [-1.0, 0.1, 1.0, 2.5])
def test_replace_is_the_divergence_of_two_opposite_mixtures(eps, mu, p):
    expected = hockey_stick(mixture(mu, p), mixture(-mu, p), eps)
    assert replaced(eps, mu, p) == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("eps", [0.1, 0.7, 2.0])
def test_no_other_pair_of_features_is_told_apart_more_easily_than_opposite_ones(eps):
    mu, p = 1.5, 0.6
    worst = replaced(eps, mu, p)
    rng = np.random.default_rng(4)
    for a, b in rng.uniform(-mu, mu, (15, 2)):
        assert hockey_stick(mixture(a, p), mixture(b, p), eps) <= worst + 1e-9


def test_features_at_an_angle_are_told_apart_less_easily_than_opposite_ones():
    """In two dimensions, on a grid fine enough for three digits."""
    mu, p, eps = 1.5, 0.6, 0.4
    y = np.linspace(-8, 8, 801)
    cell = (y[1] - y[0]) ** 2
    x, z = np.meshgrid(y, y)

    def density(angle):
        centre = stats.norm.pdf(x) * stats.norm.pdf(z)
        moved = stats.norm.pdf(x, mu * np.cos(angle)) * stats.norm.pdf(z, mu * np.sin(angle))
        return (1 - p) * centre + p * moved

    deltas = [
        np.maximum(density(0) - np.exp(eps) * density(angle), 0).sum() * cell for angle in np.linspace(0.1, np.pi, 8)
    ]
    assert (np.diff(deltas) > 0).all()
    assert deltas[-1] == pytest.approx(replaced(eps, mu, p), rel=1e-3)


@pytest.mark.parametrize("mu", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("eps", [-2.0, 0.0, 0.5, 6.0])
def test_a_device_that_always_takes_part_has_the_gaussian_curve(eps, mu):
    plain = float(gaussian.delta(eps, mu))
    assert curve(eps, mu, 1.0, backward=False) == pytest.approx(plain, rel=1e-12)
    assert curve(eps, mu, 1.0, backward=True) == pytest.approx(plain, rel=1e-12)
    assert replaced(eps, mu, 1.0) == pytest.approx(float(gaussian.delta(eps, 2 * mu)), rel=1e-10)


@given(st.floats(0, 30), st.floats(1e-3, 10), st.floats(1e-6, 1))
def test_both_directions_tell_one_story(eps, mu, p):
    """H_{−ε}(P‖Q) = 1 − e^−ε + e^−ε H_ε(Q‖P)."""
    for backward in (False, True):
        turned = 1 - np.exp(-eps) + np.exp(-eps) * curve(eps, mu, p, backward=not backward)
        assert curve(-eps, mu, p, backward=backward) == pytest.approx(turned, rel=1e-9, abs=1e-13)
    turned = 1 - np.exp(-eps) + np.exp(-eps) * replaced(eps, mu, p)
    assert replaced(-eps, mu, p) == pytest.approx(turned, rel=1e-12)


@given(st.floats(0, 600), st.floats(0.01, 5), st.one_of(st.just(0.0), st.floats(1e-9, 40)), st.floats(0, 1))
def test_every_curve_is_a_falling_probability(eps, more, mu, p):
    for function in (
        replaced,
        lambda e, m, q: curve(e, m, q, backward=False),
        lambda e, m, q: curve(e, m, q, backward=True),
    ):
        here, further = function(eps, mu, p), function(eps + more, mu, p)
        assert 0 <= further <= here + 1e-14 <= 1 + 2e-14


def test_edge_cases_of_the_curves():
    for eps in (0.0, 1.0, 50.0):
        assert curve(eps, 1.0, 0.0, backward=False) == 0
        assert curve(eps, 1.0, 0.0, backward=True) == 0
        assert replaced(eps, 1.0, 0.0) == 0
        assert replaced(eps, 0.0, 0.5) == 0
        # Without noise whoever speaks is seen.
        assert curve(eps, np.inf, 0.3, backward=False) == pytest.approx(0.3)
        assert replaced(eps, np.inf, 0.3) == pytest.approx(0.3)


@pytest.mark.parametrize(("sigma", "p"), [(0.5, 0.1), (1.0, 0.9), (3.0, 0.5)])
def test_dp_accounting_has_the_same_delta_for_zero_out(sigma, p):
    grid = 1e-3
    oracle = pld.from_gaussian_mechanism(sigma, value_discretization_interval=grid, sampling_prob=p)
    for eps in (0.1, 0.5, 1.0, 3.0):
        ours = float(device_delta(one_device(sigma, p), eps)[0])
        assert oracle.get_delta_for_epsilon(eps) == pytest.approx(ours, rel=1e-6, abs=1e-14)
    ours = float(epsilon(one_device(sigma, p), DELTA).upper[0])
    assert ours - 1e-9 <= oracle.get_epsilon_for_delta(DELTA) <= ours + grid


@pytest.mark.parametrize(("sigma", "p"), [(1.0, 0.9), (3.0, 0.5)])
def test_dp_accountings_mixture_of_gaussians_has_the_same_delta(sigma, p):
    oracle = pld.from_mixture_gaussian_mechanism(sigma, [0.0, 1.0], [1 - p, p], value_discretization_interval=1e-2)
    for eps in (0.1, 0.5, 1.0):
        ours = float(device_delta(one_device(sigma, p), eps)[0])
        assert oracle.get_delta_for_epsilon(eps) == pytest.approx(ours, rel=1e-6, abs=1e-14)


@pytest.mark.parametrize(("sigma", "p"), [(1.0, 0.9), (3.0, 0.5)])
def test_dp_accounting_has_the_same_delta_for_replace(sigma, p):
    oracle = pld.from_gaussian_mechanism(
        sigma,
        value_discretization_interval=1e-3,
        sampling_prob=p,
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
    )
    for eps in (0.1, 0.5, 1.0):
        ours = float(device_delta(one_device(sigma, p), eps, neighbours="replace")[0])
        assert oracle.get_delta_for_epsilon(eps) == pytest.approx(ours, rel=1e-6, abs=1e-14)


def test_everybodys_noise_counts_less_that_of_the_worst_absent_ones():
    variance = np.array([0.1, 0.4, 0.2, 0.3])
    net = Aggregate(np.full(4, 0.5), variance, np.ones(4), cover_noise=True, absent=1)
    # The absent one is the device with the largest variance, or the second for that device itself.
    left = variance.sum() - np.array([0.4, 0.3, 0.4, 0.4])
    assert net.fixed_variance() == pytest.approx(left)
    assert epsilon(net, DELTA).upper == pytest.approx(gaussian.epsilon(0.5 / np.sqrt(left), DELTA), rel=1e-9)


def test_known_colluders_lend_no_cover():
    variance = np.array([0.1, 0.4, 0.2])
    net = Aggregate(np.full(3, 0.5), variance, np.ones(3), cover_noise=True, colluding=(1,))
    assert net.fixed_variance() == pytest.approx([0.3, 0.7, 0.3])
