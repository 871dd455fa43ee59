"""Links that are dead without a word: a proxy that stops forwarding, as a cut cable does."""

import asyncio

import pytest

from airpool_runtime import transport
from airpool_runtime.air import Air
from airpool_runtime.messages import DisconnectedError
from airpool_runtime.remote import RemoteDevice
from airpool_runtime.service import AirService
from airpool_runtime.wire_pb2_grpc import add_AirServicer_to_server

from .systems import network

pytestmark = pytest.mark.check
BY_DEFAULT = 60.0  # seconds after which gRPC gives up a ping


class Proxy:
    """Forwards bytes in both directions until it is cut; the sockets stay open."""

    def __init__(self, port):
        self._port, self._cut, self._tasks, self._writers = port, False, [], []

    async def serve(self):
        self._server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _join(self, reader, writer):
        other = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, other[1]]
        for source, sink in ((reader, other[1]), (other[0], writer)):
            self._tasks.append(asyncio.create_task(self._forward(source, sink)))

    async def _forward(self, source, sink):
        while data := await source.read(65536):
            if not self._cut:
                sink.write(data)

    def cut(self):
        self._cut = True

    async def close(self):
        self._server.close()
        for writer in self._writers:
            writer.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()


def test_a_dead_link_is_noticed_at_both_ends_within_a_quarter_of_a_minute():
    async def play():
        air = Air(network(1))
        server, at = await transport.serve("127.0.0.1:0", lambda s: add_AirServicer_to_server(AirService(air), s))
        proxy = Proxy(int(at.rpartition(":")[2]))
        try:
            async with transport.channel(await proxy.serve(), role="air") as channel:
                port = await RemoteDevice.opened(channel, 0, simulated=False, network=network(1))
                await port.ready()
                proxy.cut()
                async with asyncio.timeout(0.75 * BY_DEFAULT):
                    with pytest.raises(DisconnectedError):
                        await port.announcements()
                    while (await air.status()).connected:
                        await asyncio.sleep(0.1)
        finally:
            await proxy.close()
            await server.stop(0)

    asyncio.run(play())
