"""ε under errors of channel knowledge: the numbers of docs/howto/radio.md, and what must hold for every one of them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from airpool.account.guarantee import guarantee
from airpool.network import Channel, Claim, Devices, Network, Ranking


def twelve(*, channel: dict[str, Any], **network: Any) -> Network:
    """Twelve devices with a device ε of 1 and a local one of 4.02, if their channels are known."""
    return Network.uniform(num_devices=12, **({"noise_std": 0.08975} | network), channel=Channel(**channel))


@pytest.mark.parametrize(("csi", "epsilon"), [(0.05, 1.008), (0.1, 1.034), (0.2, 1.158), (0.3, 1.464)])
def test_gain_errors_cost_what_the_specification_says(csi, epsilon):
    report = guarantee(twelve(channel={"csi_error_std": csi, "gamma": 1e-9}))
    assert report.worst == pytest.approx(epsilon, abs=0.002)
    assert report.epsilon_lower is not None
    assert float(np.max(report.epsilon_lower)) == pytest.approx(epsilon, rel=0.02)


def test_gain_and_outage_are_drawn_together():
    channel = {"fading": "rayleigh", "csi_error_std": 0.1, "outage": 0.01}
    assert guarantee(twelve(channel=channel)).worst == pytest.approx(1.19, abs=0.01)


@pytest.mark.parametrize("fading", ["none", "rician"])
def test_phase_errors_cost_nothing(fading):
    known, turned = (guarantee(twelve(channel={"fading": fading, "phase_error_std": s})) for s in (0.0, 0.7))
    np.testing.assert_array_equal(known.epsilon, turned.epsilon)


def test_scheme_2_2_under_errors_falls_back_to_the_local_epsilon_and_says_why():
    report = guarantee(twelve(channel={"csi_error_std": 0.1}, scheme=Ranking(num_selected=11)))
    np.testing.assert_array_equal(report.epsilon, report.epsilon_local)
    assert any("local ε" in line and "scheme 2.2" in line for line in report.assumptions)


def test_epsilon_stays_between_perfect_knowledge_and_own_noise_alone():
    changes = {"participation": 0.9}, {}, {"cover_noise": True, "participation": 0.9}
    for change, neighbours in zip(changes, ("zero-out", "replace", "zero-out"), strict=True):
        claim = Claim(neighbours=neighbours)
        known, off = (guarantee(twelve(channel={"csi_error_std": s}, **change), claim) for s in (0.0, 0.1))
        assert known.worst < off.worst < 1.1 * known.worst


def test_a_channel_common_to_a_stream_costs_more_than_one_redrawn():
    net, claim = twelve(channel={"csi_error_std": 0.1}), Claim(inferences=100)
    common = guarantee(replace(net, channel=replace(net.channel, redrawn=False)), claim)
    assert guarantee(net, claim).worst < common.worst < float(np.max(common.epsilon_local))


def test_over_a_common_channel_participation_below_one_leaves_own_noise_alone_and_says_so():
    channel = {"csi_error_std": 0.1, "fading": "rayleigh", "outage": 0.2, "redrawn": False}
    report = guarantee(twelve(channel=channel, participation=0.9), Claim(inferences=10))
    assert 0.9 * report.epsilon_local[0] < report.worst < report.epsilon_local[0]  # its own coin and silence
    assert any("participation below 1" in line and "local ε" in line for line in report.assumptions)


def test_live_noise_that_arrives_unaligned_needs_a_receiver_noise():
    quiet, noisy = (twelve(channel={"csi_error_std": 0.1, "noise_std": s}) for s in (0.0, 1.0))
    assert guarantee(quiet, Claim(live=True)).worst == pytest.approx(guarantee(quiet).epsilon_local.max(), rel=1e-3)
    assert guarantee(noisy, Claim(live=True)).worst < 1.1


def test_a_channel_that_is_not_known_at_all_has_an_epsilon():
    """Next to all of the law lies at one end of the lattice."""
    devices = Devices(count=4, weight=0.0, noise_std=(0.0, 0.0, 0.0, 1.0), participation=(0.0, 0.0, 0.0, 1.0))
    net = Network(devices=replace(devices, power_dbm=0.0), channel=Channel(csi_error_std=1e9, outage=0.1))
    assert guarantee(net, Claim(delta=0.1)).worst == 0.0


def test_live_noise_under_errors_rests_on_the_receivers_noise():
    channel = Channel(fading="rician", csi_error_std=0.05, noise_std=1.0)
    report = guarantee(Network.uniform(num_devices=3, noise_std=0.3, channel=channel), Claim(live=True))
    assert report.worst < report.epsilon_local[0]
    assert any("at least 2^-17 of the privacy noise" in each for each in report.assumptions)
