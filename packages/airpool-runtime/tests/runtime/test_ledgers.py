"""Devices with ledgers, as real processes over TLS: killed, restarted, restored; never more than the budget is sent."""

import asyncio
import random
import shutil
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from airpool import Claim, Network, guarantee, write_network
from airpool_runtime import secured, telling, transport, up
from airpool_runtime import wire_pb2 as wire
from airpool_runtime.charge import NotSentError
from airpool_runtime.keys import authority
from airpool_runtime.ledger import backup
from airpool_runtime.ledger.budget import Budget
from airpool_runtime.ledger.fleet import Fleet
from airpool_runtime.ledger.ledger import Ledger
from airpool_runtime.ledger.mechanism import mechanism
from airpool_runtime.standing import FORGIVEN_AFTER
from airpool_runtime.telling import FleetKeeper
from airpool_runtime.wire_pb2_grpc import FleetServicer, FleetStub, add_FleetServicer_to_server

from .systems import network, small

COUNT, R = 3, 40
NET = Network.uniform(num_devices=COUNT, dimension=R, noise_std=0.3)


def keys_for(folder, count):
    authority.create(folder)
    for k in range(count):
        authority.add(folder, f"device-{k}")
    return folder


def epsilon_of(net, number, k=0):
    return float(guarantee(net, Claim(inferences=number, live=True)).epsilon[k])


# In one process


@pytest.mark.parametrize("medium", ["loopback", "grpc"])
def test_the_inference_beyond_the_budget_is_not_transmitted_after_restarts_too(medium, tmp_path, booked):
    net, keys = network(), keys_for(tmp_path / "keys", 4)
    (tmp_path / "ledgers").mkdir()
    budgets = [Budget(epsilon_of(net, 5))]

    async def play(number):
        charges = [
            booked(tmp_path / "ledgers", keys / f"device-{k}" / "identity.key", net, k, budgets) for k in range(4)
        ]
        try:
            async with small(net, medium, charges=charges, patience=0.2) as system:
                return [result.status for result in await system.infer(number)]
        finally:
            for charge in charges:
                charge.close()

    said = asyncio.run(play(3)) + asyncio.run(play(4))
    assert said == ["answered"] * 5 + ["below quorum"] * 2
    for k in range(4):
        assert len(backup.content(tmp_path / "ledgers" / f"device-{k}.db").rows) == 5


def test_silent_rounds_are_charged_too(tmp_path, booked):
    net, keys = network(participation=0.3), keys_for(tmp_path / "keys", 4)
    (tmp_path / "ledgers").mkdir()

    async def play():
        charges = [booked(tmp_path / "ledgers", keys / f"device-{k}" / "identity.key", net, k, []) for k in range(4)]
        async with small(net, charges=charges) as system:
            return [result.status for result in await system.infer(12)]

    said = asyncio.run(play())
    assert set(said) <= {"answered", "no answer"}
    for k in range(4):
        assert len(backup.content(tmp_path / "ledgers" / f"device-{k}.db").rows) == 12


def test_an_announcement_that_is_repeated_is_not_answered_again(tmp_path, booked):
    net, keys = network(), keys_for(tmp_path / "keys", 1)
    charge = booked(tmp_path / "ledger.db", keys / "device-0" / "identity.key", net, 0, [])
    charge.charge_all([("a", "")])
    with pytest.raises(NotSentError, match="charged before"):
        charge.charge_all([("a", "")])
    charge._ledger.path.unlink()
    assert (charge.refusal() or "").startswith("missing: ")
    with pytest.raises(NotSentError, match="missing: "):
        charge.charge_all([("b", "")])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ledger", "l.db"], "--ledger needs --key"),
        (["--budget-epsilon", "1"], "--budget-epsilon needs --ledger"),
        (["--ledger", "l.db", "--keys", "keys/device-0", "--simulate", "1"], "--ledger does not go with --simulate"),
        (["--ledger", "l.db", "--keys", "keys", "--device", "0-1"], "l.db must be a folder"),
        (["--scene", "a"], "--scene needs --ledger"),
        (["--ledger", "l.db", "--keys", "keys/device-0", "--window-epsilon", "1"], "--window-seconds go together"),
        (["--ledger", "l.db", "--keys", "keys/device-0", "--scene-epsilon", "1"], "--scene-epsilon needs --scene"),
        (["--keys", "keys/device-1"], "holds the keys of device-1, must be those of device-0"),
        (["--ledger", "l.db", "--keys", "keys/device-0", "--scene", "x" * 201], "must have at most 200"),
        (["--keys", "none"], "none/device-0/ca.crt: No such file"),
        (["--ledger", "l.db", "--keys", "keys/device-0", "--budget-epsilon", "0"], "budget epsilon=0.0 must be > 0"),
    ],
)
def test_options_that_do_not_fit_are_an_error_of_one_line(options, said, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("airpool_runtime.logs._state", {"role": "", "on": False})
    keys_for(tmp_path / "keys", 2)
    write_network(NET, "net.toml")
    view = [] if "--device" in options else ["--device", "0"]
    assert said in refused("device", "--network", "net.toml", "--air", "127.0.0.1:1", *view, *options)


# The fleet


@asynccontextmanager
async def telling_server(folder, keys):
    """A view behind a server with certificates, and channels to it by name."""
    url = f"sqlite:///{folder}/fleet.db"
    view, keeper = Fleet(url), FleetKeeper(url)
    shown = secured.credentials(keys / "server", "server")
    service = telling.FleetService(keeper, shown)
    server, at = await transport.serve("127.0.0.1:0", lambda it: add_FleetServicer_to_server(service, it), shown)
    channels = {}
    try:
        for k in range(2):
            name = f"device-{k}"
            channels[name] = transport.channel(at, secured.credentials(keys / name, name), role="server")
        yield view, channels
    finally:
        for channel in channels.values():
            await channel.close()
        await server.stop(0)
        await keeper.stop()
        view.close()


def test_devices_tell_the_fleet_and_learn_that_they_were_restored(tmp_path, monkeypatch, booked):
    monkeypatch.setattr(telling, "_ROWS", 3)
    net, keys = network(), keys_for(tmp_path / "keys", 2)
    path, key = tmp_path / "ledger.db", keys / "device-0" / "identity.key"

    def open_ledger(seen=None):
        return booked(path, key, net, 0, [], seen=seen)

    async def play():
        async with telling_server(tmp_path, keys) as (view, channels):
            mine, other = channels["device-0"], channels["device-1"]
            public = secured.public_key(key)
            assert await telling.newest(mine, public) is None
            charge = open_ledger()
            for i in range(7):
                charge.charge_all([(f"{i}", "")])
            assert await telling.tell(mine, path) == 7
            assert await telling.tell(mine, path) == 0
            with pytest.raises(grpc.aio.AioRpcError, match="device-1 must not speak for device-0"):
                await telling.tell(other, path)
            assert await telling.newest(other, public) is None
            for wrong in ("rubbish", "{}", "[" * 100_000):
                with pytest.raises(grpc.aio.AioRpcError, match="is not of"):
                    await FleetStub(mine).ReportLedger(wire.LedgerReport(key=public, export=wrong), timeout=30)
            charge.close()
            for file in (path, key.with_suffix(".head")):  # all is lost, and would begin anew
                file.unlink()
            with pytest.raises(ValueError, match=r"restored: .* lacks row 7, which the fleet has"):
                open_ledger(seen=await telling.newest(mine, public))
            return [(each.device, each.inferences) for each in view.accounts(1e-5)]

    assert asyncio.run(play()) == [("device-0", 7)]


@pytest.mark.parametrize("row", ["[" * 100_000, "5", "{}", "[1e999]", '["x"]', f"[{10**30}]", "[0]", '{"0": 1}', "[]"])
def test_a_view_that_answers_nonsense_changes_nothing(tmp_path, monkeypatch, row, booked):
    class Liar(FleetServicer):
        async def ReportLedger(self, request, context):  # noqa: N802
            return wire.LedgerHead(row=row)

    monkeypatch.setattr(telling, "_EVERY_SECONDS", 0.05)
    keys = keys_for(tmp_path / "keys", 1)
    charge = booked(tmp_path / "ledger.db", keys / "device-0" / "identity.key", network(), 0, [])
    charge.charge_all([("a", "")])

    async def play():
        server, at = await transport.serve("127.0.0.1:0", lambda it: add_FleetServicer_to_server(Liar(), it))
        async with transport.channel(at, role="server") as channel:
            assert await telling.newest(channel, "00") is None
            with pytest.raises((ValueError, TypeError, LookupError, ArithmeticError, RecursionError)):
                await asyncio.wait_for(telling.tell(channel, charge.path), 30)
            task = asyncio.create_task(telling.telling(channel, charge.path))
            await asyncio.sleep(0.3)
            goes_on = not task.done()
            task.cancel()
        await server.stop(0)
        return goes_on

    assert asyncio.run(play())


def test_a_view_that_cannot_be_reached_changes_nothing(tmp_path):
    async def play():
        async with transport.channel("127.0.0.1:9", role="server") as channel:
            return await telling.newest(channel, "00")

    assert asyncio.run(play()) is None


# As processes


@asynccontextmanager
async def running(folder, *, epsilon=None, processes=COUNT):
    (folder / "ledgers").mkdir(exist_ok=True)
    options = {"ledger": folder / "ledgers", "budget_epsilon": epsilon}
    setup = up.Setup(NET, processes, slot_seconds=20.0, device_options=options, keys=folder / "keys")
    async with up.running(setup) as system, up.client(system) as client:

        async def infer():
            return await client.Infer(wire.Nothing(), timeout=60)

        yield system, infer


def ledger_of(folder, k):
    found = backup.content(folder / "ledgers" / f"device-{k}.db")
    wrong = list(backup.faults(found, head=folder / "keys" / f"device-{k}" / "identity.head"))
    assert wrong == []
    return [row.inference for row in found.rows]


@pytest.mark.check
def test_kill_9_between_announcement_and_result(tmp_path):
    """Ten kills in mid-inference; with a quorum of all, an answer means that every device has transmitted.

    Between two kills each device serves enough inferences to be forgiven: else the air sets the one that was killed
    several times aside, for 30, 60, 120 s.
    """
    keys_for(tmp_path / "keys", COUNT)
    rng = random.Random(5)

    async def play():
        answered, spent = [], []
        async with running(tmp_path) as (system, infer):
            for _ in range(10):
                for _ in range(FORGIVEN_AFTER + rng.randrange(3)):
                    result = await infer()
                    (answered if result.status == "answered" else spent).append(result.id)
                going = asyncio.create_task(infer())
                await asyncio.sleep(rng.random() * 0.03)
                name = rng.choice(system.device_names)
                await system.roles[name].kill()
                result = await going
                (answered if result.status == "answered" else spent).append(result.id)
                await system.start(name)
                await system.ready(COUNT)
            while (result := await infer()).status != "answered":
                await asyncio.sleep(0.1)
            answered.append(result.id)
        return answered, spent

    answered, spent = asyncio.run(play())
    assert len(answered) > 3
    for k in range(COUNT):
        charged = ledger_of(tmp_path, k)
        assert len(set(charged)) == len(charged)
        assert set(answered) <= set(charged) <= set(answered) | set(spent)


@pytest.mark.check
def test_the_fifty_first_inference_is_not_transmitted(tmp_path):
    """Also after a restart, and after an old copy of a ledger was put back; and nothing secret is logged."""
    keys = keys_for(tmp_path / "keys", COUNT)
    epsilon, said = epsilon_of(NET, 50), []

    async def play(number):
        async with running(tmp_path, epsilon=epsilon, processes=1) as (system, infer):
            found = [(await infer()).status for _ in range(number)]
            said.append("".join(path.read_text() for path in system.folder.glob("*.log")))
            return found

    first = asyncio.run(play(30))
    backup.copy(tmp_path / "ledgers" / "device-1.db", tmp_path / "old.db")
    second = asyncio.run(play(22))
    assert first + second == ["answered"] * 50 + ["below quorum"] * 2
    assert "over budget: the budget for all inferences" in said[-1]
    for k in range(COUNT):
        assert len(ledger_of(tmp_path, k)) == 50
    shutil.copy(tmp_path / "old.db", tmp_path / "ledgers" / "device-1.db")
    with pytest.raises(OSError, match=r"restored: .* cut off: the ledger ends with row 30, but 50 rows were written"):
        asyncio.run(play(1))
    everything = "".join(said)
    assert everything
    for path in keys.rglob("*.key"):
        assert path.read_text().splitlines()[1] not in everything


@pytest.mark.check
def test_up_takes_keys_and_ledgers(tmp_path):
    keys_for(tmp_path / "keys", 2)
    command: list[str | Path] = [sys.executable, "-m", "airpool", "up", "--devices", "2", "--noise-std", "0.3"]
    command += ["--inferences", "3"]
    command += ["--keys", tmp_path / "keys", "--ledger", tmp_path / "ledgers", "--processes", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    net = Network.uniform(num_devices=2, dimension=R, noise_std=0.3)
    with Ledger(tmp_path / "ledgers" / "device-0.db", Path(tmp_path / "keys" / "device-0" / "identity.key")) as ledger:
        assert ledger.epsilon(1e-5) == pytest.approx(epsilon_of(net, 3), rel=0.01)
        assert ledger.tip.seq == 3
        first = backup.content(ledger.path).rows[0].inference
        assert not ledger.charge(first, mechanism(net, device=0)).new
    for budget, why in (("0.01", "one inference costs device 0"), ("6", "airpool device 0-1 does not take part: over")):
        again = [*command, "--budget-epsilon", budget]  # less than one inference; less than was spent
        done = subprocess.run(again, capture_output=True, text=True, check=False, timeout=300, cwd=tmp_path)
        assert done.returncode == 2
        assert why in done.stderr
