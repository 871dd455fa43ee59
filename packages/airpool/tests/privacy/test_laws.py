"""Laws that hold for every network: unlike devices, some without noise or weight, some always or never on the air."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from airpool.account.calibration import calibrate
from airpool.account.guarantee import guarantee
from airpool.network import Channel, Claim, Devices, Network
from airpool.privacy import device, gaussian
from airpool.privacy.aggregate import ratio
from airpool.privacy.calibrate import UnreachableError
from airpool.privacy.device import Aggregate, of_object
from airpool.privacy.leak import ends

# Two runs of the same search agree to this; the laws are exact.
ROUNDING = 1e-9
# Several values of each kind, so that like devices and groups of them come up too.
SHIFTS = st.one_of(st.just(0.0), st.sampled_from([0.1, 0.5]), st.floats(1e-3, 3))
STDS = st.one_of(st.just(0.0), st.sampled_from([0.2, 1.0]), st.floats(1e-2, 5))
PARTICIPATIONS = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(1e-3, 1))
DELTAS = st.sampled_from([1e-8, 1e-5, 1e-2])
NEIGHBOURS = st.sampled_from(["zero-out", "replace"])


@st.composite
def aggregates(draw, least=1, **rest):
    count = draw(st.integers(least, 8))

    def column(values):
        return np.array(draw(st.lists(values, min_size=count, max_size=count)))

    return Aggregate(column(SHIFTS), column(STDS) ** 2, column(PARTICIPATIONS), **rest)


@st.composite
def asked(draw):
    net = draw(aggregates())
    network = Network(
        devices=Devices(
            count=net.num_devices,
            weight=net.shift,
            clip_norm=draw(st.sampled_from([1.0, 2.5])),
            noise_std=np.sqrt(net.variance),
            participation=net.participation,
        ),
        cover_noise=draw(st.booleans()),
    )
    return network, Claim(delta=draw(DELTAS), neighbours=draw(NEIGHBOURS))


def epsilon(aggregate, delta=1e-5, neighbours: str = "zero-out"):
    return device.epsilon(aggregate, delta, neighbours=neighbours).upper


def at_most(smaller, larger):
    """Elementwise, with inf ≤ inf; the rounding of two searches is allowed for."""
    return bool(np.all((smaller <= larger * (1 + ROUNDING) + ROUNDING) | np.isinf(larger)))


def grown(values, k, factor):
    values = values.copy()
    values[k] *= factor
    return values


# ε and σ


@given(st.floats(1e-2, 50), st.floats(-12, -1))
def test_epsilon_to_sigma_and_back_is_a_round_trip(eps, log10_delta):
    delta = 10**log10_delta
    sigma = float(gaussian.noise_multiplier(eps, delta))
    back = float(gaussian.epsilon(1 / sigma, delta))
    assert back == pytest.approx(eps, rel=1e-8)
    assert gaussian.log_delta(eps, 1 / sigma) <= np.log(delta)


@given(aggregates(), DELTAS, NEIGHBOURS)
def test_delta_at_the_promised_epsilon_is_the_promise_and_above_it_below(net, delta, neighbours):
    eps = epsilon(net, delta, neighbours)
    finite = np.isfinite(eps)
    # The search compares logarithms, whose last digit is worth 1e-14 of δ.
    assert (device.delta(net, np.where(finite, eps, 0.0), neighbours=neighbours)[finite] <= delta * (1 + 1e-13)).all()
    tight = finite & (eps > 1e-6)
    below = np.where(tight, eps * (1 - 1e-6), 0.0)
    assert (device.delta(net, below, neighbours=neighbours)[tight] > delta).all()


@given(aggregates(), DELTAS, NEIGHBOURS, st.booleans())
def test_every_epsilon_is_a_number(net, delta, neighbours, cover_noise):
    found = epsilon(replace(net, cover_noise=cover_noise), delta, neighbours)
    assert not np.isnan(found).any()
    assert (found >= 0).all()


@settings(max_examples=10)
@given(aggregates(dimension=3), st.sampled_from([1e-5, 1e-2]), st.booleans())
def test_every_epsilon_of_removal_is_a_number_that_keeps_its_promise(net, delta, cover_noise):
    net = replace(net, cover_noise=cover_noise)
    found = epsilon(net, delta, "remove")
    assert not np.isnan(found).any()
    assert (found >= 0).all()
    finite = np.isfinite(found)
    kept = device.delta(net, np.where(finite, found, 0.0), neighbours="remove")[finite]
    assert (kept <= delta * (1 + 1e-13)).all()


# What raises ε and what lowers it


@given(aggregates(), st.data(), st.floats(1.001, 10), DELTAS)
def test_zero_out_epsilon_falls_as_any_noise_grows(net, data, factor, delta):
    k = data.draw(st.integers(0, net.num_devices - 1))
    louder = replace(net, variance=grown(net.variance, k, factor**2))
    assert at_most(epsilon(louder, delta), epsilon(net, delta))


@given(aggregates(), st.data(), st.floats(1.001, 10), DELTAS)
def test_zero_out_epsilon_rises_with_the_own_weight_or_clip_norm_and_with_nobody_elses(net, data, factor, delta):
    k = data.draw(st.integers(0, net.num_devices - 1))
    before, after = epsilon(net, delta), epsilon(replace(net, shift=grown(net.shift, k, factor)), delta)
    assert at_most(before, after)
    assert np.delete(after, k) == pytest.approx(np.delete(before, k), rel=ROUNDING)


@given(aggregates(), st.data(), st.floats(0, 1), DELTAS)
def test_zero_out_epsilon_rises_with_the_own_participation_and_falls_with_that_of_others(net, data, share, delta):
    k = data.draw(st.integers(0, net.num_devices - 1))
    rarer = replace(net, participation=grown(net.participation, k, share))
    before, after = epsilon(net, delta), epsilon(rarer, delta)
    assert at_most(after[k], before[k])
    assert at_most(np.delete(before, k), np.delete(after, k))


@given(aggregates(least=2), st.booleans(), DELTAS, NEIGHBOURS)
def test_epsilon_rises_with_every_colluder_or_dropout(net, cover_noise, delta, neighbours):
    net = replace(net, cover_noise=cover_noise)
    found = [epsilon(replace(net, absent=n), delta, neighbours) for n in range(4)]
    for fewer, more in pairwise(found):
        assert at_most(fewer, more)


@given(aggregates(least=2), st.data(), DELTAS)
def test_a_number_of_colluders_is_never_better_than_any_that_are_named(net, data, delta):
    named = data.draw(st.sets(st.integers(0, net.num_devices - 1), min_size=1, max_size=2))
    anyone = epsilon(replace(net, absent=len(named)), delta)
    assert at_most(epsilon(replace(net, colluding=tuple(named)), delta), anyone)


@given(aggregates(), STDS, PARTICIPATIONS, DELTAS)
def test_epsilon_falls_when_a_device_joins(net, std, p, delta):
    joined = Aggregate(np.append(net.shift, 0.1), np.append(net.variance, std**2), np.append(net.participation, p))
    assert at_most(epsilon(joined, delta)[:-1], epsilon(net, delta))


@given(aggregates(), st.sampled_from([1e-5, 1e-3]))
def test_replace_costs_more_than_zero_out_and_the_object_more_than_any_device(net, delta):
    zeroed, replaced = epsilon(net, delta), epsilon(net, delta, "replace")
    assert at_most(zeroed, replaced)
    assert at_most(zeroed, np.broadcast_to(ends(of_object(net), delta).upper, zeroed.shape))


@given(aggregates(), DELTAS, NEIGHBOURS)
def test_device_epsilon_is_never_above_the_local_one(net, delta, neighbours):
    local = gaussian.epsilon(ratio(net.distance(neighbours), np.sqrt(net.variance)), delta)
    assert at_most(epsilon(net, delta, neighbours), local)


# What changes nothing


@given(aggregates(), st.floats(1e-3, 1e3), DELTAS, NEIGHBOURS, st.booleans())
def test_scaling_features_and_noise_together_changes_nothing(net, scale, delta, neighbours, cover_noise):
    net = replace(net, cover_noise=cover_noise)
    scaled = replace(net, shift=net.shift * scale, variance=net.variance * scale**2)
    assert epsilon(scaled, delta, neighbours) == pytest.approx(epsilon(net, delta, neighbours), rel=1e-6, abs=1e-9)


@settings(max_examples=20)
@given(asked(), st.floats(0.01, 100))
def test_scaling_weight_and_noise_or_clip_norm_and_noise_together_changes_nothing(asked, scale):
    network, claim = asked
    before = guarantee(network, claim).epsilon
    d = network.devices
    std = np.array(d.column("noise_std")) * scale
    for column in ("weight", "clip_norm"):
        changed = replace(d, noise_std=std, **{column: np.array(d.column(column)) * scale})
        after = guarantee(replace(network, devices=changed), claim).epsilon
        assert after == pytest.approx(before, rel=1e-6, abs=1e-9)


@given(aggregates(), st.data(), DELTAS)
def test_the_order_of_the_devices_does_not_matter(net, data, delta):
    order = np.array(data.draw(st.permutations(range(net.num_devices))))
    shuffled = replace(
        net, shift=net.shift[order], variance=net.variance[order], participation=net.participation[order]
    )
    assert epsilon(shuffled, delta) == pytest.approx(epsilon(net, delta)[order], rel=1e-9, abs=1e-12)


# Cover noise and superposition


@given(aggregates(), DELTAS, NEIGHBOURS)
def test_cover_noise_never_costs_more_than_participation_that_is_known(net, delta, neighbours):
    assert at_most(epsilon(replace(net, cover_noise=True), delta, neighbours), epsilon(net, delta, neighbours))


@given(aggregates(), DELTAS, NEIGHBOURS, st.booleans())
def test_superposed_access_never_costs_more_than_orthogonal(net, delta, neighbours, cover_noise):
    net = replace(net, cover_noise=cover_noise)
    assert at_most(epsilon(net, delta, neighbours), epsilon(replace(net, alone=True), delta, neighbours))


@settings(max_examples=15)
@given(asked())
def test_superposed_networks_never_cost_more_than_orthogonal_ones(asked):
    network, claim = asked
    orthogonal = replace(network, channel=Channel(access="orthogonal"))
    assert at_most(guarantee(network, claim).epsilon, guarantee(orthogonal, claim).epsilon)


# Calibration


def met_or_out_of_reach(asked, target, adjust):
    """The calibrated network, or None where the error says that the smallest ε in reach is above the target."""
    try:
        return calibrate(*asked, epsilon=target, adjust=adjust)
    except UnreachableError as error:
        if error.smallest <= target:
            pytest.fail(f"{error.smallest} is within {target}")
        return None


@settings(max_examples=15)
@given(asked(), st.floats(0.05, 20))
def test_calibrated_noise_never_exceeds_the_target(asked, target):
    met = met_or_out_of_reach(asked, target, "noise")
    assert met is None or guarantee(met, asked[1]).worst <= target


@settings(max_examples=6)
@given(asked(), st.floats(0.05, 20), st.sampled_from(["weight", "clip"]))
def test_calibrated_weights_and_clip_norms_never_exceed_the_target(asked, target, adjust):
    met = met_or_out_of_reach(asked, target, adjust)
    assert met is None or guarantee(met, asked[1]).worst <= target


@settings(max_examples=10)
@given(asked(), st.data())
def test_noise_shared_by_need_never_exceeds_any_target(asked, data):
    network, claim = asked
    count = network.devices.count
    targets = data.draw(st.lists(st.floats(0.05, 20), min_size=count, max_size=count))
    assume(max(network.devices.column("weight")) > 0)
    met = calibrate(network, claim, epsilon=targets, per_device=True)
    assert (guarantee(met, claim).epsilon <= targets).all()
