"""The medium over gRPC, as devices and the server use it: ports that speak to an air, and to a ranking server."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import grpc
import numpy as np
from grpc import aio

from airpool._support.arrays import Floats
from airpool._support.version import __version__
from airpool.network import Network
from airpool_runtime import logs, terms, transport
from airpool_runtime import wire_pb2 as wire
from airpool_runtime.logs import Bucket, SparseLog
from airpool_runtime.messages import (
    AirStatus,
    Announcement,
    Balance,
    Course,
    DeviceFault,
    DisconnectedError,
    RoundMessage,
    SlotSignal,
    StatedTerms,
    Sum,
    Turn,
    UnreachedError,
    WithdrawalReason,
    Withheld,
    announced,
    balance_message,
    balance_of,
)
from airpool_runtime.under_way import FIRST_SLOT, AskedSlot
from airpool_runtime.wire_pb2_grpc import AirStub, RankingStub

PROTOCOL = 1
_Reply = TypeVar("_Reply")
_SHORTEST_WAIT, _LONGEST_WAIT = 0.05, 1.0
_EXTRA_SECONDS = 5.0
_SAME_REASON_SECONDS = 60.0  # between log lines of a device that cannot connect, for the same reason
_REASON_SECONDS = 1.0  # that may be spent on the reason of a failure
_LOOK_SECONDS = 1.0  # between looks at the keys
_OTHER_WIRE = "speaks another version of the wire: run the same airpool at both"


def packed(values: Floats) -> bytes:
    return np.ascontiguousarray(values, "<f8").tobytes()


def unpacked(content: bytes) -> Floats:
    """Float64 values of bytes. Raises an error if their length does not fit."""
    return np.frombuffer(content, "<f8").astype(np.float64)


class RemoteDevice:
    """A device's line: one stream, stale: whether there are newer keys than those it was opened with."""

    def __init__(self, stream: aio.StreamStreamCall, device: int, stale: Callable[[], bool] | None = None) -> None:
        self._stream, self._device, self._stale, self._unready = stream, device, stale, ""
        self._writing = asyncio.Lock()

    @classmethod
    async def opened(
        cls,
        channel: aio.Channel,
        device: int,
        *,
        simulated: bool,
        network: Network,
        stale: Callable[[], bool] | None = None,
    ) -> "RemoteDevice":
        """network: the device's own; an air of another one rejects the device."""
        port, own = cls(AirStub(channel).Connect(), device, stale), terms.stated(network)
        hello = wire.Hello(device=device, simulated=simulated, protocol=PROTOCOL, version=__version__)
        hello.digest = own.digest
        if len(own.text) <= terms.LONGEST:
            hello.terms = own.text
        await port._write(wire.FromDevice(hello=hello))
        said = await port._read()
        if said.WhichOneof("what") != "welcome":
            raise DisconnectedError("the air did not welcome this device")
        return port

    async def tell(self, balance: Balance) -> None:
        await self._write(wire.FromDevice(balance=balance_message(balance)))

    async def ready(self, inferences: int = 1, left: int | None = None) -> None:
        await self._write(wire.FromDevice(ready=wire.Ready(inferences=inferences, left=left)))

    async def advertise(self, advert: bytes, left: int | None = None) -> None:
        if left is None:
            await self._write(wire.FromDevice(advert=advert))
        else:
            await self._write(wire.FromDevice(ready=wire.Ready(inferences=1, left=left, advert=advert)))

    async def announcements(self) -> Turn:
        while True:
            said = await (self._read() if self._stale is None else self._read_while_fresh(self._stale))
            if said.WhichOneof("what") == "turn":
                self._unready = ""
                return tuple(announced(each) for each in said.turn.announcements)
            if (why := said.rejected or said.unready) and why != self._unready:
                logs.event("rejected", device=self._device, reason=why)
            if said.unready:
                self._unready = why  # it is said again each time that the device is ready
                return ()

    async def accept(self, announced: Announcement) -> None:
        """Asks nothing more."""

    async def transmit(self, signals: Sequence[SlotSignal]) -> None:
        sent = [
            wire.Signal(id=each.id, samples=packed(each.samples), scale=each.scale, charged=each.charged)
            for each in signals
        ]
        await self._write(wire.FromDevice(answers=wire.Answers(signals=sent)))

    async def answer(self, message: RoundMessage) -> None:
        await self._write(wire.FromDevice(answer=wire.RoundMessage(id=message.id, content=message.content)))

    async def message(self, id: str) -> bytes | None:
        while True:
            said = await self._read()
            match said.WhichOneof("what"):
                case "message" if said.message.id == id:
                    return said.message.content
                case "over" if said.over.id == id:
                    return None
                case "rejected":
                    logs.event("rejected", device=self._device, reason=said.rejected)
                    return None
                case _:
                    continue

    async def withdraw(self, id: str, reason: WithdrawalReason) -> None:
        leaving = wire.Withdrawal(id=id, reason=reason.name)
        await self._write(wire.FromDevice(answers=wire.Answers(withdrawals=[leaving])))

    def close(self) -> None:
        self._stream.cancel()

    async def _write(self, message: wire.FromDevice) -> None:
        try:
            async with self._writing:  # its balance comes from another task
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

    async def _read_while_fresh(self, stale: Callable[[], bool]) -> wire.ToDevice:
        """Ends the connection where there are newer keys: between turns, which costs no round."""
        reading = asyncio.create_task(self._read())
        try:
            while not (await asyncio.wait([reading], timeout=_LOOK_SECONDS))[0]:
                if stale():
                    raise DisconnectedError("there are new keys: connecting again")
            return reading.result()
        finally:
            reading.cancel()

    async def _why(self, error: Exception) -> str:
        if await self._stream.code() == grpc.StatusCode.UNIMPLEMENTED:
            return f"the air {_OTHER_WIRE}"
        return _plain(error.details() if isinstance(error, aio.AioRpcError) else await self._stream.details()) or "gone"


class RemoteServer:
    """The server's port. One call for each slot, over one connection."""

    def __init__(self, channel: aio.Channel, *, slot_seconds: float) -> None:
        self._channel, self._air = channel, AirStub(channel)
        self._seconds = 2 * slot_seconds + _EXTRA_SECONDS  # a turn before it, and its own

    async def status(self) -> AirStatus:
        got = await _called(self._air.Status(wire.Nothing(), timeout=transport.CALL_SECONDS), "the air")
        faults = tuple(DeviceFault(each.device, each.reason, each.seconds) for each in got.faults)
        numbers = got.devices, got.quorum, got.connected, got.able, got.ready
        balances = {k: balance_of(each) for k, each in got.balances.items()}
        return AirStatus(*numbers, faults, got.version, dict(got.versions), balances)

    async def run_slot(self, id: str, number: int, asked: StatedTerms, of: AskedSlot = FIRST_SLOT) -> Sum | Withheld:
        await _reached(self._channel, "the air", self._air.Status)
        request = wire.SlotRequest(
            id=id, number=number, asked=asked.text, digest=asked.digest, slot=of.slot, ended=of.ended
        )
        got = await _called(self._air.RunSlot(request, timeout=self._seconds), "the air")
        course = Course(*(getattr(got.course, name) for name in Course._fields)) if got.HasField("course") else None
        if got.withheld:
            return Withheld(got.reason, got.spent, got.rejected, course)
        return Sum(unpacked(got.y), got.devices, got.carrier, got.simulated, course)


class RemoteRanking:
    """The port to the ranking server."""

    def __init__(self, channel: aio.Channel) -> None:
        self._channel, self._ranking = channel, RankingStub(channel)

    async def reachable(self) -> bool:
        try:
            await _reached(self._channel, "the ranking server")
        except UnreachedError:
            return False
        return True

    async def selected(self, id: str, device: int, devices: int, noisy_score: float) -> bool:
        score = wire.Score(id=id, device=device, devices=devices, noisy_score=noisy_score)
        call = self._ranking.Rank(score, timeout=transport.CALL_SECONDS)
        return (await _called(call, "the ranking server")).selected


def _plain(details: str | None) -> str | None:
    """The text of a failed gRPC call, in words where its own mislead."""
    return _mismatch(details) or details


def _mismatch(details: str | None) -> str:
    """TLS at one end alone, in words, where a failed call is due to that; else ""."""
    if "WRONG_VERSION_NUMBER" in (details or ""):
        return "the other end speaks without TLS, this one with: give --keys to both or to neither"
    if "failed to connect" in (details or "") and "Socket closed" in (details or ""):
        return "the other end hangs up at once: if it has --keys, this one needs --keys too"
    return ""


async def _reached(channel: aio.Channel, whom: str, status: Callable[..., Awaitable[object]] | None = None) -> None:
    """Waits until a channel is connected. Raises UnreachedError where it cannot be: nothing was sent then.

    status: a call that changes nothing, for the reason.
    """
    state = channel.get_state(try_to_connect=True)
    with suppress(TimeoutError):
        async with asyncio.timeout(transport.CALL_SECONDS):
            while state in (grpc.ChannelConnectivity.IDLE, grpc.ChannelConnectivity.CONNECTING):
                await channel.wait_for_state_change(state)
                state = channel.get_state(try_to_connect=True)
    if state != grpc.ChannelConnectivity.READY:
        why = ""
        if status is not None:
            try:
                await status(wire.Nothing(), timeout=_REASON_SECONDS)
            except aio.AioRpcError as error:
                why = _mismatch(error.details())
        raise UnreachedError(f"{whom} cannot be reached" + (f": {why}" if why else ""))


async def _called(call: Awaitable[_Reply], whom: str) -> _Reply:
    try:
        return await call
    except aio.AioRpcError as error:
        if error.code() == grpc.StatusCode.UNAVAILABLE:
            why = _mismatch(error.details())
            raise DisconnectedError(f"{whom} cannot be reached" + (f": {why}" if why else "")) from None
        if error.code() == grpc.StatusCode.UNIMPLEMENTED:
            raise DisconnectedError(f"{whom} {_OTHER_WIRE}") from None
        raise DisconnectedError(f"{whom}: {_plain(error.details()) or error.code().name.lower()}") from None


async def connected(
    open_port: Callable[[], Awaitable[RemoteDevice]], use: Callable[[RemoteDevice], Awaitable[None]]
) -> None:
    """Uses one port after the other, each until it is gone; waits between them, a second at most. Never returns.

    A reason that stays the same is logged once a minute, with the number of lines left out.
    """
    wait, said, log = _SHORTEST_WAIT, "", SparseLog()
    while True:
        try:
            port = await open_port()
            wait, said = _SHORTEST_WAIT, ""
            try:
                await use(port)
            finally:
                port.close()
        except DisconnectedError as why:
            if str(why) != said:
                said, log = str(why), SparseLog(Bucket(per_second=1 / _SAME_REASON_SECONDS, burst=1))
            log.event("not connected", reason=said)
        await asyncio.sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT)
