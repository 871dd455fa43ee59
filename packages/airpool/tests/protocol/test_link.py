"""Where channel and privacy meet: γ, outage, and what each power rule leaves of the guarantee."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

from airpool.account.guarantee import guarantee, realised_epsilon
from airpool.network import Channel, Claim, Devices, Neighbours, Network
from airpool.privacy import gaussian
from airpool.protocol.simulation import receive
from airpool.radio.fading import Fading, quantile
from airpool.radio.link import link_of
from airpool.radio.power import peak_margin

SIGMAS = 4.5
K, STD, DELTA = 12, 0.05, 1e-5
RICIAN: dict[str, Any] = {"fading": "rician", "outage": 0.1}


def twelve(channel: dict[str, Any] | None = None, **fields: Any) -> Network:
    given: dict[str, Any] = {"num_devices": K, "noise_std": STD, "channel": Channel(**(channel or {}))}
    return Network.uniform(**(given | fields))


def root(delta_of: Any) -> float:
    """ε at which a decreasing δ(ε) is 1e-5."""
    return float(optimize.brentq(lambda epsilon: float(delta_of(epsilon)) - DELTA, 1e-9, 200))


def closed_form(heard: float, *, exposed: float | None = None, shift: float = 1 / K, num_devices: int = K) -> float:
    """ε of like devices, each heard with this probability; of one that is `exposed` more often than heard."""
    others = np.arange(num_devices)
    mu = shift / (STD * np.sqrt(1 + others))
    mass = stats.binom.pmf(others, num_devices - 1, heard)
    return root(lambda epsilon: (heard if exposed is None else exposed) * mass @ gaussian.delta(epsilon, mu))


# --- the radio itself ---


def test_auto_gamma_is_the_weakest_devices_reach_at_the_gain_that_it_rarely_falls_below():
    network = twelve(RICIAN, power_dbm=30.0)
    amplitude = math.sqrt(1 / K**2 + 64 * STD**2) * (1 + peak_margin(64))
    expected = math.sqrt(1000) / amplitude * quantile(Fading("rician", 4.8), 0.1)
    link = link_of(network)
    assert link.gamma == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(link.outage, 0.1, rtol=1e-6)
    assert (link.outage <= 0.1).all()


def test_without_fading_auto_gamma_leaves_nobody_out():
    link = link_of(twelve(power_dbm=tuple(range(12))))
    assert not link.outage.any()
    assert link.gamma == pytest.approx(link.transmitters.reach[0])


def test_a_fixed_gamma_is_kept_and_the_weaker_devices_fail_more_often():
    link = link_of(twelve({"fading": "rician", "gamma": 20.0}, power_dbm=tuple(range(22, 34))))
    assert link.gamma == 20.0
    assert (np.diff(link.outage) < 0).all()
    assert 0 < link.outage[-1] < link.outage[0] < 1


def test_devices_with_nothing_to_send_have_a_radio_all_the_same():
    link = link_of(twelve(weight=0.0, noise_std=0.0))
    assert link.gamma == 1.0
    assert not link.outage.any()


def test_a_gamma_that_a_device_can_never_reach_is_an_error_that_names_the_device():
    powers = (30.0,) * 7 + (3.0,) + (30.0,) * 4
    with pytest.raises(ValueError, match=r"channel.gamma=20 is beyond the power of device 7: with power_dbm=3"):
        link_of(twelve({"gamma": 20.0}, power_dbm=powers))


@pytest.mark.parametrize("fading", ["none", "rician"])
def test_under_the_papers_rule_devices_are_limited_as_often_as_predicted(fading):
    network = twelve({"fading": fading, "gamma": 78.0, "power_rule": "paper"})
    predicted = link_of(network).outage[0]
    seen = receive(np.zeros((1, K, 64)), network, rng=np.random.default_rng(1), trials=2_000, path="full")
    limited = np.mean(seen.alignment < 1)
    error = SIGMAS * math.sqrt(0.25 / seen.alignment.size)
    assert 0.05 < limited < 0.95
    assert limited < predicted + error
    if fading == "none":
        assert limited > predicted - error


# --- what the power rules leave of the guarantee ---


@pytest.mark.parametrize("neighbours", [Neighbours.ZERO_OUT, Neighbours.REPLACE])
def test_truncate_costs_what_rarer_participation_costs(neighbours):
    factor = neighbours.sensitivity
    for outage, p in ((0.01, 1.0), (0.1, 0.9), (0.5, 0.5)):
        network = twelve(RICIAN | {"outage": outage}, participation=p)
        expected = closed_form(p * (1 - outage), shift=factor / K)
        found = guarantee(network, Claim(neighbours=neighbours)).epsilon
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        # The same as a coin that comes up less often.
        plain = twelve(participation=p * (1 - outage))
        np.testing.assert_allclose(found, guarantee(plain, Claim(neighbours=neighbours)).epsilon, rtol=1e-5)


def test_a_perfect_channel_and_a_fading_one_without_outage_are_the_same():
    np.testing.assert_allclose(guarantee(twelve()).epsilon, closed_form(1.0), rtol=1e-5)
    assert guarantee(twelve(RICIAN)).worst > guarantee(twelve(RICIAN | {"outage": 1e-9})).worst
    assert guarantee(twelve(RICIAN | {"outage": 1e-9})).worst == pytest.approx(guarantee(twelve()).worst, rel=1e-4)


def test_under_backoff_a_weak_device_counts_as_aligned_and_its_noise_as_absent():
    network = twelve(RICIAN | {"power_rule": "backoff"}, participation=0.9)
    np.testing.assert_allclose(guarantee(network).epsilon, closed_form(0.9 * 0.9, exposed=0.9), rtol=1e-5)
    assert guarantee(network).worst > guarantee(twelve(RICIAN, participation=0.9)).worst


def test_cover_noise_under_fading_hides_the_coin_but_not_who_is_on_the_air():
    p, outage = 0.5, 0.1
    network = twelve(RICIAN, participation=p, cover_noise=True)
    others = np.arange(K)
    mu = 1 / K / (STD * np.sqrt(1 + others))
    mass = (1 - outage) * stats.binom.pmf(others, K - 1, 1 - outage)

    def removed(epsilon: float) -> float:
        return float(mass @ (p * gaussian.delta(np.log1p(np.expm1(epsilon) / p), mu)))

    def added(epsilon: float) -> float:
        c = 1 - math.exp(epsilon) * (1 - p)
        return 0.0 if c <= 0 else float(mass @ (c * gaussian.delta(epsilon + math.log(p / c), mu)))

    expected = root(lambda epsilon: max(removed(epsilon), added(epsilon)))
    np.testing.assert_allclose(guarantee(network).epsilon, expected, rtol=1e-5)
    assert expected < guarantee(replace(network, cover_noise=False)).worst


def test_the_papers_rule_is_infinite_where_power_limits_and_ordinary_where_it_does_not():
    limited = guarantee(twelve({"fading": "rician", "gamma": 20.0, "power_rule": "paper"}))
    assert np.isinf(limited.epsilon).all()
    assert math.isinf(limited.epsilon_object)
    assert any("ε is infinite" in line for line in limited.assumptions)
    unlimited = guarantee(twelve({"gamma": 1.0, "power_rule": "paper"}))
    np.testing.assert_allclose(unlimited.epsilon, guarantee(twelve({"gamma": 1.0})).epsilon)


def test_the_papers_own_network_is_infinite_as_soon_as_its_channel_fades():
    paper = Network.paper()
    steady, fading = (
        replace(paper, channel=replace(paper.channel, power_rule="paper", fading=f)) for f in ("none", "rician")
    )
    assert guarantee(steady).worst == pytest.approx(80.1, abs=0.05)
    assert math.isinf(guarantee(fading).worst)


@pytest.mark.parametrize(
    "channel",
    [
        {"phase_error_std": 0.1, "power_rule": "paper", "gamma": 1.0},
        {"access": "orthogonal"},
    ],
)
def test_where_signals_need_not_align_only_own_noise_protects(channel):
    network = twelve(channel)
    report = guarantee(network)
    local = float(gaussian.epsilon(1 / K / STD, DELTA))
    np.testing.assert_allclose(report.epsilon_local, local, rtol=1e-6)
    np.testing.assert_allclose(report.epsilon, local, rtol=1e-6)
    # Who takes part less often leaks less often, but is protected by nobody else all the same.
    rarely = guarantee(replace(network, devices=replace(network.devices, participation=0.5)))
    np.testing.assert_allclose(rarely.epsilon, closed_form(0.5, num_devices=1), rtol=1e-5)
    np.testing.assert_allclose(rarely.epsilon_local, local, rtol=1e-6)


def test_receiver_noise_protects_only_where_it_is_credited_and_relative_to_gamma():
    network = twelve({"noise_std": 2.0, "gamma": 10.0})
    np.testing.assert_allclose(guarantee(network).epsilon, closed_form(1.0), rtol=1e-5)
    credited = guarantee(network, Claim(credit_channel_noise=True))
    mu = 1 / K / math.sqrt(K * STD**2 + (2.0 / 10.0) ** 2)
    np.testing.assert_allclose(credited.epsilon, gaussian.epsilon(mu, DELTA), rtol=1e-5)


# --- what really happened ---


def test_realised_epsilon_is_that_of_the_noise_that_arrived():
    network = twelve()
    alone, all_there = np.eye(K)[0], np.ones(K)
    weak = np.where(np.arange(K) == 3, 0.5, 1.0)
    mu = 1 / K / STD
    assert realised_epsilon(network, all_there)[0] == pytest.approx(gaussian.epsilon(mu / math.sqrt(K), DELTA))
    one = realised_epsilon(network, alone)
    assert one[0] == pytest.approx(gaussian.epsilon(mu, DELTA))
    assert not one[1:].any()
    off = realised_epsilon(network, weak)
    noise = math.sqrt(K - 1 + 0.25)
    assert off[3] == pytest.approx(gaussian.epsilon(0.5 * mu / noise, DELTA))
    assert off[0] == pytest.approx(gaussian.epsilon(mu / noise, DELTA))


def test_realised_epsilon_is_the_worst_of_the_inferences_and_that_of_what_was_received():
    network = twelve(RICIAN, participation=0.7, dimension=4)
    seen = receive(np.zeros((3, K, 4)), network, rng=np.random.default_rng(2), trials=5)
    together = realised_epsilon(network, seen.alignment)
    each = [realised_epsilon(network, seen.alignment[n, t]) for n in range(3) for t in range(5)]
    np.testing.assert_allclose(together, np.max(each, axis=0))
    replaced = realised_epsilon(network, seen.alignment, Claim(neighbours=Neighbours.REPLACE))
    assert (replaced > together).all()


def test_realised_epsilon_names_a_wrong_shape_and_gives_inf_without_noise():
    with pytest.raises(ValueError, match=r"alignment has shape \(1, 3\), must end with the 12 devices"):
        realised_epsilon(twelve(), np.ones(3))
    assert np.isinf(realised_epsilon(twelve(noise_std=0.0), np.ones(K))).all()


def test_path_loss_is_a_transmit_power_that_is_lower_by_as_much():
    fading = Channel(fading="rician", outage=0.1)
    far = Network(devices=Devices(count=3, path_loss_db=(0.0, 6.0, 20.0)), channel=fading, dimension=8)
    weak = Network(devices=Devices(count=3, power_dbm=(30.0, 24.0, 10.0)), channel=fading, dimension=8)
    np.testing.assert_allclose(link_of(far).gamma, link_of(weak).gamma, rtol=1e-12)
    np.testing.assert_allclose(link_of(far).outage, link_of(weak).outage, rtol=1e-9)
    np.testing.assert_allclose(guarantee(far).epsilon, guarantee(weak).epsilon, rtol=1e-9)
    z = np.ones((1, 3, 8))
    got, same = (receive(z, net, rng=np.random.default_rng(0), trials=2000, path="full") for net in (far, weak))
    np.testing.assert_allclose(got.estimate, same.estimate, rtol=1e-9)
    np.testing.assert_allclose(got.gain, same.gain * 10 ** (-np.array([0.0, 6.0, 20.0]) / 20), rtol=1e-12)
    np.testing.assert_allclose(got.power.mean(axis=1)[0, 2], 100 * same.power.mean(axis=1)[0, 2], rtol=1e-9)
