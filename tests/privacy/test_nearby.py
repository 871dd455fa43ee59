"""Mechanisms that are nearly what is accounted for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airpool.privacy import gaussian, nearby

MU = np.array([0.3, 1.0, 2.5])


def at(delta):
    return gaussian.epsilon(MU, delta)


def test_a_mechanism_that_is_exactly_what_is_accounted_for_costs_nothing_more():
    assert (nearby.epsilon(at, 1e-5, 0.0) == at(1e-5)).all()


@given(st.floats(1e-14, 1e-2), st.floats(1e-8, 0.1))
def test_what_goes_astray_is_paid_for_and_not_more_than_that(distance, delta):
    found = nearby.epsilon(at, delta, distance)
    finite = np.isfinite(found)
    total = gaussian.delta(found[finite], MU[finite]) + (1 + np.exp(found[finite])) * distance
    assert (total <= delta * (1 + 1e-9)).all()
    # The smallest such ε: a little less is not enough, unless nothing was to be paid for.
    less = found[finite] * (1 - 1e-6)
    tight = less > 1e-3
    total = gaussian.delta(less[tight], MU[finite][tight]) + (1 + np.exp(less[tight])) * distance
    assert (total > delta).all()


def test_every_device_pays_for_its_own_distance():
    found = nearby.epsilon(at, 1e-5, [0.0, 1e-9, 1.0])
    assert found[0] == at(1e-5)[0]
    assert at(1e-5)[1] < found[1] < at(1e-5)[1] + 0.01
    assert found[2] == np.inf


def test_a_device_without_noise_stays_infinite():
    found = nearby.epsilon(lambda d: gaussian.epsilon(np.array([np.inf, 1.0]), d), 1e-5, 1e-9)
    assert found[0] == np.inf
    assert found[1] == pytest.approx(float(gaussian.epsilon(1.0, 1e-5)), rel=1e-2)
