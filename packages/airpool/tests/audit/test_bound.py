"""The audit is sound on honest mechanisms, sharp on a known one, and catches planted bugs on the release path."""

import copy
import json
from dataclasses import replace
from functools import partial

import matplotlib as mpl
import numpy as np
import pytest
from scipy import optimize, stats

from airpool.evaluation.audit.bound import audit, ceiling, clopper_pearson, fewest_misses, fewest_runs, plot
from airpool.evaluation.audit.release import log_likelihood_ratio, release, worst_pair
from airpool.privacy import gaussian
from tests import plain_air
from tests.plain_air import received, simulated, without

DELTA = 1e-5
MU = float(1 / gaussian.noise_multiplier(4.0, DELTA))  # a Gaussian with ε = 4


def shifted(x, n, rng):
    return x + rng.standard_normal(n)


def itself(seen):
    return seen


def most_by_chance(games, rate):
    """More failures than this come up once in a thousand test runs, were the seeds not fixed."""
    return stats.binom.isf(1e-3, games, rate)


# Sound


@pytest.mark.parametrize("score", [itself, None])
@pytest.mark.parametrize("sided", ["one", "two"])
def test_over_200_games_between_equal_worlds_false_alarms_stay_within_the_binomial_bound(score, sided):
    rngs = np.random.default_rng(20).spawn(200)
    reports = [audit(shifted, 0.0, 0.0, runs=2_000, rng=rng, delta=DELTA, score=score, sided=sided) for rng in rngs]
    assert sum(report.epsilon_lower > 0 for report in reports) <= most_by_chance(200, 0.05)


def test_randomised_response_is_bounded_by_its_true_epsilon_as_often_as_promised():
    def respond(bit, n, rng):
        return bit ^ (rng.random(n) < 1 / (1 + np.e))  # ε = 1, attained by the bit itself: nothing to spare

    rngs = np.random.default_rng(21).spawn(200)
    shown = [
        audit(respond, True, False, runs=20_000, rng=rng, delta=1e-9, score=lambda b: b * 1.0).epsilon_lower
        for rng in rngs
    ]
    assert sum(epsilon > 1 for epsilon in shown) <= most_by_chance(200, 0.05)
    assert np.median(shown) > 0.9


@pytest.mark.parametrize("score", [itself, None])
def test_the_runs_that_count_mistakes_have_no_say_in_the_threshold(score):
    def game(late_shift):
        observed = {0: [], 1: []}

        def mechanism(world, n, rng):
            late = late_shift if len(observed[world]) >= 10 else 0.0  # the evaluated half of 20 batches
            observed[world].append(world + late + rng.standard_normal(n))
            return observed[world][-1]

        rng = np.random.default_rng(29)
        return audit(mechanism, 1, 0, runs=1_000, rng=rng, delta=DELTA, score=score, batch=50), observed

    report, observed = game(0.0)
    assert game(5.0)[0].threshold == report.threshold
    if score is itself:
        absent, present = (np.concatenate(observed[world])[500:] for world in (0, 1))
        assert report.false_alarms == np.sum(absent > report.threshold)
        assert report.misses == np.sum(present <= report.threshold)


def test_an_honest_release_is_not_refuted():
    devices, features, neighbour = honest_release()
    for score in (log_likelihood_ratio(devices, features, neighbour), None):
        report = audit(
            partial(simulated, devices),
            features,
            neighbour,
            runs=100_000,
            rng=np.random.default_rng(22),
            delta=DELTA,
            score=score,
            claimed_epsilon=4.0,
        )
        assert 1.5 < report.epsilon_lower < 4
        assert not report.violated


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
def test_visible_participation_stays_below_the_exact_curve(neighbours):
    p, K = 0.8, 5
    devices = release(K, clip_norm=1.0, noise_std=0.1, participation=p)
    features, neighbour = worst_pair(devices, 0, dimension=3, neighbours=neighbours)
    sensitivity = (2 if neighbours == "replace" else 1) / K
    others = np.arange(K)
    mus = sensitivity / (0.1 * np.sqrt(1 + others))

    def excess(epsilon):
        return float(p * stats.binom.pmf(others, K - 1, p) @ gaussian.delta(epsilon, mus) - 1e-3)

    claim = optimize.brentq(excess, 0, 100)
    report = audit(
        partial(simulated, devices),
        features,
        neighbour,
        runs=200_000,
        rng=np.random.default_rng(23),
        delta=1e-3,
        score=log_likelihood_ratio(devices, features, neighbour),
        claimed_epsilon=claim,
    )
    assert 0.6 * claim < report.epsilon_lower < claim


def test_cover_noise_stays_below_the_subsampled_gaussian_which_visible_participation_exceeds():
    p, delta = 0.1, 1e-3
    covered = release(4, clip_norm=1.0, noise_std=0.06, participation=p, cover_noise=True)
    features, neighbour = worst_pair(covered, 0, dimension=3)
    mu = 0.25 / (0.06 * 2)

    def excess(epsilon):
        return float(p * gaussian.delta(np.log1p(np.expm1(epsilon) / p), mu) - delta)

    claim = optimize.brentq(excess, 0, 100)
    shown = {}
    for devices in (covered, replace(covered, cover_noise=False)):
        shown[devices.cover_noise] = audit(
            partial(simulated, devices),
            features,
            neighbour,
            runs=200_000,
            rng=np.random.default_rng(24),
            delta=delta,
            score=log_likelihood_ratio(devices, features, neighbour),
            claimed_epsilon=claim,
        )
    assert 0.6 * claim < shown[True].epsilon_lower < claim
    assert shown[False].violated


# Sharp


def test_a_million_runs_show_at_least_2_4_of_a_true_epsilon_of_4_in_the_median():
    shown = [
        audit(
            shifted, MU, 0.0, runs=1_000_000, rng=np.random.default_rng(seed), delta=DELTA, score=itself
        ).epsilon_lower
        for seed in range(7)
    ]
    assert np.median(shown) >= 2.4
    assert max(shown) < 4


def test_a_learnt_score_in_many_dimensions_comes_close_to_the_exact_one():
    direction = np.linspace(1, 2, 30)
    direction *= 2.0 / np.linalg.norm(direction)

    def spread(x, n, rng):
        return x + rng.standard_normal((n, 30))

    play = partial(audit, spread, direction, np.zeros(30), runs=40_000, delta=DELTA)
    exact = play(rng=np.random.default_rng(25), score=lambda y: y @ direction).epsilon_lower
    learnt = play(rng=np.random.default_rng(25)).epsilon_lower
    assert learnt > 0.85 * exact > 2


def test_worlds_that_are_never_confused_reach_the_ceiling():
    for size in (1.0, np.inf):
        report = audit(
            lambda x, n, rng: np.full(n, x),
            size,
            -size,
            runs=10_000,
            rng=np.random.default_rng(26),
            delta=DELTA,
            score=itself,
            claimed_epsilon=np.inf,
        )
        assert report.epsilon_lower == report.ceiling == ceiling(10_000, delta=DELTA)
        assert not report.violated


def test_two_sides_see_what_one_side_cannot():
    def alarm(rings, n, rng):
        return rings * (rng.random(n) < 0.1)  # only the neighbour ever rings: Pr[neighbour] is unbounded

    play = partial(audit, alarm, 0.0, 1.0, runs=20_000, delta=DELTA, score=np.negative)
    one, two = (play(rng=np.random.default_rng(27), sided=sided) for sided in ("one", "two"))
    assert one.epsilon_lower < 0.2
    assert two.epsilon_lower > 5
    assert two.direction == "neighbour over features"


def test_removal_shows_through_the_variance_where_the_feature_is_zero():
    devices = release(3, clip_norm=1.0, noise_std=1.0, cover_noise=True)
    zeros = np.zeros((3, 64))
    gone = without(devices, 0)
    report = audit(
        lambda world, n, rng: simulated(*world, n, rng),
        (devices, zeros),
        (gone, zeros),
        runs=4_000,
        rng=np.random.default_rng(28),
        delta=DELTA,
        score=log_likelihood_ratio(devices, zeros, zeros, neighbour_devices=gone),
        claimed_epsilon=0.0,
    )
    assert report.epsilon_lower > 3


def test_the_ceiling_is_what_a_faultless_game_can_show():
    beta = 1 - 0.025 ** (1 / 500_000)
    assert ceiling(1_000_000, delta=DELTA) == pytest.approx(np.log((1 - beta - DELTA) / beta))
    assert ceiling(1_000_000, delta=DELTA) == pytest.approx(11.8, abs=0.05)


def test_clopper_pearson_limits_are_those_of_scipy():
    for count in (0, 1, 37, 100):
        low, high = clopper_pearson(count, 100, error=0.025)
        expected = stats.binomtest(count, 100).proportion_ci(0.95, "exact")
        assert (float(low), float(high)) == pytest.approx((expected.low, expected.high))


# Planted bugs, on the release path


def honest_release(num_devices=12, **change):
    """Devices whose zero-out ε is 4 when all others are honest, and the pair of worlds that attains it."""
    noise_std = 1 / num_devices / (MU * np.sqrt(num_devices))
    devices = release(num_devices, clip_norm=1.0, noise_std=noise_std, **change)
    return devices, *worst_pair(devices, 0, dimension=4)


def test_halved_noise_is_caught():
    devices, features, neighbour = honest_release()
    report = audit(
        partial(simulated, replace(devices, noise_std=devices.noise_std / 2)),
        features,
        neighbour,
        runs=200_000,
        rng=np.random.default_rng(30),
        delta=DELTA,
        score=log_likelihood_ratio(devices, features, neighbour),
        claimed_epsilon=4.0,
    )
    assert report.violated


def test_a_forgotten_clip_is_caught(monkeypatch):
    devices, features, neighbour = honest_release()
    play = partial(
        audit,
        partial(simulated, devices),
        3 * features,
        neighbour,
        runs=50_000,
        delta=DELTA,
        score=log_likelihood_ratio(devices, features, neighbour),
        claimed_epsilon=4.0,
    )
    assert not play(rng=np.random.default_rng(31)).violated
    monkeypatch.setattr(plain_air, "clipped", lambda latents, clip_norm: latents)
    assert play(rng=np.random.default_rng(31)).violated


def with_a_seed_shared_by_devices_0_and_1(devices, features, runs, rng):
    rngs = rng.spawn(devices.num_devices)
    rngs[1] = copy.deepcopy(rngs[0])
    return received(devices, features, runs, rngs=rngs)


def test_a_seed_shared_with_a_colluder_is_caught():
    # The claim when everybody else colludes is the local one: only device 0's own noise counts, μ = wC/σ.
    devices, features, neighbour = honest_release(colluders=range(1, 12))
    devices = replace(devices, noise_std=devices.noise_std * np.sqrt(12))
    play = partial(audit, features=features, neighbour=neighbour, runs=10_000, delta=DELTA, claimed_epsilon=4.0)
    assert not play(partial(simulated, devices), rng=np.random.default_rng(32)).violated
    report = play(partial(with_a_seed_shared_by_devices_0_and_1, devices), rng=np.random.default_rng(32))
    assert report.violated
    assert report.epsilon_lower == report.ceiling


def test_a_shared_seed_does_not_show_in_the_sum_alone():
    # Equal noise adds up to more variance than independent noise: without a colluder there is nothing to catch.
    devices, features, neighbour = honest_release()
    report = audit(
        partial(with_a_seed_shared_by_devices_0_and_1, devices),
        features,
        neighbour,
        runs=50_000,
        rng=np.random.default_rng(33),
        delta=DELTA,
        claimed_epsilon=4.0,
    )
    assert not report.violated


def test_a_seed_used_for_two_inferences_is_caught():
    devices, features, neighbour = honest_release()

    def twice(rngs_of_each, pair, n, rng):
        rngs = rngs_of_each(rng)
        return np.stack([received(devices, z, n, rngs=r).total for z, r in zip(pair, rngs, strict=True)], axis=1)

    def fresh(rng):
        return [rng.spawn(12), rng.spawn(12)]

    def reused(rng):
        rngs = rng.spawn(12)
        return [rngs, copy.deepcopy(rngs)]

    # Only the first inference differs between the worlds, so the claim for one inference covers both.
    worlds = np.stack([features, neighbour]), np.stack([neighbour, neighbour])
    honest, bug = (
        audit(
            partial(twice, rngs),
            *worlds,
            runs=20_000,
            rng=np.random.default_rng(34),
            delta=DELTA,
            claimed_epsilon=4.0,
        )
        for rngs in (fresh, reused)
    )
    assert not honest.violated
    assert bug.violated
    assert bug.epsilon_lower == bug.ceiling


# Reports, pictures, bad input


def test_a_report_survives_json_and_says_what_it_is():
    report = audit(shifted, 50.0, 0.0, runs=1_000, rng=np.random.default_rng(40), delta=DELTA, claimed_epsilon=np.inf)
    plain = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert plain["claimed_epsilon"] == "inf"
    assert plain["violated"] is False
    assert plain["epsilon_lower"] == report.epsilon_lower
    assert len(plain["miss_rates"]) == len(plain["false_alarm_rates"]) <= 256
    assert "0.95 confidence" in str(report)
    assert f"at most {report.ceiling:.2f}" in str(report)
    assert "simulated from seed 40" in str(report)


def test_the_same_seed_gives_the_same_report():
    first, second = (
        audit(shifted, 1.0, 0.0, runs=1_000, rng=np.random.default_rng(41), delta=DELTA).to_json() for _ in range(2)
    )
    assert first == second


def test_runs_are_asked_for_in_bounded_batches_and_counted():
    asked, told = [], []

    def counting(x, n, rng):
        asked.append(n)
        return shifted(x, n, rng)

    for batch, largest in ((70, 70), (None, 4096)):
        asked.clear()
        told.clear()
        audit(
            counting,
            1.0,
            0.0,
            runs=20_001,
            rng=np.random.default_rng(42),
            delta=DELTA,
            batch=batch,
            on_batch=told.append,
        )
        assert max(asked) == largest
        assert sum(asked) == sum(told) == 2 * 20_001


@pytest.mark.parametrize("shift", [MU, -3.0])
@pytest.mark.parametrize("claim", [None, 1.0, np.inf])
def test_the_trade_off_curve_can_be_drawn(tmp_path, shift, claim):
    report = audit(shifted, shift, 0.0, runs=4_000, rng=np.random.default_rng(43), delta=DELTA, claimed_epsilon=claim)
    path = tmp_path / "curve.png"
    # The second one has nothing to show: the test that was picked never speaks for the features.
    for drawn in (report, replace(report, epsilon_lower=0.0, false_alarms=0, misses=report.evaluated)):
        plot(drawn, path)
        assert path.read_bytes().startswith(b"\x89PNG")
        path.unlink()


def test_the_figure_rounds_what_was_shown_down_and_what_is_claimed_up(tmp_path):
    report = audit(shifted, MU, 0.0, runs=4_000, rng=np.random.default_rng(43), delta=DELTA)
    path = tmp_path / "curve.svg"
    with mpl.rc_context({"svg.fonttype": "none"}):  # text as text
        plot(replace(report, epsilon_lower=1.23789, claimed_epsilon=2.00412), path)
    text = path.read_text()
    assert "ε ≥ 1.237" in text
    assert "(2.005, 1e-05)" in text


def test_the_region_of_a_claim_is_its_own_mirror_image():
    for epsilon in (0.0, 0.5, 4.0):
        rates = np.linspace(0, 0.999, 500)
        back = fewest_misses(fewest_misses(rates, epsilon=epsilon, delta=1e-3), epsilon=epsilon, delta=1e-3)
        assert back == pytest.approx(rates, abs=1e-9)
    assert not fewest_misses([0.0, 1e-300, 1.0], epsilon=np.inf, delta=0.1).any()
    assert fewest_misses([0.0, 0.5], epsilon=1e4, delta=0.1) == pytest.approx([0.9, 0.0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"runs": 11}, "runs=11 must be at least 12"),
        ({"delta": 0.0}, "delta=0 must be > 0 and < 1"),
        ({"delta": 1.0}, "delta=1 must be > 0 and < 1"),
        ({"confidence": 95.0}, "confidence=95 must be > 0 and < 1"),
        ({"confidence": np.nan}, "confidence=nan must be > 0 and < 1"),
        ({"sided": "both"}, 'sided=\'both\' must be "one" or "two"'),
        ({"batch": 0}, "batch=0 must be at least 1"),
        ({"neighbour": np.zeros(3)}, r"neighbour has shape \(3,\): it must be that of features, \(2,\)"),
        ({"mechanism": lambda x, n, rng: np.zeros(n + 1)}, r"mechanism returned shape \(51,\)"),
        ({"mechanism": lambda x, n, rng: np.full(n, np.nan)}, "mechanism returned nan"),
        ({"score": lambda seen: seen}, r"score returned shape \(50, 2\): it must be \(50,\)"),
        ({"score": lambda seen: seen[:, 0] * np.nan}, "score returned nan"),
    ],
)
def test_bad_input_is_named(change, message):
    def noisy(x, n, rng):
        return x + rng.standard_normal((n, 2))

    arguments = {
        "mechanism": noisy,
        "features": np.ones(2),
        "neighbour": np.zeros(2),
        "runs": 100,
        "rng": np.random.default_rng(44),
        "delta": DELTA,
    }
    if change.get("mechanism") is not None:
        arguments["score"] = itself
    with pytest.raises(ValueError, match=message):
        audit(**(arguments | change))


def test_the_fewest_runs_are_where_the_ceiling_turns_positive():
    for delta, confidence in ((1e-5, 0.95), (0.3, 0.99), (1e-9, 0.5)):
        needed = fewest_runs(delta=delta, confidence=confidence)
        assert ceiling(needed, delta=delta, confidence=confidence) > 0
        assert ceiling(needed - 1, delta=delta, confidence=confidence) <= 0
