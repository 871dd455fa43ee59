"""Secure access over both media: the same results as in the simulator, vanishing devices, kills of real processes."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from airpool import Network, Ranking, Threshold
from airpool.network import Channel, Slots
from airpool.network import file as network_file
from airpool.protocol.live import live_report
from airpool.protocol.ring import Ring
from airpool_runtime import secure_medium, secured, terms, transport, up
from airpool_runtime.air import Air
from airpool_runtime.charge import Counted
from airpool_runtime.keys import authority
from airpool_runtime.loopback import LoopbackDevice
from airpool_runtime.medium import PortOptions
from airpool_runtime.messages import RejectedError, RoundMessage, SlotSignal, Sum, Withheld
from airpool_runtime.options import DeviceOptions
from airpool_runtime.remote import RemoteServer
from airpool_runtime.secure.group import Terms
from airpool_runtime.secure.messages import RefusedError, kind_of
from airpool_runtime.secure.rehearsal import rehearse, sessions
from airpool_runtime.secure_medium import SecureDevice
from airpool_runtime.server import Server
from airpool_runtime.service import AirService
from airpool_runtime.wire_pb2_grpc import add_AirServicer_to_server

from .systems import decoder, network, simulated, small

SECURE = Channel(access="secure")
MEDIA = ("loopback", "grpc")
LONG = 120.0  # seconds, of slots that wait for processes on a busy machine
NETWORKS = {
    "everybody": network(channel=SECURE),
    "coin": network(participation=0.5, channel=SECURE),
    "threshold": network(scheme=Threshold(score_bound=1.0, threshold=0.5), channel=SECURE),
    "slots": network(noise_std=0.4, slots=Slots(5, sure=0.9), channel=SECURE),
    "slots drawn once": network(participation=0.7, slots=Slots(3, sure=0.99, redrawn=False), channel=SECURE),
    "ranking": network(scheme=Ranking(score_bound=1.0, num_selected=2), channel=SECURE),
}
TOLERANT = network(6, channel=SECURE, dropouts=2)


def securely(net, of=None, quorum=None):
    """Ports with fresh identities."""
    known = sessions(net.devices.count) if of is None else of
    return lambda line, k: SecureDevice(line, known[k], net, quorum=quorum)


def run(coroutine):
    return asyncio.run(coroutine)


@pytest.mark.parametrize("medium", MEDIA)
@pytest.mark.parametrize("name", NETWORKS)
def test_one_seed_gives_what_the_simulator_gives(name, medium):
    net = NETWORKS[name]

    async def play():
        async with small(net, medium, seed=5, secured=securely(net)) as system:
            return await system.infer(4)

    for result in run(play()):
        out = simulated(net, result.number)
        assert result.label == out.label[0, 0]
        np.testing.assert_allclose(result.logits, out.logits[0, 0], atol=1e-5)
        assert result.simulated


@pytest.mark.parametrize("medium", MEDIA)
def test_a_live_run_has_the_live_guarantee(medium):
    async def play():
        async with small(TOLERANT, medium, secured=securely(TOLERANT)) as system:
            return await system.infer(3)

    for result in run(play()):
        assert (result.status, result.devices, result.spent) == ("answered", 6, True)
        assert result.guarantee.device == live_report(TOLERANT).worst


def step_of(message):
    """0: announcement, 1: who shared, 2: who survived, if not all did, 3: signatures."""
    return kind_of(message.content) // 2 if isinstance(message, RoundMessage) else 0


def vanishing(air, device, step):
    """The device is cut off when it would get the message of this step."""
    line = air._standing.connected[device]
    deliver = line.deliver

    def say(message):
        if step_of(message) >= step:
            air.disconnect(device)
        else:
            deliver(message)

    line.deliver = say


@pytest.mark.parametrize("medium", MEDIA)
@pytest.mark.parametrize("step", range(4))
def test_devices_that_vanish_in_any_step_are_done_without_down_to_t(step, medium):
    charges = {k: Counted() for k in range(6)}

    async def play():
        async with small(TOLERANT, medium, secured=securely(TOLERANT, quorum=4), quorum=4, charges=charges) as system:
            await system.infer()
            for k in (1, 4):
                vanishing(system.air, k, step)
            first = (await system.infer())[0]
            vanishing(system.air, 0, step)
            below = (await system.infer())[0]
            return first, below

    first, below = run(play())
    assert first.status == "answered"
    assert first.devices == (4 if step < 2 else 6)
    assert below.status == "withheld"  # three are left, four must be
    assert below.spent
    assert "must be 4 or more" in below.reason
    assert charges[5].spent == 3  # from the announcement on


def test_below_quorum_nothing_is_announced_and_nothing_spent():
    charges = {k: Counted() for k in range(6)}

    async def play():
        running = range(5)
        async with small(TOLERANT, secured=securely(TOLERANT), running=running, charges=charges) as system:
            return (await system.infer())[0]

    result = run(play())
    assert (result.status, result.spent) == ("below quorum", False)
    assert all(charge.spent == 0 for charge in charges.values())


def test_a_device_of_another_fleet_stops_the_round_and_no_values_leave(monkeypatch):
    """Its channel key is signed by no identity of the roster: the others refuse to share."""
    known = sessions(6)
    strange = [*known[:5], sessions(6)[5]]
    asked = []
    monkeypatch.setattr(SecureDevice, "_taken", lambda self: asked.append(1))

    async def play():
        async with small(TOLERANT, secured=securely(TOLERANT, strange)) as system:
            return (await system.infer())[0]

    result = run(play())
    assert (result.status, result.spent) == ("withheld", True)
    assert asked == []


def test_a_device_of_another_quorum_does_not_take_part_and_the_others_stop():
    """Terms are part of every key: devices that do not agree on them cannot read each other's shares."""
    known = sessions(6)

    def secured(line, k):
        return SecureDevice(line, known[k], TOLERANT, quorum=4 if k == 5 else None)

    async def play():
        async with small(TOLERANT, secured=secured) as system:
            return (await system.infer())[0]

    assert run(play()).status == "withheld"


def test_a_wrong_or_copied_advert_does_not_make_a_device_ready():
    async def play():
        air = Air(network(2, channel=SECURE), patience=0.1)
        for k in range(2):
            air.connect(k, lambda _: pytest.fail("announced"), simulated=False, stated=terms.stated(air.network))
        with pytest.raises(RejectedError, match="an advert of 0 bytes, must be 160"):
            air.ready(1)
        with pytest.raises(RejectedError, match="a key of small order"):
            air.ready(1, advert=bytes(160))
        air.ready(0, advert=bytes([9]) * 160)
        with pytest.raises(RejectedError, match="another device's mask key"):
            air.ready(1, advert=bytes([9]) * 160)
        return await air.run_slot("a", 0, terms.stated(network(2, channel=SECURE)))

    got = run(play())
    assert isinstance(got, Withheld)
    assert got.reason.startswith("below quorum: 1 devices are ready, 2 are needed; device 1: not ready; its advert was")


def test_a_device_that_sends_no_advert_over_grpc_is_told_and_the_others_go_on():
    net = network(3, channel=SECURE, dropouts=1)
    known = sessions(3)

    async def play():
        async with small(net, "grpc", secured=securely(net, known, quorum=2), running=(0, 1), quorum=2) as system:
            stranger = await system.open_port(2)
            await stranger.advertise(b"no advert")
            await stranger.ready()  # nor none at all
            system.ports[2] = stranger
            return (await system.infer())[0]

    result = run(play())
    assert (result.status, result.devices) == ("answered", 2)


@pytest.mark.parametrize("medium", MEDIA)
def test_devices_are_told_when_the_server_is_gone_in_mid_round(medium):
    """They would wait for its next message for ever, and never be ready again."""
    net, known = network(4, channel=SECURE, dropouts=1), sessions(4)
    how = securely(net, known, quorum=3)

    async def play():
        async with small(net, medium, secured=how, running=(0, 1, 2), quorum=3, slot_seconds=60.0) as system:
            stalled = how(await system.open_port(3), 3)
            await stalled.ready()
            held = asyncio.create_task(system.server.port.run_slot("x", 0, terms.stated(net)))
            (await stalled.announcements())[0]
            await asyncio.sleep(0.1)  # the others have shared, and wait for this one
            held.cancel()
            await asyncio.wait([held])
            stalled.close()
            async with asyncio.timeout(20):
                while (await system.air.status()).ready < 3:
                    await asyncio.sleep(0.01)
            return (await system.infer())[0]

    result = run(play())
    assert (result.status, result.devices) == ("answered", 3)


def test_signals_and_parts_go_to_the_networks_that_take_them():
    async def play(net, secured, what):
        async with small(net, secured=secured, running=range(3), quorum=4) as system:
            line = LoopbackDevice(system.air, 3)
            await (line.advertise(sessions(4)[3].channel * 5) if secured else line.ready())
            held = asyncio.create_task(system.air.run_slot("x", 0, terms.stated(net)))
            (await line.announcements())[0]
            with pytest.raises(RejectedError, match="this network takes"):
                what(system.air)
            held.cancel()

    run(play(network(), None, lambda air: air.take(3, RoundMessage("x", b""))))
    net = network(channel=SECURE)
    run(play(net, securely(net), lambda air: air.take(3, SlotSignal("x", np.zeros(6), 1.0))))


def test_a_device_needs_keys():
    with pytest.raises(ValueError, match=r"needs --keys FOLDER: `airpool keys` makes it"):
        secure_medium.SECURE.ports(TOLERANT, [0], PortOptions())


def test_certified_identities_work_together_until_one_is_revoked(tmp_path):
    authority.create(tmp_path / "keys")
    for k in range(3):
        authority.add(tmp_path / "keys", f"device-{k}")
    terms = Terms(3, 3, 3, 0, 2, Ring(1.0, 32))
    values = {k: np.full(2, 10**k, dtype=np.uint64) for k in range(3)}
    whole = [secure_medium.session_of(tmp_path / "keys", k, 3) for k in range(3)]
    total = rehearse(values, terms, whole).outcome.total
    assert total is not None
    assert total.tolist() == [111, 111]
    assert secure_medium.session_of(tmp_path / "keys" / "device-1", 1, 3).device == 1
    with pytest.raises(ValueError, match=r"has no device-3: `airpool keys device device-3`, then copy roster.pem"):
        secure_medium.session_of(tmp_path / "keys", 0, 4)
    authority.revoke(tmp_path / "keys", "device-2")
    with pytest.raises(ValueError, match="device-2 is revoked"):
        secure_medium.session_of(tmp_path / "keys", 2, 3)
    without = [secure_medium.session_of(tmp_path / "keys", k, 3) for k in range(2)]
    with pytest.raises(RefusedError, match="channel key of device 2 is not signed by its identity"):
        rehearse(values, terms, [*without, whole[2]])
    pair = Terms(3, 2, 2, 0, 2, Ring(1.0, 32))
    assert rehearse({k: values[k] for k in range(2)}, pair, without).outcome.survivors == (0, 1)


def test_a_folder_of_keys_without_a_roster_is_refused(tmp_path):
    authority.create(tmp_path / "keys", devices=3)
    (tmp_path / "keys" / "device-1" / "roster.pem").unlink()
    with pytest.raises(ValueError, match=r"device-1.roster.pem: .* copy the authority's roster.pem there"):
        secure_medium.session_of(tmp_path / "keys", 1, 3)


def test_a_folder_alone_holds_all_that_a_device_needs(tmp_path):
    """As a container has it: nothing lies beside its folder of keys."""
    authority.create(tmp_path / "keys")
    for k in range(3):
        authority.add(tmp_path / "keys", f"device-{k}")
    alone = shutil.copytree(tmp_path / "keys" / "device-1", tmp_path / "alone" / "keys")
    assert secure_medium.session_of(alone, 1, 3).device == 1
    assert secure_medium.read_roster(tmp_path / "keys" / "air", 3) == secure_medium.read_roster(alone, 3)


def test_rotated_revoked_and_reissued_devices_need_no_restart_of_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr("airpool_runtime.keys.credentials._CHECK_SECONDS", 0.0)
    authority.create(tmp_path / "keys")
    for k in range(3):
        authority.add(tmp_path / "keys", f"device-{k}")
    terms = Terms(3, 3, 3, 0, 2, Ring(1.0, 32))
    values = {k: np.full(2, 10**k, dtype=np.uint64) for k in range(3)}
    running = [secure_medium.session_of(tmp_path / "keys", k, 3) for k in range(3)]

    def total():
        for each in running:
            each.renew()
        found = rehearse(values, terms, running).outcome.total
        assert found is not None
        return found.tolist()

    assert total() == [111, 111]
    authority.rotate(tmp_path / "keys", "device-2")
    assert total() == [111, 111]  # device 2 still runs with its old certificate
    running[2] = secure_medium.session_of(tmp_path / "keys", 2, 3)
    assert total() == [111, 111]
    authority.revoke(tmp_path / "keys", "device-2")
    with pytest.raises(RefusedError, match="channel key of device 2 is not signed"):
        total()
    authority.reissue(tmp_path / "keys", "device-2")
    with pytest.raises(RefusedError, match="channel key of device 2 is not signed"):
        total()  # the stolen one: its identity is not the new one's
    running[2] = secure_medium.session_of(tmp_path / "keys", 2, 3)
    assert total() == [111, 111]


@pytest.mark.check
def test_kill_9_in_each_step_of_a_round_over_real_processes(tmp_path):
    """Devices 0 and 1 are processes of their own. 0 is killed as a message is on its way to it; the next round works.

    There are survivors to sign for where somebody vanished before: there, 1 is killed when it should send its values.
    """
    net = Network.uniform(num_devices=7, dimension=40, noise_std=0.05, dropouts=2, channel=SECURE)
    file, keys = tmp_path / "net.toml", tmp_path / "keys"
    network_file.write(net, file)
    authority.create(keys, devices=7)
    own, asking = (secured.credentials(keys / name, name) for name in ("air", "server"))

    async def started(view, at):
        options = DeviceOptions(network=file, air=at, device=view, keys=keys, quorum=5)
        return await up.Process.started(options, tmp_path / f"device-{view}.log")

    async def ready(port, count):
        async with asyncio.timeout(120):
            while (await port.status()).ready < count:
                await asyncio.sleep(0.05)

    async def play():
        air, processes, seen = Air(net, quorum=5, slot_seconds=LONG, patience=LONG), {}, []
        server, at = await transport.serve(
            "127.0.0.1:0", lambda s: add_AirServicer_to_server(AirService(air, own), s), own
        )
        try:
            processes["2-6"] = await started("2-6", at)
            async with transport.channel(at, asking, role="air") as channel:
                port = RemoteServer(channel, slot_seconds=LONG)
                for step in range(4):
                    processes |= {view: await started(view, at) for view in ("0", "1") if view not in processes}
                    await ready(port, 7)
                    killed = {"0": step, "1": 1} if step == 2 else {"0": step}
                    for view, when in killed.items():
                        killed_in(air, int(view), when, processes[view].pid)
                    seen.append(await port.run_slot(f"kill {step}", step, terms.stated(net)))
                    for view in killed:
                        await processes.pop(view).kill()  # it is dead already, and waited for
                    await ready(port, 5)
                    seen.append(await port.run_slot(f"after {step}", step, terms.stated(net)))
        finally:
            await asyncio.gather(*(each.stop() for each in processes.values()))
            await server.stop(0)
        return seen

    def killed_in(air, device, step, pid):
        line = air._standing.connected[device]
        deliver = line.deliver

        def say(message):
            if step_of(message) == step:
                with suppress(ProcessLookupError):  # several messages belong to a step: it may be dead already
                    os.kill(pid, signal.SIGKILL)
            deliver(message)

        line.deliver = say

    seen = run(play())
    assert all(isinstance(each, Sum) for each in seen), seen
    assert [each.devices for each in seen] == [6, 6, 6, 6, 6, 5, 7, 6]
    assert all(np.all(np.abs(each.y) < 2) for each in seen)


@pytest.mark.check
@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
def test_a_hundred_devices_in_a_few_processes():
    net = Network.uniform(num_devices=100, dimension=40, noise_std=0.05, dropouts=33, colluders=20, channel=SECURE)

    async def play():
        async with up.running(up.Setup(net, 4)) as system, up.client(system) as client:
            from airpool_runtime import wire_pb2 as wire

            return [await client.Infer(wire.Nothing(), timeout=120) for _ in range(3)]

    for result in run(play()):
        assert (result.status, result.devices) == ("answered", 100)


def test_a_server_of_another_network_file_is_rejected():
    """The server's network file asks for another clip norm: refused before anything is charged, as over the air."""
    charges = {k: Counted() for k in range(6)}
    other = replace(TOLERANT, devices=replace(TOLERANT.devices, clip_norm=2.0))

    async def play():
        async with small(TOLERANT, secured=securely(TOLERANT), charges=charges) as system:
            return await Server(other, decoder(), system.server.port).infer()

    result = run(play())
    assert (result.status, result.spent) == ("failed", False)
    assert "the server asks for clip_norm = 2.0, this air is set to clip_norm = 1.0" in result.reason
    assert [charges[k].spent for k in range(6)] == [0] * 6


@pytest.mark.check
@pytest.mark.parametrize("keys", [False, True], ids=["an authority of its own", "keys that are given"])
def test_up_runs_it_with_one_command(keys, tmp_path):
    command = [sys.executable, "-m", "airpool", "up", "--access", "secure", "--devices", "3"]
    if keys:
        authority.create(tmp_path / "keys")
        for k in range(3):
            authority.add(tmp_path / "keys", f"device-{k}")
        command += ["--keys", str(tmp_path / "keys")]
    done = subprocess.run(
        [*command, "--dropouts", "1", "--inferences", "5", "--processes", "2", "--json"],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["statuses"] == {"answered": 5}
    assert record["devices"] == 3
    assert record["epsilon"]["device"] <= 2.0
