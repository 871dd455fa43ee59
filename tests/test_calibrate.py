"""From a target ε to a network that meets it: never above, and not needlessly far below."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airpool.calibration import calibrate
from airpool.guarantees import guarantee
from airpool.network import Channel, Devices, Network, Scheme
from airpool.privacy import gaussian
from airpool.privacy.calibrate import UnreachableError, largest, most_inferences, noise_profile, smallest_factor
from airpool.privacy.device import Aggregate

TWELVE = Network.uniform(num_devices=12, clip_norm=1.0, noise_std=0.05, participation=0.9)
UNLIKE = Network(
    devices=Devices(
        count=5,
        weight=(0.1, 0.2, 0.3, 0.15, 0.25),
        clip_norm=(1, 0.5, 1, 2, 1.0),
        noise_std=(0.3, 0.2, 0.5, 0.4, 0.1),
        participation=(0.9, 0.5, 1.0, 0.7, 0.3),
    )
)


def columns(network, *names):
    return [np.array(network.devices.column(name)) for name in names]


# Noise


@pytest.mark.parametrize(("epsilon", "std"), [(0.5, 0.16916), (1.0, 0.08975), (2.0, 0.04796)])
def test_twelve_devices_that_always_speak_need_the_reference_noise(epsilon, std):
    met = calibrate(Network.uniform(num_devices=12), epsilon=epsilon)
    assert met.devices.noise_std == pytest.approx((std,) * 12, abs=5e-6)


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("cover_noise", [False, True])
@pytest.mark.parametrize("epsilon", [0.3, 2.0, 15.0])
def test_noise_meets_the_target_and_a_millionth_less_does_not(neighbours, cover_noise, epsilon):
    met = calibrate(replace(UNLIKE, neighbours=neighbours, cover_noise=cover_noise), epsilon=epsilon)
    assert guarantee(met).worst <= epsilon
    less = np.array(met.devices.noise_std) * (1 - 1e-6)
    assert guarantee(replace(met, devices=replace(met.devices, noise_std=less))).worst > epsilon


def test_removal_is_calibrated_too_where_it_can_be():
    met = calibrate(Network.uniform(num_devices=12, neighbours="remove"), epsilon=3.0)
    assert 2.99 < guarantee(met).worst <= 3.0
    with pytest.raises(UnreachableError, match=r"ε=2 cannot be met .*: the smallest ε that can is 2\.517"):
        calibrate(Network.uniform(num_devices=12, neighbours="remove"), epsilon=2.0)


def test_everybodys_noise_is_multiplied_by_one_factor():
    met = calibrate(UNLIKE, epsilon=1.0)
    [before], [after] = columns(UNLIKE, "noise_std"), columns(met, "noise_std")
    assert after / before == pytest.approx(np.full(5, after[0] / before[0]), rel=1e-12)


def test_calibration_gives_a_new_network_that_remembers_its_target():
    met = calibrate(TWELVE, epsilon=2.0)
    assert TWELVE.devices.noise_std == (0.05,) * 12
    assert met.devices.epsilon == (2.0,) * 12
    assert replace(met, devices=TWELVE.devices) == TWELVE


def test_the_target_may_stand_in_the_network():
    own = replace(TWELVE, devices=replace(TWELVE.devices, epsilon=2.0))
    assert calibrate(own) == calibrate(TWELVE, epsilon=2.0)


def test_delta_may_be_given():
    met = calibrate(TWELVE, epsilon=2.0, delta=1e-7)
    assert met.delta == 1e-7
    assert 1.999 < guarantee(met).worst <= 2.0


@pytest.mark.parametrize("knob", ["noise", "weight", "clip"])
def test_a_stream_is_calibrated_where_the_search_meets_networks_that_reveal_all(knob):
    """Next to no noise, and a partner that is not always there: ε is inf on the way, which is an answer."""
    net = replace(Network.uniform(num_devices=2, noise_std=0.5), inferences=5)
    net = replace(net, devices=replace(net.devices, participation=(1.0, 0.9)))
    met = guarantee(calibrate(net, epsilon=2.0, knob=knob)).epsilon
    assert (met <= 2.0).all()
    assert met.max() > 1.99


def test_many_inferences_are_calibrated_together():
    met = calibrate(replace(TWELVE, inferences=10), epsilon=5.0)
    assert 4.99 < guarantee(met).worst <= 5.0


def test_colluders_and_channel_noise_are_taken_into_account():
    plain = calibrate(TWELVE, epsilon=2.0).devices.column("noise_std")[0]
    watched = calibrate(replace(TWELVE, colluders=3), epsilon=2.0)
    assert guarantee(watched).worst <= 2.0
    named = calibrate(TWELVE, epsilon=2.0, colluding=[0, 1, 2])
    assert guarantee(named, colluding=[0, 1, 2]).worst <= 2.0
    assert watched.devices.column("noise_std")[0] > plain
    noisy = replace(TWELVE, channel=Channel(noise_std=0.05, gamma=1.0))
    credited = calibrate(noisy, epsilon=2.0, credit_channel_noise=True)
    assert guarantee(credited, credit_channel_noise=True).worst <= 2.0
    assert credited.devices.column("noise_std")[0] < plain


def test_a_network_without_noise_starts_from_equal_noise():
    met = calibrate(replace(TWELVE, devices=replace(TWELVE.devices, noise_std=0.0)), epsilon=2.0)
    assert met.devices.noise_std == pytest.approx(calibrate(TWELVE, epsilon=2.0).devices.noise_std, rel=1e-9)


def test_devices_without_weight_need_no_noise():
    met = calibrate(Network.uniform(num_devices=3, weight=0.0), epsilon=2.0)
    assert met.devices.noise_std == (0.0,) * 3
    assert guarantee(met).worst == 0


@pytest.mark.parametrize(("weight", "std"), [(1e-4, 1e9), (1e-13, 1.0), (1e6, 1e-4)])
def test_noise_of_another_magnitude_is_found_too(weight, std):
    met = calibrate(Network.uniform(num_devices=2, weight=weight, noise_std=std), epsilon=2.0)
    assert guarantee(met).worst <= 2.0


@pytest.mark.parametrize("epsilon", [[1.0, 2.0, 4.0, 2.0, 3.0], 2.0])
def test_noise_shared_by_need_meets_every_target(epsilon):
    met = calibrate(UNLIKE, epsilon=epsilon, per_device=True)
    assert (guarantee(met).epsilon <= epsilon).all()
    weight, clip_norm, std = columns(met, "weight", "clip_norm", "noise_std")
    # Who asks for more privacy carries more noise, in proportion to what it would need by itself.
    alone = weight * clip_norm * gaussian.noise_multiplier(epsilon, UNLIKE.delta)
    assert std / alone == pytest.approx(np.full(5, std[0] / alone[0]), rel=1e-9)
    assert std[0] < alone[0]


def test_a_devices_own_noise_suffices_at_factor_one_of_the_profile():
    net = Aggregate(np.array([0.3, 0.1]), np.zeros(2), np.ones(2), alone=True)
    target = np.array([1.0, 3.0])
    std = noise_profile(net, target, 1e-5, "replace")
    assert gaussian.epsilon(2 * net.shift / std, 1e-5) == pytest.approx(target, rel=1e-9)


# Weight and clip norm


@pytest.mark.parametrize(("knob", "column"), [("weight", "weight"), ("clip", "clip_norm")])
def test_each_device_gets_the_largest_weight_or_clip_norm_that_its_target_allows(knob, column):
    target = np.array([1.0, 2.0, 4.0, 2.0, 0.5])
    met = calibrate(UNLIKE, epsilon=target.tolist(), knob=knob)
    assert (guarantee(met).epsilon <= target).all()
    more = np.array(met.devices.column(column)) * (1 + 1e-6)
    assert (guarantee(replace(met, devices=replace(met.devices, **{column: more}))).epsilon > target).all()
    assert met.devices.noise_std == UNLIKE.devices.noise_std


def test_weight_and_clip_norm_do_the_same_to_epsilon():
    by_weight, by_clip = (calibrate(UNLIKE, epsilon=1.0, knob=knob) for knob in ("weight", "clip"))
    assert np.prod(columns(by_weight, "weight", "clip_norm"), axis=0) == pytest.approx(
        np.prod(columns(by_clip, "weight", "clip_norm"), axis=0), rel=1e-9
    )


def test_no_weight_meets_a_target_where_there_is_no_noise():
    silent = replace(UNLIKE, devices=replace(UNLIKE.devices, noise_std=0.0))
    with pytest.raises(UnreachableError, match="the smallest ε that can is inf"):
        calibrate(silent, epsilon=1.0, knob="weight")


@pytest.mark.parametrize("knob", ["weight", "clip"])
def test_weight_and_clip_norm_can_be_turned_at_a_fixed_gamma(knob):
    met = calibrate(Network.paper(), epsilon=20.0, knob=knob)
    assert guarantee(met).worst <= 20.0


# Number of inferences


def test_as_many_inferences_as_the_tightest_target_allows():
    quiet = Network.uniform(num_devices=4, noise_std=0.5, participation=0.8)
    met = calibrate(quiet, epsilon=[3.0, 8.0, 8.0, 8.0], knob="inferences")
    assert met.inferences > 1
    assert guarantee(met).epsilon[0] <= 3.0
    assert guarantee(replace(met, inferences=met.inferences + 1)).epsilon[0] > 3.0
    assert met.devices.noise_std == quiet.devices.noise_std


def test_where_one_inference_is_too_many_the_error_says_what_it_costs():
    with pytest.raises(ValueError, match=r"ε=1 does not allow one inference: device \d+ spends 2\.064 on it"):
        calibrate(TWELVE, epsilon=1.0, knob="inferences")


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 17, 1000, 2**20])
def test_the_largest_number_that_fits_is_found(limit):
    assert most_inferences(lambda n: n <= limit) == limit


def test_the_number_of_inferences_stops_at_2_to_the_20():
    assert most_inferences(lambda _: True) == 2**20


# Unreachable


def test_a_target_below_what_the_scores_leak_is_refused_with_the_smallest_that_can_be_met():
    scored = replace(TWELVE, scheme=Scheme(name="2.1"))
    with pytest.raises(UnreachableError) as caught:
        calibrate(scored, epsilon=0.1)
    smallest = caught.value.smallest
    assert 0.1 < smallest < np.inf
    message = str(caught.value)
    assert message.startswith(
        f"ε=0.1 cannot be met by adding noise: the smallest ε that can is {smallest:.4g}, which is"
    )
    assert "what the scores cost at score_noise_std=0.3162" in message
    assert guarantee(calibrate(scored, epsilon=smallest * 1.01)).worst <= smallest * 1.01


def test_at_a_fixed_gamma_power_limits_the_noise_and_the_error_says_so():
    with pytest.raises(ValueError, match=r"ε=2 cannot be met with power_dbm=30 at gamma=1: the smallest ε that can is"):
        calibrate(Network.paper(), epsilon=2.0)
    met = calibrate(replace(Network.paper(), channel=Channel()), epsilon=2.0)
    assert 1.999 < guarantee(met).worst <= 2.0


def test_a_device_without_noise_under_orthogonal_access_cannot_be_helped_by_the_others():
    net = Network(devices=Devices(count=2, noise_std=(0.0, 1.0)), channel=Channel(access="orthogonal"))
    with pytest.raises(UnreachableError, match="ε=2 cannot be met by adding noise: the smallest ε that can is inf"):
        calibrate(net, epsilon=2.0)


# Bad input


@pytest.mark.parametrize("epsilon", [0.0, -1.0, np.nan, np.inf])
def test_a_target_that_is_not_a_positive_number_is_refused(epsilon):
    with pytest.raises(ValueError, match=rf"epsilon={epsilon:g} must be > 0 and finite"):
        calibrate(TWELVE, epsilon=epsilon)


def test_a_missing_target_a_wrong_number_of_them_or_an_unknown_knob_is_refused():
    with pytest.raises(ValueError, match=r"no target: give epsilon, or devices\.epsilon in the network file"):
        calibrate(TWELVE)
    with pytest.raises(ValueError, match="epsilon has 3 values for 12 devices; give one or one each"):
        calibrate(TWELVE, epsilon=[1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="knob='volume' must be one of noise, weight, clip, inferences"):
        calibrate(TWELVE, epsilon=1.0, knob="volume")  # pyright: ignore[reportArgumentType]


# The searches themselves


@given(st.floats(-20, 20), st.floats(0.1, 5))
def test_the_smallest_factor_meets_the_target_and_a_little_less_does_not(log_scale, target):
    scale = float(np.exp(log_scale))

    def epsilon_of(factor):
        return np.array([1.0, 0.5]) * scale / factor if factor > 0 else np.full(2, np.inf)

    factor = smallest_factor(epsilon_of, np.array([target, target]))
    assert (epsilon_of(factor) <= target).all()
    assert (epsilon_of(factor * (1 - 1e-9)) > target).any()


def test_the_smallest_factor_meets_a_target_across_a_jump():
    factor = smallest_factor(lambda x: np.array([np.inf if x < 3 else 1.0]), np.array([1.5]))
    assert factor == pytest.approx(3, rel=1e-9)
    assert factor >= 3


@settings(max_examples=25)
@given(st.lists(st.floats(-12, 5), min_size=1, max_size=4))
def test_the_largest_value_is_met_and_a_little_more_is_not(logs):
    limit = 10.0 ** np.array(logs)
    found = largest(lambda x: x <= limit, np.full(len(limit), 1e6))
    assert (found <= limit).all()
    assert (found >= limit * (1 - 1e-9)).all()


def test_the_largest_value_is_zero_where_nothing_meets_the_target_and_the_end_where_everything_does():
    assert largest(lambda x: np.array([False, True]) & (x < np.inf), np.full(2, 7.0)).tolist() == [0.0, 7.0]
