"""Inferences of several slots by secure sums: one advert and one sharing for all, and devices that go in between."""

import asyncio
import os
import signal
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from airpool import Network
from airpool.network import Channel, Slots
from airpool.network import file as network_file
from airpool_runtime import device as devices
from airpool_runtime import secure_medium, secured, terms, transport, up
from airpool_runtime import wire_pb2 as wire
from airpool_runtime.air import Air
from airpool_runtime.charge import Counted, NotSentError
from airpool_runtime.device import Device, Seen
from airpool_runtime.keys import authority
from airpool_runtime.ledger.backup import content
from airpool_runtime.messages import Announcement, DisconnectedError, RoundMessage, SlotSignal, Sum, WithdrawalReason
from airpool_runtime.options import DeviceOptions
from airpool_runtime.remote import RemoteServer
from airpool_runtime.secure.client import Client
from airpool_runtime.secure.group import inference_of, slot_id, terms_of
from airpool_runtime.secure.messages import Kind, kind_of, pack, subset
from airpool_runtime.secure.rehearsal import sessions
from airpool_runtime.secure.server import SumServer
from airpool_runtime.secure_medium import SecureDevice
from airpool_runtime.service import AirService
from airpool_runtime.under_way import AskedSlot
from airpool_runtime.wire_pb2_grpc import add_AirServicer_to_server

from .systems import network, simulated, small

SECURE = Channel(access="secure")
MEDIA = ("loopback", "grpc")
LONG = 120.0  # seconds, of slots that wait for processes on a busy machine
N, COUNT = 3, 6
NET = network(COUNT, channel=SECURE, dropouts=2, slots=Slots(N, sure=1.0))


def securely(net=NET, quorum: int | None = 4):
    known, made = sessions(net.devices.count), {}

    def port(line, k):
        made[k] = SecureDevice(line, known[k], net, quorum=quorum)
        return made[k]

    return port, made


def run(coroutine):
    return asyncio.run(coroutine)


async def all_ready(air, count=COUNT):
    async with asyncio.timeout(20):
        while (await air.status()).ready < count:
            await asyncio.sleep(0.01)


def watched(air, device, heard):
    """Calls `heard` with the kind of every message of a round on its way to a device, which does not arrive if True."""
    line = air._standing.connected[device]
    deliver = line.deliver

    def say(message):
        if not (isinstance(message, RoundMessage) and heard(kind_of(message.content))):
            deliver(message)

    line.deliver = say


@pytest.mark.parametrize("medium", MEDIA)
@pytest.mark.parametrize("redrawn", [True, False])
def test_one_seed_gives_what_the_simulator_gives(medium, redrawn):
    net = network(channel=SECURE, participation=0.7, slots=Slots(N, sure=0.5, redrawn=redrawn))
    port, _ = securely(net, quorum=None)

    async def play():
        async with small(net, medium, seed=5, secured=port) as system:
            return await asyncio.gather(*(system.server.infer() for _ in range(5)))

    results = run(play())
    assert len({result.slots for result in results}) > 1
    for result in results:
        out = simulated(net, result.number)
        assert result.label == out.label[0, 0]
        np.testing.assert_allclose(result.logits, out.logits[0, 0], atol=1e-5)


@pytest.mark.parametrize("medium", MEDIA)
def test_adverts_and_shares_are_sent_once_for_all_slots(medium):
    port, made = securely()
    heard, adverts = [], []

    async def play():
        async with small(NET, medium, secured=port, quorum=4) as system:
            await all_ready(system.air)
            watched(system.air, 0, heard.append)
            hub: Any = system.air._hub
            admit = hub.admit
            hub.admit = lambda *what: adverts.append(what[0]) or admit(*what)
            return await system.infer(2)

    first, second = run(play())
    assert (first.status, first.slots, second.slots) == ("answered", N, N)
    assert Counter(heard) == {Kind.ANNOUNCEMENT: 2, Kind.SHARED: 2, Kind.NEXT: 2 * (N - 1), Kind.SIGNED: 2 * N}
    assert adverts.count(0) == 2  # that of the first inference was admitted before; one while each is under way
    assert all(not each._going for each in made.values())  # after the last slot nothing is left


def cut_off(air, device, kind):
    """The device is cut off when it would get its next message of this kind."""
    watched(air, device, lambda found: found == kind and (air.disconnect(device) or True))


@pytest.mark.parametrize("medium", MEDIA)
@pytest.mark.parametrize("kind", [Kind.NEXT, Kind.SIGNED])
def test_devices_that_vanish_between_two_slots_are_done_without_down_to_t(medium, kind):
    port, _ = securely()
    charges = {k: Counted() for k in range(COUNT)}

    async def play():
        async with small(NET, medium, secured=port, quorum=4, charges=charges) as system:
            await system.infer()
            for k in (1, 4):
                cut_off(system.air, k, kind)
            fewer = (await system.infer())[0]
            return fewer, (await system.infer())[0]

    fewer, later = run(play())
    for result in (fewer, later):
        assert (result.status, result.slots, result.devices) == ("answered", N, 4)
    assert charges[5].spent == 3 * N
    assert charges[1].spent == N + 1  # of the second inference the first slot alone


@pytest.mark.parametrize("medium", MEDIA)
def test_with_fewer_than_t_left_the_inference_ends_with_what_it_has_and_opens_no_more(medium):
    port, made = securely()
    charges = {k: Counted() for k in range(COUNT)}

    async def play():
        async with small(NET, medium, secured=port, quorum=4, charges=charges) as system:
            await system.infer()
            for k in (0, 1, 2):
                cut_off(system.air, k, Kind.NEXT)
            result = (await system.infer())[0]
            await asyncio.sleep(0.1)
            return result

    result = run(play())
    assert (result.status, result.slots) == ("answered", 2)  # the second one was announced, and is spent
    assert not result.sure
    assert "not sure: below quorum" in result.reason
    assert charges[5].spent == N + 2
    assert not made[5]._going


def test_a_device_that_is_back_at_once_is_in_the_next_inference_and_no_slot_of_the_one_it_left():
    port, _ = securely()
    seen = []

    async def play():
        async with small(NET, secured=port, quorum=4) as system:
            await all_ready(system.air)
            hub: Any = system.air._hub
            among = hub.among
            hub.among = lambda ids, ready: (
                seen.append((ids[0], set(ready), set(among(ids, ready)))) or among(ids, ready)
            )

            async def again():
                system.ports[5] = await system.open_port(5)
                await devices.run(Device(5, NET, lambda _: Seen(np.zeros(NET.dimension))), port(system.ports[5], 5))

            def leave(kind):
                if kind == Kind.SIGNED and system.air._standing.connected.get(5) is line:
                    system.air.disconnect(5)
                    system.tasks.append(asyncio.create_task(again()))
                    return True
                return False

            line = system.air._standing.connected[5]
            watched(system.air, 5, leave)
            return await system.infer(2)

    first, second = run(play())
    assert (first.status, first.slots, second.slots) == ("answered", N, N)
    (_, *later), (_, *next_one) = (
        [(ready, there) for id, ready, there in seen if id.startswith(each.id)] for each in (first, second)
    )
    assert any(5 in ready for ready, _ in later)
    assert all(5 not in there for _, there in later)
    assert all(5 in there for _, there in next_one)


# What a device keeps


def test_an_inference_that_ended_early_is_forgotten_when_the_device_hears_of_the_next():
    net = replace(NET, slots=Slots(N, sure=1e-6))
    port, made = securely(net)

    async def play():
        async with small(net, secured=port, quorum=4) as system:
            kept = []
            for _ in range(3):
                result = (await system.infer())[0]
                assert result.slots == 1
                await all_ready(system.air)
                kept.append((result.id, {k: dict(each._going) for k, each in made.items()}))
            hub: Any = system.air._hub
            return kept, {k: len(each._fresh._secrets) for k, each in made.items()}, len(hub._going)

    kept, fresh, at_hub = run(play())
    for id, going in kept:
        assert all(list(each) == [id] for each in going.values())
    for _, going in kept[:-1]:
        assert all(client.over and not client._secrets for each in going.values() for client in each.values())
    assert set(fresh.values()) == {N}
    assert at_hub == 1


def test_without_a_next_slot_the_secrets_are_forgotten_after_a_while(monkeypatch):
    monkeypatch.setattr(secure_medium, "KEPT_SECONDS", 1.5)
    net = replace(NET, slots=Slots(N, sure=1e-6))
    port, made = securely(net)

    async def play():
        async with small(net, secured=port, quorum=4) as system:
            await system.infer()
            await all_ready(system.air)
            clients = [client for each in made.values() for client in each._going.values()]
            assert len(clients) == COUNT
            async with asyncio.timeout(20):
                while any(each._going for each in made.values()):
                    await asyncio.sleep(0.02)
            return clients

    assert all(client.over and not client._secrets for client in run(play()))


# A hub that lies


class Told:
    """A line on which a test speaks: `said` are the messages to come, `answers` what the device answered."""

    def __init__(self):
        self.said, self.answers, self.adverts, self.withdrawn = [], [], [], []

    async def advertise(self, advert, left=None):
        self.adverts.append(advert)

    async def ready(self, inferences=1, left=None):
        self.adverts.append(None)

    async def announcements(self):
        raise DisconnectedError("gone")

    async def message(self, id):
        return self.said.pop(0) if self.said else None

    async def answer(self, message):
        self.answers.append(message)

    async def withdraw(self, id, reason):
        self.withdrawn.append(reason)


class Fleet:
    """Device 0 behind its port, and five plain clients, of inference "a"."""

    def __init__(self):
        self.known, terms = sessions(COUNT), terms_of(NET, quorum=4)
        self.line: Any = Told()
        self.port = SecureDevice(self.line, self.known[0], NET, quorum=4)
        zeros = np.zeros(NET.dimension, np.uint64)
        self.others = {k: Client(self.known[k], terms, lambda: zeros) for k in range(1, COUNT)}
        self.terms = terms

    async def begin(self):
        """Slot 1 to its end."""
        await self.port.ready()
        adverts = {k: each.advert.to_bytes() for k, each in self.others.items()} | {0: self.line.adverts[-1]}
        self.server = SumServer(self.terms, inference_of("a"), adverts)
        return await self.slot(1)

    async def slot(self, number):
        """A slot to its end, by the rules; device 0 answers as its port does."""
        self.line.said = [self.server.messages()[0]]
        await self.port.accept(announced(number))
        task = asyncio.create_task(self.port.transmit([SlotSignal(f"a/{number}", np.zeros(NET.dimension), 1.0)]))
        self.line.message = self.message
        await task
        del self.line.message
        return self.server.outcome

    async def message(self, id):
        """What the server says when all have answered."""
        for k, message in self.server.messages().items():
            self.server.receive(k, self.line.answers[-1].content if k == 0 else self.others[k].answer(message))
        self.server.advance()
        return self.server.messages().get(0)


def announced(slot, inference="a", **more):
    return Announcement(f"{inference}/{slot}", 0, 1.0, "", COUNT, inference=inference, slot=slot, **more)


def next_slot(number, inference="a"):
    """The message that begins a slot, of all devices; slots from 1 on."""
    return pack(Kind.NEXT, slot_id(inference_of(inference), number - 1), subset(range(COUNT), range(COUNT)))


def test_slots_in_order_are_accepted_with_one_advert():
    async def play():
        fleet = Fleet()
        await fleet.begin()
        await fleet.port.ready()
        await fleet.message("")  # of the last step
        for number in (2, 3):
            fleet.server.go_on(range(COUNT))
            await fleet.slot(number)
            await fleet.message("")
            await fleet.port.ready()
        return fleet

    fleet = run(play())
    assert [advert is not None for advert in fleet.line.adverts] == [True, True, False, False]
    assert fleet.server.outcome is not None
    assert fleet.server.outcome.total is not None
    assert fleet.port._going == {}


LIES = {
    "a slot that is skipped": (3, next_slot(3)),
    "another slot than announced": (2, next_slot(3)),
    "another inference than announced": (2, next_slot(2, "b")),
    "a slot that is over already": (2, None),
    "a slot beyond the last": (4, next_slot(4)),
}


@pytest.mark.parametrize("lie", LIES)
def test_what_is_not_the_next_slot_is_refused_before_the_charge_and_ends_the_inference(lie):
    slot, message = LIES[lie]

    async def play():
        fleet = Fleet()
        await fleet.begin()
        client = fleet.port._going["a"]
        fleet.line.said = [] if message is None else [message]
        with pytest.raises(NotSentError) as caught:
            await fleet.port.accept(announced(slot))
        assert caught.value.reason is WithdrawalReason.ROUND
        return client, fleet.port._going

    client, going = run(play())
    assert client.over
    assert not client._secrets
    assert going == {}


def test_a_slot_of_an_inference_that_a_device_is_not_in_is_refused():
    async def play():
        fleet = Fleet()
        await fleet.port.ready()
        fleet.line.said = [next_slot(2)]
        with pytest.raises(NotSentError, match="that this device is not in"):
            await fleet.port.accept(announced(2))
        return fleet.port._fresh

    assert run(play()) is not None  # the advert is still good


def test_a_first_slot_again_takes_fresh_keys_and_forgets_the_old_ones():
    async def play():
        fleet = Fleet()
        await fleet.begin()
        client = fleet.port._going["a"]
        await fleet.port.ready()
        fleet.line.said = [fleet.server.messages().get(0) or next_slot(2)]
        with pytest.raises(NotSentError):
            await fleet.port.accept(announced(1))
        return client, fleet.port

    client, port = run(play())
    assert client.over
    assert port._going == {}
    assert port._fresh is None


def test_a_second_slot_in_one_turn_is_refused_and_the_first_one_goes_on():
    async def play():
        fleet = Fleet()
        await fleet.begin()
        await fleet.message("")
        fleet.server.go_on(range(COUNT))
        fleet.line.said = [fleet.server.messages()[0]]
        await fleet.port.accept(announced(2))
        with pytest.raises(NotSentError, match="a second slot in one turn"):
            await fleet.port.accept(announced(1, "b"))
        await fleet.port.withdraw("a/2", WithdrawalReason.BUDGET)  # its charge fails: the next turn is heard again
        with pytest.raises(NotSentError, match="that this device is not in"):
            await fleet.port.accept(announced(3))

    run(play())


@pytest.mark.parametrize("id", ["", "a", "a/", "/", "a/b/c"])
def test_a_withdrawal_from_a_slot_of_no_sense_is_sent(id):
    async def play():
        fleet = Fleet()
        await fleet.port.ready()
        await fleet.port.withdraw(id, WithdrawalReason.TERMS)
        return fleet.line.withdrawn

    assert run(play()) == [WithdrawalReason.TERMS]


def test_a_device_whose_hub_is_gone_forgets_everything():
    async def play():
        fleet = Fleet()
        await fleet.begin()
        await fleet.port.ready()
        clients = [fleet.port._fresh, *fleet.port._going.values()]
        with pytest.raises(DisconnectedError):
            await fleet.port.announcements()
        return clients

    clients = run(play())
    assert len(clients) == 2
    assert all(client.over and not client._secrets for client in clients)


# Real processes


@pytest.mark.check
@pytest.mark.parametrize("kind", [Kind.NEXT, Kind.SIGNED])
def test_kill_9_of_a_device_between_two_slots_over_real_processes(tmp_path, kind):
    """Device 0 is killed as a message of slot 2 is on its way to it; slot 3 does without it, the next inference not."""
    net = Network.uniform(
        num_devices=5, dimension=40, noise_std=0.05, dropouts=2, channel=SECURE, slots=Slots(N, sure=1.0)
    )
    file, keys, ledger, heard = tmp_path / "net.toml", tmp_path / "keys", tmp_path / "ledger.db", []
    network_file.write(net, file)
    authority.create(keys, devices=5)
    own, asking = (secured.credentials(keys / name, name) for name in ("air", "server"))

    async def started(view, at):
        options = DeviceOptions(network=file, air=at, device=view, keys=keys, quorum=3)
        options = replace(options, ledger=ledger if view == "0" else None)
        return await up.Process.started(options, tmp_path / f"device-{view}.log")

    async def play():
        air, processes, seen = Air(net, quorum=3, slot_seconds=LONG, patience=LONG), {}, []
        server, at = await transport.serve(
            "127.0.0.1:0", lambda s: add_AirServicer_to_server(AirService(air, own), s), own
        )
        take = air.take
        air.take = lambda device, sent: (heard.append(sent.id) if device == 0 else None) or take(device, sent)

        async def ready(count):
            async with asyncio.timeout(120):
                while (await air.status()).ready < count:
                    await asyncio.sleep(0.05)

        async def killed(slot):
            if slot == 2:
                pid = processes["0"].pid
                watched(air, 0, lambda found: found == kind and os.kill(pid, signal.SIGKILL))

        try:
            processes |= {"0": await started("0", at), "1-4": await started("1-4", at)}
            async with transport.channel(at, asking, role="air") as channel:
                port = RemoteServer(channel, slot_seconds=LONG)
                for id in ("killed", "after"):
                    await ready(5)
                    for slot in range(1, N + 1):
                        if id == "killed":
                            await killed(slot)
                        seen.append(await port.run_slot(id, 0, terms.stated(net), AskedSlot(slot)))
                    if id == "killed":
                        await processes.pop("0").kill()  # it is dead already, and waited for
                        processes["0"] = await started("0", at)
        finally:
            await asyncio.gather(*(each.stop() for each in processes.values()))
            await server.stop(0)
        return seen

    seen = run(play())
    assert all(isinstance(each, Sum) for each in seen), seen
    assert [each.devices for each in seen] == [5, 4 if kind == Kind.NEXT else 5, 4, 5, 5, 5]
    assert all(np.all(np.abs(each.y) < 2) for each in seen)
    booked = [row.inference for row in content(ledger).rows]
    after = [f"after/{slot}" for slot in range(1, N + 1)]
    assert booked in (["killed/1", *after], ["killed/1", "killed/2", *after])
    assert set(heard) <= set(booked)
    assert (kind == Kind.NEXT) == ("killed/2" not in heard)


@pytest.mark.check
def test_kill_9_of_the_air_between_two_slots_ends_the_inference_and_the_next_one_works():
    net = Network.uniform(num_devices=3, dimension=40, noise_std=5.0, channel=SECURE, slots=Slots(64, sure=1.0))

    async def play():
        async with up.running(up.Setup(net, 3)) as system, up.client(system) as asked:

            async def infer():
                return await asked.Infer(wire.Nothing(), timeout=60)

            whole = await infer()
            running = asyncio.create_task(infer())
            await asyncio.sleep(0.3 * whole.seconds)
            await system.roles["air"].kill()
            cut = await running
            await system.start("air")
            await system.ready(3)
            return whole, cut, await infer()

    whole, cut, after = run(play())
    assert (whole.slots, after.slots) == (64, 64)
    assert 0 < cut.slots < 64
    assert cut.spent
    assert cut.status in ("answered", "failed")
    assert not cut.sure
