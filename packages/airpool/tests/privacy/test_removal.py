"""Removal against high-precision integration, Monte Carlo, and its own limits."""

from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad

from airpool.privacy import gaussian, removal
from airpool.privacy.device import Aggregate, epsilon
from airpool.privacy.device import delta as device_delta
from airpool.privacy.leak import Either, Hidden, Removed
from airpool.privacy.leak import given as given_noise

DELTA = 1e-5


def divergence(eps, *, shift, rest, own, dimension, backward):
    arrays = (np.array([float(x)]) for x in (eps, shift, rest, own))
    e, s, b, o = arrays
    return float(removal.divergence(e, shift=s, rest=b, own=o, dimension=dimension, backward=backward)[0])


def mixed(eps, *, shift, rest, own, dimension, p, backward, covered=False):
    e, s, b, o, q = (np.array([float(x)]) for x in (eps, shift, rest, own, p))
    gone = Removed(s, o, dimension)
    leak = Either(q, gone, Removed(0 * s, o, dimension)) if covered else Hidden(q, gone)
    return float(given_noise(leak, e, np.zeros(1, dtype=np.int64), b, backward=backward)[0])


def like(count, *, shift, std, p, dimension):
    return Aggregate(np.full(count, shift), np.full(count, std**2), np.full(count, p), dimension=dimension)


# What the specification says


@pytest.mark.parametrize(("dimension", "expected"), [(64, 2.5), (784, 9.2), (25_088, 92)])
def test_removing_a_device_whose_feature_is_practically_zero_costs_more_in_more_dimensions(dimension, expected):
    for shift in (0.0, 1e-9):
        twelve = like(12, shift=shift, std=1.0, p=1.0, dimension=dimension)
        assert epsilon(twelve, DELTA, neighbours="remove").upper[0] == pytest.approx(expected, rel=0.01)


def test_removal_is_always_seen_where_a_device_may_speak_alone_more_often_than_delta():
    p = 0.9
    alone = p * (1 - p) ** 3
    four = like(4, shift=0.1, std=1.0, p=p, dimension=3)
    assert (epsilon(four, alone * 0.999, neighbours="remove").upper == np.inf).all()
    assert (epsilon(four, alone * 1.001, neighbours="remove").upper < np.inf).all()


def test_a_single_device_cannot_be_removed_unseen():
    assert epsilon(like(1, shift=0.1, std=1.0, p=1.0, dimension=1), DELTA, neighbours="remove").upper[0] == np.inf


def test_removing_a_device_that_never_speaks_costs_nothing():
    net = Aggregate(np.full(2, 1.0), np.full(2, 1.0), np.array([0.0, 1.0]), dimension=64)
    assert epsilon(net, DELTA, neighbours="remove").upper[0] == 0


def test_removing_a_device_without_weight_still_shows_in_the_noise():
    net = Aggregate(np.array([0.0, 1.0]), np.ones(2), np.ones(2), dimension=64)
    assert epsilon(net, DELTA, neighbours="remove").upper[0] > 10


# High precision


def exact(eps, *, shift, rest, own, backward):
    """H_ε in one dimension, the region of the best test from the quadratic's roots, in 150 digits."""
    with mpmath.workdps(150):
        e, d, b, a = mpmath.mpf(eps), mpmath.mpf(shift), mpmath.mpf(rest), mpmath.mpf(rest) + mpmath.mpf(own)
        # ln P/Q = y²(1/b − 1/a)/2 + yΔ/a − Δ²/(2a) − ln(a/b)/2 against ε, or −ε from the other side.
        level = -e if backward else e
        A, B = (1 / b - 1 / a) / 2, d / a
        C = -(d**2) / (2 * a) - mpmath.log(a / b) / 2 - level
        root = B**2 - 4 * A * C

        def below(y, m, v):
            return mpmath.ncdf((y - m) / mpmath.sqrt(v))

        if root <= 0:
            inside = {name: mpmath.mpf(0) for name in "PQ"}
        else:
            left, right = (-B - mpmath.sqrt(root)) / (2 * A), (-B + mpmath.sqrt(root)) / (2 * A)
            inside = {
                name: below(right, m, v) - below(left, m, v) for name, m, v in (("P", d, a), ("Q", mpmath.mpf(0), b))
            }
        if backward:
            return float(inside["Q"] - mpmath.exp(e) * inside["P"])
        return float((1 - inside["P"]) - mpmath.exp(e) * (1 - inside["Q"]))


@given(st.floats(0.01, 150), st.floats(-3, 1.5), st.floats(-3, 1), st.floats(-5, 2), st.booleans())
def test_one_dimension_agrees_with_150_digits(eps, log_shift, log_rest, log_own, backward):
    rest = 10**log_rest
    case = {"shift": np.sqrt(rest) * 10**log_shift, "rest": rest, "own": rest * 10**log_own, "backward": backward}
    expected = max(exact(eps, **case), 0.0)
    # The two tails are doubles: what is left of their difference has 1e-12 of the larger one.
    assert divergence(eps, dimension=1, **case) == pytest.approx(expected, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(
    ("dimension", "own", "eps"), [(64, 5.0, 200), (784, 1.0, 110), (4000, 0.3, 100), (25_088, 0.3, 500)]
)
def test_far_out_and_in_many_dimensions_a_zero_feature_agrees_with_the_incomplete_gamma_function(
    dimension, own, eps, backward
):
    with mpmath.workdps(40):
        a = 1 + mpmath.mpf(own)
        level = -mpmath.mpf(eps) if backward else mpmath.mpf(eps)
        T = max((level + dimension * mpmath.log(a) / 2) * 2 * a / own, mpmath.mpf(0))

        def tail(x):
            ends = (0, x / 2) if backward else (x / 2, mpmath.inf)
            return mpmath.gammainc(mpmath.mpf(dimension) / 2, *ends, regularized=True)

        P, Q = tail(T / a), tail(T)
        expected = float(Q - mpmath.exp(eps) * P if backward else P - mpmath.exp(eps) * Q)
    case = {"shift": 0.0, "rest": 1.0, "own": own, "dimension": dimension, "backward": backward}
    assert divergence(eps, **case) == pytest.approx(expected, rel=1e-9)
    assert divergence(eps, **{**case, "shift": 1e-6}) == pytest.approx(expected, rel=1e-6)


# Monte Carlo


def log_ratio(y, *, shift, rest, own):
    """ln P/Q of N(Δ e₁, (b + own) I) against N(0, b I), from the densities."""
    mean = np.zeros(y.shape[1])
    mean[0] = shift
    with_it = np.sum(stats.norm.logpdf(y, mean, np.sqrt(rest + own)), axis=1)
    return with_it - np.sum(stats.norm.logpdf(y, 0, np.sqrt(rest)), axis=1)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("p", [1.0, 0.7])
@pytest.mark.parametrize(("dimension", "own"), [(1, 0.5), (3, 0.3), (64, 0.1)])
def test_removal_agrees_with_monte_carlo_within_its_error(dimension, own, p, backward):
    """δ(ε) = E[(1 − e^(ε−L))₊] over the loss L; five standard errors of 50,000 draws."""
    rng = np.random.default_rng([11, dimension, backward, int(10 * p)])
    n, shift, rest = 50_000, 1.0, 1.0
    takes_part = (rng.random(n) < p) & (not backward)
    y = rng.standard_normal((n, dimension)) * np.sqrt(rest + own * takes_part)[:, None]
    y[:, 0] += shift * takes_part
    ratio = np.log1p(p * np.expm1(log_ratio(y, shift=shift, rest=rest, own=own)))  # of the mixture over Q
    loss = -ratio if backward else ratio
    for eps in (0.1, 0.5, 1.0):
        each = np.maximum(-np.expm1(eps - loss), 0.0)
        error = 5 * each.std() / np.sqrt(n)
        found = mixed(eps, shift=shift, rest=rest, own=own, dimension=dimension, p=p, backward=backward)
        assert found == pytest.approx(each.mean(), abs=error)
        if found > 0:
            assert error < 0.25 * found  # or the draws would say nothing


def test_the_mean_over_the_others_participation_is_taken_outside():
    net = Aggregate(np.array([0.3, 0.2, 0.5]), np.array([0.2, 0.5, 1.0]), np.array([0.8, 0.6, 0.9]), dimension=3)
    eps = 1.0
    for k in range(3):
        others = [i for i in range(3) if i != k]
        worst = []
        for backward in (False, True):
            total = 0.0
            for heard in product((0, 1), repeat=2):
                pairs = list(zip(others, heard, strict=True))
                chance = np.prod([net.participation[i] if t else 1 - net.participation[i] for i, t in pairs])
                rest = sum(net.variance[i] for i, t in pairs if t)
                case = {"shift": net.shift[k], "own": net.variance[k], "rest": rest, "dimension": 3}
                total += chance * mixed(eps, p=net.participation[k], backward=backward, **case)
            worst.append(total)
        assert device_delta(net, eps, neighbours="remove")[k] == pytest.approx(max(worst), rel=1e-10)


# Mixtures over the device's own coin, in one dimension, by integration


def densities(*, shift, rest, own, p, covered):
    def present(y):
        silent = stats.norm.pdf(y, 0, np.sqrt(rest + own * covered))
        return p * stats.norm.pdf(y, shift, np.sqrt(rest + own)) + (1 - p) * silent

    return present, lambda y: stats.norm.pdf(y, 0, np.sqrt(rest))


def hockey_stick(first, second, eps):
    y = np.linspace(-40, 40, 400_001)
    return float(np.trapezoid(np.maximum(first(y) - np.exp(eps) * second(y), 0.0), y))


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("eps", [-0.5, -0.1, 0.05, 0.4, 2.0])
@pytest.mark.parametrize("p", [0.05, 0.5, 1.0])
def test_a_hidden_coin_gives_the_divergence_of_the_mixture(p, eps, backward):
    case = {"shift": 1.2, "rest": 0.8, "own": 0.5, "p": p}
    present, absent = densities(**case, covered=False)
    expected = hockey_stick(absent, present, eps) if backward else hockey_stick(present, absent, eps)
    assert mixed(eps, dimension=1, backward=backward, **case) == pytest.approx(expected, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("eps", [-0.5, 0.05, 0.4, 2.0])
@pytest.mark.parametrize("p", [0.05, 0.5, 1.0])
def test_under_cover_noise_the_bound_is_above_the_divergence_of_the_mixture(p, eps, backward):
    case = {"shift": 1.2, "rest": 0.8, "own": 0.5, "p": p}
    present, absent = densities(**case, covered=True)
    truth = hockey_stick(absent, present, eps) if backward else hockey_stick(present, absent, eps)
    bound = mixed(eps, dimension=1, backward=backward, covered=True, **case)
    assert bound >= truth - 1e-8
    if p == 1:
        assert bound == pytest.approx(truth, rel=1e-6, abs=1e-8)


# The two ways to compute it, and the limits


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("dimension", [1, 2, 3, 64, 784, 25_088])
@pytest.mark.parametrize("noncentrality", [1e5, 1e6, 1e7])
def test_tails_and_quadrature_agree_where_both_work(dimension, noncentrality, backward, monkeypatch):
    rng = np.random.default_rng(3)
    own = 10 ** rng.uniform(-5, -1, 30)
    shift, rest = np.sqrt(noncentrality) * own, np.ones(30)
    eps = rng.uniform(0, 2, 30) * shift**2 + 0.01

    def divergence(far):
        monkeypatch.setattr(removal, "_FAR", far)
        return removal.divergence(eps, shift=shift, rest=rest, own=own, dimension=dimension, backward=backward)

    assert divergence(np.inf) == pytest.approx(divergence(0.0), rel=1e-6, abs=1e-10)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("dimension", [1, 3, 64])
@pytest.mark.parametrize("shift", [0.1, 1.0, 5.0])
def test_as_the_own_noise_vanishes_removal_becomes_the_gaussian_curve(shift, dimension, backward):
    for eps in (0.1, 1.0, 5.0):
        curve = float(gaussian.delta(eps, shift))
        exactly = divergence(eps, shift=shift, rest=1.0, own=0.0, dimension=dimension, backward=backward)
        nearly = divergence(eps, shift=shift, rest=1.0, own=1e-10, dimension=dimension, backward=backward)
        assert exactly == curve
        assert nearly == pytest.approx(curve, rel=1e-6, abs=1e-14)


def test_a_device_that_speaks_into_silence_is_seen_and_nothing_at_all_is_not():
    for backward in (False, True):
        assert divergence(5.0, shift=0.0, rest=0.0, own=1.0, dimension=1, backward=backward) == 1
        assert divergence(5.0, shift=1.0, rest=0.0, own=0.0, dimension=1, backward=backward) == 1
        assert divergence(5.0, shift=0.0, rest=0.0, own=0.0, dimension=1, backward=backward) == 0


@given(
    st.floats(0, 20),
    st.floats(0.01, 20),
    st.one_of(st.just(0.0), st.floats(1e-9, 5)),
    st.floats(0.01, 5),
    st.one_of(st.just(0.0), st.floats(1e-9, 5)),
    st.sampled_from([1, 3, 64]),
)
def test_the_divergence_falls_with_epsilon_and_both_directions_tell_one_story(eps, more, shift, rest, own, dimension):
    case = {"shift": shift, "rest": rest, "own": own, "dimension": dimension}
    for backward in (False, True):
        smaller = divergence(eps + more, backward=backward, **case)
        assert smaller <= divergence(eps, backward=backward, **case) + 1e-12
        # H_{−ε}(P‖Q) = 1 − e^−ε + e^−ε H_ε(Q‖P)
        turned = 1 - np.exp(-eps) + np.exp(-eps) * divergence(eps, backward=not backward, **case)
        assert divergence(-eps, backward=backward, **case) == pytest.approx(turned, abs=1e-11)


def test_integrating_the_density_numerically_gives_the_same_in_one_dimension():
    shift, rest, own, eps = 0.7, 1.3, 0.9, 0.3

    def excess(y):
        with_it = stats.norm.pdf(y, shift, np.sqrt(rest + own))
        return max(float(with_it - np.exp(eps) * stats.norm.pdf(y, 0, np.sqrt(rest))), 0.0)

    expected, error = quad(excess, -30, 30, limit=500, epsabs=1e-11)
    assert divergence(eps, shift=shift, rest=rest, own=own, dimension=1, backward=False) == pytest.approx(
        expected, abs=max(error, 1e-10)
    )
