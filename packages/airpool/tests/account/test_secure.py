"""ε of a secure sum: of the survivors less the colluders, with cover noise, without a radio (howto/secure-sum.md)."""

from dataclasses import replace

import numpy as np
import pytest

from airpool import Claim, Network, calibrate, guarantee
from airpool.evaluation.audit.adversary import audited
from airpool.network import Adversary, Channel, Devices, NetworkError, Threshold
from airpool.network import file as network_file
from airpool.privacy import gaussian
from airpool.protocol.live import signal
from airpool.protocol.ring import ring_of
from airpool.radio.link import level, link_of

SECURE = Channel(access="secure")
TWELVE = calibrate(Network.uniform(num_devices=12, dimension=40, channel=SECURE), epsilon=1.0)


def test_all_of_twelve_devices_have_the_epsilon_of_the_ideal_channel():
    ideal = replace(TWELVE, channel=Channel())
    assert guarantee(TWELVE).worst == pytest.approx(1.0, abs=1e-6)
    assert np.array_equal(guarantee(TWELVE).epsilon, guarantee(ideal).epsilon)


def test_eight_survivors_of_twelve_have_1_25_for_1():
    assert guarantee(replace(TWELVE, dropouts=4)).worst == pytest.approx(1.25, abs=5e-3)


@pytest.mark.parametrize(("dropouts", "colluders"), [(0, 0), (4, 0), (4, 3), (2, 2), (0, 11), (5, 1)])
def test_epsilon_is_that_of_the_survivors_less_the_colluders(dropouts, colluders):
    net = replace(TWELVE, dropouts=dropouts, colluders=colluders)
    honest, std = 12 - dropouts - colluders, TWELVE.devices.column("noise_std")[0]
    expected = gaussian.epsilon(np.array([1 / 12 / (std * np.sqrt(honest))]), 1e-5)[0]
    assert guarantee(net).worst == pytest.approx(expected, rel=1e-6)


def test_whoever_breaks_it_gets_the_local_epsilon():
    report = guarantee(TWELVE)
    assert report.epsilon_local[0] == pytest.approx(4.018, abs=1e-3)
    assert any("Whoever breaks this gets the local ε" in line for line in report.assumptions)
    with_all_others = guarantee(replace(TWELVE, colluders=11))
    assert with_all_others.worst == pytest.approx(report.epsilon_local[0], rel=1e-9)


def test_named_colluders_beyond_the_rule_leave_the_local_epsilon():
    net = replace(TWELVE, dropouts=4)
    assert guarantee(net, Claim(colluding=(1, 2, 3))).worst < 2
    beyond = guarantee(net, Claim(colluding=(1, 2, 3, 4)))
    assert beyond.worst == pytest.approx(float(beyond.epsilon_local[0]))
    assert any("two sums opened" in line for line in beyond.assumptions)


def test_cover_noise_is_implied():
    net = Network.uniform(num_devices=12, participation=0.9, channel=SECURE, cover_noise=False)
    assert net.cover_noise
    covered = Network.uniform(num_devices=12, participation=0.9, cover_noise=True)
    assert np.array_equal(guarantee(net).epsilon, guarantee(covered).epsilon)
    assert any("the adversary does not learn who took part" in line for line in guarantee(net).assumptions)


def test_removal_shows():
    report = guarantee(TWELVE, Claim(neighbours="remove"))
    assert np.isinf(report.worst)
    assert any("sees which devices send" in line for line in report.assumptions)


def test_the_report_says_which_integers():
    text = " ".join(guarantee(TWELVE).assumptions)
    assert f"modulo 2^32 on a grid of {ring_of(TWELVE).step:.3g}" in text
    assert "probability below 1e-12" in text
    assert "receiver" not in text
    assert "antenna" not in text


def test_a_network_that_cannot_run_says_so_and_has_an_epsilon_all_the_same():
    net = Network(devices=Devices(count=3, noise_std=1e-20, clip_norm=1e9), channel=SECURE)
    report = guarantee(net)
    assert any("cannot run" in line for line in report.assumptions)
    assert report.worst > 1e6


@pytest.mark.parametrize(("participation", "std"), [(1.0, 0.02), (0.7, 0.3)])
def test_level_and_link_have_no_radio_in_them(participation, std):
    net = Network(
        devices=Devices(count=5, noise_std=std, participation=participation, power_dbm=-80.0, path_loss_db=60.0),
        channel=SECURE,
        dimension=7,
    )
    link = link_of(net)
    assert link.gamma == 1
    assert np.all(link.outage == 0)
    assert level(net).noise_std == pytest.approx(std * np.sqrt(5))
    assert level(net).signal == pytest.approx(participation)


@pytest.mark.parametrize(
    "setting",
    [
        {"fading": "rician"},
        {"noise_std": 0.1},
        {"csi_error_std": 0.1},
        {"phase_error_std": 0.1},
        {"gamma": 1.0},
        {"power_rule": "backoff"},
        {"antennas": 2},
    ],
)
def test_settings_of_a_radio_are_refused(setting):
    with pytest.raises(NetworkError, match=f"channel.{next(iter(setting))}=.* access = secure has no radio"):
        Channel(access="secure", **setting)


def test_an_eavesdropper_with_antennas_is_refused():
    with pytest.raises(NetworkError, match=r"adversary\.antennas=2 must be 0"):
        Network(devices=Devices(count=4), channel=SECURE, adversary=Adversary(antennas=2))


@pytest.mark.parametrize(("count", "dropouts", "colluders", "most"), [(12, 6, 0, 5), (12, 4, 4, 3), (3, 1, 1, 0)])
def test_too_many_dropouts_are_refused(count, dropouts, colluders, most):
    with pytest.raises(NetworkError, match=f"dropouts={dropouts} must be at most {most} with access = secure"):
        Network(devices=Devices(count=count), channel=SECURE, dropouts=dropouts, colluders=colluders)
    Network(devices=Devices(count=count), channel=SECURE, dropouts=most, colluders=colluders)


def test_one_device_is_refused():
    with pytest.raises(NetworkError, match="at least 2 devices"):
        Network(devices=Devices(count=1), channel=SECURE)


def test_the_network_file_keeps_it():
    net = replace(TWELVE, dropouts=4, colluders=1, scheme=Threshold())
    assert network_file.parse(network_file.dump(net)) == net


def test_calibration_meets_the_target_at_the_survivors():
    net = calibrate(replace(TWELVE, dropouts=4, colluders=2), epsilon=2.0)
    assert 2.0 * (1 - 1e-3) < guarantee(net).worst <= 2.0


def test_a_live_device_sends_values_of_the_grid_whatever_its_power():
    net = replace(TWELVE, devices=replace(TWELVE.devices, power_dbm=-200.0, participation=0.5))
    sent = signal(np.ones(40), net, device=3, gain=1.0)
    ring = ring_of(net)
    assert sent.sends
    assert np.array_equal(ring.decode(ring.encode(sent.samples)), sent.samples)
    assert sent.report is not None
    assert sent.report.claim.live


def test_the_audit_plays_against_it_and_catches_half_the_noise():
    half = replace(TWELVE, devices=replace(TWELVE.devices, noise_std=TWELVE.devices.column("noise_std")[0] / 2))
    claim = Claim(delta=0.05)
    claimed = guarantee(replace(TWELVE, dimension=1), claim).worst
    honest, cheating = (
        audited(replace(net, dimension=1), claim, 0, claimed_epsilon=claimed, runs=20_000, seed=0)
        for net in (TWELVE, half)
    )
    assert honest.epsilon_lower <= claimed < cheating.epsilon_lower


@pytest.mark.parametrize("command", ["epsilon", "calibrate"])
def test_commands_take_it(command, capsys):
    from airpool.cli import main

    more = ["--epsilon", "2"] if command == "calibrate" else []
    arguments = ["airpool", command, "--devices", "12", "--access", "secure", "--dropouts", "4", *more]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", arguments)
        with pytest.raises(SystemExit) as end:
            main()
    assert not end.value.code
    assert "opened for at least 8 of 12 devices" in " ".join(capsys.readouterr().out.split())
