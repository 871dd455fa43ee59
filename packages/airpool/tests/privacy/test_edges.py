"""Edges of the privacy core: bad input by name, empty laws, and large cases that are cut into pieces."""

from typing import Any

import numpy as np
import pytest

from airpool.privacy import calibrate, compose, device, leak, noise, sampled, sums, unaligned
from airpool.privacy.aggregate import Aggregate
from airpool.privacy.law import Arrivals, Strength
from airpool.privacy.renyi import LossMoments
from airpool_lab.waveform import reception


def test_a_negative_number_of_absent_devices_is_named():
    with pytest.raises(ValueError, match="absent=-1 must be >= 0"):
        Aggregate(np.ones(2), np.ones(2), np.ones(2), absent=-1)
    with pytest.raises(ValueError, match="colluders=2 must be from 0 to absent=1"):
        Aggregate(np.ones(2), np.ones(2), np.ones(2), absent=1, colluders=2)


def test_a_grid_is_that_of_one_device():
    with pytest.raises(ValueError, match="must be one number"):
        noise.grid_of(np.array([0.1, 0.2]))  # pyright: ignore[reportArgumentType]


def test_a_search_for_a_fixed_point_that_does_not_settle_is_infinite():
    asked = iter(range(10**6))
    found = compose.nearby(lambda _: np.array([1e-3 * next(asked)]), 1e-2, 1e-12)
    assert np.isinf(found[0])
    assert next(asked) > 100


def test_moments_of_a_loss_that_is_infinite_too_often_give_no_epsilon():
    loss = compose.Loss(1.0, 0, np.array([0.5, 0.4]), infinite=0.1)
    assert np.isinf(LossMoments([loss]).epsilon(1, 1e-5))
    assert LossMoments([loss]).epsilon(1, 0.5) < np.inf


def test_cutting_a_computation_into_pieces_changes_nothing(monkeypatch):
    rng = np.random.default_rng(3)
    net = Aggregate(rng.uniform(0.5, 1, 5), rng.uniform(0.5, 1, 5), rng.uniform(0.5, 1, 5))
    whole = device.epsilon(net, 1e-5)
    monkeypatch.setattr(leak, "_CHUNK", 8)
    assert device.epsilon(net, 1e-5).upper == pytest.approx(whole.upper, rel=1e-12)


def test_without_noise_no_shift_is_private_unless_it_is_rarer_than_delta():
    silent = Aggregate(np.ones(2), np.zeros(2), np.array([1.0, 1e-6]))
    assert calibrate.largest_shift(silent, np.ones(2), 1e-5, "zero-out").tolist() == [0.0, np.inf]


def test_the_least_factor_is_the_answer_where_no_smaller_one_may_be_asked_for():
    assert calibrate.smallest_factor(lambda _: np.zeros(1), np.ones(1), most=0.0) == 0.0


def test_an_adversary_with_every_sample_sees_the_leverage_of_a_linear_map():
    one: Any = np.array([[1.0 + 0j]])
    aligned = reception.leverages([one, one], [0.5 * one, 1.0 * one], receiver=0.0)
    assert aligned == pytest.approx(np.full(2, 1 / 1.25))
    apart: list[Any] = [np.array([[1.0 + 0j], [0.0]]), np.array([[0.0 + 0j], [1.0]])]
    assert reception.leverages(apart, [0.5 * apart[0], 2.0 * apart[1]], receiver=0.0) == pytest.approx([4.0, 0.25])
    assert np.all(np.isinf(reception.leverages(apart, [0 * apart[0], 0 * apart[1]])))


def test_sums_of_nothing_are_nothing():
    nothing = sums.law_of(np.zeros(3), np.full(3, 1 / 3))
    assert (nothing.values.tolist(), nothing.mass.tolist()) == ([0.0], [1.0])
    assert sums.law_of(np.ones(2), np.array([1e-20, 0.0])).times(2).mass.sum() == pytest.approx(1.0)
    rare = sums.RoundedSum(1.0, 4, np.full(2, 1e-30)).plus(sums.RoundedSum(1.0, 0, np.ones(1)))
    assert (rare.lowest, rare.mass.tolist()) == (0, [0.0])
    none = sums.most_of(np.zeros(2), np.full(2, 0.5), 7)
    assert (none.values.tolist(), none.mass.tolist(), none.infinite) == ([0.0], [1.0], 0.0)
    assert sums.most_of(np.array([np.inf]), np.ones(1), 7).infinite == 1.0


def test_sums_on_two_grids_are_added_on_the_coarser_one():
    fine, coarse = sums.RaisedSum(0.5, 0, np.full(2, 0.5), 0.0), sums.RaisedSum(1.0, 1, np.ones(1), 0.0)
    for found in (fine.plus(coarse), coarse.plus(fine)):
        assert found.step == 1.0
        assert found.values[found.mass > 0.4].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("costly", [False, True])
def test_many_components_are_drawn_less_often(costly, monkeypatch):
    def draw(number, rng):
        return rng.standard_normal((number, 3, 2))

    same, ones = np.zeros(3, dtype=np.int64), np.ones(3)
    law = Arrivals(draw, key=costly, of_device=same, presence=ones, most=ones * np.inf, beyond=0 * ones, costly=costly)
    few = sampled._draws(law, 100)
    assert few * (8 if costly else 4) == sampled._draws(law, 3)
    # The noise of one of three equal devices does not count: the law is that of two, from below.
    monkeypatch.setattr(sampled, "DRAWS", 8 * sampled._CHUNK)
    all_of_them, two = (sampled.sampled_floor(ones, ones, law, absent=absent) for absent in (0, 1))
    assert all_of_them is not None
    assert two is not None
    mean = [float(np.sum(np.minimum(each.low.variance, 50) * each.low.mass)) for each in (all_of_them, two)]
    assert mean[1] < mean[0]


def test_too_many_sets_of_absent_devices_leave_own_noise_alone(monkeypatch):
    strength = Strength(
        edge=(np.array([0.9, 1.1]),),
        above=(np.array([0.9, 0.0]),),
        present=(1.0,),
        of_device=np.zeros(3, dtype=np.int64),
    )
    monkeypatch.setattr(unaligned, "_MOST_ROWS", 1)
    variance = np.array([1.0, 2.0, 3.0])
    assert unaligned.unaligned_floor(variance, np.ones(3), strength, absent=1) is None
    net = Aggregate(np.ones(3), variance, np.ones(3), absent=1, colluders=1, strength=strength)
    assert np.all(device.surroundings(net, 1.0).low.variance == 0)
