"""Leaks, node by node: against numerical integration, closed forms, and what each node says of those below it."""

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

from airpool._support.arrays import Floats
from airpool.privacy import gaussian, odds
from airpool.privacy.compose import nearby, stream
from airpool.privacy.epsilon import epsilon, lower
from airpool.privacy.floor import Floor
from airpool.privacy.law import Law
from airpool.privacy.leak import (
    Decided,
    Draws,
    Either,
    Gaussian,
    Hidden,
    HiddenBoth,
    Least,
    Mixed,
    Near,
    PerDevice,
    Removed,
    Seen,
    Signal,
    Times,
    Unbounded,
    Worst,
    delta,
    drawn,
    ends,
    gaussians,
    given,
    near,
    why_unbounded,
)

DELTA = 1e-5
EPSILONS = np.array([-0.7, 0.0, 0.1, 0.6, 1.5])
FIRST = np.zeros(1, dtype=np.int64)
BOTH = pytest.mark.parametrize("backward", [False, True])


def array(*values: float) -> Floats:
    return np.array(values, dtype=np.float64)


def of_one(leak: Any) -> PerDevice:
    """The leak of one device with one case."""
    return PerDevice(leak, FIRST, FIRST)


def curve(leak: Any, *, backward: bool = False) -> Floats:
    return delta(leak, EPSILONS, np.zeros(len(EPSILONS), dtype=np.int64), backward=backward)


def seen(leak: Signal, variance: Floats, mass: Floats, exposed: float = 1.0) -> Seen:
    """A signal over noise of a law that is exactly known."""
    law = Law(variance[None], mass[None])
    return Seen(Floor(law, law, 0.0, FIRST, FIRST), leak, array(exposed))


def divergence(p: Any, q: Any, *, backward: bool) -> Floats:
    """∫(P − e^ε Q)₊ of two densities on the line at each of EPSILONS, or of Q against P; good to 1e-9."""
    if backward:
        p, q = q, p
    # The trapezium: a kink costs at most h²/8 of the jump in slope there, 2e-10.
    y = np.linspace(-14, 14, 700_001)
    above, below = p(y), q(y)
    return np.array([np.trapezoid(np.maximum(above - np.exp(eps) * below, 0.0), y) for eps in EPSILONS])


# What one signal shows


@BOTH
def test_a_gaussian_is_the_integral_over_its_densities(backward):
    leak = Gaussian(array(0.8), array(0.5))
    with_it, without = stats.norm(0.8, np.sqrt(0.5)).pdf, stats.norm(0, np.sqrt(0.5)).pdf
    truth = divergence(with_it, without, backward=backward)
    assert curve(leak, backward=backward) == pytest.approx(truth, abs=1e-9)
    assert leak.symmetric


@BOTH
def test_a_removed_device_takes_its_noise_along(backward):
    leak = seen(Removed(array(0.6), array(0.4), 1), array(0.9), array(1.0))
    with_it, without = stats.norm(0.6, np.sqrt(1.3)).pdf, stats.norm(0, np.sqrt(0.9)).pdf
    truth = divergence(with_it, without, backward=backward)
    assert curve(leak, backward=backward) == pytest.approx(truth, abs=1e-9)


@BOTH
def test_a_removed_device_of_several_dimensions_agrees_with_a_simulation(backward):
    """δ(ε) = E[(1 − e^(ε−L))₊] over the loss L; five standard errors of 200,000 draws."""
    n, dimension, shift, own, rest = 200_000, 4, 0.6, 0.4, 0.9
    leak = seen(Removed(array(shift), array(own), dimension), array(rest), array(1.0))
    rng = np.random.default_rng([5, backward])
    y = rng.standard_normal((n, dimension)) * np.sqrt(rest if backward else rest + own)
    y[:, 0] += 0.0 if backward else shift
    mean = np.r_[shift, np.zeros(dimension - 1)]
    ratio = np.sum(stats.norm.logpdf(y, mean, np.sqrt(rest + own)) - stats.norm.logpdf(y, 0, np.sqrt(rest)), axis=1)
    each = np.maximum(-np.expm1(EPSILONS[:, None] - (-ratio if backward else ratio)), 0.0)
    error = 5 * each.std(axis=1) / np.sqrt(n)
    assert np.all(np.abs(curve(leak, backward=backward) - each.mean(axis=1)) <= error)
    assert np.all(error <= 0.1 * each.mean(axis=1))  # or the draws would say nothing


@BOTH
@pytest.mark.parametrize("p", [0.2, 0.9, 1.0])
def test_a_hidden_signal_is_a_mixture_with_its_absence(p, backward):
    plain = stats.norm(0, np.sqrt(0.5)).pdf
    gone = seen(Hidden(array(p), Removed(array(0.6), array(0.4), 1)), array(0.5), array(1.0))
    for leak, there in (
        (Hidden(array(p), Gaussian(array(0.8), array(0.5))), stats.norm(0.8, np.sqrt(0.5)).pdf),
        (gone, stats.norm(0.6, np.sqrt(0.9)).pdf),
    ):

        def mixed(y, there=there):
            return (1 - p) * plain(y) + p * there(y)

        truth = divergence(mixed, plain, backward=backward)
        assert curve(leak, backward=backward) == pytest.approx(truth, abs=1e-9)


@BOTH
@pytest.mark.parametrize("p", [0.2, 0.9, 1.0])
def test_a_signal_hidden_on_both_sides_is_one_of_two_opposite_features(p, backward):
    leak = HiddenBoth(array(p), Gaussian(array(1.6), array(0.5)))

    def side(sign):
        return lambda y: sum(
            chance * stats.norm.pdf(y, at, np.sqrt(0.5)) for chance, at in ((1 - p, 0.0), (p, sign * 0.8))
        )

    truth = divergence(side(1), side(-1), backward=backward)
    assert curve(leak, backward=backward) == pytest.approx(truth, abs=1e-9)
    assert leak.symmetric


@BOTH
def test_either_is_the_mean_of_two_leaks_and_above_their_mixture(backward):
    p, one, other = 0.3, Gaussian(array(0.8), array(0.5)), Gaussian(array(0.2), array(0.5))
    bound = curve(Either(array(p), one, other), backward=backward)
    apart = p * curve(one, backward=backward) + (1 - p) * curve(other, backward=backward)
    assert bound == pytest.approx(apart, rel=1e-14)
    far, little, without = (stats.norm(at, np.sqrt(0.5)).pdf for at in (0.8, 0.2, 0.0))
    mixture = divergence(lambda y: p * far(y) + (1 - p) * little(y), without, backward=backward)
    assert np.all(bound >= mixture - 1e-9)


# What the adversary sees besides


@BOTH
@pytest.mark.parametrize("exposed", [1.0, 0.6])
def test_noise_that_is_seen_is_a_mean_over_its_law(exposed, backward):
    variance, mass = array(0.0, 0.3, 1.1), array(0.2, 0.5, 0.3)
    hidden = Hidden(array(0.4), Gaussian(array(0.8), array(0.5)))
    truth = (1 - exposed) * np.maximum(1 - np.exp(EPSILONS), 0.0)
    for v, chance in zip(variance, mass, strict=True):
        alone = Hidden(array(0.4), Gaussian(array(0.8), array(0.5 + v)))
        truth = truth + exposed * chance * curve(alone, backward=backward)
    found = curve(seen(hidden, variance, mass, exposed), backward=backward)
    assert found == pytest.approx(truth, rel=1e-12)


def test_noise_known_between_two_laws_has_a_delta_between_two_ends():
    low, high = Law(array(0.2, 1.0)[None], array(0.5, 0.5)[None]), Law(array(0.3, 1.1)[None], array(0.5, 0.5)[None])
    leak = Seen(Floor(low, high, 1e-7, FIRST, FIRST), Gaussian(array(0.8), array(0.5)), array(1.0))
    cases = np.zeros(len(EPSILONS), dtype=np.int64)
    proven, least = delta(leak, EPSILONS, cases), delta(leak, EPSILONS, cases, high=True)
    for law, found, slack in ((low, proven, 1e-7), (high, least, -1e-7)):
        exact = law.mass[0] @ gaussian.delta(EPSILONS, (0.8 / np.sqrt(law.variance[0] + 0.5))[:, None])
        assert found == pytest.approx(exact + slack, rel=1e-12)
    assert np.all(least < proven)
    found = ends(of_one(leak), DELTA)
    assert found.lower[0] < found.upper[0]
    assert lower(of_one(leak), DELTA) == found.lower


@BOTH
@pytest.mark.parametrize("chances", [(0.7, 0.4), (0.4, 0.7), (1.0, 1.0), (0.3, 0.0), (0.0, 0.3), (0.0, 0.0)])
def test_a_decision_that_is_seen_is_a_symbol_beside_the_densities(chances, backward):
    with np.errstate(divide="ignore"):
        on, off = np.log(chances)[:, None], np.log1p(-np.array(chances))[:, None]
    leak = Decided(on, off, seen(Gaussian(array(0.8), array(0.5)), array(0.0), array(1.0)))
    here, there = chances
    silent, other = (1 - there, 1 - here) if backward else (1 - here, 1 - there)
    with_it, without = stats.norm(0.8, np.sqrt(0.5)).pdf, stats.norm(0, np.sqrt(0.5)).pdf
    truth = np.maximum(silent - np.exp(EPSILONS) * other, 0.0)
    truth = truth + divergence(lambda y: here * with_it(y), lambda y: there * without(y), backward=backward)
    assert curve(leak, backward=backward) == pytest.approx(truth, abs=1e-9)


# Of a device


@pytest.mark.parametrize(
    "leak",
    [
        Gaussian(array(0.8), array(0.5)),
        Hidden(array(0.4), Gaussian(array(0.8), array(0.5))),
        HiddenBoth(array(0.4), Gaussian(array(0.8), array(0.5))),
        Either(array(0.4), Gaussian(array(0.8), array(0.5)), Gaussian(array(0.2), array(0.5))),
        seen(Removed(array(0.6), array(0.4), 3), array(0.9), array(1.0)),
        seen(Hidden(array(0.4), Gaussian(array(0.8), array(0.5))), array(0.0, 0.3), array(0.5, 0.5), 0.9),
    ],
    ids=lambda leak: type(leak).__name__,
)
def test_epsilon_of_every_leak_is_where_its_curve_meets_delta(leak):
    found = epsilon(of_one(leak), DELTA)
    around = np.array([found[0], found[0] * (1 - 1e-6)])
    at, below = np.maximum(*(delta(leak, around, np.zeros(2, dtype=np.int64), backward=side) for side in (False, True)))
    assert at <= DELTA * (1 + 1e-13)
    assert below > DELTA


def test_a_device_has_the_worst_of_its_cases_and_shares_them_with_its_kind():
    leak = PerDevice(Gaussian(array(0.3, 0.9, 0.5), np.ones(3)), np.array([0, 0, 1]), np.array([1, 0, 0, 1]))
    expected = gaussian.epsilon(array(0.5, 0.9, 0.9, 0.5), DELTA)
    assert epsilon(leak, DELTA) == pytest.approx(expected, rel=1e-9)
    assert ends(leak, DELTA).upper == pytest.approx(expected, rel=1e-9)
    assert leak.curve(0, EPSILONS, "forward") == pytest.approx(gaussian.delta(EPSILONS, array(0.9)), rel=1e-12)


def test_gaussians_are_one_for_each_device():
    mu = array(0.5, 0.0, np.inf, 0.5)
    assert epsilon(gaussians(mu), DELTA) == pytest.approx(gaussian.epsilon(mu, DELTA), rel=1e-12)


def test_a_distance_that_is_drawn_is_a_mean_over_its_law():
    leak = drawn(array(0.1, 0.9, 0.4), array(0.2, 0.3, 0.5))
    exact = array(0.2, 0.3, 0.5) @ gaussian.delta(EPSILONS, array(0.1, 0.9, 0.4)[:, None])
    assert leak.curve(0, EPSILONS, "forward") == pytest.approx(exact, rel=1e-12)


def test_a_coarser_leak_is_above_the_exact_one():
    variance, mass = np.linspace(0.0, 2.0, 40), np.full(40, 1 / 40)
    leak = of_one(seen(Gaussian(array(0.8), array(0.5)), variance, mass))
    rough = leak.coarse(4)
    assert leak.coarse(40) is leak
    assert np.all(rough.curve(0, EPSILONS, "forward") >= leak.curve(0, EPSILONS, "forward"))
    assert ends(leak, DELTA).upper < ends(rough, DELTA).upper < ends(leak, DELTA).upper * 1.3


# Over time

MU = array(0.3, 0.9)


def of_gaussian(prior, mu):
    """Odds against one Gaussian at distance μ."""
    return stats.norm.cdf(stats.norm.ppf(prior) + mu)


def test_many_times_a_gaussian_is_one_grown_by_their_root():
    assert epsilon(Times(9, gaussians(MU)), DELTA) == pytest.approx(gaussian.epsilon(3 * MU, DELTA), rel=1e-12)
    prior = array(0.5, 0.01)
    expected = of_gaussian(prior[:, None], 3 * MU)
    assert odds.odds(Times(9, gaussians(MU)), prior) == pytest.approx(expected, rel=1e-9)


def test_once_is_the_leak_itself():
    leak = drawn(array(0.1, 0.9), array(0.7, 0.3))
    for once in (Times(1, leak), Draws(1, 1, leak)):
        assert epsilon(once, DELTA).tolist() == ends(leak, DELTA).upper.tolist()


@pytest.mark.parametrize("number", [0, -3])
def test_fewer_than_one_time_is_refused(number):
    with pytest.raises(ValueError, match=f"inferences={number} must be >= 1"):
        Times(number, gaussians(MU))


def test_one_draw_for_all_is_the_mean_of_gaussians_grown_by_their_root():
    mu, mass = array(0.1, 0.4), array(0.7, 0.3)
    found = float(epsilon(Draws(9, 1, drawn(mu, mass)), DELTA)[0])
    assert mass @ gaussian.delta(found, 3 * mu) == pytest.approx(DELTA, rel=1e-8)
    expected = mass @ of_gaussian(0.1, 3 * mu)
    assert odds.odds(Draws(9, 1, drawn(mu, mass)), array(0.1))[0, 0] == pytest.approx(expected, rel=1e-9)


def test_more_draws_cost_at_most_the_worst_draw_each_time():
    leak = drawn(array(0.1, 0.4), array(0.7, 0.3))
    few, many = (float(epsilon(Draws(9, draws, leak), DELTA)[0]) for draws in (2, 9))
    worst = float(gaussian.epsilon(3 * 0.4, DELTA))
    assert few <= many <= worst * (1 + 1e-9)
    # Two draws, each for some of the nine inferences: no way to share them out costs more.
    for share in range(1, 9):
        total = np.sqrt(share * array(0.1, 0.4)[:, None] ** 2 + (9 - share) * array(0.1, 0.4) ** 2)
        assert np.sum(np.outer((0.7, 0.3), (0.7, 0.3)) * gaussian.delta(few, total)) <= DELTA
    prior = array(0.1)
    assert odds.odds(Draws(9, 1, leak), prior) < odds.odds(Draws(9, 2, leak), prior)
    assert odds.odds(Draws(9, 2, leak), prior) <= of_gaussian(0.1, 3 * 0.4) * (1 + 1e-9)


def test_a_leak_that_may_be_missed_pays_for_it_on_both_sides():
    missed = array(1e-8, 0.0)
    found = epsilon(Near(missed, gaussians(MU)), DELTA)
    paid = gaussian.delta(found, MU) + (1 + np.exp(found)) * missed
    assert paid == pytest.approx(np.full(2, DELTA), rel=1e-8)
    assert found.tolist() == nearby(lambda left: epsilon(gaussians(MU), left), DELTA, missed).tolist()
    assert np.isinf(epsilon(Near(array(1e-4, 1.0), gaussians(MU)), DELTA)).all()
    expected = np.minimum(odds.odds(gaussians(MU), array(0.1)) + missed, 1)
    assert odds.odds(Near(missed, gaussians(MU)), array(0.1)) == pytest.approx(expected, rel=1e-12)


def test_a_part_of_delta_may_be_smaller_than_the_least_one_that_composes():
    """What is missed leaves less than δ for the stream; only the whole must not be too small."""
    leak = Times(2, drawn(array(0.1, 0.9), array(0.7, 0.3)))
    at_least = epsilon(leak, 1e-10)[0]
    assert at_least < epsilon(Near(array(1e-15), leak), 1e-10)[0] < at_least * 1.1
    for whole in (leak, Near(array(1e-15), leak)):
        with pytest.raises(ValueError, match="must be >= 1e-10 where inferences are composed"):
            epsilon(whole, 0.9e-10)


def test_what_is_never_missed_is_near_nothing():
    assert near(np.zeros(2), leak := gaussians(MU)) is leak
    assert isinstance(near(array(0.0, 1e-9), leak), Near)


def test_the_least_of_bounds_and_the_worst_of_leaks_are_those_of_each_device():
    one, other = gaussians(array(0.3, 0.9)), gaussians(array(0.6, 0.4))
    low, high = gaussian.epsilon(array(0.3, 0.4), DELTA), gaussian.epsilon(array(0.6, 0.9), DELTA)
    assert epsilon(Least((one, other)), DELTA) == pytest.approx(low, rel=1e-12)
    assert epsilon(Worst((one, other)), DELTA) == pytest.approx(high, rel=1e-12)
    assert lower(Least((one, other)), DELTA) == pytest.approx(low, rel=1e-9)
    prior = array(0.1)
    assert odds.odds(Least((one, other)), prior)[0] == pytest.approx(of_gaussian(0.1, array(0.3, 0.4)), rel=1e-9)
    assert odds.odds(Worst((one, other)), prior)[0] == pytest.approx(of_gaussian(0.1, array(0.6, 0.9)), rel=1e-9)


def test_nothing_is_proven_where_a_leak_is_unbounded():
    assert epsilon(Unbounded(3, "why not"), DELTA).tolist() == [np.inf] * 3
    assert odds.odds(Unbounded(3, "why not"), array(0.1, 0.2)).tolist() == [[1.0] * 3] * 2
    assert (
        epsilon(Least((Unbounded(2, "why not"), gaussians(MU))), DELTA).tolist()
        == epsilon(gaussians(MU), DELTA).tolist()
    )
    assert lower(Least((Unbounded(2, "why not"), gaussians(MU))), DELTA) is None


def test_what_is_no_leak_is_named_with_where_to_register_it():
    for function, rest in ((epsilon, DELTA), (odds.odds, array(0.1))):
        with pytest.raises(TypeError, match="str is no leak of devices: register its"):
            function("a leak", rest)
    with pytest.raises(TypeError, match="Signal is no signal: register its δ"):
        curve(Signal())


# A leaf of one's own


@dataclass(frozen=True, eq=False)
class RandomisedResponse(Signal):
    """A bit, turned around with probability 1/(1 + e^a); which way does not matter."""

    a: Floats

    @property
    def symmetric(self) -> bool:
        return True


@given.register
def _(leak: RandomisedResponse, epsilon: Floats, case: Any, noise: Floats, *, backward: bool) -> Floats:
    a = leak.a[case]
    right, wrong = np.exp(a) / (1 + np.exp(a)), 1 / (1 + np.exp(a))
    return np.maximum(right - np.exp(epsilon) * wrong, 0.0) + np.maximum(wrong - np.exp(epsilon) * right, 0.0)


def composed_response(a: float, times: int, eps: float) -> float:
    """δ of the binomial law of right answers."""
    k = np.arange(times + 1)
    right, wrong = (stats.binom.pmf(k, times, p) for p in (1 / (1 + np.exp(-a)), 1 / (1 + np.exp(a))))
    return float(np.sum(np.maximum(right - np.exp(eps) * wrong, 0.0)))


def test_a_leaf_of_ones_own_has_its_epsilon():
    a = array(0.5, 2.0)
    leak = PerDevice(RandomisedResponse(a), np.arange(2), np.arange(2))
    q = np.exp(a) / (1 + np.exp(a))
    # δ = q − e^ε(1 − q), for 0 ≤ ε ≤ a.
    assert epsilon(leak, DELTA) == pytest.approx(np.log((q - DELTA) / (1 - q)), rel=1e-9)


def test_a_leaf_of_ones_own_may_be_seen_now_and_then():
    leak = of_one(seen(RandomisedResponse(array(2.0)), array(0.0, 1.0), array(0.5, 0.5), exposed=0.3))
    q = 1 / (1 + np.exp(-2.0))
    assert epsilon(leak, DELTA)[0] == pytest.approx(np.log((q - DELTA / 0.3) / (1 - q)), rel=1e-9)


def test_a_leaf_of_ones_own_may_be_hidden():
    leak = Hidden(array(0.3), RandomisedResponse(array(2.0)))
    q = 1 / (1 + np.exp(-2.0))
    right, wrong = 0.7 * (1 - q) + 0.3 * q, 0.7 * q + 0.3 * (1 - q)
    truth = np.maximum(right - np.exp(EPSILONS) * (1 - q), 0) + np.maximum(wrong - np.exp(EPSILONS) * q, 0)
    assert curve(leak) == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("times", [2, 20])
def test_a_leaf_of_ones_own_composes_to_the_binomial_law(times):
    leak = of_one(RandomisedResponse(array(0.5)))
    found = float(epsilon(Times(times, leak), DELTA)[0])
    assert composed_response(0.5, times, found) <= DELTA < composed_response(0.5, times, found * (1 - 1e-2))
    assert stream(leak).repeated(times).delta(0.5) == pytest.approx(composed_response(0.5, times, 0.5), rel=1e-2)


# Pickling

NOISE = (array(0.0, 0.3), array(0.4, 0.6))
DECIDED = Decided(
    np.log([[0.7], [0.4]]), np.log([[0.3], [0.6]]), seen(Gaussian(array(0.8), array(0.5)), *NOISE), choice=None
)


@pytest.mark.parametrize(
    "leak",
    [
        gaussians(MU),
        of_one(seen(Gaussian(array(0.8), array(0.5)), *NOISE)),
        of_one(seen(Hidden(array(0.4), Gaussian(array(0.8), array(0.5))), *NOISE)),
        of_one(seen(HiddenBoth(array(0.4), Gaussian(array(0.8), array(0.5))), *NOISE)),
        of_one(seen(Either(array(0.4), Removed(array(0.1), array(0.1), 2), Gaussian(array(0.8), array(0.5))), *NOISE)),
        of_one(DECIDED),
        Times(3, of_one(DECIDED)),
        Draws(9, 2, drawn(array(0.1, 0.4), array(0.7, 0.3))),
        Mixed(
            array(0.9, 0.1)[:, None], (Times(9, drawn(array(0.1), array(1.0))), Times(9, drawn(array(0.4), array(1.0))))
        ),
        Near(array(1e-8), drawn(array(0.1, 0.4), array(0.7, 0.3))),
        Least((gaussians(MU), Unbounded(2, "why not"))),
        Worst((gaussians(MU), gaussians(2 * MU))),
    ],
    ids=lambda leak: type(leak).__name__,
)
def test_a_leak_can_be_pickled_before_and_after_it_was_computed_with(leak):
    fresh = pickle.dumps(leak)
    found = epsilon(leak, DELTA)
    for stored in (fresh, pickle.dumps(leak)):
        assert len(stored) == len(fresh)  # what was computed stays behind
        assert epsilon(pickle.loads(stored), DELTA).tolist() == found.tolist()


def test_a_law_that_is_exact_is_so_after_pickling():
    leak = of_one(seen(Gaussian(array(0.8), array(0.5)), *NOISE))
    again = pickle.loads(pickle.dumps(leak))
    assert again.exact
    assert ends(again, DELTA).lower.tolist() == ends(again, DELTA).upper.tolist()


@pytest.mark.parametrize("times", [1, 3])
def test_odds_of_a_leak_that_is_no_shift_are_the_least_over_its_curve(times):
    gone = of_one(seen(Hidden(array(0.5), Removed(array(0.6), array(0.4), 2)), *NOISE))
    levels, prior = np.linspace(-4.0, 3.0, 1401), np.array([0.5, 0.1])
    curve = gone.curve(0, levels, "forward") if times == 1 else None
    found = odds.odds(Times(times, gone), prior)[:, 0]
    assert (found >= prior).all()
    assert (found <= 1).all()
    if curve is not None:
        least = np.min(np.exp(levels) * prior[:, None] + curve, axis=1)
        assert found == pytest.approx(least, rel=1e-3)


@dataclass(frozen=True, eq=False)
class Outcomes(Signal):
    """Two laws of a few outcomes."""

    p: Floats
    q: Floats


@given.register
def _(leak: Outcomes, epsilon: Floats, case: Any, noise: Floats, *, backward: bool) -> Floats:
    one, other = (leak.q, leak.p) if backward else (leak.p, leak.q)
    epsilon = np.broadcast_arrays(epsilon, case, noise)[0]
    return np.maximum(one - np.exp(epsilon[..., None]) * other, 0.0).sum(axis=-1)


@pytest.mark.parametrize("choice", [None, np.zeros(1, dtype=np.int64)])
def test_a_decision_over_a_leaf_that_differs_from_its_two_sides_counts_both(choice):
    leaf = Outcomes(array(0.1, 0.9 - 1e-7, 1e-7), array(0.5, 0.499, 0.001))
    half = np.log(np.full((2, 1), 0.5))
    decided = of_one(Decided(half, half, seen(leaf, *NOISE), choice))
    # e^ε 5e-8 + 1e-9 of the rarest outcome backwards, with probability ½.
    assert epsilon(decided, 1e-9)[0] >= np.log((0.001 - 2e-9) / 1e-7) - 1e-9


def test_no_leaf_is_below_what_equal_laws_have():
    class Short(Signal):
        pass

    given.register(Short, lambda leak, epsilon, case, noise, *, backward: 0 * (epsilon + case + noise))
    least = np.maximum(-np.expm1(EPSILONS), 0.0)
    assert curve(Short()) == pytest.approx(least)
    assert curve(seen(Short(), *NOISE)) == pytest.approx(least)


def test_the_lower_end_of_one_gaussian_is_its_epsilon():
    for mu in np.geomspace(0.01, 20, 50):
        leak = Times(1, gaussians(np.array([mu])))
        assert lower(leak, DELTA) == epsilon(leak, DELTA)


def test_the_reason_of_an_unbounded_leak_is_found_below_the_nodes_around_it():
    nothing, something = Unbounded(1, "why"), gaussians(np.ones(1))
    assert why_unbounded(Worst((something, nothing))) == "why"
    assert why_unbounded(Near(np.full(1, 0.1), Least((nothing, nothing)))) == "why"
    assert why_unbounded(Least((nothing, something))) == why_unbounded(something) == why_unbounded(Unbounded(1)) == ""


def test_several_draws_of_what_does_not_vary_are_one():
    both = Draws(4, 2, gaussians(np.ones(1)))
    first, again = epsilon(both, 1e-5), epsilon(both, 1e-5)
    assert first == again
    assert first[0] == pytest.approx(float(gaussian.epsilon(2.0, 1e-5)), rel=1e-6)
