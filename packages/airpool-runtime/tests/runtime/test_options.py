"""Options of the roles as data: file, flags, environment; and a check of a file without a start."""

import json
import socket
import sys
from dataclasses import fields
from typing import Any, cast

import pytest

from airpool import Claim, Network
from airpool.cli import load_command, main
from airpool.network import Neighbours
from airpool.network import file as network_file
from airpool_runtime import options as o
from airpool_runtime import up
from airpool_runtime.cli.running import merged
from airpool_runtime.keys import authority


def command(monkeypatch, capsys, *args):
    """Exit status, stdout and stderr of a command."""
    monkeypatch.setattr(sys, "argv", ["airpool", *map(str, args)])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


@pytest.fixture
def folder(tmp_path):
    network_file.write(Network.uniform(num_devices=4, dimension=40, dropouts=1), tmp_path / "net.toml")
    return tmp_path


def written(folder, text):
    path = folder / "role.toml"
    path.write_text(text, "utf-8")
    return path


DEVICE = 'role = "device"\nnetwork = "net.toml"\nair = "127.0.0.1:7001"\ndevice = "3"\n'


def test_a_file_gives_options_by_the_names_of_the_flags_and_paths_are_beside_it(folder):
    found = o.read(written(folder, DEVICE + 'budget-epsilon = 8\nledger = "l.db"\naccept_plugin = ["ab"]\n'))
    assert isinstance(found, o.DeviceOptions)
    assert (found.network, found.ledger) == (folder / "net.toml", folder / "l.db")
    assert (found.budget_epsilon, found.device, found.accept_plugin) == (8.0, "3", ("ab",))


def test_a_flag_wins_over_the_file_and_the_file_over_the_default(folder):
    file = written(folder, 'network = "net.toml"\nslot_seconds = 2\nquorum = 3\n')
    found = merged(o.AirOptions, file, {"quorum": 4})
    assert isinstance(found, o.AirOptions)
    assert (found.slot_seconds, found.quorum, found.patience) == (2.0, 4, 1.0)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("role = 'cook'", "role = 'cook' must be one of air, ranking, server, device"),
        (DEVICE + "budjet = 8", "unknown option 'budjet' of device; known are network, keys"),
        (DEVICE + "threads = 1.5", "threads=1.5 must be a whole number"),
        (DEVICE + "threads = true", "threads=True must be a whole number"),
        (DEVICE + "source = 3", "source=3 must be text"),
        (DEVICE + "accept_plugin = 'x'", "accept_plugin='x' must be a list of texts"),
        (DEVICE + "drain_seconds = -1", "drain_seconds=-1 must be >= 0"),
        (DEVICE + "drain_seconds = nan", "drain_seconds=nan must be >= 0 and finite"),
        (DEVICE + "drain_seconds = inf", "drain_seconds=inf must be >= 0 and finite"),
        ("role = ['air']", "role = ['air'] must be one of air, ranking, server, device"),
        ("role = 'device'\nnetwork = 'net.toml'", "--air is missing: give it as an option, or air in the file"),
        ("role = 'server'\nnetwork = 'net.toml'\nair = 'x:1'\ntoken = 'x'", "unknown option 'token' of server"),
        ("role = ", "not valid TOML"),
    ],
)
def test_a_wrong_file_is_an_error_that_says_what_is_allowed(folder, text, why, monkeypatch, capsys):
    code, _, err = command(monkeypatch, capsys, "check", written(folder, text))
    assert code == 2
    assert why in err
    assert "role.toml" in err


def test_secrets_come_from_the_environment_and_are_not_shown(folder, monkeypatch):
    monkeypatch.setenv("AIRPOOL_TOKEN", "secret-token-0123456789")
    monkeypatch.setenv("AIRPOOL_FLEET", "sqlite:///env.db")
    given = {"network": folder / "net.toml", "air": "127.0.0.1:1"}
    found = o.made(o.ServerOptions, given)
    assert (found.token, found.fleet) == ("secret-token-0123456789", "sqlite:///env.db")
    assert "secret-token" not in repr(found)
    assert "token" not in o.data_of(found)
    assert o.made(o.ServerOptions, given, {"fleet": "sqlite:///flag.db"}).fleet == "sqlite:///flag.db"


def test_a_file_of_another_role_is_refused(folder, monkeypatch, capsys):
    code, _, err = command(monkeypatch, capsys, "air", "--config", written(folder, DEVICE))
    assert code == 2
    assert "is of the role 'device', not of 'air'" in err


def test_options_travel_as_data_and_read_back(folder):
    setup = up.Setup(Network.uniform(num_devices=4), 2, quorum=3, device_options={"threads": 7})
    system = up.System(setup, folder)
    system.roles = {name: up.Process(cast(Any, None), {"address": "127.0.0.1:7"}) for name in ("air", "ranking")}
    for name in ("air", "ranking", "server", "device 0-1"):
        found = system.options(name, "127.0.0.1:0")
        path = folder / f"{name}.json"
        path.write_text(json.dumps(o.data_of(found)), "utf-8")
        assert o.read(path) == found
    assert cast(Any, o.read(folder / "device 0-1.json")).threads == 7


# A check without a start


@pytest.fixture
def keys(folder):
    authority.create(folder / "keys")
    authority.add(folder / "keys", "device-3")
    return folder / "keys"


FILES = {
    "air": 'role = "air"\nnetwork = "net.toml"\nkeys = "keys/air"\nlisten = "0.0.0.0:7001"\n',
    "ranking": 'role = "ranking"\nnetwork = "ranked.toml"\n',
    "server": 'role = "server"\nnetwork = "net.toml"\nair = "127.0.0.1:7001"\nhttp = "127.0.0.1:0"\n',
    "device": DEVICE + 'keys = "keys/device-3"\nledger = "l.db"\nbudget_epsilon = 80\n',
}


@pytest.mark.parametrize("role", FILES)
def test_check_finds_nothing_wrong_and_opens_no_socket(folder, keys, role, monkeypatch, capsys):
    from airpool import Ranking

    network_file.write(Network.uniform(num_devices=4, scheme=Ranking(num_selected=2)), folder / "ranked.toml")

    def forbidden(*_, **__):
        raise AssertionError("a socket")

    monkeypatch.setattr(socket.socket, "connect", forbidden)
    monkeypatch.setattr(socket.socket, "bind", forbidden)
    monkeypatch.setattr("airpool_runtime.transport.serve", forbidden)
    monkeypatch.setattr("airpool_runtime.transport.channel", forbidden)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")} | {written(folder, FILES[role]): None}
    code, out, err = command(monkeypatch, capsys, "check", folder / "role.toml")
    assert (code, err) == (0, "")
    assert f"{role} would start" in out
    assert set(folder.rglob("*")) == set(before) | {folder / "role.toml"}


@pytest.mark.parametrize(
    ("role", "more", "why"),
    [
        ("air", "quorum = 2\n", "quorum=2 must be from 3 to 4"),
        ("air", 'metrics = "0.0.0.0:9000"\n', "beyond this machine"),
        ("server", 'model = "nowhere"\n', "nowhere"),
        ("server", 'token_file = "no-token"\n', "no-token"),
        ("device", 'ranking = "nowhere"\n', "address 'nowhere' must be HOST:PORT"),
        ("device", "simulate = 1\n", "--ledger does not go with --simulate"),
        ("device", "window_epsilon = 1\n", "--window-epsilon and --window-seconds go together"),
        ("device", "event_epsilon = 1\n", "--event-epsilon and --event-inferences go together"),
        ("device", "event_inferences = 1\n", "--event-epsilon and --event-inferences go together"),
        ("device", 'head = "there.head"\n', "l.db is missing, but rows were written to it"),
        ("device", 'source = "mesh:x.off"\n', "give --bundle FILE"),
    ],
)
def test_check_says_what_a_start_would(folder, keys, role, more, why, monkeypatch, capsys):
    (folder / "there.head").write_bytes(b"")
    code, _, err = command(monkeypatch, capsys, "check", written(folder, FILES[role] + more))
    assert code == 2
    assert why in err


def test_check_finds_a_damaged_ledger(folder, keys, monkeypatch, capsys):
    from airpool_runtime.ledger.ledger import Ledger
    from airpool_runtime.ledger.mechanism import mechanism

    with Ledger(folder / "l.db", keys / "device-3" / "identity.key", device="device-3") as ledger:
        ledger.charge("a", mechanism(network_file.read(folder / "net.toml"), device=3))
    file = written(folder, FILES["device"])
    assert command(monkeypatch, capsys, "check", file)[0] == 0
    (keys / "device-3" / "identity.head").unlink()
    code, _, err = command(monkeypatch, capsys, "check", file)
    assert code == 2
    assert "identity.head is missing or damaged" in err


def test_every_option_has_a_flag_with_help():
    import typer

    for role, kind in o.ROLES.items():
        loaded = typer.main.get_command(load_command(role))
        flags = {name for parameter in loaded.params for name in parameter.opts}
        known = o.flags_of(kind)
        for f in fields(kind):
            assert known[f.name].secret or (f"--{f.name.replace('_', '-')}" in flags and known[f.name].help)


def test_budgets_are_of_the_claim_of_the_file(folder):
    from airpool_runtime.charge import budgets_of

    given = {"network": folder / "net.toml", "air": "127.0.0.1:1", "device": "0", "budget_epsilon": 1.0}
    net, claim = network_file.read(folder / "net.toml"), Claim(1e-6, Neighbours.REMOVE)
    (budget,) = budgets_of(o.made(o.DeviceOptions, given), net, claim)
    assert (budget.delta, budget.neighbours) == (1e-6, "remove")


def test_a_range_of_devices_is_checked_before_it_is_listed():
    from airpool_runtime.roles import indices_of

    with pytest.raises(ValueError, match="--device 0-99999999999999 must be from 0 to 3"):
        indices_of("0-99999999999999", 4)
