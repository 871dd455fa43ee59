"""Many inferences: against reference values, dp-accounting, exact sums over outcomes, and Monte Carlo."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from airpool.privacy import gaussian
from airpool.privacy.compose import MOST_INFERENCES, most_inferences, nearby, stream
from airpool.privacy.device import Aggregate, by_coin
from airpool.privacy.epsilon import epsilon as epsilon_of
from airpool.privacy.law import binomial
from airpool.privacy.leak import PerDevice, Signal, Times, ends
from airpool.privacy.leak import given as given_noise
from airpool.privacy.leakage import Decision, by_ranking, by_threshold

DELTA = 1e-5


def one_device(sigma, p):
    return Aggregate(np.ones(1), np.array([sigma**2]), np.array([p]), cover_noise=True)


def like(count, *, shift, std, p, **rest):
    return Aggregate(np.full(count, shift), np.full(count, std**2), np.full(count, p), **rest)


def epsilon(leak, delta, inferences):
    return epsilon_of(Times(inferences, leak), delta)


def most_within(leak, delta, budget):
    return most_inferences(lambda inferences: bool(np.all(epsilon(leak, delta, inferences) <= np.asarray(budget))))


# Independent answers


def mixture_delta(eps, mu, p, inferences):
    """One device, participation visible: n ~ Binomial(T, p) participations are one Gaussian, with μ√n. Exact."""
    spread = 40 * np.sqrt(inferences * p * (1 - p)) + 200
    n = np.arange(max(1, int(inferences * p - spread)), min(inferences, int(inferences * p + spread)) + 1)
    total = mu * np.sqrt(n)
    log_a, log_b = special.log_ndtr(total / 2 - eps / total), special.log_ndtr(-total / 2 - eps / total)
    return float(stats.binom.pmf(n, inferences, p) @ (np.exp(log_a) * -np.expm1(np.minimum(eps + log_b - log_a, 0.0))))


def assert_just_above_the_mixture(mu, p, inferences, delta, within=1e-3):
    leak = by_coin(Aggregate(np.array([mu]), np.ones(1), np.array([p])), "zero-out")
    found = float(epsilon(leak, delta, inferences)[0])
    case = f"mu={mu!r}, p={p!r}, T={inferences}, delta={delta!r}: {found!r}"
    assert mixture_delta(found, mu, p, inferences) <= delta, f"too small: {case}"
    if found > 0:
        assert mixture_delta(found * (1 - within), mu, p, inferences) > delta, f"too large: {case}"


@pytest.mark.parametrize(
    ("mu", "p", "inferences", "delta"),
    [
        (0.01, 1 - 1e-13, 2**20, 1e-10),  # 116.79; Fourier transforms gave 116.18
        (0.01, 0.5, 100_000, 1e-10),
        (1.0, 0.001, 10_000, 1e-8),
        (0.1, 0.9, 2**20 - 1, 1e-6),
        (0.001, 0.1, 100_000, 1e-10),
        (25.0, 0.01, 1_000, 1e-10),
        (1.0, 0.7, 2, 1e-10),
    ],
)
def test_one_device_is_just_above_the_exact_binomial_mixture(mu, p, inferences, delta):
    assert_just_above_the_mixture(mu, p, inferences, delta)


@pytest.mark.check
def test_no_epsilon_is_below_the_exact_binomial_mixture():
    rng = np.random.default_rng(15)
    for _ in range(400):
        inferences = int(np.exp(rng.uniform(np.log(2), np.log(2**20))))
        p = rng.choice([rng.uniform(), 10 ** rng.uniform(-4, 0), 1 - 10 ** rng.uniform(-13, 0)])
        mu, delta = 10 ** rng.uniform(-4, 1.4), 10 ** rng.uniform(-10, -2)
        assert_just_above_the_mixture(mu, float(p), inferences, delta)


@pytest.mark.check
@pytest.mark.parametrize("delta", [1e-10, 1e-8, 1e-6])
@pytest.mark.parametrize("inferences", [1_000, 30_000, 1_000_000, 2**20])
def test_one_device_is_within_a_tenth_of_a_percent_of_the_mixture(inferences, delta):
    for mu, p in product((1e-3, 0.01, 0.1, 1.0, 10.0, 25.0), (1e-3, 0.1, 0.5, 0.9, 0.9999)):
        assert_just_above_the_mixture(mu, p, inferences, delta)


def test_twelve_devices_that_are_nearly_always_there_are_nearly_one_gaussian():
    """The tail cut off in each of 2^20 inferences once added up to δ: 350 instead of 117."""
    net = like(12, shift=1 / 12, std=2.4, p=0.9999)
    always = float(gaussian.epsilon(2**10 / 12 / 2.4 / np.sqrt(12), 1e-10))
    assert always < epsilon(by_coin(net, "zero-out"), 1e-10, 2**20)[0] < always * 1.001


def test_what_the_law_of_many_unlike_devices_misses_costs_little_in_a_long_stream():
    """The law is known up to 1e-13. As a failure probability that would be δ itself after 1,000 inferences."""
    t = np.linspace(0, 1, 24)
    net = Aggregate(0.05 + 0.1 * t, (0.04 + 0.04 * t) ** 2, 0.5 + 0.45 * t)
    once = stream(by_coin(net, "zero-out"), cells=64)
    assert once.repeated(2_000).epsilon(1e-10) < 20 * once.repeated(100).epsilon(1e-10)


@pytest.mark.parametrize(
    ("sigma", "p", "inferences", "expected"),
    [(1, 0.9, 10, 16.525494), (5, 0.9, 1000, 39.810835), (10, 0.1, 1000, 1.208957)],
)
def test_the_composed_subsampled_gaussian_has_the_reference_epsilon(sigma, p, inferences, expected):
    found = epsilon(by_coin(one_device(sigma, p), "zero-out"), DELTA, inferences)[0]
    assert found == pytest.approx(expected, rel=1e-3)
    assert found >= expected - 1e-6  # the reference is itself an upper bound, with six digits


@pytest.mark.parametrize(("sigma", "p", "inferences"), [(2.0, 0.5, 7), (4.0, 0.2, 100)])
def test_dp_accounting_composes_to_the_same_epsilon(sigma, p, inferences):
    one = pld.from_gaussian_mechanism(sigma, value_discretization_interval=1e-3, sampling_prob=p)
    below = pld.from_gaussian_mechanism(
        sigma, value_discretization_interval=1e-3, sampling_prob=p, pessimistic_estimate=False, use_connect_dots=False
    )
    found = epsilon(by_coin(one_device(sigma, p), "zero-out"), DELTA, inferences)[0]
    assert found == pytest.approx(one.self_compose(inferences).get_epsilon_for_delta(DELTA), rel=1e-3)
    assert found >= below.self_compose(inferences).get_epsilon_for_delta(DELTA)


@pytest.mark.parametrize("inferences", [2, 4])
def test_visible_participation_composes_to_the_mean_over_all_outcomes(inferences):
    """Given who took part in every inference, μ² adds up: an exact answer by a loop."""
    net = like(3, shift=0.3, std=0.5, p=0.7)
    m, mass = binomial(2, 0.7)
    outcomes = [(0.3, 0.0), *((0.7 * q, 0.3**2 / (0.25 * (1 + i))) for i, q in zip(m, mass, strict=True))]

    def exact(eps):
        return sum(
            np.prod([chance for chance, _ in run]) * float(gaussian.delta(eps, np.sqrt(sum(mu2 for _, mu2 in run))))
            for run in product(outcomes, repeat=inferences)
        )

    found = float(epsilon(by_coin(net, "zero-out"), DELTA, inferences)[0])
    assert exact(found) <= DELTA
    assert exact(found * 0.999) > DELTA
    composed = stream(by_coin(net, "zero-out")).repeated(inferences)
    for eps in (0.5, 1.0, 2.0):
        assert exact(eps) <= composed.delta(eps) <= exact(eps) * 1.001 + 1e-12


@pytest.mark.parametrize("dimension", [1, 5])
def test_composed_removal_agrees_with_monte_carlo(dimension):
    """Each direction by itself, then the larger; four standard errors of 100,000 runs of four inferences."""
    shift, rest, own, p, n, times = 0.5, 1.0, 0.2, 0.8, 100_000, 4
    net = Aggregate(np.array([shift, 0.0]), np.array([own, rest]), np.array([p, 1.0]), dimension=dimension)
    leak = by_coin(net, "remove")
    composed = stream(leak, int(leak.of_device[0])).repeated(times)
    rng = np.random.default_rng([15, dimension])

    def losses(present):
        total = np.zeros(n)
        for _ in range(times):
            speaks = (rng.random(n) < p) & present
            y = rng.standard_normal((n, dimension)) * np.sqrt(rest + own * speaks)[:, None]
            y[:, 0] += shift * speaks
            mean = np.zeros(dimension)
            mean[0] = shift
            with_it = np.sum(stats.norm.logpdf(y, mean, np.sqrt(rest + own)), axis=1)
            without = np.sum(stats.norm.logpdf(y, 0, np.sqrt(rest)), axis=1)
            total += np.log1p(p * np.expm1(with_it - without))
        return total if present else -total

    sides = list(zip((losses(True), losses(False)), composed.losses, strict=True))
    for eps in (0.1, 0.3, 1.0):
        for loss, distribution in sides:
            each = np.maximum(-np.expm1(eps - loss), 0.0)
            error = 4 * each.std() / np.sqrt(n)
            assert error < 0.1 * each.mean()  # or the runs would say nothing
            assert distribution.delta(eps) == pytest.approx(each.mean(), abs=error)
        assert composed.delta(eps) == max(d.delta(eps) for _, d in sides)


# Streams


def test_one_inference_is_the_leak_itself():
    leak = by_coin(like(4, shift=0.3, std=0.5, p=0.7), "replace")
    assert epsilon(leak, DELTA, 1) == pytest.approx(ends(leak, DELTA).upper, rel=0)
    assert stream(leak).epsilon(DELTA) == pytest.approx(ends(leak, DELTA).upper[0], rel=1e-3)
    assert stream(leak).epsilon(DELTA) >= ends(leak, DELTA).upper[0] - 1e-12


@pytest.mark.parametrize("cover_noise", [False, True])
def test_inference_after_inference_equals_all_at_once(cover_noise):
    once = stream(by_coin(like(3, shift=0.3, std=0.5, p=0.7, cover_noise=cover_noise), "zero-out"))
    together = once.repeated(5)
    assert (once.inferences, together.inferences) == (1, 5)
    running = list(once.losses)
    for _ in range(4):
        running = [sofar.plus(one) for sofar, one in zip(running, once.losses, strict=True)]
    # The same convolutions in another order; only the tails are cut elsewhere.
    assert max(loss.epsilon(DELTA) for loss in running) == pytest.approx(together.epsilon(DELTA), rel=1e-7)


def test_gaussians_compose_without_a_grid_to_what_the_grid_gives():
    leak = by_coin(like(5, shift=0.3, std=0.5, p=1.0), "zero-out")
    assert leak.gaussian is not None
    short = epsilon(leak, DELTA, 50)
    long = np.full(5, stream(leak).repeated(50).epsilon(DELTA))
    assert short == pytest.approx(gaussian.epsilon(np.full(5, 0.6 * np.sqrt(10)), DELTA), rel=1e-12)
    assert (long >= short).all()
    assert long == pytest.approx(short, rel=1e-3)


def test_different_networks_one_after_the_other_compose_to_the_exact_answer():
    """Their grids differ: the finer one is made coarser."""
    first, second = like(2, shift=0.3, std=0.5, p=1.0), like(3, shift=0.02, std=0.4, p=1.0)
    a, b = (stream(by_coin(net, "zero-out")) for net in (first, second))
    assert a.losses[0].step > b.losses[0].step
    mu = np.sqrt(3 * 0.3**2 / (2 * 0.25) + 500 * 0.02**2 / (3 * 0.16))
    exact = float(gaussian.epsilon(mu, DELTA))
    (often,), (rarely,) = b.repeated(500).losses, a.repeated(3).losses
    for run in (rarely.plus(often), often.plus(rarely)):
        assert exact <= run.epsilon(DELTA) <= exact * 1.001


def test_a_hundred_unlike_networks_one_by_one_compose_to_the_exact_answer():
    mus = np.geomspace(0.02, 0.3, 100)
    running = None
    for mu in mus:
        leak = by_coin(Aggregate(np.array([mu]), np.ones(1), np.ones(1)), "zero-out")
        (once,) = stream(leak).losses
        running = running.plus(once) if running else once
    assert running is not None
    exact = float(gaussian.epsilon(np.sqrt(np.sum(mus**2)), DELTA))
    assert exact <= running.epsilon(DELTA) <= exact * 1.001


def test_different_networks_compose_as_dp_accounting_composes_them():
    settings = ((2.0, 0.5), (3.0, 0.9))
    ours = [stream(by_coin(one_device(s, p), "zero-out")) for s, p in settings]
    runs = zip(ours[0].losses, ours[1].repeated(4).losses, strict=True)
    found = max(one.plus(other).epsilon(DELTA) for one, other in runs)

    def theirs(**rest):
        first, second = (
            pld.from_gaussian_mechanism(s, value_discretization_interval=1e-3, sampling_prob=p, **rest)
            for s, p in settings
        )
        return first.compose(second.self_compose(4)).get_epsilon_for_delta(DELTA)

    assert found >= theirs(pessimistic_estimate=False, use_connect_dots=False)
    assert found == pytest.approx(theirs(), rel=1e-4)


def test_an_outcome_that_reveals_all_counts_for_the_whole_run():
    """Once in 10⁷ inferences the only noisy device is silent: fine for 99 of them at δ = 1e-5, not for 101."""
    net = Aggregate(np.array([0.1, 0.0]), np.array([0.0, 1.0]), np.array([1.0, 1 - 1e-7]))
    leak = by_coin(net, "zero-out")
    kind = int(leak.of_device[0])
    once = stream(leak, kind)
    assert once.repeated(99).epsilon(DELTA) < np.inf
    assert once.repeated(101).epsilon(DELTA) == np.inf


@pytest.mark.parametrize("p", [0.5, 1.0])
@pytest.mark.parametrize("std", [0.0, 1e-6])
def test_a_network_without_noise_composes_to_infinity(std, p):
    net = Aggregate(np.full(2, 0.1), np.full(2, std**2), np.array([p, 0.9]))
    assert (epsilon(by_coin(net, "zero-out"), DELTA, 3) == np.inf).all()
    assert most_within(by_coin(net, "zero-out"), DELTA, 10.0) == 0


@pytest.mark.parametrize(("chance", "times"), [(0.2, 3), (1e-3, 600)])
def test_revealing_outcomes_add_up_as_chances_do(chance, times):
    """Nothing is told but by the outcome that reveals all: 0 up to δ = 1 − (1−q)^T, and inf below."""
    net = Aggregate(np.array([1e-12, 0.0]), np.array([0.0, 1.0]), np.array([1.0, 1 - chance]))
    leak = by_coin(net, "zero-out")
    run = stream(leak, int(leak.of_device[0])).repeated(times)
    total = 1 - (1 - chance) ** times
    assert run.epsilon(total * 0.999) == np.inf
    assert run.epsilon(total * 1.001) < 1e-6


def test_a_device_that_reveals_nothing_still_reveals_nothing_after_many_inferences():
    net = Aggregate(np.array([0.0, 0.1]), np.ones(2), np.full(2, 0.5))
    assert epsilon(by_coin(net, "zero-out"), DELTA, 10)[0] == 0


@pytest.mark.parametrize("neighbours", ["zero-out", "replace", "remove"])
@pytest.mark.parametrize("cover_noise", [False, True])
def test_more_inferences_cost_more_but_never_more_than_their_sum(neighbours, cover_noise):
    net = Aggregate(
        np.array([0.1, 0.05]), np.array([1.0, 2.0]), np.array([0.8, 1.0]), cover_noise=cover_noise, dimension=2
    )
    leak = by_coin(net, neighbours)
    one, two, four = (epsilon(leak, 1e-4, times)[0] for times in (1, 2, 4))
    assert one < two < four
    assert four <= 4 * ends(leak, 1e-4 / 4).upper[0]


random_aggregates = st.builds(
    lambda rows, extra, cover: Aggregate(
        *(np.array(column) for column in zip(*rows, strict=True)), extra=extra, cover_noise=cover, dimension=3
    ),
    st.lists(
        st.tuples(
            st.sampled_from([0.0, 1e-9]) | st.floats(0.001, 3.0),
            st.sampled_from([0.0, 1e-6]) | st.floats(0.01, 4.0),
            st.sampled_from([0.0, 1e-9, 1.0]) | st.floats(0.01, 1.0),
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from([0.0, 0.3]),
    st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(
    random_aggregates,
    st.sampled_from(["zero-out", "replace", "remove"]),
    st.floats(-10, -1).map(lambda x: 10**x),
    st.sampled_from([2, 3, 17]),
)
def test_many_inferences_never_cost_less_than_one(net, neighbours, delta, times):
    leak = by_coin(net, neighbours)
    assert (epsilon(leak, delta, times) >= ends(leak, delta).upper).all()


@settings(max_examples=60, deadline=None)
@given(random_aggregates, st.sampled_from(["zero-out", "replace", "remove"]), st.floats(-3.0, 20.0))
def test_the_law_of_one_inference_lies_on_or_above_the_curve_of_its_leak(net, neighbours, eps):
    leak = by_coin(net, neighbours)
    for kind in range(leak.num_kinds):
        for direction, loss in zip(leak.directions, stream(leak, kind).losses, strict=False):
            assert loss.delta(eps) >= leak.curve(kind, np.array([eps]), direction)[0]


# Schemes 2.1 and 2.2


@dataclass(frozen=True, eq=False)
class Vertex(Signal):
    """A curve, and that of the other side."""

    curve: Callable[[np.ndarray], np.ndarray]
    turned: Callable[[np.ndarray], np.ndarray]

    @property
    def error(self):
        return 1e-8


@given_noise.register
def _(leak: Vertex, epsilon, case, noise, *, backward):
    return (leak.turned if backward else leak.curve)(epsilon)


def vertex(scores, aggregate):
    """The curve of one known pair of scores, from the densities: μ is certain, so it is in closed form."""
    here, there = (float(stats.norm.cdf((0.3 - u) / 0.4)) for u in scores)
    mu = float(aggregate.shift[0] / np.sqrt(aggregate.variance[0]))

    def curve(eps):
        heard = here * gaussian.delta(eps - np.log(here / there), mu)
        return np.maximum((1 - here) - np.exp(eps) * (1 - there), 0.0) + heard

    return curve


def test_the_envelope_of_a_threshold_composes_to_at_least_each_of_its_vertices():
    net = Aggregate(np.array([0.5]), np.array([1.0]), np.ones(1))
    scheme = Decision(np.asarray(0.0), np.asarray(0.8), np.asarray(0.4), 0.3)
    leak = by_threshold(net, scheme)
    envelope = epsilon(leak, DELTA, 6)[0]
    vertices = []
    for pair in product((0.0, 0.8), repeat=2):
        curve = vertex(pair, net)
        assert (leak.curve(0, np.array([0.5]), "forward") >= curve(np.array([0.5]))).all()
        # The loss of one pair and of the same pair turned around are the two directions of one leak.
        nobody = np.zeros(1, dtype=np.int64)
        alone = PerDevice(Vertex(curve, vertex(pair[::-1], net)), nobody, nobody)
        vertices.append(stream(alone).repeated(6).epsilon(DELTA))
    assert envelope >= max(vertices)
    assert max(vertices) > 0


def test_a_ranking_composes_as_a_gaussian():
    net = like(4, shift=0.3, std=0.5, p=1.0)
    leak = by_ranking(net, score_range=np.asarray(0.2), score_noise_std=np.asarray(0.4), num_selected=3)
    mu = np.hypot(0.5, 0.3 / np.sqrt(0.75))
    assert epsilon(leak, DELTA, 25) == pytest.approx(gaussian.epsilon(np.full(4, mu * 5), DELTA), rel=1e-12)


# How many fit


@pytest.mark.parametrize("p", [1.0, 0.6])
def test_most_inferences_fit_and_one_more_does_not(p):
    leak = by_coin(like(3, shift=0.1, std=0.5, p=p), "zero-out")
    most = most_within(leak, DELTA, 2.0)
    assert most > 1
    assert epsilon(leak, DELTA, most).max() <= 2.0
    assert epsilon(leak, DELTA, most + 1).max() > 2.0


def test_each_device_may_have_a_budget_of_its_own():
    net = Aggregate(np.array([0.1, 0.05]), np.full(2, 0.25), np.full(2, 0.6))
    leak = by_coin(net, "zero-out")
    most = most_within(leak, DELTA, [2.0, 0.5])
    assert (epsilon(leak, DELTA, most) <= [2.0, 0.5]).all()
    assert (epsilon(leak, DELTA, most + 1) > [2.0, 0.5]).any()
    assert most == min(most_within(leak, DELTA, [2.0, np.inf]), most_within(leak, DELTA, [np.inf, 0.5]))


def test_no_inference_fits_where_one_is_too_many_and_all_fit_where_nothing_is_revealed():
    leak = by_coin(like(3, shift=0.5, std=0.5, p=0.6), "zero-out")
    assert most_within(leak, DELTA, 0.1) == 0
    assert most_within(by_coin(like(2, shift=0.0, std=1.0, p=1.0), "zero-out"), DELTA, 1.0) == 2**20


# Bad input


@pytest.mark.parametrize("delta", [1e-11, 1e-300])
def test_a_delta_that_cannot_be_resolved_is_refused(delta):
    with pytest.raises(ValueError, match=f"delta={delta:g} must be >= 1e-10 where inferences are composed"):
        epsilon(by_coin(one_device(1.0, 0.5), "zero-out"), delta, 2)


def test_more_inferences_than_rounding_allows_are_refused():
    once = stream(by_coin(one_device(1.0, 0.5), "zero-out"))
    with pytest.raises(ValueError, match=f"inferences={MOST_INFERENCES + 1} must be <= 16777216"):
        once.repeated(MOST_INFERENCES + 1).epsilon(DELTA)


def test_gaussians_compose_at_any_delta():
    assert epsilon(by_coin(one_device(1.0, 1.0), "zero-out"), 1e-15, 2)[0] == pytest.approx(
        float(gaussian.epsilon(np.sqrt(2), 1e-15))
    )


@pytest.mark.parametrize("times", [0, -3])
def test_fewer_than_one_inference_is_refused(times):
    leak = by_coin(one_device(1.0, 0.5), "zero-out")
    with pytest.raises(ValueError, match=f"inferences={times} must be >= 1"):
        epsilon(leak, DELTA, times)
    with pytest.raises(ValueError, match=f"times={times} must be >= 1"):
        stream(leak).repeated(times)


@pytest.mark.parametrize("delta", [0.0, 1.0, np.nan])
def test_a_delta_outside_zero_to_one_is_refused(delta):
    with pytest.raises(ValueError, match=r"delta=.* must be > 0 and < 1"):
        epsilon(by_coin(one_device(1.0, 0.5), "zero-out"), delta, 2)


# Mechanisms that are nearly what is accounted for

MU = np.array([0.3, 1.0, 2.5])


def gaussian_at(delta):
    return gaussian.epsilon(MU, delta)


def test_a_mechanism_that_is_exactly_what_is_accounted_for_costs_nothing_more():
    assert (nearby(gaussian_at, 1e-5, 0.0) == gaussian_at(1e-5)).all()


@given(st.floats(1e-14, 1e-2), st.floats(1e-8, 0.1))
def test_what_goes_astray_is_paid_for_and_not_more_than_that(distance, delta):
    found = nearby(gaussian_at, delta, distance)
    finite = np.isfinite(found)
    total = gaussian.delta(found[finite], MU[finite]) + (1 + np.exp(found[finite])) * distance
    assert (total <= delta * (1 + 1e-9)).all()
    # The smallest such ε: a little less is not enough, unless nothing was to be paid for.
    less = found[finite] * (1 - 1e-6)
    tight = less > 1e-3
    total = gaussian.delta(less[tight], MU[finite][tight]) + (1 + np.exp(less[tight])) * distance
    assert (total > delta).all()


def test_every_device_pays_for_its_own_distance():
    found = nearby(gaussian_at, 1e-5, [0.0, 1e-9, 1.0])
    assert found[0] == gaussian_at(1e-5)[0]
    assert gaussian_at(1e-5)[1] < found[1] < gaussian_at(1e-5)[1] + 0.01
    assert found[2] == np.inf


def test_a_device_without_noise_stays_infinite():
    found = nearby(lambda d: gaussian.epsilon(np.array([np.inf, 1.0]), d), 1e-5, 1e-9)
    assert found[0] == np.inf
    assert found[1] == pytest.approx(float(gaussian.epsilon(1.0, 1e-5)), rel=1e-2)
