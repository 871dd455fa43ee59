"""Network in, privacy report out: the reference values end to end, what each setting does, and what is assumed."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import chdtrc, chdtri

from airpool._support.rounding import up
from airpool.account.calibration import calibrate
from airpool.account.guarantee import aggregate, guarantee, realised_epsilon
from airpool.account.received import smallest_live_delta
from airpool.account.whatif import most_outages
from airpool.network import Adversary, Channel, Claim, Coin, Devices, Network, NetworkError, Ranking, Slots, Threshold
from airpool.privacy import compose, gaussian
from airpool.privacy.device import by_coin
from airpool.protocol.simulation import receive
from airpool.radio.link import link_of
from tests.random_networks import extreme_networks

pytestmark = pytest.mark.usefixtures("few_draws")

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


# Reference values, end to end


@pytest.mark.parametrize(
    ("neighbours", "cover_noise", "expected"),
    [
        ("zero-out", False, [0.5435240259, 0.5137881454, 1.933530653, 1.621840596, 1.411887136]),
        ("replace", False, [1.170544724, 1.113643715, 4.324820691, 3.55964956, 3.153614438]),
        ("zero-out", True, [0.4300684117, 0.2485161477, 1.574473363, 1.270507808, 0.51918852]),
    ],
)
def test_unlike_devices_have_the_reference_epsilon(neighbours, cover_noise, expected):
    report = guarantee(replace(UNLIKE, cover_noise=cover_noise), Claim(neighbours=neighbours))
    assert report.epsilon == pytest.approx(expected, rel=1e-8)
    assert report.worst == report.epsilon.max()


@pytest.mark.parametrize(("dimension", "expected"), [(1, 3.036466269), (64, 4.342167113), (784, 15.28500108)])
def test_removal_has_the_reference_epsilon(dimension, expected):
    report = guarantee(replace(TWELVE, dimension=dimension), Claim(neighbours="remove"))
    assert report.epsilon == pytest.approx(np.full(12, expected), rel=1e-8)
    assert (report.epsilon_local == np.inf).all()
    assert report.epsilon_object == np.inf


def test_device_local_and_object_epsilon_are_three_numbers():
    report = guarantee(Network.uniform(num_devices=12, noise_std=0.08975))
    assert report.epsilon[0] == pytest.approx(0.9999394235, rel=1e-9)
    assert report.epsilon_local[0] == pytest.approx(4.017809984, rel=1e-9)
    assert report.epsilon_object == pytest.approx(18.25676954, rel=1e-9)


def test_the_papers_network_has_its_claim_beside_the_truth():
    report = guarantee(Network.paper())
    assert report.epsilon[0] == pytest.approx(80.12256366, rel=1e-9)
    assert report.paper.epsilon[0] == pytest.approx(59.39744156, rel=1e-9)


def test_scheme_2_1_has_the_reference_epsilon():
    scheme = Threshold(score_rule="scale", score_bound=1.0, score_noise_std=0.316227766, threshold=0.3)
    assert guarantee(replace(TWELVE, scheme=scheme)).epsilon == pytest.approx(np.full(12, 7.644042567), rel=1e-8)
    clipped = replace(scheme, score_rule="clip", score_bound=0.5)
    assert guarantee(replace(TWELVE, scheme=clipped)).epsilon == pytest.approx(np.full(12, 7.644042567), rel=1e-8)


def test_scheme_2_2_is_two_gaussian_releases():
    scheme = Ranking(score_bound=0.5, score_noise_std=0.4, num_selected=11)
    mu = np.hypot(0.5 / 0.4, (1 / 12) / (0.05 * np.sqrt(11)))
    report = guarantee(replace(TWELVE, scheme=scheme))
    assert report.epsilon[0] == pytest.approx(float(gaussian.epsilon(mu, 1e-5)), rel=1e-9)
    assert report.epsilon_object == np.inf


# Settings


def test_what_is_claimed_is_remembered():
    claim = Claim(delta=1e-7, neighbours="replace", inferences=3)
    report = guarantee(TWELVE, claim)
    assert (report.network, report.claim) == (TWELVE, claim)
    assert (
        report.again(delta=1e-5, neighbours="zero-out").claim == Claim(inferences=3) == guarantee(TWELVE).over(3).claim
    )
    np.testing.assert_array_equal(guarantee(TWELVE).again(**vars(claim)).epsilon, report.epsilon)


def test_many_inferences_are_composed_and_have_no_lower_end():
    report = guarantee(TWELVE, Claim(inferences=10))
    # Every outcome a cell of its own.
    exact = compose.stream(by_coin(aggregate(TWELVE), "zero-out"), cells=2**20).repeated(10).epsilon(1e-5)
    assert report.epsilon_lower is None
    # Coarser laws cost a little, on the safe side.
    assert (report.epsilon >= exact * (1 - 1e-9)).all()
    assert report.epsilon == pytest.approx(exact, rel=1e-2)
    assert report.epsilon_local[0] == pytest.approx(float(gaussian.epsilon(np.sqrt(10) / 12 / 0.05, 1e-5)))


def test_one_inference_has_both_ends():
    report = guarantee(TWELVE)
    assert report.epsilon_lower is not None
    assert (report.epsilon_lower == report.epsilon).all()


def test_colluders_and_dropouts_add_up():
    both = guarantee(replace(TWELVE, colluders=1, dropouts=2)).epsilon
    assert both == pytest.approx(guarantee(replace(TWELVE, colluders=3)).epsilon, rel=0)
    assert (both > guarantee(TWELVE).epsilon).all()
    # More than everybody else is everybody else.
    alone = guarantee(replace(TWELVE, colluders=11, dropouts=11))
    given_own_noise = 0.9 * gaussian.delta(alone.epsilon, 1 / 12 / 0.05)
    assert given_own_noise == pytest.approx(np.full(12, 1e-5), rel=1e-8)


def test_the_report_says_what_colluders_would_cost():
    report = guarantee(TWELVE)
    expected = [guarantee(replace(TWELVE, colluders=n)).worst for n in range(3)]
    assert report.epsilon_if_absent == pytest.approx(tuple(expected), rel=1e-12)
    assert list(expected) == sorted(expected)


# A server that chooses its moments by the channel

RAYLEIGH = Channel(fading="rayleigh", outage=0.1)
FADED = Network.uniform(num_devices=12, noise_std=0.2, channel=RAYLEIGH)
TWENTY = Claim(inferences=20)


@pytest.mark.parametrize(
    ("count", "inferences", "noise_std", "averaged", "outages", "reached"),
    [(12, 100, 0.26077525, 4.0, 5, 5.455), (4, 20, 0.61387563, 4.0, 3, 8.914)],
)
def test_a_server_that_times_its_requests_reaches_what_the_report_says(
    count, inferences, noise_std, averaged, outages, reached
):
    net = Network.uniform(num_devices=count, noise_std=noise_std, channel=RAYLEIGH)
    report = guarantee(net, Claim(inferences=inferences))
    assert report.worst == pytest.approx(averaged, abs=1e-3)
    assert report.outages_if_selected == outages
    assert report.epsilon_if_selected is not None
    # It waits until so many others are silent that one draw in hundreds has as few; then own noise and the rest count.
    gains = np.random.default_rng(0).rayleigh(np.sqrt(0.5), (200_000, count))
    silent = gains < np.sqrt(-np.log1p(-0.1))
    assert np.mean(silent[:, 1:].sum(axis=1) > outages) < 1e-3
    found = ~silent[:, 0] & (silent[:, 1:].sum(axis=1) >= outages)
    assert np.mean(found) == pytest.approx({12: 1 / 404, 4: 1 / 1111}[count], rel=0.15)
    mu = np.sqrt(inferences / (count - outages)) / count / noise_std
    assert gaussian.delta(np.array([reached - 0.01]), np.array([mu]))[0] > 1e-5
    assert report.epsilon_if_selected == pytest.approx(np.full(count, reached), abs=1e-3)
    assert gaussian.delta(report.epsilon_if_selected[:1], np.array([mu]))[0] == pytest.approx(1e-5, rel=1e-6)


def test_numbers_of_outages_are_those_of_a_poisson_binomial_law():
    rng = np.random.default_rng(5)
    for count in (1, 2, 5, 9):
        for most in (0.0, 0.01, 0.3, 1.0):
            chance = rng.uniform(0, most, count)
            worst = 0
            for k in range(count):
                others = np.ones(1)
                for q in np.delete(chance, k):
                    others = np.convolve(others, [1 - q, q])
                beyond = np.cumsum(others[::-1])[::-1]  # at least 0, 1, ... outages
                worst = max(worst, next(n for n in range(count) if n + 1 >= count or beyond[n + 1] < 1e-3))
            assert most_outages(1 - chance) == worst
    # One draw in a thousand exactly is not rarer than that.
    assert most_outages(np.full(4, 0.9)) == 3


SELECTED: list[dict[str, Any]] = [
    {},
    {"claim": Claim()},
    {"dropouts": 2},
    {"cover_noise": True},
    {"claim": replace(TWENTY, neighbours="replace")},
    {"claim": Claim(neighbours="remove")},
    {"scheme": Threshold(score_noise_std=1.0)},
    {"scheme": Ranking(num_selected=8, score_noise_std=1.0)},
    {"slots": Slots(3)},
    {"slots": Slots(3, redrawn=False)},
    {"channel": replace(RAYLEIGH, redrawn=False)},
    {"channel": replace(RAYLEIGH, power_rule="backoff")},
    {"channel": replace(RAYLEIGH, access="orthogonal")},
    {"channel": replace(RAYLEIGH, csi_error_std=0.05)},
    {"channel": Channel(csi_error_std=0.05)},
    {"channel": Channel(antennas=3)},
]


@pytest.mark.parametrize("changes", SELECTED)
@pytest.mark.parametrize("participation", [0.9, 1.0])
def test_choosing_moments_never_costs_less_and_never_more_than_the_local_epsilon(changes, participation):
    claim, rest = changes.get("claim", TWENTY), {name: x for name, x in changes.items() if name != "claim"}
    net = replace(FADED, devices=replace(FADED.devices, participation=participation), **rest)
    report = guarantee(net, claim)
    found = report.epsilon_if_selected
    assert found is not None
    assert (found >= report.epsilon).all()
    assert (found <= report.epsilon_local * (1 + 1e-9)).all()
    assert any("does not choose its moments" in line for line in report.assumptions)
    assert report.to_json()["epsilon_if_selected"] == found.tolist()


@pytest.mark.parametrize(
    "changes",
    [
        {"channel": Channel()},
        {"channel": Channel(access="secure")},
        {"channel": Channel(access="orthogonal")},
        {"channel": replace(RAYLEIGH, access="orthogonal", power_rule="backoff")},
    ],
)
def test_where_no_channel_enters_epsilon_there_are_no_moments_to_choose(changes):
    report = guarantee(replace(FADED, **changes), TWENTY)
    assert (report.epsilon_if_selected, report.outages_if_selected) == (None, None)
    assert not any("its moments" in line for line in report.assumptions)
    assert report.to_json()["epsilon_if_selected"] is None


def test_a_device_heard_alone_counts_as_always_received_where_moments_are_chosen():
    report = guarantee(replace(FADED, channel=replace(RAYLEIGH, access="orthogonal")), TWENTY)
    assert report.outages_if_selected == 0
    assert report.epsilon_if_selected == pytest.approx(report.epsilon_local)
    assert (report.epsilon < report.epsilon_local).all()


def test_a_rare_failure_of_the_papers_rule_is_no_longer_rare_where_moments_are_chosen():
    net = replace(FADED, channel=replace(RAYLEIGH, power_rule="paper", outage=1e-9))
    report = guarantee(net)
    assert np.isfinite(report.epsilon).all()
    assert report.to_json()["epsilon_if_selected"] == ["inf"] * 12
    assert report.outages_if_selected is None


def test_named_colluders_protect_nobody_else():
    report = guarantee(UNLIKE, Claim(colluding=[2]))
    assert (np.delete(report.epsilon, 2) > np.delete(guarantee(UNLIKE).epsilon, 2)).all()
    assert report.epsilon[2] == pytest.approx(guarantee(UNLIKE).epsilon[2])


def test_the_receivers_noise_counts_only_where_it_is_credited():
    noisy = replace(UNLIKE, channel=Channel(noise_std=0.3, gamma=1.5))
    assert guarantee(noisy).epsilon == pytest.approx(guarantee(UNLIKE).epsilon, rel=1e-12)
    credited = guarantee(noisy, Claim(credit_channel_noise=True))
    helped = Network(
        devices=Devices(
            count=6,
            **{
                name: (*UNLIKE.devices.column(name), last)
                for name, last in (("weight", 0.0), ("clip_norm", 1.0), ("noise_std", 0.2), ("participation", 1.0))
            },
        )
    )
    assert credited.epsilon == pytest.approx(guarantee(helped).epsilon[:5], rel=1e-9)


def test_orthogonal_access_leaves_each_device_alone():
    report = guarantee(replace(TWELVE, channel=Channel(access="orthogonal")))
    assert 0.9 * gaussian.delta(report.epsilon, 1 / 12 / 0.05) == pytest.approx(np.full(12, 1e-5), rel=1e-8)
    assert (report.epsilon <= report.epsilon_local).all()


@pytest.mark.parametrize("inferences", [2, 5, 1000])
def test_without_noise_a_stream_has_infinite_epsilon(inferences):
    net = Network(devices=Devices(count=2, noise_std=0.0, participation=(1.0, 0.9)))
    claim = Claim(inferences=inferences)
    assert (guarantee(net, claim).epsilon == np.inf).all()
    # Next to no noise: beyond what the grid of a stream can tell from inf, where the local ε is known exactly.
    faint = guarantee(replace(net, devices=replace(net.devices, noise_std=1e-6)), claim)
    assert (faint.epsilon == faint.epsilon_local).all()
    assert (faint.epsilon > 1e11).all()


def test_without_noise_every_epsilon_is_infinite():
    report = guarantee(Network.uniform(num_devices=3, noise_std=0.0))
    assert (report.epsilon == np.inf).all()
    assert (report.epsilon_local == np.inf).all()
    assert report.epsilon_object == np.inf
    assert report.paper.reason is not None


def test_many_unlike_devices_without_noise_or_apart_from_each_other_are_networks_too():
    shares = tuple(np.random.default_rng(1).uniform(0.1, 0.9, 40).tolist())
    silent = guarantee(Network(devices=Devices(count=40, noise_std=0.0, participation=shares)))
    assert (silent.epsilon == np.inf).all()
    assert silent.epsilon_object == np.inf
    apart = guarantee(Network(devices=Devices(count=40, participation=shares), channel=Channel(access="orthogonal")))
    assert np.array(shares) * gaussian.delta(apart.epsilon, 1 / 40 / 0.05) == pytest.approx(np.full(40, 1e-5), rel=1e-8)


def test_a_device_alone_and_devices_without_weight_are_networks_too():
    assert guarantee(Network.uniform(num_devices=1)).epsilon_if_absent == pytest.approx(
        (guarantee(Network.uniform(num_devices=1)).worst,)
    )
    assert guarantee(Network.uniform(num_devices=3, weight=0.0)).worst == 0


# The channel


def test_outage_folds_into_the_participation_under_truncate():
    faded = replace(TWELVE, channel=Channel(fading="rayleigh", outage=0.05))
    outage = link_of(faded).outage
    assert outage.max() == pytest.approx(0.05, rel=1e-6)
    folded = replace(TWELVE, devices=replace(TWELVE.devices, participation=0.9 * (1 - outage)))
    assert guarantee(faded).epsilon == pytest.approx(guarantee(folded).epsilon, rel=1e-9)
    assert any("too weak" in line and "silent" in line for line in guarantee(faded).assumptions)


def test_under_backoff_a_weak_device_leaks_as_much_and_helps_less():
    truncated, backed_off = (
        guarantee(replace(TWELVE, channel=Channel(fading="rayleigh", outage=0.05, power_rule=rule)))
        for rule in ("truncate", "backoff")
    )
    assert (backed_off.epsilon > truncated.epsilon).all()


def test_signals_that_need_not_be_aligned_leave_each_device_its_own_noise():
    network = replace(TWELVE, channel=Channel(phase_error_std=0.1, power_rule="paper"))
    report = guarantee(network)
    speaks = 0.9 * (1 - link_of(network).outage)  # silent, or weaker, where the power does not suffice
    assert (speaks * gaussian.delta(report.epsilon, 1 / 12 / 0.05) <= 1e-5).all()
    assert (report.epsilon <= report.epsilon_local).all()
    assert (report.epsilon > 3 * guarantee(TWELVE).epsilon).all()
    assert any("only own noise counts" in line for line in report.assumptions)


def test_the_papers_power_rule_tells_everything_where_power_limits_a_device():
    limited = replace(Network.paper(), channel=replace(Network.paper().channel, power_rule="paper", fading="rayleigh"))
    report = guarantee(limited)
    assert (report.epsilon == np.inf).all()
    assert any("ε is infinite" in line for line in report.assumptions)
    free = replace(limited, channel=Channel(power_rule="paper", gamma=0.01))
    assert guarantee(free).epsilon[0] == pytest.approx(80.12256366, rel=1e-9)


def test_a_gamma_beyond_the_power_of_a_device_is_refused_with_what_it_reaches():
    strong = replace(TWELVE, channel=Channel(gamma=1e6))
    with pytest.raises(NetworkError, match=r"channel\.gamma=1e\+06 is beyond the power of device 0: with power_dbm=30"):
        guarantee(strong)


def test_realised_epsilon_is_that_of_the_noise_that_was_there():
    alignment = np.array([[1.0, 1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 1.0, 1.0, 1.0]])
    found = realised_epsilon(UNLIKE, alignment)
    shift = np.array(UNLIKE.devices.column("weight")) * np.array(UNLIKE.devices.column("clip_norm"))
    variance = np.array(UNLIKE.devices.column("noise_std")) ** 2
    each = [gaussian.epsilon(g * shift / np.sqrt(g @ variance), 1e-5) for g in alignment]
    assert found == pytest.approx(np.max(each, axis=0), rel=1e-12)
    with pytest.raises(ValueError, match="must end with the 5 devices"):
        realised_epsilon(UNLIKE, np.ones((2, 4)))


# Assumptions


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({}, "the device's feature is replaced by zero"),
        (Claim(neighbours="replace"), "replaced by any other one"),
        (Claim(neighbours="remove"), "the device is removed, and its noise with it"),
        ({}, "none colludes or drops out"),
        ({"colluders": 2}, "Up to 2 other devices collude with the adversary or drop out, whichever they are"),
        ({"dropouts": 1, "adversary": Adversary(antennas=1)}, "nobody jams by those"),
        ({"dropouts": 1, "channel": Channel(antennas=2)}, "nobody jams by those"),
        ({"dropouts": 1, "channel": Channel(fading="rayleigh", csi_error_std=0.1)}, "nobody jams by those"),
        ({}, "The adversary sees who takes part"),
        ({"cover_noise": True}, "the adversary does not learn who took part"),
        ({}, "one antenna"),
        ({}, "The receiver's noise is not counted."),
        (Claim(inferences=2), "ε covers 2 inferences together."),
        ({"channel": Channel(access="orthogonal")}, "Every device is received by itself"),
        ({"scheme": Threshold()}, "the others take part as rarely as their scores allow"),
        ({"scheme": Ranking()}, "the selection that leaves the least noise"),
        ({}, "does not protect the object"),
    ],
)
def test_every_report_says_what_it_holds_for(change, sentence):
    claimed = isinstance(change, Claim)
    report = guarantee(TWELVE, change) if claimed else guarantee(replace(TWELVE, **change))
    assumptions = report.assumptions
    assert any(sentence in line for line in assumptions)
    assert all(line.endswith(".") and "\n" not in line for line in assumptions)


def test_named_colluders_and_credited_noise_are_among_the_assumptions():
    noisy = replace(TWELVE, channel=Channel(noise_std=0.1))
    lines = guarantee(noisy, Claim(colluding=[3, 7], credit_channel_noise=True)).assumptions
    assert any("devices 3, 7 known to collude" in line for line in lines)
    assert "The receiver's noise is counted." in lines


# Bad input


def nearly_always_heard(noise_std: tuple[float, ...]) -> tuple[Network, Claim]:
    """Estimates that are next to exact: rounded up, nothing is left of the others' noise."""
    channel = Channel(outage=1e-13, csi_error_std=1e-13)
    devices = Devices(4, weight=0.0, noise_std=noise_std, participation=0.0, power_dbm=0.0)
    return Network(devices, channel, dimension=1, cover_noise=True), Claim(delta=0.1)


@settings(max_examples=80)
@given(extreme_networks(), st.booleans())
@example(nearly_always_heard((0.0, 0.0, 1.0, 1.0)), False)
@example(nearly_always_heard((0.0, 0.0, 0.0, 1.0)), False)
def test_every_network_that_can_be_made_has_a_number_or_infinity(asked, credit_channel_noise):
    """Warnings are errors here: no square, product or ratio overflows on the way."""
    network, claim = asked
    try:
        link_of(network)
    except NetworkError:  # a fixed γ beyond a device's power
        assert network.channel.gamma != "auto"
        return
    report = guarantee(network, replace(claim, credit_channel_noise=credit_channel_noise))
    for each in (report.epsilon, report.epsilon_local, report.epsilon_object, report.paper.epsilon):
        assert np.all(np.asarray(each) >= 0)  # false for NaN
    assert "nan" not in json.dumps(report.to_json())


def test_bad_arguments_are_refused_by_name_and_value():
    with pytest.raises(NetworkError, match=r"delta=1\.5 must be > 0 and < 1"):
        guarantee(TWELVE, Claim(delta=1.5))
    with pytest.raises(NetworkError, match="inferences=0 must be a whole number >= 1"):
        guarantee(TWELVE, Claim(inferences=0))
    with pytest.raises(NetworkError, match="neighbours='swap' must be one of"):
        guarantee(TWELVE, Claim(neighbours="swap"))
    with pytest.raises(NetworkError, match="colluding device 12 must be from 0 to 11"):
        guarantee(TWELVE, Claim(colluding=[12]))
    with pytest.raises(ValueError, match="delta=1e-12 must be >= 1e-10 where inferences are composed"):
        guarantee(TWELVE, Claim(delta=1e-12, inferences=2))
    with pytest.raises(ValueError, match="use zero-out or replace"):
        guarantee(replace(TWELVE, scheme=Threshold()), Claim(neighbours="remove"))


POWER_LIMITED = Network.uniform(
    num_devices=12,
    noise_std=0.3,
    participation=0.9,
    channel=Channel(fading="rician", noise_std=0.3, power_rule="paper"),
)


@pytest.mark.parametrize("credit_channel_noise", [False, True])
def test_where_the_papers_power_rule_tells_no_epsilon_is_finite(credit_channel_noise):
    report = guarantee(POWER_LIMITED, Claim(credit_channel_noise=credit_channel_noise))
    assert np.isinf(report.epsilon).all()
    assert np.isinf(report.epsilon_local).all()
    assert np.isinf(report.epsilon_object)
    assert np.isinf(report.epsilon_if_absent).all()
    assert any("ε is infinite" in line for line in report.assumptions)


def test_where_the_papers_power_rule_tells_not_one_inference_is_allowed():
    with pytest.raises(ValueError, match="ε=5 does not allow one inference: device 0 spends inf on it"):
        calibrate(POWER_LIMITED, epsilon=5.0, adjust="inferences")


def test_realised_epsilon_leaves_out_the_noise_that_does_not_count():
    heard = np.ones(3)
    unlike = Network(devices=Devices(count=3, weight=0.1, noise_std=(0.1, 0.2, 0.3)))
    alone = gaussian.epsilon(0.1 / np.array([0.1, 0.2, 0.3]), 1e-5)
    one_left = gaussian.epsilon(0.1 / np.sqrt([0.01 + 0.04, 0.04 + 0.01, 0.09 + 0.01]), 1e-5)
    assert realised_epsilon(replace(unlike, colluders=1), heard) == pytest.approx(one_left)
    assert realised_epsilon(replace(unlike, colluders=1, dropouts=1), heard) == pytest.approx(alone)
    orthogonal = replace(unlike, channel=Channel(access="orthogonal"))
    assert realised_epsilon(orthogonal, heard) == pytest.approx(alone)
    unsure = replace(unlike, channel=Channel(phase_error_std=0.1))
    assert realised_epsilon(unsure, heard) == pytest.approx(alone)


@pytest.mark.parametrize(("fading", "antennas"), [("none", 12), ("rayleigh", 2)])
def test_realised_epsilon_counts_every_antenna_of_the_server(fading, antennas):
    """Alignments at the beam do not say what the other antennas receive; twelve of them tell twelve devices apart."""
    twelve = Network.uniform(num_devices=12, noise_std=0.08975, channel=Channel(antennas=antennas, fading=fading))
    assert realised_epsilon(twelve, np.ones(12)).max() == pytest.approx(4.018, abs=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Claim(neighbours="remove"), "neighbours='remove' and scheme 1: realised_epsilon needs"),
        ({"scheme": Threshold()}, "scheme 2.1: realised_epsilon needs"),
        ({"channel": Channel(power_rule="paper")}, "power_rule='paper' lets the alignment depend on the noise"),
    ],
)
def test_realised_epsilon_refuses_what_it_cannot_account_for(change, message):
    network, claim = (UNLIKE, change) if isinstance(change, Claim) else (replace(UNLIKE, **change), Claim())
    with pytest.raises(ValueError, match=message):
        realised_epsilon(network, np.ones(5), claim)


# Colluders and the object


@pytest.mark.parametrize("access", ["superposed", "orthogonal"])
def test_the_object_is_not_protected_from_colluders_and_finite_with_dropouts(access):
    net = Network.uniform(num_devices=4, noise_std=0.5, dimension=4, channel=Channel(access=access))
    assert guarantee(replace(net, colluders=1)).epsilon_object == np.inf
    assert guarantee(net, Claim(colluding=(0,))).epsilon_object == np.inf
    assert guarantee(replace(net, dropouts=1)).epsilon_object < np.inf


# The paper's power rule over many inferences


def limited_with_probability(q, **changes):
    """One device, r = 4, whose power limits it with probability q: P = w²C² + σ²·χ²-quantile, in dBm."""
    fields: dict[str, Any] = {"clip_norm": 0.005, "noise_std": 1.0, "weight": 1.0, "dimension": 4}
    power = 0.005**2 + float(chdtri(4, q))
    channel = Channel(power_rule="paper", gamma=1.0)
    return Network.uniform(num_devices=1, power_dbm=10 * np.log10(power), channel=channel, **(fields | changes))


def test_outcomes_limited_by_power_count_in_every_inference():
    net, claim = limited_with_probability(0.99e-3 * 0.01), Claim(delta=0.01, inferences=20_000)
    assert np.isinf(guarantee(net, claim).epsilon).all()
    assert np.isinf(guarantee(net, claim).epsilon_local).all()
    with pytest.raises(ValueError, match="cannot be met"):
        calibrate(replace(net, channel=replace(net.channel, gamma=1.0)), claim, epsilon=1.0)
    most = calibrate(net, Claim(delta=0.01), epsilon=1.0, adjust="inferences").inferences
    assert 1 < most < 0.01 / (2 * 0.99e-5)


def test_the_probability_of_being_limited_is_part_of_delta():
    q = 1e-5
    report = guarantee(limited_with_probability(q, clip_norm=1.0), Claim(delta=0.01))
    left = 0.01 - (1 + np.exp(report.epsilon[0])) * report_failure(q)
    assert gaussian.delta(report.epsilon[0], 1.0) <= left * (1 + 1e-9)
    assert report.epsilon[0] > gaussian.epsilon(1.0, 0.01) + 1e-6
    assert report.epsilon_lower is None
    assert any("δ includes (1 + e^ε)·" in line for line in report.assumptions)


def report_failure(q):
    """C = 1 leaves less room for the noise than the C = .005 that the power was set for."""
    return float(chdtrc(4, 0.005**2 + float(chdtri(4, q)) - 1.0))


def test_many_devices_limited_by_power_are_still_no_worse_off_than_with_nobody_trusted():
    net = Network.uniform(num_devices=40, noise_std=1.0, weight=1.0, clip_norm=0.2, dimension=4)
    limited = replace(net, devices=replace(net.devices, power_dbm=10 * np.log10(0.04 + float(chdtri(4, 1e-5)))))
    report = guarantee(replace(limited, channel=Channel(power_rule="paper", gamma=1.0)), Claim(delta=1e-3))
    assert (report.epsilon <= report.epsilon_local).all()


# Live noise


def test_live_noise_costs_a_delta_that_the_report_counts():
    net = Network.uniform(num_devices=12, noise_std=0.05, participation=0.9, dimension=64)
    live, ideal = guarantee(net, Claim(live=True)), guarantee(net)
    assert live.claim.live
    assert not ideal.claim.live
    assert live.epsilon == pytest.approx(ideal.epsilon, rel=1e-9)
    assert (live.epsilon >= ideal.epsilon).all()
    assert any("drawn live" in line for line in live.assumptions)


def test_where_delta_is_tiny_the_grid_shows_in_epsilon():
    net = Network.uniform(num_devices=12, noise_std=0.3, dimension=64)
    live, ideal = (guarantee(net, Claim(delta=1e-45, live=live)).epsilon[0] for live in (True, False))
    left = 1e-45 - (1 + np.exp(live)) * 12 * 64 * 2.0**-186
    assert live > ideal
    assert live == pytest.approx(float(gaussian.epsilon(1 / 12 / (0.3 * 12**0.5), left)), rel=3e-12)


def test_scheme_2_1_pays_for_the_rounding_of_its_live_coin():
    net = Network.uniform(num_devices=4, noise_std=0.5, scheme=Threshold(score_noise_std=0.5))
    live, ideal = (guarantee(net, Claim(delta=1e-10, live=live)).epsilon[0] for live in (True, False))
    left = 1e-10 - (1 + np.exp(live)) * 4 * 2.0**-48
    assert live == pytest.approx(guarantee(net, Claim(delta=left)).epsilon[0], rel=1e-9)
    assert live > ideal * (1 + 1e-6)


@pytest.mark.parametrize(
    ("noise_std", "delta", "message"),
    [
        ((1.0, 1e8), 1e-5, "noise_std from 1 to 1e\\+08 must lie within a factor of 1e5"),
        ((1.0, 0.0), 1e-5, r"noise_std\[1\]=0 must be > 0"),
        (0.05, 1e-80, "delta=1e-80 must be >= "),
    ],
)
def test_networks_that_live_noise_cannot_serve_are_refused(noise_std, delta, message):
    net = Network.uniform(num_devices=2, weight=1.0, noise_std=noise_std)
    with pytest.raises(ValueError, match=message):
        guarantee(net, Claim(delta=delta, live=True))


@pytest.mark.parametrize(
    ("scheme", "noises"), [(Coin(), 4), (Threshold(score_noise_std=1.0), 4), (Ranking(num_selected=2), 5)]
)
def test_the_smallest_delta_of_live_noise_counts_every_noise_that_is_drawn(scheme, noises):
    net = Network.uniform(num_devices=3, noise_std=1.0, dimension=4, slots=Slots(2), scheme=scheme)
    # 2^20 times (1 + e^0)·K·r·T·2^-186, docs/proofs/privacy.md: r is 4 coordinates, and the score that is ranked.
    smallest = 2.0**20 * 2 * 3 * noises * 7 * 2 * 2.0**-186
    assert smallest_live_delta(net, Claim(inferences=7)) == pytest.approx(smallest, rel=1e-12)
    once, smallest = replace(net, slots=Slots()), smallest / 14
    with pytest.raises(ValueError, match=f"delta=.* must be >= {up(smallest, 3)}, what live noise supports"):
        guarantee(once, Claim(delta=smallest * (1 - 1e-9), live=True))
    assert guarantee(once, Claim(delta=smallest * (1 + 1e-9), live=True)).worst > 0


def test_live_signals_that_arrive_unaligned_need_receiver_noise():
    """Backoff: a weak device's grid differs from the others', and an ideal receiver could tell them apart."""
    silent = Network.uniform(
        num_devices=4, noise_std=0.5, channel=Channel(fading="rician", power_rule="backoff", outage=0.1)
    )
    noisy = replace(silent, channel=replace(silent.channel, noise_std=1.0))
    alone = replace(silent, channel=replace(silent.channel, access="orthogonal"))
    assert guarantee(silent, Claim(live=True)).epsilon == pytest.approx(guarantee(alone).epsilon, rel=1e-9)
    assert guarantee(noisy, Claim(live=True)).epsilon == pytest.approx(guarantee(noisy).epsilon, rel=1e-9)
    unaligned = guarantee(silent, Claim(live=True)).assumptions
    assert any("only own noise counts" in line for line in unaligned)


@pytest.mark.parametrize("noise_std", [0.045, 0.042, 0.03])
def test_a_live_promise_beyond_what_the_grid_can_keep_is_infinite(noise_std):
    net = Network.uniform(num_devices=4, noise_std=noise_std, dimension=4, weight=1.0)
    ideal = guarantee(net).epsilon[0]
    kept = (1 + np.exp(ideal)) * 4 * 4 * 2.0**-186 < 1e-5
    assert np.isfinite(guarantee(net, Claim(live=True)).epsilon).all() == kept


def test_a_live_stream_takes_the_smallest_delta_that_streams_take():
    net = Network.uniform(num_devices=3, noise_std=5.0, participation=0.9)
    ideal, live = (guarantee(net, Claim(delta=1e-10, inferences=10, live=live)) for live in (False, True))
    assert (live.epsilon >= ideal.epsilon).all()
    assert live.epsilon == pytest.approx(ideal.epsilon, rel=1e-6)


@pytest.mark.parametrize("csi_error_std", [0.1, 0.2, 0.3])
def test_the_papers_rule_counts_devices_that_think_their_channel_weak(csi_error_std):
    """Power is set by the estimate, which may be small where the channel is not."""
    channel = Channel(power_rule="paper", csi_error_std=csi_error_std)
    net = Network.uniform(num_devices=12, noise_std=0.05, channel=channel)
    limited = receive(np.zeros((1, 12, 64)), net, rng=np.random.default_rng(0), trials=2_000, path="full").sent.aim < 1
    rate = float(limited.mean())
    assert link_of(net).outage[0] >= rate - 5 * np.sqrt(rate / limited.size)
    assert np.isinf(guarantee(net).epsilon).all()


def test_live_removal_is_covered_by_receiver_noise_alone():
    net = Network.uniform(num_devices=4, noise_std=0.5, dimension=4, participation=0.9)
    claim = Claim(delta=1e-3, neighbours="remove")
    live = replace(claim, live=True)
    assert np.isinf(guarantee(net, live).epsilon).all()
    noisy = replace(net, channel=Channel(noise_std=1.0))
    ideal = guarantee(noisy, claim).epsilon
    assert guarantee(noisy, live).epsilon == pytest.approx(ideal, rel=1e-3)
