"""ε of the object: all views change at once."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

from airpool.privacy import device as object_module
from airpool.privacy import gaussian
from airpool.privacy.device import Aggregate, epsilon, of_object
from airpool.privacy.leak import delta as delta_of
from airpool.privacy.leak import ends

DELTA = 1e-5
UNLIKE = Aggregate(
    shift=np.array([0.1, 0.2, 0.3, 0.05]),
    variance=np.array([0.3, 0.2, 0.0, 0.4]) ** 2,
    participation=np.array([0.9, 0.5, 1.0, 0.7]),
)


def object_epsilon(aggregate, neighbours: str = "zero-out"):
    return float(ends(of_object(aggregate, neighbours), DELTA).upper[0])


def enumerated(aggregate, eps, *, distance=1, absent=0):
    """δ by a loop over who takes part, less the largest noises in each outcome."""
    total = 0.0
    for heard in product((0, 1), repeat=aggregate.num_devices):
        speaks = np.array(heard, dtype=bool)
        p = np.prod(np.where(speaks, aggregate.participation, 1 - aggregate.participation))
        noise = np.sort(aggregate.variance[speaks])[: max(speaks.sum() - absent, 0)].sum()
        shift = distance * aggregate.shift[speaks].sum()
        mu = 0.0 if shift == 0 else (np.inf if noise == 0 else shift / np.sqrt(noise))
        total += p * float(gaussian.delta(eps, mu))
    return total


def delta(aggregate, eps, neighbours: str = "zero-out"):
    leak = of_object(aggregate, neighbours).leak
    return float(delta_of(leak, np.array([eps]), np.zeros(1, dtype=np.int64))[0])


def test_the_object_has_the_reference_epsilon():
    net = Aggregate(np.full(12, 1 / 12), np.full(12, 0.08975**2), np.ones(12))
    assert object_epsilon(net) == pytest.approx(18.25676954, rel=1e-9)


def test_at_device_epsilon_1_the_local_one_is_4_02_and_the_object_has_18_3():
    std = float(gaussian.noise_multiplier(1.0, DELTA)) / 12 / np.sqrt(12)
    net = Aggregate(np.full(12, 1 / 12), np.full(12, std**2), np.ones(12))
    assert epsilon(net, DELTA).upper[0] == pytest.approx(1.0, rel=1e-9)
    assert float(gaussian.epsilon(net.shift[0] / np.sqrt(net.variance[0]), DELTA)) == pytest.approx(4.02, abs=0.005)
    assert object_epsilon(net) == pytest.approx(18.3, abs=0.05)


@pytest.mark.parametrize(("neighbours", "distance"), [("zero-out", 1), ("replace", 2)])
@pytest.mark.parametrize("eps", [0.1, 1.0, 4.0])
def test_the_objects_delta_is_the_mean_over_every_outcome(neighbours, distance, eps):
    assert delta(UNLIKE, eps, neighbours) == pytest.approx(enumerated(UNLIKE, eps, distance=distance), rel=1e-10)


@pytest.mark.parametrize("absent", [1, 2, 3, 4])
def test_absent_devices_take_their_noise_but_their_views_change_too(absent):
    net = replace(UNLIKE, absent=absent)
    for eps in (0.1, 1.0, 4.0):
        bound = delta(net, eps)
        assert bound == pytest.approx(enumerated(UNLIKE, eps, absent=absent), rel=1e-10)
        # Whichever devices collude, it is no worse than that.
        for gone in combinations(range(4), absent):
            silent = UNLIKE.variance.copy()
            silent[list(gone)] = 0.0
            assert enumerated(replace(UNLIKE, variance=silent), eps) <= bound + 1e-12


def test_too_many_outcomes_give_a_bound_above_the_truth(monkeypatch):
    truth = [delta(UNLIKE, eps) for eps in (0.1, 1.0, 4.0)]
    covered = [delta(replace(UNLIKE, cover_noise=True), eps) for eps in (0.1, 1.0, 4.0)]
    monkeypatch.setattr(object_module, "_OUTCOMES", 1)
    assert all(delta(UNLIKE, eps) >= t for eps, t in zip((0.1, 1.0, 4.0), truth, strict=True))
    net = replace(UNLIKE, cover_noise=True)
    assert all(delta(net, eps) >= t for eps, t in zip((0.1, 1.0, 4.0), covered, strict=True))


def test_the_object_of_forty_unlike_devices_has_a_finite_bound():
    rng = np.random.default_rng(9)
    net = Aggregate(rng.uniform(0.01, 0.02, 40), rng.uniform(0.1, 0.2, 40) ** 2, np.ones(40) * 0.95)
    found = object_epsilon(net)
    everybody = float(gaussian.epsilon(net.shift.sum() / np.sqrt(net.variance.sum()), DELTA))
    assert 0.9 * everybody < found < 2 * everybody


@pytest.mark.parametrize("coins", [0, 3])
def test_any_number_of_unlike_devices_is_enumerated_where_few_of_them_toss_coins(coins):
    rng = np.random.default_rng(10)
    chance = np.r_[np.full(coins, 0.5), np.ones(120 - coins)]
    net = Aggregate(rng.uniform(0.01, 0.02, 120), rng.uniform(0.1, 0.2, 120) ** 2, chance)
    outcomes = [np.r_[np.array(heard), np.ones(120 - coins)] for heard in product((0.0, 1.0), repeat=coins)]
    mu = [float(net.shift @ each / np.sqrt(net.variance @ each)) for each in outcomes]
    for eps in (0.1, 1.0, 4.0):
        assert delta(net, eps) == pytest.approx(np.mean([gaussian.delta(eps, each) for each in mu]), rel=1e-9)


def test_cover_noise_of_the_object_counts_everybodys_noise():
    net = replace(UNLIKE, cover_noise=True)
    std = np.sqrt(UNLIKE.variance.sum())
    expected = 0.0
    for heard in product((0, 1), repeat=4):
        speaks = np.array(heard, dtype=bool)
        p = np.prod(np.where(speaks, UNLIKE.participation, 1 - UNLIKE.participation))
        expected += p * float(gaussian.delta(1.0, UNLIKE.shift[speaks].sum() / std))
    assert delta(net, 1.0) == pytest.approx(expected, rel=1e-10)


def test_removing_everybody_is_always_seen():
    assert object_epsilon(UNLIKE, "remove") == np.inf


def test_under_orthogonal_access_squared_distances_add_up():
    net = Aggregate(np.array([0.3, 0.4]), np.array([0.25, 1.0]), np.ones(2), alone=True)
    assert object_epsilon(net) == pytest.approx(float(gaussian.epsilon(np.hypot(0.6, 0.4), DELTA)), rel=1e-9)


@pytest.mark.parametrize("change", [{"colluding": (0,)}, {"absent": 1, "colluders": 1}])
@pytest.mark.parametrize("alone", [False, True])
def test_a_colluder_sees_its_own_view_change(alone, change):
    net = Aggregate(np.array([0.3, 0.4]), np.array([0.25, 1.0]), np.ones(2), alone=alone)
    assert object_epsilon(replace(net, **change)) == np.inf
    assert object_epsilon(replace(net, shift=np.zeros(2), **change)) == np.inf


def test_under_orthogonal_access_a_dropout_sends_nothing_and_reveals_nothing():
    net = Aggregate(np.array([0.3, 0.4]), np.array([0.25, 1.0]), np.ones(2), alone=True)
    assert object_epsilon(replace(net, absent=1)) == object_epsilon(net) < np.inf


def test_the_object_is_never_better_off_than_any_device():
    assert object_epsilon(UNLIKE) >= epsilon(UNLIKE, DELTA).upper.max()


def test_an_object_seen_less_often_than_delta_leaks_nothing():
    net = Aggregate(np.ones(2), np.zeros(2), np.full(2, 0.4e-5))
    assert object_epsilon(net) == 0
    assert object_epsilon(replace(net, participation=np.full(2, 0.6e-5))) == np.inf
