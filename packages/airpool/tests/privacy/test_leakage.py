"""What choosing devices by their scores adds: against reference values, integration and Monte Carlo."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtri

from airpool.account.guarantee import guarantee, score_epsilon
from airpool.network import Network, Threshold
from airpool.privacy import device, gaussian
from airpool.privacy.device import Aggregate
from airpool.privacy.leak import ends
from airpool.privacy.leakage import Decision, by_ranking, by_threshold

DELTA = 1e-5
TWELVE = Aggregate(np.full(12, 1 / 12), np.full(12, 0.05**2), np.ones(12))
THREE = Aggregate(np.array([0.6, 0.3, 0.5]), np.array([0.3, 0.5, 0.2]), np.ones(3))


def threshold(low, high, std, at):
    return Decision(np.asarray(low, dtype=float), np.asarray(high, dtype=float), np.asarray(std, dtype=float), at)


def epsilon(leak, delta=DELTA):
    return ends(leak, delta).upper


def delta_of(leak, eps, kind=0):
    return float(leak.curve(kind, np.array([float(eps)]), "forward")[0])


# Scheme 2.1


def test_a_threshold_has_the_reference_epsilon_with_the_others_as_rare_as_their_scores_allow():
    scheme = threshold(0, 0.5, 0.316227766, 0.3)
    assert np.exp(scheme.log_participation(np.asarray(0.5))[0]) == pytest.approx(0.2635446284, rel=1e-9)
    assert epsilon(by_threshold(TWELVE, scheme)) == pytest.approx(np.full(12, 7.644042567), rel=1e-8)


def test_a_threshold_has_the_reference_epsilon_where_the_others_take_part_with_0_9():
    fixed = 0.3 - 0.316227766 * ndtri(0.9)
    low, high = np.full(12, fixed), np.full(12, fixed)
    low[0], high[0] = 0.0, 0.5
    found = epsilon(by_threshold(TWELVE, threshold(low, high, 0.316227766, 0.3)))
    assert found[0] == pytest.approx(3.198379965, rel=1e-8)


def test_the_papers_table_2_gives_a_silent_device_away():
    scheme = threshold(0, 5.321928095, 0.1, 5.0)
    assert (epsilon(by_threshold(TWELVE, scheme)) == np.inf).all()
    speaks = [float(scheme.log_participation(np.asarray(u))[0]) for u in (0.0, 5.321928095)]
    assert speaks[0] - speaks[1] == pytest.approx(7.35, abs=0.005)


def hockey_stick(aggregate, k, scheme, scores, eps):
    """δ of one pair of scores in one dimension: silence is one symbol, speech a density; loops and the trapezium."""
    here, there = (stats.norm.cdf((scheme.threshold - u) / scheme.noise_std) for u in scores)
    rarest = stats.norm.cdf((scheme.threshold - scheme.score_high) / scheme.noise_std)
    others = [i for i in range(aggregate.num_devices) if i != k]
    total = max((1 - here) - np.exp(eps) * (1 - there), 0.0)
    y = np.linspace(-12, 12, 20_001)
    for heard in product((0, 1), repeat=len(others)):
        chance = np.prod([rarest if t else 1 - rarest for t in heard])
        std = np.sqrt(
            aggregate.variance[k] + sum(aggregate.variance[i] * t for i, t in zip(others, heard, strict=True))
        )
        with_it = here * stats.norm.pdf(y, aggregate.shift[k], std)
        without = there * stats.norm.pdf(y, 0, std)
        total += chance * np.trapezoid(np.maximum(with_it - np.exp(eps) * without, 0.0), y)
    return float(total)


@pytest.mark.parametrize("eps", [0.0, 0.3, 1.0, 2.5])
@pytest.mark.parametrize("at", [-0.2, 0.3, 0.9])
def test_the_leak_of_a_threshold_is_the_worst_of_the_four_pairs_of_extreme_scores(at, eps):
    scheme = threshold(0.0, 0.8, 0.4, at)
    leak = by_threshold(THREE, scheme)
    for k in range(3):
        worst = max(hockey_stick(THREE, k, scheme, pair, eps) for pair in product((0.0, 0.8), repeat=2))
        assert delta_of(leak, eps, kind=int(leak.of_device[k])) == pytest.approx(worst, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("eps", [0.2, 1.5])
def test_scores_inside_the_range_leak_less_than_those_at_its_ends(eps):
    scheme = threshold(0.0, 0.8, 0.4, 0.3)
    leak = by_threshold(THREE, scheme)
    rng = np.random.default_rng(12)
    for pair in rng.uniform(0.0, 0.8, (25, 2)):
        assert hockey_stick(THREE, 0, scheme, pair, eps) <= delta_of(leak, eps, kind=int(leak.of_device[0])) + 1e-7


def test_others_who_take_part_more_often_only_help():
    """What the adversary hears of the others is rarest at their highest scores, and that is what is assumed."""
    low, high = np.array([0.0, 0.0, 0.0]), np.array([0.8, 0.8, 0.8])
    worst = epsilon(by_threshold(THREE, threshold(low, high, 0.4, 0.3)))[0]
    for score in (0.0, 0.4, 0.79):
        fixed_low, fixed_high = low.copy(), high.copy()
        fixed_low[1:], fixed_high[1:] = score, score
        assert epsilon(by_threshold(THREE, threshold(fixed_low, fixed_high, 0.4, 0.3)))[0] <= worst


def test_scores_that_cannot_differ_leave_scheme_1_with_the_participation_they_give():
    scheme = threshold(0.5, 0.5, 0.4, 0.3)
    p = float(stats.norm.cdf(-0.5))
    plain = device.epsilon(replace(THREE, participation=np.full(3, p)), DELTA).upper
    assert epsilon(by_threshold(THREE, scheme)) == pytest.approx(plain, rel=1e-9)


def test_a_threshold_that_everybody_passes_leaves_scheme_1_with_everybody_speaking():
    plain = device.epsilon(THREE, DELTA).upper
    assert epsilon(by_threshold(THREE, threshold(0, 1, 0.1, 1e6))) == pytest.approx(plain, rel=1e-9)


def test_a_threshold_that_nobody_passes_leaks_nothing():
    assert epsilon(by_threshold(THREE, threshold(0, 1, 0.1, -1e6))).tolist() == [0, 0, 0]


def test_without_noise_on_the_scores_the_decision_itself_tells():
    assert (epsilon(by_threshold(THREE, threshold(0, 1, 0, 0.5))) == np.inf).all()
    assert epsilon(by_threshold(THREE, threshold(0, 1, 0, 1.5))) == pytest.approx(device.epsilon(THREE, DELTA).upper)
    assert epsilon(by_threshold(THREE, threshold(0, 1, 0, -0.5))).tolist() == [0, 0, 0]


SCALES = st.one_of(st.just(0.0), st.floats(-6, 6).map(lambda x: 10.0**x))


@given(
    at=st.one_of(st.sampled_from([-1e6, -1.0, 0.0, 0.5, 1.0, 1e6]), st.floats(-1e6, 1e6)),
    std=SCALES,
    width=SCALES,
    noise=SCALES,
    neighbours=st.sampled_from(["zero-out", "replace"]),
    cover_noise=st.booleans(),
)
def test_no_threshold_however_far_gives_anything_but_a_number(at, std, width, noise, neighbours, cover_noise):
    net = replace(THREE, variance=THREE.variance * noise, cover_noise=cover_noise)
    scheme = threshold(0.0, width, std, at)
    leak = by_threshold(net, scheme, neighbours)
    found = epsilon(leak)
    assert not np.isnan(found).any()
    assert (found >= 0).all()
    for k in range(3):
        if 0 < found[k] < np.inf:
            # The search compares logarithms, whose last digit is worth 1e-14 of δ.
            assert delta_of(leak, found[k], kind=int(leak.of_device[k])) <= DELTA * (1 + 1e-13)


def test_under_cover_noise_everybodys_noise_is_there_whoever_speaks():
    scheme = threshold(0.2, 0.2, 0.4, 0.3)
    p = float(stats.norm.cdf(0.25))
    leak = by_threshold(replace(THREE, cover_noise=True), scheme)
    mu = THREE.shift / np.sqrt(THREE.variance.sum())
    for k in range(3):
        expected = p * float(gaussian.delta(1.0, mu[k]))
        assert delta_of(leak, 1.0, kind=int(leak.of_device[k])) == pytest.approx(expected, rel=1e-9)


def test_colluders_and_dropouts_raise_the_cost_of_a_threshold():
    scheme = threshold(0, 0.5, 0.3, 0.8)
    found = [epsilon(by_threshold(replace(TWELVE, absent=n), scheme))[0] for n in range(4)]
    assert found == sorted(found)
    assert found[0] < found[3]
    named = epsilon(by_threshold(replace(TWELVE, colluding=(1, 2, 3)), scheme))[0]
    assert named == pytest.approx(found[3], rel=1e-9)


def test_outage_counts_for_everybodys_noise_at_a_threshold():
    """A device in outage is silent whatever its score: the others hear its noise that much more rarely."""
    scheme = threshold(0, 0.5, 0.3, 0.6)
    like = Aggregate(np.full(3, 0.3), np.full(3, 0.09), np.ones(3), presence=np.array([0.5, 1.0, 0.8]))
    found = epsilon(by_threshold(like, scheme), delta=1e-3)
    for k in range(3):
        rarest = float(stats.norm.cdf(0.1 / 0.3)) * np.delete(like.presence, k)

        def exact(eps, rarest=rarest):
            worst = 0.0
            for here, there in product(stats.norm.cdf(np.array([0.1, 0.6]) / 0.3), repeat=2):
                total = max((1 - here) - np.exp(eps) * (1 - there), 0.0)
                for heard in product((0, 1), repeat=2):
                    chance = np.prod(np.where(heard, rarest, 1 - rarest))
                    mu = 0.3 / np.sqrt(0.09 * (1 + sum(heard)))
                    total += here * chance * float(gaussian.delta(eps - np.log(here / there), mu))
                worst = max(worst, total)
            return worst

        assert exact(found[k]) == pytest.approx(1e-3, rel=1e-8)


def test_outage_takes_the_others_noise_out_of_a_ranking():
    net = replace(THREE, presence=np.array([1.0, 0.99, 1.0]))
    leak = by_ranking(net, score_range=np.asarray(0.0), score_noise_std=np.asarray(1.0), num_selected=3)
    assert epsilon(leak) == pytest.approx(gaussian.epsilon(THREE.shift / np.sqrt(THREE.variance), DELTA), rel=1e-9)


def test_a_coarser_law_stays_above_the_exact_one():
    scheme = threshold(0, 0.5, 0.3, 0.3)
    leak = by_threshold(TWELVE, scheme)
    exact, rough = (ends(each, DELTA) for each in (leak, leak.coarse(4)))
    assert (rough.upper >= exact.upper).all()
    assert (rough.lower <= exact.upper).all()


# Scheme 2.2


def test_a_ranking_is_two_gaussian_releases():
    leak = by_ranking(TWELVE, score_range=np.asarray(0.5), score_noise_std=np.asarray(0.4), num_selected=11)
    mu = np.hypot(0.5 / 0.4, (1 / 12) / (0.05 * np.sqrt(11)))
    assert epsilon(leak) == pytest.approx(np.full(12, float(gaussian.epsilon(mu, DELTA))), rel=1e-9)
    assert leak.gaussian == pytest.approx([mu])


def test_the_other_selected_devices_are_those_with_the_least_noise():
    net = Aggregate(np.full(4, 0.5), np.array([0.4, 0.1, 0.3, 0.2]), np.ones(4))
    leak = by_ranking(net, score_range=np.asarray(0.0), score_noise_std=np.asarray(0.4), num_selected=3)
    variance = np.array([0.4 + 0.1 + 0.2, 0.1 + 0.2 + 0.3, 0.3 + 0.1 + 0.2, 0.2 + 0.1 + 0.3])
    assert epsilon(leak) == pytest.approx(gaussian.epsilon(0.5 / np.sqrt(variance), DELTA), rel=1e-9)


def drawn_loss(net, scores, *, spread, score_std, num_selected, n, rng):
    """Losses of an adversary who sees noisy scores and the sum; device 0 has feature and score, or neither."""
    noisy = np.array(scores) + score_std * rng.standard_normal((n, 3))
    selected = noisy.argsort(axis=1).argsort(axis=1) < num_selected
    std = np.sqrt(selected @ net.variance)
    y = net.shift[0] + std * rng.standard_normal(n)

    def ratio(x, mean, other, scale):
        return stats.norm.logpdf(x, mean, scale) - stats.norm.logpdf(x, other, scale)

    loss = ratio(noisy[:, 0], scores[0], scores[0] + spread, score_std)
    # Where the device is not selected the sum is the same in both worlds.
    return loss + selected[:, 0] * ratio(y, net.shift[0], 0.0, std)


@pytest.mark.parametrize(
    ("num_selected", "scores", "exact"),
    [
        (1, (0.2, 0.3, 0.5), False),
        (2, (0.5, 0.1, 0.4), False),
        (2, (0.0, 3.0, 4.0), False),
        # Always selected, and always with the quietest: then the bound is the truth.
        (2, (-90.0, 90.0, 0.0), True),
    ],
)
def test_the_bound_of_a_ranking_is_above_a_monte_carlo_estimate(num_selected, scores, exact):
    """Within four standard errors of the draws."""
    n, rng = 100_000, np.random.default_rng([13, num_selected])
    setting = {"spread": 0.4, "score_std": 0.5}
    loss = drawn_loss(THREE, scores, num_selected=num_selected, n=n, rng=rng, **setting)
    leak = by_ranking(THREE, score_range=np.asarray(0.4), score_noise_std=np.asarray(0.5), num_selected=num_selected)
    for eps in (0.1, 0.5, 1.0, 2.0):
        each = np.maximum(-np.expm1(eps - loss), 0.0)
        error = 4 * each.std() / np.sqrt(n)
        bound = delta_of(leak, eps, kind=int(leak.of_device[0]))
        assert bound >= each.mean() - error
        if exact:
            assert bound <= each.mean() + error


def test_colluders_raise_the_cost_of_a_ranking_until_only_the_own_noise_is_left():
    found = [
        epsilon(
            by_ranking(
                replace(TWELVE, absent=n), score_range=np.asarray(0.5), score_noise_std=np.asarray(0.4), num_selected=4
            )
        )[0]
        for n in range(5)
    ]
    assert found[:4] == sorted(set(found[:4]))
    assert (
        found[4] == found[3] == pytest.approx(float(gaussian.epsilon(np.hypot(1.25, 1 / 12 / 0.05), DELTA)), rel=1e-9)
    )


def test_without_noise_on_the_scores_a_ranking_tells_unless_they_cannot_differ():
    noiseless = {"score_noise_std": np.asarray(0.0), "num_selected": 2}
    assert (epsilon(by_ranking(THREE, score_range=np.asarray(0.5), **noiseless)) == np.inf).all()
    assert (epsilon(by_ranking(THREE, score_range=np.asarray(0.0), **noiseless)) < np.inf).all()


def test_a_ranking_under_cover_noise_counts_everybodys_noise():
    net = replace(THREE, cover_noise=True)
    leak = by_ranking(net, score_range=np.asarray(0.0), score_noise_std=np.asarray(1.0), num_selected=1)
    assert epsilon(leak) == pytest.approx(
        gaussian.epsilon(THREE.shift / np.sqrt(THREE.variance.sum()), DELTA), rel=1e-9
    )


# Bad input


@pytest.mark.parametrize("num_selected", [0, 4, -1])
def test_a_ranking_selects_from_one_device_to_all_of_them(num_selected):
    with pytest.raises(ValueError, match=f"num_selected={num_selected} must be from 1 to 3"):
        by_ranking(THREE, score_range=np.asarray(1), score_noise_std=np.asarray(1), num_selected=num_selected)


def test_removal_is_refused_by_both_schemes():
    with pytest.raises(ValueError, match="use zero-out or replace"):
        by_threshold(THREE, threshold(0, 1, 1, 0), "remove")
    with pytest.raises(ValueError, match="use zero-out or replace"):
        by_ranking(THREE, score_range=np.asarray(1), score_noise_std=np.asarray(1), num_selected=2, neighbours="remove")


@pytest.mark.parametrize(
    ("low", "high", "std", "at", "message"),
    [
        (np.nan, 1, 1, 0, "score_low=nan must be finite"),
        (0, np.inf, 1, 0, "score_high=inf must be finite"),
        (0, 1, -1, 0, "noise_std=-1 must be >= 0 and finite"),
        (0, 1, 1, np.nan, "threshold=nan must be finite"),
        (2, 1, 1, 0, "score_low must not exceed score_high"),
    ],
)
def test_a_bad_threshold_is_refused_by_name_and_value(low, high, std, at, message):
    with pytest.raises(ValueError, match=message):
        threshold(low, high, std, at)


@pytest.mark.parametrize("weight", [1e-160, 1e-300])
def test_a_feature_that_is_next_to_nothing_costs_what_the_decision_costs(weight):
    net = Network.uniform(num_devices=2, weight=weight, scheme=Threshold())
    assert guarantee(net).epsilon == pytest.approx(score_epsilon(net), rel=1e-9)
