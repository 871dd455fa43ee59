"""The commands of the roles: their errors in one line, and what `up` makes of its options."""

import sys
from typing import Any

import pytest

from airpool import Channel, Claim, Network, calibrate, guarantee
from airpool.cli import main
from airpool.cli.options import NetworkOptions
from airpool.network import file as network_file
from airpool_runtime.cli.up import network_of
from airpool_runtime.roles import indices_of
from airpool_runtime.up import Process, RunTally, Setup, System


def command(monkeypatch, capsys, *args):
    """Exit status and the last line on stderr."""
    monkeypatch.setattr(sys, "argv", ["airpool", *args])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, capsys.readouterr().err.strip().splitlines()[-1]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "net.toml"
    network_file.write(Network.uniform(num_devices=4, dimension=40, dropouts=1), path)
    return str(path)


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("air", "--listen", "0.0.0.0:0"), "beyond this machine: without certificates only loopback is allowed"),
        (("air", "--quorum", "2"), "--quorum 2 must be from 3 to 4"),
        (("air", "--slot-seconds", "0"), "--slot-seconds 0 must be > 0"),
        (("air", "--simulate", "-1"), "the seed of a simulated run, -1, must be >= 0"),
        (("ranking",), "scheme.name='1' must be 2.2"),
        (("device", "--air", "127.0.0.1:1", "--device", "4"), "--device 4 must be from 0 to 3"),
        (("device", "--air", "127.0.0.1:1", "--device", "3-1"), "--device 3-1 must be from 0 to 3"),
        (("device", "--air", "10.0.0.1:1", "--device", "0"), "beyond this machine"),
        (("device", "--air", "127.0.0.1:1", "--device", "0", "--source", "mesh:x.off"), "give --bundle FILE"),
        (("server", "--air", "nowhere"), "address 'nowhere' must be HOST:PORT"),
        (("server", "--air", "127.0.0.1:1", "--http", "nowhere"), "address 'nowhere' must be HOST:PORT"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_errors_are_one_line_and_status_2(args, why, file, monkeypatch, capsys):
    code, line = command(monkeypatch, capsys, args[0], "--network", file, *args[1:])
    assert code == 2
    assert line.startswith("error: ")
    assert why in line


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("--source", "nonsense"), "--source nonsense must be latents:MODEL/SPLIT"),
        (("--source", "nonsense:x"), "No module named 'nonsense'"),
        (("--source", "images:none"), "give --bundle FILE"),
        (("--quorum", "5", "--devices", "3"), "--quorum 5 must be 3, all devices"),
        (("--budget-epsilon", "3"), "--budget-epsilon needs --ledger"),
        (("--ledger", "l"), "--ledger needs --keys"),
        (("--frame-window", "-1"), "--frame-window -1 must be from 0 to 3600"),
        (("--slot-seconds", "0"), "--slot-seconds 0 must be > 0"),
        (("--bundle", "none.zip"), "does not go with a source of latents"),
        (("--bundle", "none.zip", "--source", "os:getcwd"), "--bundle none.zip: no such file"),
        (("--http", "1.2.3.4:80"), "beyond this machine"),
        (("--source", "video:demo", "--model", "wearables"), "goes with --model modelnet40 alone"),
        (("--keys", "none"), "none/air/ca.crt: No such file"),
        (("--simulate", "1", "--keys", "none", "--ledger", "l"), "--ledger does not go with --simulate"),
        (("--keys", "none", "--ledger", "l/m", "--budget-epsilon", "0.01"), "one inference costs device 0 ε = "),
        (
            ("--keys", "none", "--ledger", "l", "--day-epsilon", "0.5", "--slots", "16"),
            "one inference of up to 16 slots",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_up_refuses_what_cannot_work_before_any_process_starts(args, why, monkeypatch, capsys, tmp_path):
    async def started(*_, **__):
        raise AssertionError("a process was started")

    monkeypatch.setattr(Process, "started", started)
    monkeypatch.chdir(tmp_path)
    code, line = command(monkeypatch, capsys, "up", "--noise-std", "0.3", *args)
    assert code == 2
    assert why in line
    assert not list(tmp_path.iterdir())


def test_a_range_of_views():
    assert indices_of("0-49", 200) == list(range(50))


def made(epsilon=None, *, live=True, **given):
    wanted = NetworkOptions(None, given)
    return network_of(wanted, wanted.claim(live=live), epsilon, 0.1, "modelnet40", None)


def test_up_calibrates_to_epsilon_two_unless_noise_is_given():
    plain = made()
    assert (plain.devices.count, plain.dimension) == (12, 40)
    assert 1.99 < guarantee(plain, Claim(live=True)).worst <= 2
    noisy = made(noise_std=0.3, devices=3)
    assert noisy.devices.noise_std == (0.3,) * 3
    assert guarantee(made(3.0, scheme="2.1"), Claim(live=True)).worst <= 3


RICIAN: dict[str, Any] = {"fading": "rician", "power_rule": "backoff"}


@pytest.mark.parametrize(
    "given",
    [
        RICIAN,
        {"fading": "rician", "csi_error_std": 0.05},
        {**RICIAN, "scheme": "2.2", "num_selected": 8},
        {**RICIAN, "scheme": "2.1"},
        {**RICIAN, "slots": 16},
        {**RICIAN, "slots": 4, "slots_redrawn": False},
        {**RICIAN, "neighbours": "replace", "cover_noise": True, "participation": 0.9},
        {"neighbours": "remove", "receiver_noise_std": 0.1},
        {"access": "secure", "dropouts": 2, "colluders": 1},
    ],
    ids=str,
)
def test_up_meets_its_target_with_the_noise_that_its_devices_draw(given):
    claim = NetworkOptions(None, given).claim(live=True)
    assert guarantee(made(3.0, **given), claim).worst <= 3


def test_seeded_processes_need_no_live_noise():
    assert guarantee(made(**RICIAN, live=False)).worst == pytest.approx(2)
    assert guarantee(made(**RICIAN, live=False), Claim(live=True)).worst > 8


def test_up_warns_where_the_target_of_a_file_is_missed(tmp_path, capsys):
    net = Network.uniform(num_devices=12, dimension=40, channel=Channel(**RICIAN))
    wanted = NetworkOptions(tmp_path / "net.toml", {})
    for live, warned in ((True, False), (False, True)):
        network_file.write(calibrate(net, Claim(live=live), epsilon=2.0), tmp_path / "net.toml")
        network_of(wanted, Claim(live=True), None, 0.1, "modelnet40", None)
        told = capsys.readouterr().err
        assert ("ε of device 0 is 8.346, above its target of 2" in told) == warned
    network_of(wanted, Claim(), None, 0.1, "modelnet40", None)
    assert "warning" not in capsys.readouterr().err


def test_devices_are_spread_over_processes(tmp_path):
    setup = Setup(Network.uniform(num_devices=5), 2)
    assert System(setup, tmp_path).device_names == ["device 0-2", "device 3-4"]
    with pytest.raises(ValueError, match="processes=6 must be from 1 to 5"):
        Setup(Network.uniform(num_devices=5), 6)


def test_a_tally_of_nothing_has_a_record():
    record = RunTally([1, 2]).record(0.0)
    assert record["inferences"] == 0
    assert record["accuracy"] is None
