"""From a target ε to a network that meets it: never above, and not needlessly far below."""

import re
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from airpool._support.rounding import up
from airpool.account import assumptions
from airpool.account.calibration import Adjust, calibrate, most_feature, with_column
from airpool.account.guarantee import device_epsilon, guarantee
from airpool.account.received import smallest_live_delta
from airpool.network import Channel, Claim, Devices, Network, Ranking, Slots, Threshold
from airpool.privacy import gaussian
from airpool.privacy.calibrate import UnreachableError, balanced, largest, smallest_factor
from airpool.privacy.compose import most_inferences
from airpool.privacy.device import Aggregate
from tests.random_networks import any_network

pytestmark = pytest.mark.usefixtures("few_draws", "few_cells")

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
    claim = Claim(neighbours=neighbours)
    met = calibrate(replace(UNLIKE, cover_noise=cover_noise), claim, epsilon=epsilon)
    assert guarantee(met, claim).worst <= epsilon
    less = np.array(met.devices.noise_std) * (1 - 1e-6)
    assert guarantee(replace(met, devices=replace(met.devices, noise_std=less)), claim).worst > epsilon


def test_removal_is_calibrated_too_where_it_can_be():
    net, claim = Network.uniform(num_devices=12), Claim(neighbours="remove")
    met = calibrate(net, claim, epsilon=3.0)
    assert 2.99 < guarantee(met, claim).worst <= 3.0
    with pytest.raises(UnreachableError, match=r"ε=2 cannot be met .*: the smallest ε that can is 2\.518"):
        calibrate(net, claim, epsilon=2.0)


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


def test_a_target_is_met_at_the_delta_of_the_claim():
    met = calibrate(TWELVE, Claim(delta=1e-7), epsilon=2.0)
    assert 1.999 < guarantee(met, Claim(delta=1e-7)).worst <= 2.0
    assert guarantee(met).worst < 1.999


@pytest.mark.parametrize("adjust", ["noise", "weight", "clip"])
def test_a_stream_is_calibrated_where_the_search_meets_networks_that_reveal_all(adjust):
    """Next to no noise, and a partner that is not always there: ε is inf on the way, which is an answer."""
    net, claim = Network.uniform(num_devices=2, noise_std=0.5, participation=(1.0, 0.9)), Claim(inferences=5)
    met = guarantee(calibrate(net, claim, epsilon=2.0, adjust=adjust), claim).epsilon
    assert (met <= 2.0).all()
    assert met.max() > 1.99


def test_many_inferences_are_calibrated_together():
    met = calibrate(TWELVE, Claim(inferences=10), epsilon=5.0)
    assert 4.99 < guarantee(met, Claim(inferences=10)).worst <= 5.0


def test_colluders_and_channel_noise_are_taken_into_account():
    plain = calibrate(TWELVE, epsilon=2.0).devices.column("noise_std")[0]
    watched = calibrate(replace(TWELVE, colluders=3), epsilon=2.0)
    assert guarantee(watched).worst <= 2.0
    named = calibrate(TWELVE, Claim(colluding=[0, 1, 2]), epsilon=2.0)
    assert guarantee(named, Claim(colluding=[0, 1, 2])).worst <= 2.0
    assert watched.devices.column("noise_std")[0] > plain
    noisy = replace(TWELVE, channel=Channel(noise_std=0.05, gamma=1.0))
    credited = calibrate(noisy, Claim(credit_channel_noise=True), epsilon=2.0)
    assert guarantee(credited, Claim(credit_channel_noise=True)).worst <= 2.0
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
    alone = weight * clip_norm * gaussian.noise_multiplier(epsilon, 1e-5)
    assert std / alone == pytest.approx(np.full(5, std[0] / alone[0]), rel=1e-9)
    assert std[0] < alone[0]


def test_a_devices_own_noise_suffices_at_factor_one_of_the_profile():
    net = Aggregate(np.array([0.3, 0.1]), np.zeros(2), np.ones(2), alone=True)
    target = np.array([1.0, 3.0])
    std = net.distance("replace") * gaussian.noise_multiplier(target, 1e-5)
    assert gaussian.epsilon(2 * net.shift / std, 1e-5) == pytest.approx(target, rel=1e-9)


# Weight and clip norm


@pytest.mark.parametrize(("adjust", "column"), [("weight", "weight"), ("clip", "clip_norm")])
def test_each_device_gets_the_largest_weight_or_clip_norm_that_its_target_allows(adjust, column):
    target = np.array([1.0, 2.0, 4.0, 2.0, 0.5])
    met = calibrate(UNLIKE, epsilon=target.tolist(), adjust=adjust)
    assert (guarantee(met).epsilon <= target).all()
    more = np.array(met.devices.column(column)) * (1 + 1e-6)
    assert (guarantee(replace(met, devices=replace(met.devices, **{column: more}))).epsilon > target).all()
    assert met.devices.noise_std == UNLIKE.devices.noise_std


def test_weight_and_clip_norm_do_the_same_to_epsilon():
    by_weight, by_clip = (calibrate(UNLIKE, epsilon=1.0, adjust=adjust) for adjust in ("weight", "clip"))
    assert np.prod(columns(by_weight, "weight", "clip_norm"), axis=0) == pytest.approx(
        np.prod(columns(by_clip, "weight", "clip_norm"), axis=0), rel=1e-9
    )


def test_no_weight_meets_a_target_where_there_is_no_noise():
    silent = replace(UNLIKE, devices=replace(UNLIKE.devices, noise_std=0.0))
    with pytest.raises(UnreachableError, match="the smallest ε that can is inf"):
        calibrate(silent, epsilon=1.0, adjust="weight")


@pytest.mark.parametrize("adjust", ["weight", "clip"])
def test_weight_and_clip_norm_can_be_turned_at_a_fixed_gamma(adjust):
    met = calibrate(Network.paper(), epsilon=20.0, adjust=adjust)
    assert guarantee(met).worst <= 20.0


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("rule_fading", [("backoff", "none"), ("truncate", "rician")])
@pytest.mark.parametrize("epsilon", [1.0, [1.0, 2.0, 4.0, 2.0, 0.5]])
def test_weights_that_move_each_others_receiver_noise_are_all_at_their_targets(neighbours, rule_fading, epsilon):
    rule, fading = rule_fading
    # γ follows the loudest device, and the receiver's noise that counts follows γ.
    channel = Channel(
        power_rule=rule, fading=fading, noise_std=30.0 if (rule, neighbours) == ("backoff", "replace") else 3
    )
    devices = replace(UNLIKE.devices, power_dbm=(20, 25, 30, 22, 28.0))
    net = replace(UNLIKE, devices=devices, channel=channel)
    claim = Claim(neighbours=neighbours, credit_channel_noise=True)
    met = calibrate(net, claim, epsilon=epsilon, adjust="weight")
    ratio = guarantee(met, claim).epsilon / epsilon
    assert (ratio <= 1).all()
    assert ratio == pytest.approx(np.ones(5), rel=1e-6)


def test_a_device_whose_noise_takes_all_its_power_has_none_left_for_a_feature():
    loud = Network.uniform(num_devices=2, noise_std=3.0, channel=Channel(gamma=2.0, power_rule="backoff"))
    for adjust in ("weight", "clip"):
        with pytest.raises(ValueError, match="device 0 has no power left for a feature: its noise takes all of"):
            calibrate(loud, epsilon=2.0, adjust=adjust)


# Number of inferences


def test_one_inference_is_allowed_where_it_meets_the_target_and_the_coarser_account_of_a_stream_does_not():
    rng = np.random.default_rng(0)
    weight, std, p = (rng.uniform(low, high, 11).tolist() for low, high in ((0.05, 0.2), (0.03, 0.3), (0.5, 1)))
    net = Network(devices=Devices(count=11, weight=weight, noise_std=std, participation=p))
    epsilon = (guarantee(net).epsilon * (1 + 1e-6)).tolist()
    assert calibrate(net, epsilon=epsilon, adjust="inferences").inferences == 1


def test_as_many_inferences_as_the_tightest_target_allows():
    quiet = Network.uniform(num_devices=4, noise_std=0.5, participation=0.8)
    met = calibrate(quiet, Claim(knows_answer=False), epsilon=[3.0, 8.0, 8.0, 8.0], adjust="inferences")
    assert met == Claim(inferences=met.inferences, knows_answer=False)
    assert met.inferences > 1
    assert guarantee(quiet, met).epsilon[0] <= 3.0
    assert guarantee(quiet, replace(met, inferences=met.inferences + 1)).epsilon[0] > 3.0


@pytest.mark.parametrize("redrawn", [True, False])
def test_as_many_slots_as_the_target_allows(redrawn):
    quiet = replace(Network.uniform(num_devices=4, noise_std=0.5, participation=0.8), slots=Slots(redrawn=redrawn))
    met = calibrate(quiet, epsilon=3.0, adjust="slots")
    assert met.slots.count > 1
    assert replace(met, slots=quiet.slots, devices=quiet.devices) == quiet
    assert guarantee(met).worst <= 3.0
    assert guarantee(replace(met, slots=replace(met.slots, count=met.slots.count + 1))).worst > 3.0
    with pytest.raises(ValueError, match=r"ε=1 does not allow one slot: device \d+ spends 2\.064 on it"):
        calibrate(TWELVE, epsilon=1.0, adjust="slots")


def test_slots_are_counted_where_live_noise_supports_fewer_than_there_are():
    many = replace(Network.uniform(num_devices=4, noise_std=0.5), slots=Slots(64))
    claim = Claim(delta=1.5 * smallest_live_delta(replace(many, slots=Slots(1)), Claim()), live=True)
    assert calibrate(many, claim, epsilon=500.0, adjust="slots").slots.count == 1
    with pytest.raises(ValueError, match="what live noise supports"):
        calibrate(many, claim, epsilon=500.0)


def test_where_one_inference_is_too_many_the_error_says_what_it_costs():
    with pytest.raises(ValueError, match=r"ε=1 does not allow one inference: device \d+ spends 2\.064 on it"):
        calibrate(TWELVE, epsilon=1.0, adjust="inferences")


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 17, 1000, 2**20])
def test_the_largest_number_that_fits_is_found(limit):
    assert most_inferences(lambda n: n <= limit) == limit


def test_the_number_of_inferences_stops_at_2_to_the_20():
    assert most_inferences(lambda _: True) == 2**20


# Unreachable


def test_a_target_that_no_noise_meets_comes_with_the_reason():
    secure = replace(TWELVE, channel=Channel(access="secure"))
    with pytest.raises(UnreachableError, match=f"the smallest ε that can is inf .{assumptions.SENDERS_SEEN}"):
        calibrate(secure, Claim(neighbours="remove"), epsilon=1.0)


def test_a_target_below_what_the_scores_leak_is_refused_with_the_smallest_that_can_be_met():
    scored = replace(TWELVE, scheme=Threshold())
    with pytest.raises(UnreachableError) as caught:
        calibrate(scored, epsilon=0.1)
    smallest = caught.value.smallest
    assert 0.1 < smallest < np.inf
    message = str(caught.value)
    assert message.startswith(
        f"ε=0.1 cannot be met by adding noise: the smallest ε that can is {up(smallest)}, which is"
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


def test_noise_is_found_where_the_most_that_power_allows_is_too_much():
    # A device without noise relies on two others; at the most noise each of them is in outage half of the time.
    devices = Devices(count=3, noise_std=(0.0, 1.0, 1.0))
    net = Network(devices=devices, channel=Channel(fading="rayleigh", gamma=0.05))
    claim = Claim(delta=1e-3)
    for epsilon in (3.0, 0.05):
        assert 0.999 * epsilon < guarantee(calibrate(net, claim, epsilon=epsilon), claim).worst <= epsilon
    with pytest.raises(ValueError, match=r"ε=0\.02 cannot be met .*: the smallest ε that can is 0\.04392"):
        calibrate(net, claim, epsilon=0.02)


def test_where_the_features_alone_take_all_the_power_no_noise_is_tried():
    net = Network.uniform(num_devices=2, weight=1.0, power_dbm=0.0, channel=Channel(gamma=2.0, power_rule="backoff"))
    with pytest.raises(ValueError, match=r"cannot be met with power_dbm=0 at gamma=2: the smallest ε that can is inf"):
        calibrate(net, epsilon=2.0)


# Live


RICIAN: dict[str, Any] = {"fading": "rician"}
WITHOUT: dict[str, Any] = {
    "backoff": {"channel": Channel(**RICIAN, power_rule="backoff")},
    "CSI errors": {"channel": Channel(**RICIAN, csi_error_std=0.05)},
    "both": {"channel": Channel(**RICIAN, power_rule="backoff", csi_error_std=0.05)},
    "several antennas": {"channel": Channel(antennas=2)},
    "2.1": {"channel": Channel(**RICIAN, csi_error_std=0.05), "scheme": Threshold(score_noise_std=9.0)},
    "slots": {"channel": Channel(**RICIAN, power_rule="backoff"), "slots": Slots(16)},
    "one draw for all slots": {"channel": Channel(**RICIAN, csi_error_std=0.05), "slots": Slots(4, redrawn=False)},
    "a stream": {"channel": Channel(**RICIAN, power_rule="backoff"), "claim": Claim(inferences=10)},
    "replace": {"channel": Channel(**RICIAN, power_rule="backoff"), "claim": Claim(neighbours="replace")},
}


@pytest.mark.parametrize("setting", WITHOUT.values(), ids=WITHOUT)
def test_a_target_is_met_by_the_noise_that_runs(setting):
    ideal = setting.get("claim", Claim())
    live = replace(ideal, live=True)
    net = Network.uniform(num_devices=12, dimension=40, **{name: x for name, x in setting.items() if name != "claim"})
    met = calibrate(net, live, epsilon=2.0)
    assert 2.0 * (1 - 1e-3) < guarantee(met, live).worst <= 2.0
    # What the simulation needs is not enough: here every signal arrives at a strength of its own.
    assert guarantee(calibrate(net, ideal, epsilon=2.0), live).worst > 2.5


@pytest.mark.parametrize(
    "setting",
    [
        {},
        {"channel": Channel(access="secure"), "dropouts": 2},
        {"channel": Channel(**RICIAN, power_rule="backoff", noise_std=0.1)},
        {"channel": Channel(access="orthogonal")},
        {"channel": Channel(**RICIAN, power_rule="backoff"), "scheme": Ranking(num_selected=8, score_noise_std=9.0)},
    ],
    ids=["aligned", "secure", "covered by the receiver", "orthogonal", "weak signals count alone as it is"],
)
def test_where_the_grid_costs_next_to_nothing_live_noise_is_no_louder(setting):
    net = Network.uniform(num_devices=12, dimension=40, **setting)
    simulated, running = (
        calibrate(net, Claim(live=live), epsilon=2.0).devices.column("noise_std")[0] for live in (False, True)
    )
    assert running == pytest.approx(simulated, rel=1e-9)
    assert guarantee(calibrate(net, Claim(live=True), epsilon=2.0), Claim(live=True)).worst <= 2.0


@pytest.mark.parametrize("adjust", ["weight", "clip", "inferences"])
def test_whatever_is_adjusted_meets_its_target_live(adjust):
    net = Network.uniform(num_devices=6, noise_std=0.5, channel=Channel(**RICIAN, power_rule="backoff"))
    live = Claim(live=True)
    met, simulated = (calibrate(net, claim, epsilon=3.0, adjust=adjust) for claim in (live, Claim()))
    if isinstance(met, Claim):
        assert met.live
        assert guarantee(net, met).worst <= 3.0 < guarantee(net, replace(simulated, live=True)).worst
        assert guarantee(net, replace(met, inferences=met.inferences + 1)).worst > 3.0
    else:
        assert guarantee(met, live).worst <= 3.0 < guarantee(simulated, live).worst


def test_the_least_live_noise_is_the_least_of_two_where_the_receiver_covers_the_smaller():
    # At this fixed γ the receiver's noise covers the grid of a σ up to 0.16, and ε jumps up there.
    net = Network.uniform(num_devices=12, noise_std=30.0, channel=Channel(**RICIAN, power_rule="backoff", gamma=1.0))
    net = replace(net, channel=replace(net.channel, noise_std=4.25e-6))
    met = calibrate(net, Claim(live=True), epsilon=2.0)
    simulated = calibrate(net, epsilon=2.0)
    assert met.devices.column("noise_std") == pytest.approx(simulated.devices.column("noise_std"), rel=1e-9)
    assert guarantee(met, Claim(live=True)).worst <= 2.0
    louder = calibrate(net, Claim(live=True), epsilon=0.5)
    assert guarantee(louder, Claim(live=True)).worst <= 0.5


def test_removal_is_met_live_where_the_receiver_covers_the_grid():
    net, claim = Network.uniform(num_devices=12, dimension=4), Claim(neighbours="remove", live=True)
    covered = calibrate(replace(net, channel=Channel(noise_std=0.1)), claim, epsilon=4.0)
    assert guarantee(covered, claim).worst <= 4.0
    with pytest.raises(UnreachableError, match=r"is inf; live noise lies on a grid, .*") as error:
        calibrate(net, claim, epsilon=4.0)
    # What the error says would do, does.
    needed = float(re.search(r"channel\.noise_std >= (\S+)", str(error.value))[1])  # pyright: ignore
    assert 'neighbours = "zero-out" would do' in str(error.value)
    there = calibrate(replace(net, channel=Channel(noise_std=needed)), claim, epsilon=4.0)
    assert guarantee(there, claim).worst <= 4.0


def test_a_target_out_of_reach_live_names_what_would_do():
    channel = Channel(**RICIAN, power_rule="backoff", gamma=25.0)
    net = Network.uniform(num_devices=12, dimension=40, clip_norm=1.0, channel=channel)
    assert guarantee(calibrate(net, epsilon=2.0)).worst <= 2.0
    with pytest.raises(
        ValueError, match=r"the smallest ε that can is \d+\.\d+; live noise that arrives unaligned"
    ) as error:
        calibrate(net, Claim(live=True), epsilon=2.0)
    needed = float(re.search(r"channel\.noise_std >= (\S+)", str(error.value))[1])  # pyright: ignore
    met = calibrate(replace(net, channel=replace(channel, noise_std=needed)), Claim(live=True), epsilon=2.0)
    assert guarantee(met, Claim(live=True)).worst <= 2.0
    secure = Network.uniform(num_devices=4, noise_std=0.1, channel=Channel(access="secure"))
    with pytest.raises(ValueError, match=r'the smallest ε that can is inf; .*: neighbours = "zero-out" would do'):
        calibrate(secure, Claim(live=True, neighbours="remove"), epsilon=2.0)


@pytest.mark.parametrize("noise_std", [1e-7, 100.0])
def test_out_of_reach_live_is_out_of_reach_whatever_the_receivers_noise_covers(noise_std):
    """Of a little noise, of which the grid is covered, and of all that power allows."""
    channel = Channel(**RICIAN, power_rule="backoff", gamma=25.0, noise_std=noise_std)
    net = Network.uniform(num_devices=12, dimension=40, channel=channel)
    with pytest.raises(ValueError, match=r"ε=0\.05 cannot be met with power_dbm=30 at gamma=25"):
        calibrate(net, Claim(live=True), epsilon=0.05)


def test_a_receiver_that_covers_no_noise_at_all_leaves_own_noise_alone():
    channel = Channel(**RICIAN, power_rule="backoff", gamma=25.0)
    net = Network.uniform(num_devices=12, dimension=40, channel=channel)
    faint = replace(net, channel=replace(channel, noise_std=1e-25))
    met, without = (calibrate(each, Claim(live=True), epsilon=4.0) for each in (faint, net))
    assert met.devices == without.devices
    assert guarantee(met, Claim(live=True)).worst <= 4.0


def test_what_live_noise_cannot_do_is_refused():
    net, live = Network.uniform(num_devices=12), Claim(live=True)
    for adjust in get_args(Adjust):
        with pytest.raises(ValueError, match=r"delta=1e-48 must be >= .*, what live noise supports"):
            calibrate(net, Claim(delta=1e-48, live=True), epsilon=2.0, adjust=adjust)
    silent = Network.uniform(num_devices=2, weight=(1.0, 0.0))
    with pytest.raises(ValueError, match="device 1 would have noise_std=0: live, every device needs some noise"):
        calibrate(silent, live, epsilon=2.0, per_device=True)
    with pytest.raises(ValueError, match="must lie within a factor of 1e5"):
        calibrate(replace(net, devices=Devices(2, noise_std=(1.0, 1e-6))), live, epsilon=2.0)
    # No noise is needed: live there is some all the same.
    rare = calibrate(Network.uniform(num_devices=2, participation=1e-6), live, epsilon=2.0)
    assert min(rare.devices.column("noise_std")) > 0
    assert guarantee(rare, live).worst <= 2.0


@pytest.mark.parametrize("seed", range(30))
def test_a_random_network_meets_its_target_live_or_says_why_not(seed):
    rng = np.random.default_rng([44, seed])
    net, claim = any_network(rng)
    channel = net.channel
    if channel.csi_error_std:  # a law for every noise that is tried takes seconds
        channel = replace(channel, noise_std=0.0)
    noise_std = tuple(std or 0.1 for std in net.devices.column("noise_std"))
    net = replace(net, channel=channel, devices=replace(net.devices, noise_std=noise_std))
    target, credited = float(np.exp(rng.uniform(0.0, 2.5))), bool(rng.random() < 0.3)
    adjust: Any = str(rng.choice(["noise", "noise", "weight", "clip", "inferences"]))
    claim = replace(claim, credit_channel_noise=credited, live=True)
    try:
        met = calibrate(net, claim, epsilon=target, adjust=adjust)
    except ValueError as error:
        refused = str(error)
    else:
        found = guarantee(net, met) if isinstance(met, Claim) else guarantee(met, claim)
        assert found.worst <= target
        return
    assert re.search(r"the smallest ε that can|does not allow one inference|gamma=", refused)


# Any network


def calibrated(seed, *, adjust, per_device=False, inferences=1):
    """A random network, what met its targets, these, and what ε is; none where a target was refused for a reason."""
    rng = np.random.default_rng(seed)
    net, claim = any_network(rng)
    # A new law of strength for every noise that is tried takes seconds: equal devices are enough (below).
    net = replace(net, channel=replace(net.channel, csi_error_std=0.0))
    logs = rng.uniform(np.log(0.3), np.log(20), net.devices.count if rng.random() < 0.6 else 1)
    target = np.broadcast_to(np.exp(logs), (net.devices.count,))
    claim = replace(claim, inferences=inferences, credit_channel_noise=bool(rng.random() < 0.5))

    def epsilon_of(met):
        return device_epsilon(net, met) if isinstance(met, Claim) else device_epsilon(met, claim)

    try:
        met = calibrate(net, claim, epsilon=target.tolist(), adjust=adjust, per_device=per_device)
    except ValueError as error:
        refused = error
    else:
        assert (epsilon_of(met) <= target).all()
        return net, met, target, epsilon_of
    if isinstance(refused, UnreachableError):
        assert refused.smallest > refused.target
    else:
        assert any(reason in str(refused) for reason in ("gamma=", "does not allow one inference"))
    assume(False)
    raise AssertionError


SEEDS = st.integers(0, 2**32 - 1)
SOME = settings(max_examples=12, suppress_health_check=[HealthCheck.filter_too_much])


def is_tight_in_noise(seed, *, per_device, inferences=1):
    _, met, target, epsilon_of = calibrated(seed, adjust="noise", per_device=per_device, inferences=inferences)
    std = np.array(met.devices.noise_std)
    if np.max(std) == 0 or np.max(epsilon_of(met) / target) >= 1 - 1e-3:
        return
    assert np.any(epsilon_of(with_column(met, "noise_std", std * (1 - 1e-6))) > target)


def is_tight_in_every_device(seed, *, adjust):
    net, met, target, epsilon_of = calibrated(seed, adjust=adjust)
    column = "weight" if adjust == "weight" else "clip_norm"
    before, after = (np.array(network.devices.column(column)) for network in (net, met))
    at_limit = (after >= before * most_feature(net) * (1 - 1e-9)) | (np.array(met.devices.weight) == 0)
    tight = epsilon_of(met) / target >= 1 - 1e-3
    for k in np.flatnonzero(~tight & ~at_limit):
        more = after.copy()
        more[k] *= 1 + 1e-6
        assert np.any(epsilon_of(with_column(met, column, more)) > target)


@SOME
@given(SEEDS, st.booleans())
def test_the_noise_of_any_network_is_tight_for_its_worst_device_or_a_reason_holds(seed, per_device):
    is_tight_in_noise(seed, per_device=per_device)


@SOME
@given(SEEDS, st.sampled_from(["weight", "clip"]))
def test_the_weights_of_any_network_are_tight_for_every_device_or_a_reason_holds(seed, adjust):
    is_tight_in_every_device(seed, adjust=adjust)


@settings(SOME, max_examples=6)
@given(SEEDS)
def test_one_more_inference_of_any_network_exceeds_a_target(seed):
    _, met, target, epsilon_of = calibrated(seed, adjust="inferences")
    assert isinstance(met, Claim)
    if met.inferences < 2**20:
        assert np.any(epsilon_of(replace(met, inferences=met.inferences + 1)) > target)


@pytest.mark.check
@settings(SOME, max_examples=60)
@given(SEEDS, st.booleans(), st.sampled_from([1, 1, 1, 5]))
def test_sixty_networks_are_tight_in_noise(seed, per_device, inferences):
    is_tight_in_noise(seed, per_device=per_device, inferences=inferences)


@pytest.mark.check
@settings(SOME, max_examples=60)
@given(SEEDS, st.sampled_from(["weight", "clip"]))
def test_sixty_networks_are_tight_in_every_device(seed, adjust):
    is_tight_in_every_device(seed, adjust=adjust)


@pytest.mark.parametrize("channel", [{}, {"fading": "rayleigh"}, {"antennas": 2}])
def test_noise_is_found_under_errors_of_the_channel(channel):
    errors = Channel(csi_error_std=0.1, phase_error_std=0.1, **channel)
    met = calibrate(Network.uniform(num_devices=5, noise_std=0.1, channel=errors), epsilon=2.0)
    assert 2 * (1 - 1e-3) < guarantee(met).worst <= 2


def test_weights_over_several_inferences_are_tight_for_every_device():
    target = np.array([1.0, 2.0, 4.0, 2.0, 0.5])
    met = calibrate(UNLIKE, Claim(inferences=5), epsilon=target.tolist(), adjust="weight")
    ratio = guarantee(met, Claim(inferences=5)).epsilon / target
    assert ((ratio <= 1) & (ratio >= 1 - 1e-3)).all()


# Bad input


@pytest.mark.parametrize("epsilon", [0.0, -1.0, np.nan, np.inf])
def test_a_target_that_is_not_a_positive_number_is_refused(epsilon):
    with pytest.raises(ValueError, match=rf"epsilon={epsilon:g} must be > 0 and finite"):
        calibrate(TWELVE, epsilon=epsilon)


def test_a_missing_target_a_wrong_number_of_them_or_an_unknown_adjustment_is_refused():
    with pytest.raises(ValueError, match=r"no target: give epsilon, or devices\.epsilon in the network file"):
        calibrate(TWELVE)
    with pytest.raises(ValueError, match="epsilon has 3 values for 12 devices; give one or one each"):
        calibrate(TWELVE, epsilon=[1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="adjust='volume' must be one of noise, weight, clip, slots, inferences"):
        calibrate(TWELVE, epsilon=1.0, adjust="volume")  # pyright: ignore[reportCallIssue, reportArgumentType]


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


def test_elements_that_move_each_others_limits_end_where_all_are_met_and_none_can_grow():
    for pull in (-0.7, -0.3, 0.3, 0.7, 0.9):

        def meets(x, pull=pull):
            return np.log(x) <= np.array([1.0, -2.0]) + pull * np.log(x[::-1])

        found = balanced(meets, np.array([1e-3, 1e3]), np.full(2, 1e6))
        root = np.linalg.solve(np.array([[1, -pull], [-pull, 1]]), np.array([1.0, -2.0]))
        assert meets(found).all()
        assert np.log(found) == pytest.approx(root, abs=1e-8)


def test_an_element_that_others_at_their_limit_hold_up_is_found_too():
    def meets(x):
        return np.array([True, x[1] <= 0.3 * x[0]])

    found = balanced(meets, np.array([10.0, 10.0]), np.full(2, 10.0))
    assert meets(found).all()
    assert found == pytest.approx([10.0, 3.0], rel=1e-8)


def test_elements_of_which_one_meets_no_target_end_at_zero():
    assert balanced(lambda x: np.array([True, False]) & (x > 0), np.ones(2), np.full(2, 10.0)).tolist() == [0.0, 0.0]
