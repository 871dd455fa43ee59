"""Odds: closed forms, brute force over likelihood-ratio tests, linear programs, and laws."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize_scalar
from scipy.stats import norm

from airpool import odds as network_odds
from airpool.network import Claim, Devices, Neighbours, Network
from airpool.privacy import compose, cover, device, gaussian, odds
from airpool.privacy.aggregate import Aggregate
from airpool.privacy.leak import Times, gaussians
from airpool.privacy.leakage import Decision, by_public_score, by_threshold

PRIORS = np.array([0.5, 0.125, 0.025, 0.001])


def by_curve(delta, prior, low=-40.0, high=None):
    """inf over a fine grid of ε of e^ε κ + δ(ε)."""
    eps = np.linspace(low, -np.log(prior) if high is None else high, 400_001)
    return float(np.min(np.exp(eps) * prior + delta(eps)))


def best_test(p, q, prior):
    """The largest mean of P_s(E_s) with levels Q(E_s) of mean κ, by a linear program over measures M = tQ.

    p: laws, one a row, on finitely many outcomes; q: left out, the best Q is looked for.
    """
    laws, outcomes = p.shape
    # Variables: the worst law's excess, M (or t, where Q is given), and the excess of every law in every outcome.
    free = outcomes if q is None else 1
    size = 1 + free + laws * outcomes
    cost = np.zeros(size)
    cost[0], cost[1 : 1 + free] = 1.0, prior
    above, at_most = [], []
    for s in range(laws):
        row = np.zeros(size)
        row[0], row[1 + free + s * outcomes : 1 + free + (s + 1) * outcomes] = -1.0, 1.0
        above.append(row)
        at_most.append(0.0)
        for y in range(outcomes):
            row = np.zeros(size)
            row[1 + free + s * outcomes + y] = -1.0
            row[1 + (y if q is None else 0)] = -1.0 if q is None else -q[y]
            above.append(row)
            at_most.append(-p[s, y])
    found = linprog(cost, np.array(above), at_most, bounds=(0, None), method="highs")
    assert found.status == 0
    assert found.fun is not None
    return float(found.fun)


# --- Gaussians ---


def of_gaussian(prior, mu):
    """Odds against one Gaussian at distance μ."""
    return odds.odds(gaussians(np.array([mu])), odds.priors(prior))[:, 0]


@given(st.floats(1e-12, 0.999), st.floats(0, 8))
def test_the_gaussian_is_its_closed_form_and_the_infimum_over_the_curve(prior, mu):
    expected = norm.cdf(norm.ppf(prior) + mu)
    assert of_gaussian(prior, mu)[0] == pytest.approx(expected, rel=1e-9, abs=0)
    assert of_gaussian(prior, mu)[0] >= expected


def test_the_infimum_over_negative_epsilon_too_is_the_closed_form():
    """A prior above Φ(−μ/2) has its infimum at ε < 0."""
    for prior in (0.001, 0.3, 0.5, 0.9):
        found = by_curve(lambda eps: gaussian.delta(eps, 0.9), prior)
        assert of_gaussian(prior, 0.9)[0] == pytest.approx(found, rel=1e-8)


def test_published_values_of_twelve_devices():
    mu = 1 / 3.730631634816
    device_odds, local = of_gaussian(PRIORS, mu), of_gaussian(PRIORS, mu * np.sqrt(12))
    np.testing.assert_allclose(device_odds, [0.60567, 0.18881, 0.04533, 0.0023849], rtol=1e-4)
    np.testing.assert_allclose(local, [0.82344, 0.41224, 0.15117, 0.015322], rtol=1e-4)
    assert of_gaussian(0.5, mu * 12)[0] == pytest.approx(0.9994, abs=5e-5)


def test_edges():
    assert of_gaussian(0.3, 0.0)[0] == pytest.approx(0.3, rel=1e-10)
    assert of_gaussian(0.3, np.inf)[0] == 1.0
    assert of_gaussian(1 - 1e-16, 5.0)[0] == 1.0
    assert 1e-300 < of_gaussian(1e-300, 1.0)[0] < 1e-280
    for prior in (0.0, 1.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="must be > 0 and < 1"):
            odds.priors(prior)


# --- Scheme 1 ---


def unlike(count, seed, **rest):
    rng = np.random.default_rng(seed)
    return Aggregate(rng.uniform(0.1, 1, count), rng.uniform(0.05, 1, count), rng.uniform(0.1, 1, count), **rest)


def enumerated(aggregate, k, prior, times=1):
    """The mean, over all outcomes of who takes part in every inference, of the best likelihood-ratio test given it."""
    p, a, total = aggregate.participation, aggregate.variance, 0.0
    single = []
    for tau in product((0, 1), repeat=len(p)):
        chance = float(np.prod(np.where(tau, p, 1 - p)))
        noise = float(np.sum(np.where(aggregate.cover_noise, 1, np.array(tau)) * a)) + aggregate.extra
        single.append((chance, aggregate.shift[k] ** 2 / noise if tau[k] else 0.0))
    for outcome in product(single, repeat=times):
        chance, square = np.prod([c for c, _ in outcome]), sum(s for _, s in outcome)
        total += chance * norm.cdf(norm.ppf(prior) + np.sqrt(square))
    return total


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("covered", [False, True])
def test_one_inference_is_the_mean_of_the_best_tests_given_who_takes_part(seed, covered):
    seen = unlike(4, seed, cover_noise=covered)
    found = odds.odds(device.by_coin(seen, Neighbours.ZERO_OUT), PRIORS)
    for k, (i, prior) in product(range(4), enumerate(PRIORS)):
        assert found[i, k] == pytest.approx(enumerated(seen, k, prior), rel=1e-9)
        assert found[i, k] >= enumerated(seen, k, prior)


@pytest.mark.parametrize("p", [0.05, 0.4, 0.9])
@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
def test_a_hidden_coin_is_the_infimum_over_the_curve_of_the_subsampled_gaussian(p, mu):
    seen = Aggregate(np.array([mu]), np.ones(1), np.array([p]), cover_noise=True)
    found = odds.odds(device.by_coin(seen, Neighbours.ZERO_OUT), PRIORS)[:, 0]

    def delta(eps):
        chance = np.full(np.shape(eps), p)
        forward, backward = (
            cover.hidden(np.abs(eps), chance, lambda e, _: gaussian.delta(e, mu), backward=side)
            for side in (False, True)
        )
        return np.where(eps >= 0, forward, -np.expm1(-np.abs(eps)) + np.exp(-np.abs(eps)) * backward)

    eps = np.log1p(-p) - np.array([0.0, 0.5, 3.0])
    np.testing.assert_allclose(delta(eps), 1 - np.exp(eps), rtol=1e-9)
    for i, prior in enumerate(PRIORS):
        assert found[i] == pytest.approx(by_curve(delta, prior, low=np.log1p(-p) - 1), rel=1e-6)


def test_one_epsilon_for_all_outcomes_is_loose_and_the_mean_is_not():
    """p = 0.1, local μ, κ = 0.001: 0.0024, not 0.0081."""
    mu = np.sqrt(12) / 3.730631634816
    seen = Aggregate(np.array([mu]), np.ones(1), np.array([0.1]))
    leak = device.by_coin(seen, Neighbours.ZERO_OUT)
    assert odds.odds(leak, np.array([0.001]))[0, 0] == pytest.approx(0.0024, abs=5e-5)
    loose = by_curve(lambda eps: 0.1 * gaussian.delta(eps, mu) + 0.9 * np.maximum(-np.expm1(eps), 0), 0.001)
    assert loose == pytest.approx(0.0081, abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_a_stream_is_the_mean_over_all_its_outcomes(seed):
    seen = unlike(2, seed)
    leak = device.by_coin(seen, Neighbours.ZERO_OUT)
    found = odds.odds(Times(3, leak), PRIORS)
    for k, (i, prior) in product(range(2), enumerate(PRIORS)):
        truth = enumerated(seen, k, prior, times=3)
        assert truth * (1 - 1e-12) <= found[i, k] <= truth * 1.002


def test_a_long_stream_is_close_to_a_simulation_and_below_the_composed_curve():
    seen, times, n = unlike(5, 5), 300, 4000
    whole = device.by_coin(seen, Neighbours.ZERO_OUT)
    rng = np.random.default_rng(0)
    tau = rng.random((n, times, 5)) < seen.participation
    square = np.where(tau[..., 0], seen.shift[0] ** 2 / np.maximum(tau @ seen.variance, 1e-300), 0.0).sum(axis=1)
    small = device.by_coin(Aggregate(seen.shift / 20, seen.variance, seen.participation), Neighbours.ZERO_OUT)
    for leak, squares in ((whole, square), (small, square / 400)):
        found = odds.odds(Times(times, leak), PRIORS)[:, 0]
        right = norm.cdf(norm.ppf(PRIORS[:, None]) + np.sqrt(squares))
        error = 4 * right.std(axis=1) / np.sqrt(n)
        assert np.all(found >= right.mean(axis=1) - error)
        assert np.all(found <= (right.mean(axis=1) + error) * 1.02)
        one_epsilon = odds.composed(compose.stream(leak, int(leak.of_device[0])).repeated(times), PRIORS)
        assert np.all(found <= one_epsilon * (1 + 1e-3))


def test_a_stream_of_hidden_coins_is_the_best_test_of_all_of_them():
    """Two inferences, on a grid of outcomes: the power of the likelihood-ratio test of level κ."""
    p, mu = 0.3, 1.5
    seen = Aggregate(np.array([mu]), np.ones(1), np.array([p]), cover_noise=True)
    leak = device.by_coin(seen, Neighbours.ZERO_OUT)
    found = odds.composed(compose.stream(leak, 0).repeated(2), PRIORS)
    y = np.linspace(-9, 9 + mu, 2001)
    q, there = norm.pdf(y) * (y[1] - y[0]), norm.pdf(y - mu) * (y[1] - y[0])
    both, alike = np.outer((1 - p) * q + p * there, (1 - p) * q + p * there).ravel(), np.outer(q, q).ravel()
    order = np.argsort(-both / alike)
    level, power = np.cumsum(alike[order]), np.cumsum(both[order])
    truth = np.interp(PRIORS, level, power)
    assert np.all(found >= truth * (1 - 1e-4))
    np.testing.assert_allclose(found, truth, rtol=2e-3)


# --- Scheme 2.1 ---


def outcomes(pi, mu):
    """Silence, and cells of a signal at distance μ, as a finite law."""
    edges = np.concatenate([[-np.inf], np.arange(-6, 6, 0.2), [np.inf]])
    return np.append(1 - pi, pi * np.diff(norm.cdf(edges - mu)))


@pytest.mark.parametrize("prior", [0.5, 0.1])
@pytest.mark.parametrize(("spread", "mu"), [(0.3, 0.7), (1.0, 0.0), (0.05, 2.0)])
def test_a_decision_by_score_is_the_best_test_against_the_best_law_without_the_secret(spread, mu, prior):
    scheme = Decision(np.array(0.0), np.array(1.0), np.array(1 / (2 * spread)), 0.6)
    seen = Aggregate(np.array([mu]), np.ones(1), np.ones(1))
    found = odds.odds(by_threshold(seen, scheme), np.array([prior]))[0, 0]
    ends = [float(np.exp(scheme.log_participation(np.array(u))[0])) for u in (0.0, 1.0)]
    # Opposite features: no law without the secret gives less than this.
    assert found >= best_test(np.array([outcomes(pi, x) for pi in ends for x in (mu, -mu)]), None, prior) - 1e-9
    laws = np.array([outcomes(pi, mu) for pi in ends])
    zeroed = minimize_scalar(
        lambda pi: best_test(laws, outcomes(pi, 0.0), prior), bounds=(0.01, 0.99), method="bounded"
    )
    assert zeroed.fun * (1 - 1e-3) <= found <= zeroed.fun * 1.01


def test_a_constant_score_is_a_coin():
    scheme = Decision(np.array(0.5), np.array(0.5), np.array(1.0), 0.6)
    seen = unlike(4, 1)
    p = np.exp(scheme.log_participation(np.array(0.5))[0])
    coin = device.by_coin(Aggregate(seen.shift, seen.variance, np.full(4, p)), Neighbours.ZERO_OUT)
    found = odds.odds(by_threshold(seen, scheme), PRIORS)
    np.testing.assert_allclose(found, odds.odds(coin, PRIORS), rtol=1e-7)


def test_a_stream_of_decisions_lies_between_one_of_them_and_the_worst_pair_of_scores():
    scheme = Decision(np.array(0.0), np.array(1.0), np.array(3.0), 0.6)
    seen = unlike(3, 2)
    worst = by_threshold(seen, scheme)
    leak = by_public_score(seen, scheme, worst)
    one = odds.composed(compose.stream(leak, 0), PRIORS)
    first = int(np.argmax(leak.of_device == 0))
    exact = odds.odds(worst, PRIORS)[:, first]
    assert np.all(one >= exact * (1 - 1e-9))
    many = [odds.composed(compose.stream(leak, 0).repeated(times), PRIORS) for times in (1, 2, 5)]
    assert np.all(np.diff(many, axis=0) > 0)
    assert np.all(many[-1] <= odds.composed(compose.stream(worst, int(worst.of_device[first])).repeated(5), PRIORS))


# --- laws ---


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.booleans(), st.integers(1, 3))
def test_odds_rise_with_the_prior_are_concave_and_never_below_it(seed, covered, times):
    seen = unlike(3, seed, cover_noise=covered)
    prior = np.linspace(0.01, 0.99, 25)
    leak = device.by_coin(seen, Neighbours.ZERO_OUT)
    found = odds.odds(leak if covered else Times(times, leak), prior)
    assert np.all(found >= prior[:, None])
    assert np.all(np.diff(found, axis=0) > -1e-12)
    assert np.all(np.diff(found, 2, axis=0) < 1e-9)


@pytest.mark.parametrize(("prior", "why"), [(1e-310, "1e-300 at least"), ([], "in a row"), ([[0.5]], "in a row")])
def test_priors_out_of_reach_are_named(prior, why):
    with pytest.raises(ValueError, match=why):
        odds.priors(prior)


@pytest.mark.parametrize("times", [2, 4])
@pytest.mark.parametrize("quiet", [0.01, 0.1])
def test_a_stream_of_uneven_noise_is_near_the_full_enumeration(quiet, times):
    """A rare draw of hardly any noise must not make the grid of all others coarse."""
    std, p = np.array([quiet, 1.0, 1.0]), 0.9
    law = {0.0: 1 - p}
    for bits in product([0, 1], repeat=2):
        square = 1 / 9 / (std[0] ** 2 + np.dot(bits, std[1:] ** 2))
        law[square] = law.get(square, 0.0) + p * float(np.prod([p if bit else 1 - p for bit in bits]))
    net = Network(Devices(3, weight=1 / 3, noise_std=tuple(std), participation=p))
    for prior in (0.5, 0.025, 0.001):
        draws = product(law.items(), repeat=times)
        exact = sum(np.prod([m for _, m in d]) * norm.cdf(norm.ppf(prior) + sum(v for v, _ in d) ** 0.5) for d in draws)
        found = float(network_odds(net, Claim(inferences=times), prior=prior).device[0])
        assert exact <= found <= 1.02 * exact
