"""The medium over gRPC, as devices and the server use it: ports that speak to an air, and to a ranking server."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc
import numpy as np
from grpc import aio

from airpool._support.arrays import Floats
from airpool.runtime import logs, transport
from airpool.runtime import wire_pb2 as wire
from airpool.runtime.medium import Announcement, DisconnectedError, Sum, Withheld
from airpool.runtime.wire_pb2_grpc import AirStub, RankingStub

_Reply = TypeVar("_Reply")
_SHORTEST_WAIT, _LONGEST_WAIT = 0.05, 1.0
_EXTRA_SECONDS = 5.0


def packed(values: Floats) -> bytes:
    return np.ascontiguousarray(values, "<f8").tobytes()


def unpacked(content: bytes) -> Floats:
    """Float64 values of bytes. Raises an error if their length does not fit."""
    return np.frombuffer(content, "<f8").astype(np.float64)


class RemoteDevice:
    """A device's port: one stream, opened by `opened`."""

    def __init__(self, stream: aio.StreamStreamCall, device: int) -> None:
        self._stream, self._device = stream, device

    @classmethod
    async def opened(cls, channel: aio.Channel, device: int, *, simulated: bool) -> "RemoteDevice":
        port = cls(AirStub(channel).Take(), device)
        await port._write(wire.FromDevice(hello=wire.Hello(device=device, simulated=simulated)))
        if (await port._read()).WhichOneof("what") != "welcome":
            raise DisconnectedError("the air did not welcome this device")
        return port

    async def ready(self, advert: bytes = b"") -> None:
        await self._write(wire.FromDevice(advert=advert) if advert else wire.FromDevice(ready=wire.Nothing()))

    async def announcement(self) -> Announcement:
        while True:
            said = await self._read()
            if said.WhichOneof("what") == "announcement":
                told = said.announcement
                return Announcement(told.id, told.number, told.gain, told.asked, told.devices, told.group, told.epoch)
            if said.rejected:
                logs.event("rejected", device=self._device, reason=said.rejected)

    async def answer(self, id: str, content: bytes) -> None:
        await self._write(wire.FromDevice(part=wire.Part(id=id, content=content)))

    async def message(self) -> bytes:
        """The next message of a secure round; empty where it is over."""
        said = await self._read()
        return said.part

    async def transmit(self, id: str, samples: Floats, scale: float) -> None:
        await self._write(wire.FromDevice(signal=wire.Signal(id=id, samples=packed(samples), scale=scale)))

    async def withdraw(self, id: str) -> None:
        await self._write(wire.FromDevice(withdraw=id))

    def close(self) -> None:
        self._stream.cancel()

    async def _write(self, message: wire.FromDevice) -> None:
        try:
            await self._stream.write(message)
        except (aio.AioRpcError, asyncio.InvalidStateError) as error:
            raise DisconnectedError(await self._why(error)) from None

    async def _read(self) -> wire.ToDevice:
        try:
            said = await self._stream.read()
        except aio.AioRpcError as error:
            raise DisconnectedError(await self._why(error)) from None
        if isinstance(said, wire.ToDevice):
            return said
        raise DisconnectedError("the air has ended the connection")

    async def _why(self, error: Exception) -> str:
        return (error.details() if isinstance(error, aio.AioRpcError) else await self._stream.details()) or "gone"


class RemoteServer:
    """The server's port. One call for each slot, over one connection."""

    def __init__(self, channel: aio.Channel, *, slot_seconds: float) -> None:
        self._air, self._seconds = AirStub(channel), slot_seconds + _EXTRA_SECONDS

    async def ready(self) -> int:
        return (await _called(self._air.Count(wire.Nothing(), timeout=transport.CALL_SECONDS), "the air")).devices

    async def hold(self, id: str, number: int, asked: str) -> Sum | Withheld:
        asking = wire.Inference(id=id, number=number, asked=asked)
        got = await _called(self._air.Hold(asking, timeout=self._seconds), "the air")
        if got.withheld:
            return Withheld(got.reason, got.spent)
        return Sum(unpacked(got.y), got.devices, got.carrier, got.simulated)


class RemoteRanking:
    """The port to the ranking server."""

    def __init__(self, channel: aio.Channel) -> None:
        self._ranking = RankingStub(channel)

    async def selected(self, id: str, device: int, devices: int, noisy_score: float) -> bool:
        score = wire.Score(id=id, device=device, devices=devices, noisy_score=noisy_score)
        call = self._ranking.Rank(score, timeout=transport.CALL_SECONDS)
        return (await _called(call, "the ranking server")).selected


async def _called(call: Awaitable[_Reply], whom: str) -> _Reply:
    try:
        return await call
    except aio.AioRpcError as error:
        if error.code() == grpc.StatusCode.UNAVAILABLE:
            raise DisconnectedError(f"{whom} cannot be reached") from None
        raise DisconnectedError(f"{whom}: {error.details() or error.code().name.lower()}") from None


async def connected(
    open_port: Callable[[], Awaitable[RemoteDevice]], use: Callable[[RemoteDevice], Awaitable[None]]
) -> None:
    """Uses one port after the other, each until it is gone; waits between them, a second at most. Never returns."""
    wait = _SHORTEST_WAIT
    while True:
        try:
            port = await open_port()
            wait = _SHORTEST_WAIT
            try:
                await use(port)
            finally:
                port.close()
        except DisconnectedError as why:
            logs.event("not connected", reason=str(why))
        await asyncio.sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT)
