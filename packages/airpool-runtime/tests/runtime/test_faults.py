"""Devices, servers and rankings that misbehave, over gRPC in one process."""

import asyncio
import json
from contextlib import suppress
from typing import cast

import grpc
import numpy as np
import pytest

from airpool import Ranking
from airpool.network import Channel
from airpool_runtime import logs, terms, transport
from airpool_runtime import wire_pb2 as wire
from airpool_runtime.air import Air
from airpool_runtime.charge import Counted, NotSentError
from airpool_runtime.medium import ServerPort
from airpool_runtime.messages import DisconnectedError, RejectedError, SlotSignal, StatedTerms, Sum, WithdrawalReason
from airpool_runtime.ranking import RankingServer
from airpool_runtime.remote import PROTOCOL, RemoteDevice, RemoteServer
from airpool_runtime.server import Server
from airpool_runtime.wire_pb2_grpc import AirStub

from .systems import R, decoder, network, small

NET = network(dropouts=1, channel=Channel(fading="rician"))


async def _misbehaves(port, told, how):
    """One answer of device 3, in place of an honest one."""
    good = np.full(R, 0.01)
    match how:
        case "sends NaN":
            await port.transmit([SlotSignal(told.id, np.full(R, np.nan), 1.0)])
        case "sends infinity":
            await port.transmit([SlotSignal(told.id, np.full(R, np.inf), 1.0)])
        case "declares too much power":
            await port.transmit([SlotSignal(told.id, good, 1e6)])
        case "declares a negative scale":
            await port.transmit([SlotSignal(told.id, good, -1.0)])
        case "declares NaN as its scale":
            await port.transmit([SlotSignal(told.id, good, float("nan"))])
        case "sends too many samples":
            await port.transmit([SlotSignal(told.id, np.ones(R + 1), 1.0)])
        case "sends no samples":
            await port.transmit([SlotSignal(told.id, np.ones(0), 1.0)])
        case "sends half a number":
            half = wire.Signal(id=told.id, samples=b"abc", scale=1.0)
            await port._write(wire.FromDevice(answers=wire.Answers(signals=[half])))
        case "replays an old slot":
            await port.transmit([SlotSignal("0" * 32, good, 1.0)])
            await port.withdraw(told.id, WithdrawalReason.BUDGET)
        case "withdraws":
            await port.withdraw(told.id, WithdrawalReason.BUDGET)
        case "hangs up":
            port.close()
        case "says nothing of sense":
            await port._write(wire.FromDevice())
            await port.withdraw(told.id, WithdrawalReason.BUDGET)
        case _:
            raise AssertionError(how)


FAULTS = [
    "sends NaN",
    "sends infinity",
    "declares too much power",
    "declares a negative scale",
    "declares NaN as its scale",
    "sends too many samples",
    "sends no samples",
    "sends half a number",
    "replays an old slot",
    "withdraws",
    "hangs up",
    "says nothing of sense",
]


@pytest.mark.parametrize("how", FAULTS)
def test_a_device_at_fault_counts_as_missing_and_the_next_inference_works(how):
    async def play():
        async with small(NET, "grpc", running=(0, 1, 2), quorum=3, seed=None) as system:
            port = await system.open_port(3)
            await port.ready()
            running = asyncio.create_task(system.server.infer())
            await _misbehaves(port, (await port.announcements())[0], how)
            during = await running
            port.close()
            return during, await system.server.infer()

    during, after = asyncio.run(play())
    assert (during.status, during.devices) == ("answered", 3)
    assert (after.status, after.devices) == ("answered", 3)


def test_what_is_missing_beyond_the_dropouts_is_withheld():
    async def play():
        async with small(network(), "grpc", running=(0, 1, 2)) as system:
            port = await system.open_port(3)
            await port.ready()
            running = asyncio.create_task(system.server.infer())
            await _misbehaves(port, (await port.announcements())[0], "sends NaN")
            result = await running
            port.close()
            return result

    result = asyncio.run(play())
    assert result.status == "withheld"
    why = "withheld: 1 of 4 devices are missing, 0 may be; device 3: its answer was rejected: not finite"
    assert result.reason == why
    assert result.spent
    assert (result.label, result.logits) == (None, ())


def test_sending_twice_changes_nothing():
    async def play(twice):
        async with small(network(channel=Channel()), "grpc", running=(0, 1, 2), seed=4) as system:
            port = await system.open_port(3)
            await port.ready()
            running = asyncio.create_task(system.server.infer())
            told = (await port.announcements())[0]
            for _ in range(1 + twice):
                await port.transmit([SlotSignal(told.id, np.full(R, 0.01), 1.0)])
            result = await running
            port.close()
            return result.logits

    assert asyncio.run(play(True)) == asyncio.run(play(False))


def test_a_device_that_stalls_holds_up_one_slot_alone():
    async def play():
        async with small(NET, "grpc", running=(0, 1, 2), quorum=3, slot_seconds=0.3, patience=30.0) as system:
            port = await system.open_port(3)
            await port.ready()
            running = asyncio.create_task(system.server.infer())
            told = (await port.announcements())[0]
            during = await running
            after = await system.server.infer()  # would take 30 s, if the air still waited for it
            await port.transmit([SlotSignal(told.id, np.ones(R), 1.0)])
            await port.ready()
            again = asyncio.create_task(system.server.infer())
            late = await port._read()
            fresh = (await port.announcements())[0]
            await port.transmit([SlotSignal(fresh.id, np.zeros(R), 0.0)])
            result = await again
            port.close()
            return during, after, late, result

    during, after, late, back = asyncio.run(play())
    assert [each.devices for each in (during, after, back)] == [3, 3, 4]
    assert late.rejected == "late, or of another slot"


def test_a_second_device_of_the_same_index_is_not_welcome():
    async def play():
        async with small(network(), "grpc") as system:
            with pytest.raises(DisconnectedError, match="device 2 is connected already"):
                await system.open_port(2)
            with pytest.raises(DisconnectedError, match="device 9 must be from 0 to 3"):
                await system.open_port(9)

    asyncio.run(play())


def test_a_live_device_does_not_take_part_over_a_simulated_air():
    async def play():
        with pytest.raises(RejectedError, match="a live device cannot take part over a simulated air"):
            Air(network(), seed=1).connect(0, lambda _: None, simulated=False, stated=terms.stated(network()))

    asyncio.run(play())


def test_a_device_must_say_hello_first():
    async def play():
        async with small(network(), "grpc", running=()) as system:
            stream = AirStub(system.channel).Connect()
            await stream.write(wire.FromDevice(ready=wire.Ready()))
            with pytest.raises(grpc.aio.AioRpcError, match="says hello first"):
                await stream.read()

    asyncio.run(play())


def test_a_device_of_another_wire_version_is_refused_by_name():
    async def play():
        async with small(network(), "grpc", running=()) as system:
            stream = AirStub(system.channel).Connect()
            await stream.write(wire.FromDevice(hello=wire.Hello(device=0, protocol=PROTOCOL + 1)))
            with pytest.raises(grpc.aio.AioRpcError, match="device 0 speaks version 2 of the wire, this air version 1"):
                await stream.read()

    asyncio.run(play())


def test_device_and_server_say_that_the_air_speaks_another_version_of_the_wire():
    async def play():
        server, at = await transport.serve("127.0.0.1:0", lambda _: None)
        try:
            async with transport.channel(at, role="air") as channel:
                with pytest.raises(DisconnectedError, match="the air speaks another version of the wire"):
                    await RemoteDevice.opened(channel, 0, simulated=False, network=network())
                with pytest.raises(DisconnectedError, match="the air speaks another version of the wire"):
                    await RemoteServer(channel, slot_seconds=1.0).status()
        finally:
            await server.stop(0)

    asyncio.run(play())


def test_a_server_that_hangs_up_ends_its_slot_and_the_next_one_works():
    charges = [Counted() for _ in range(4)]

    async def play():
        async with small(network(), "grpc", running=(0, 1, 2), charges=charges) as system:
            port = await system.open_port(3)
            await port.ready()
            running = asyncio.create_task(system.server.infer())
            told = (await port.announcements())[0]
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await port.ready()
            again = asyncio.create_task(system.server.infer())
            fresh = (await port.announcements())[0]
            await port.transmit([SlotSignal(told.id, np.zeros(R), 0.0)])
            rejected = await port._read()
            await port.transmit([SlotSignal(fresh.id, np.zeros(R), 0.0)])
            result = await again
            port.close()
            return told, fresh, rejected, result

    told, fresh, rejected, result = asyncio.run(play())
    assert told.id != fresh.id
    assert rejected.rejected == "late, or of another slot"
    assert result.status == "answered"
    assert [each.spent for each in charges] == [2, 2, 2, 0]


def test_an_air_that_cannot_be_reached_is_an_answer_too():
    async def play():
        async with small(network(), "grpc", running=()) as system:
            await system.stop_air()
            return await system.server.infer()

    result = asyncio.run(play())
    assert result.status == "failed"
    assert "cannot be reached" in result.reason


class _Told:
    """A medium that hands over this sum."""

    def __init__(self, *sum):
        self._sum = Sum(*sum)

    async def run_slot(self, id, number, asked, of=None):
        return self._sum


@pytest.mark.parametrize(
    ("got", "why"),
    [
        ((np.zeros(R + 1), 4, True), "a sum of 7 numbers, must be 6"),
        ((np.full(R, 1e308), 4, True), "too large or no number"),
        ((np.full(R, np.nan), 4, True), "too large or no number"),
        ((np.zeros(R), 2, True), "a sum of 2 devices, must be of 3 to 4"),
        ((np.zeros(R), 5, True), "a sum of 5 devices, must be of 3 to 4"),
    ],
)
def test_a_sum_that_cannot_be_is_no_answer(got, why):
    """An air of another network file, or devices whose huge numbers overflow in the sum: an error, and ε as it is."""
    result = asyncio.run(Server(NET, decoder(1e3), cast(ServerPort, _Told(*got))).infer())
    assert (result.status, result.spent, result.label) == ("failed", True, None)
    assert why in result.reason


# The ranking server


def ranked(*answers, seconds=0.2, net=None):
    async def play():
        server = RankingServer(net or network(dropouts=1, scheme=Ranking(num_selected=2)), seconds=seconds)
        return await asyncio.gather(*(server.selected("x", *each) for each in answers), return_exceptions=True)

    return asyncio.run(play())


def test_the_lowest_scores_are_selected():
    assert ranked((0, 4, 0.9), (1, 4, 0.1), (2, 4, 0.5), (3, 4, 0.2)) == [False, True, False, True]


def test_scores_that_do_not_come_are_left_out_within_the_dropouts():
    assert ranked((0, 4, 0.9), (1, 4, 0.1), (3, 4, 0.2)) == [False, True, True]
    few = ranked((0, 4, 0.9), (1, 4, 0.1))
    assert [str(each) for each in few] == ["2 scores have come, 3 are needed"] * 2


@pytest.mark.parametrize("bad", [(0, 4, np.nan), (7, 4, 0.1), (0, 9, 0.1), (-1, 4, 0.1)])
def test_scores_of_no_sense_are_rejected(bad):
    assert isinstance(ranked(bad)[0], RejectedError)


def test_a_score_sent_twice_is_rejected():
    found = ranked((0, 4, 0.9), (0, 4, 0.0), (1, 4, 0.1), (2, 4, 0.5), (3, 4, 0.2))
    assert isinstance(found[1], RejectedError)
    assert found[0] is False


def test_a_device_that_hangs_up_leaves_the_others_their_round():
    async def play():
        server = RankingServer(network(dropouts=1, scheme=Ranking(num_selected=2)), seconds=0.2)
        early = [asyncio.create_task(server.selected("x", k, 4, 0.1 * k)) for k in (0, 1)]
        await asyncio.sleep(0)
        early[0].cancel()
        await asyncio.sleep(0)
        late = [asyncio.create_task(server.selected("x", k, 4, 0.1 * k)) for k in (2, 3)]
        return await asyncio.gather(early[1], *late), server

    chosen, server = asyncio.run(play())
    assert chosen == [True, False, False]  # its score came, and is ranked
    assert not server._rounds


def test_without_the_ranking_server_the_slot_is_withheld():
    async def play():
        net = network(scheme=Ranking(num_selected=2))
        async with small(net, "grpc") as system:
            await system.stop_ranking()
            return await system.server.infer()

    assert asyncio.run(play()).status == "withheld"


# What is asked, charged and logged


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "version = 3",
        "version = 3\ndevices = 3",
        "[devices",
        "version = 3\n[devices]\ncount = 10000000",
        "version = 3" + "0" * 5000,
        "[devices]\ncount = 0x" + "f" * 5000,
        "a" * 10_000,
        ".".join("a" * 20_000) + " = 1",  # 29 s in a parser of TOML
        "a = " + "[" * 30_000,
        "x" * 5_000_000,
    ],
)
def test_a_network_file_that_is_none_is_refused(asked):
    why = terms.difference(network(), StatedTerms("", asked), they="the server asks for", own_side="here it is")
    assert why is not None
    assert len(why) < 300


def test_an_announcement_is_paid_for_once_and_answered_once():
    spent = Counted()
    spent.charge_all([("a", "")])
    with pytest.raises(NotSentError, match="announced before"):
        spent.charge_all([("a", "")])
    spent.charge_all([("b", "")])
    assert spent.spent == 2


def test_logs_hold_known_fields_of_plain_values_only(capsys, monkeypatch):
    monkeypatch.setattr(logs, "_state", {"role": "air", "on": True})
    logs.event("slot", id="x", devices=3)
    assert json.loads(capsys.readouterr().err)["devices"] == 3
    for field in ("latent", "score", "takes_part", "samples", "scale", "gain"):
        with pytest.raises(ValueError, match="must not be logged"):
            logs.event("slot", **{field: 1.0})
    with pytest.raises(TypeError, match="neither text nor number"):
        logs.event("slot", reason=np.ones(3))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("address", ["0.0.0.0:0", "192.168.1.3:5000", "example.org:80", "[::]:0"])
def test_without_certificates_only_loopback_is_served_and_called(address):
    with pytest.raises(ValueError, match="beyond this machine: without certificates only loopback is allowed"):
        asyncio.run(transport.serve(address, lambda _: None))
    with pytest.raises(ValueError, match="beyond this machine"):
        transport.channel(address, role="air")
    with pytest.raises(ValueError, match="beyond this machine"):
        transport.listening(address)


@pytest.mark.parametrize("address", ["", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999", ":80"])
def test_an_address_is_host_and_port(address):
    with pytest.raises(ValueError, match="must be HOST:PORT"):
        transport.split(address, secured=False)


def test_an_oversized_message_ends_the_connection_not_the_air():
    async def play():
        async with small(network(dropouts=1), "grpc", running=(0, 1, 2), quorum=3) as system:
            port = await system.open_port(3)
            await port.ready()
            running = asyncio.create_task(system.server.infer())
            told = (await port.announcements())[0]
            with suppress(DisconnectedError):
                await port.transmit([SlotSignal(told.id, np.zeros(transport.MESSAGE_BYTES // 8 + 1), 0.0)])
            with pytest.raises(DisconnectedError):
                (await port.announcements())[0]
            return await running, await system.server.infer()

    assert [each.devices for each in asyncio.run(play())] == [3, 3]


def test_a_device_that_is_never_ready_is_waited_for_once():
    async def play():
        async with small(NET, "grpc", running=(0, 1, 2), quorum=3, patience=0.2) as system:
            port = await system.open_port(3)
            first = await system.server.infer()
            system.air._standing.patience = 30.0
            result = await system.server.infer()
            port.close()
            return first, result

    assert [each.status for each in asyncio.run(play())] == ["answered", "answered"]


def test_inferences_wait_for_their_turn_and_no_longer_than_the_deadline():
    class Slow:
        async def run_slot(self, id, number, asked, of=None):
            await asyncio.sleep(3600)

    async def play():
        server = Server(network(), decoder(), Slow(), deadline=0.2)  # pyright: ignore[reportArgumentType]
        first = await server.infer()
        for _ in range(server._turn._value):
            await server._turn.acquire()
        return first, await server.infer()

    first, second = asyncio.run(play())
    assert (first.status, first.spent, first.reason) == ("failed", True, "no sum within 0.2 s")
    assert (second.status, second.spent) == ("failed", False)
