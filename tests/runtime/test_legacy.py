"""Version 0 of the wire: a device, a server and a client of the version before work with the roles of this one.

Messages are written by hand, as commit 81525b3 wrote them; method names are its own.
"""

import asyncio

import grpc
import numpy as np
import pytest

from airpool.network import Channel
from airpool.network import file as network_file
from airpool.runtime import logs, transport
from airpool.runtime import wire_pb2 as wire
from airpool.runtime.messages import DisconnectedError
from airpool.runtime.remote import packed, unpacked
from airpool.runtime.service import InferencesService
from airpool.runtime.wire_pb2_grpc import add_InferencesServicer_to_server

from .systems import R, network, small


def call(channel, method, request, reply):
    return channel.unary_unary(method, request.SerializeToString, reply.FromString)(request, timeout=20)


async def old_device(channel, device, net, times):
    """Hello without a version; one ready for each inference; signals one by one. Counts what it was announced."""
    stream = channel.stream_stream("/airpool.Air/Take", lambda m: m.SerializeToString(), wire.ToDevice.FromString)()
    await stream.write(wire.FromDevice(hello=wire.Hello(device=device)))
    assert (await stream.read()).WhichOneof("what") == "welcome"
    for number in range(times):
        await stream.write(wire.FromDevice(ready=wire.Ready()))
        said = await stream.read()
        told = said.announcement
        assert said.WhichOneof("what") == "announcement"
        assert told.asked == network_file.dump(net)
        assert told.number == number
        if number % 2:
            await stream.write(wire.FromDevice(withdraw=told.id))
        else:
            await stream.write(wire.FromDevice(signal=wire.Signal(id=told.id, samples=packed(np.zeros(R)))))
    return stream


def test_a_device_of_version_0_takes_part_one_inference_at_a_time(capsys, monkeypatch):
    monkeypatch.setattr(logs, "_state", {"role": "air", "on": True})
    net = network(3, dropouts=1)

    async def play():
        async with small(net, "grpc", running=(0, 1), quorum=3) as system:
            device = asyncio.create_task(old_device(system.channel, 2, net, 4))
            results = [await system.server.infer() for _ in range(4)]
            (await device).cancel()
            return results

    results = asyncio.run(play())
    assert [(each.status, each.devices) for each in results] == [("answered", 3), ("answered", 2)] * 2
    said = capsys.readouterr().err
    assert "/airpool.Air/Take is a name of version 0; upgrade the caller" in said
    assert '"event": "old version", "device": 2, "reason": "it states no terms; upgrade it"' in said


def test_a_server_and_a_client_of_version_0_are_answered():
    async def play():
        async with small(network(2), "grpc") as system:
            request = wire.SlotRequest(id="x", number=0, asked=network_file.dump(network(2)))
            got = await call(system.channel, "/airpool.Air/Hold", request, wire.SlotOutcome)
            async with asyncio.timeout(20):
                while True:
                    ready = await call(system.channel, "/airpool.Air/Count", wire.Nothing(), wire.AirStatus)
                    if ready.ready == 2:
                        break
            other = wire.SlotRequest(id="y", number=1, asked=network_file.dump(network(2, clip_norm=2.0)))
            refused = await call(system.channel, "/airpool.Air/Hold", other, wire.SlotOutcome)
            service = InferencesService(system.server)
            server, at = await transport.serve("127.0.0.1:0", lambda s: add_InferencesServicer_to_server(service, s))
            async with transport.channel(at, role="server") as channel:
                result = await call(channel, "/airpool.Inferences/Infer", wire.Nothing(), wire.Result)
                asked = wire.ResultRequest(id=result.id)
                again = await call(channel, "/airpool.Inferences/Find", asked, wire.Result)
            await server.stop(0)
            return got, refused, result, again

    got, refused, result, again = asyncio.run(play())
    assert unpacked(got.y).shape == (R,)
    assert not got.withheld
    assert (refused.withheld, refused.spent) == (True, False)
    assert "the server asks for clip_norm = 2.0" in refused.reason
    assert result.status == "answered"
    assert result == again


def test_a_device_of_version_0_is_not_welcome_in_a_secure_sum():
    net = network(3, channel=Channel(access="secure"))

    async def play():
        async with small(net, "grpc", running=()) as system:
            with pytest.raises(grpc.aio.AioRpcError, match="upgrade all devices of a secure sum together"):
                await old_device(system.channel, 0, net, 1)

    asyncio.run(play())


def test_a_device_of_this_version_says_what_an_older_air_lacks():
    async def play():
        from airpool.runtime.remote import RemoteDevice

        server, at = await transport.serve("127.0.0.1:0", lambda _: None)
        try:
            async with transport.channel(at, role="air") as channel:
                with pytest.raises(DisconnectedError, match="older version: upgrade it first"):
                    await RemoteDevice.opened(channel, 0, simulated=False, network=network())
        finally:
            await server.stop(0)

    asyncio.run(play())
