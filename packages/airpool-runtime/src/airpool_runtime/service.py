"""The gRPC services: each turns messages into calls of an air, a ranking server or a server, and back."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc import aio

from airpool._support.version import __version__
from airpool_runtime import logs, messages, transport
from airpool_runtime import wire_pb2 as wire
from airpool_runtime.air import Air
from airpool_runtime.idempotency import BusyError, Inferences
from airpool_runtime.keys.credentials import Credentials
from airpool_runtime.logs import Bucket
from airpool_runtime.messages import RejectedError, balance_message, balance_of, reason_of
from airpool_runtime.ranking import RankingServer
from airpool_runtime.remote import PROTOCOL, packed, unpacked
from airpool_runtime.server import InferenceResult, Server
from airpool_runtime.under_way import AskedSlot
from airpool_runtime.wire_pb2_grpc import AirServicer, InferencesServicer, RankingServicer

_DIGEST, _VERSION = 64, 32  # characters
_ENDED = 64  # inferences that a server may say are over
_QUEUED = 64  # messages that a device may leave unread
_MESSAGES = 2_000.0  # of one device in a second
_TRUSTED_SECONDS = 1.0
_POLL_SECONDS = 0.02
_CALLS = 2_000.0  # of all clients in a second


class AirService(AirServicer):
    def __init__(self, air: Air, credentials: Credentials | None = None) -> None:
        self._air, self._credentials = air, credentials
        self._lines = set[Callable[[None], None]]()

    async def Connect(
        self, request_iterator: AsyncIterator[wire.FromDevice], context: Any
    ) -> AsyncIterator[wire.ToDevice]:
        hello = await self._hello(request_iterator, context)
        outgoing: asyncio.Queue[wire.ToDevice | None] = asyncio.Queue(_QUEUED)

        def say(message: wire.ToDevice | None) -> None:
            if outgoing.full():
                outgoing.get_nowait()
            outgoing.put_nowait(message)

        stated, version = messages.StatedTerms(hello.digest[:_DIGEST], hello.terms), hello.version[:_VERSION]
        try:
            self._air.connect(
                hello.device,
                lambda said: say(to_device(said)),
                simulated=hello.simulated,
                stated=stated,
                version=version,
            )
        except RejectedError as why:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(why))
        trusted = partial(transport.require_peer, context, f"device-{hello.device}", self._credentials)
        listening = asyncio.create_task(self._listen(hello.device, request_iterator, say, trusted))
        self._lines.add(say)
        try:
            yield wire.ToDevice(welcome=wire.Welcome(version=__version__))
            while (message := await outgoing.get()) is not None:
                yield message
        finally:
            self._lines.discard(say)
            listening.cancel()
            self._air.disconnect(hello.device)

    async def close(self, seconds: float) -> None:
        """Ends the connections of all devices: as soon as no inference runs, at last after so many seconds.

        Handlers that gRPC has to cancel would print a traceback each.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._air.busy:
                    await asyncio.sleep(_POLL_SECONDS)
        for say in tuple(self._lines):
            say(None)

    async def _hello(self, requests: AsyncIterator[wire.FromDevice], context: Any) -> wire.Hello:
        try:
            async with asyncio.timeout(transport.CALL_SECONDS):
                first = await anext(requests)
        except (TimeoutError, StopAsyncIteration, DecodeError):
            first = wire.FromDevice()
        if first.WhichOneof("what") != "hello":
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "a device says hello first")
        hello = first.hello
        await transport.require_peer(context, f"device-{hello.device}", self._credentials)
        if hello.protocol != PROTOCOL:
            why = f"device {hello.device} speaks version {hello.protocol} of the wire, this air version {PROTOCOL}"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"{why}: run the same airpool at both")
        return hello

    async def _listen(self, device: int, requests: AsyncIterator[wire.FromDevice], say: Any, trusted: Any) -> None:
        """Handles the messages of a device until it hangs up. A message that cannot be read is rejected.

        trusted: ends the call if the device's certificate has been revoked, or has expired; asked now and then.
        """
        try:
            recheck, allowed = Bucket(1 / _TRUSTED_SECONDS, 1), Bucket(_MESSAGES, int(2 * _MESSAGES))
            async for said in requests:
                if not allowed.take():
                    logs.event("rejected", device=device, reason="too many messages")
                    return
                if recheck.take():
                    await trusted()
                for act in self._acts(device, said):
                    try:
                        act()
                    except RejectedError as why:
                        of_ready = said.WhichOneof("what") in ("ready", "advert")
                        say(wire.ToDevice(unready=str(why)) if of_ready else wire.ToDevice(rejected=str(why)))
        except (DecodeError, aio.BaseError, aio.AbortError) as error:
            logs.event("rejected", device=device, reason=type(error).__name__)
        finally:
            say(None)

    def _acts(self, device: int, said: wire.FromDevice) -> list[Callable[[], None]]:
        """The calls of the air that a message stands for."""
        air = self._air
        match said.WhichOneof("what"):
            case "ready":
                left = said.ready.left if said.ready.HasField("left") else None
                return [lambda: air.ready(device, said.ready.inferences, left, advert=said.ready.advert or None)]
            case "advert":
                return [lambda: air.ready(device, advert=said.advert)]
            case "answer":
                return [lambda: air.take(device, messages.RoundMessage(said.answer.id, said.answer.content))]
            case "balance":
                return [lambda: air.told(device, balance_of(said.balance))]
            case "answers":
                signals, withdrawals = said.answers.signals, said.answers.withdrawals
            case _:
                return [_not_understood]
        taken = [partial(air.take, device, _signal_of(each)) for each in signals]
        return taken + [partial(air.withdraw, device, each.id, reason_of(each.reason)) for each in withdrawals]

    async def RunSlot(self, request: wire.SlotRequest, context: Any) -> wire.SlotOutcome:
        await transport.require_peer(context, "server", self._credentials)
        asked = messages.StatedTerms(request.digest[:_DIGEST], request.asked)
        of = AskedSlot(request.slot or 1, tuple(request.ended[:_ENDED]))
        got = await self._air.run_slot(request.id, request.number, asked, of)
        course = None if got.course is None else wire.Course(**got.course._asdict())
        if isinstance(got, messages.Withheld):
            return wire.SlotOutcome(
                withheld=True, reason=got.reason, spent=got.spent, rejected=got.rejected, course=course
            )
        return wire.SlotOutcome(
            y=packed(got.y), devices=got.devices, carrier=got.carrier, simulated=got.simulated, course=course
        )

    async def Status(self, request: wire.Nothing, context: Any) -> wire.AirStatus:
        await transport.require_client(context, self._credentials)
        now = await self._air.status()
        told: dict[str, Any] = asdict(now)
        told["balances"] = {k: balance_message(each) for k, each in now.balances.items()}
        return wire.AirStatus(**told)


def to_device(said: messages.Turn | messages.RoundMessage | messages.RoundOver) -> wire.ToDevice:
    """A message of the hub to a device, on the wire."""
    if isinstance(said, messages.RoundMessage):
        return wire.ToDevice(message=wire.RoundMessage(id=said.id, content=said.content))
    if isinstance(said, messages.RoundOver):
        return wire.ToDevice(over=wire.RoundOver(id=said.id))
    return wire.ToDevice(turn=wire.Turn(announcements=[_announcement(each) for each in said]))


def _announcement(told: messages.Announcement) -> wire.Announcement:
    of_one = {"inference": "", "slot": 0} if told.inference in ("", told.id) else {}
    return wire.Announcement(**vars(told) | of_one)


def _signal_of(sent: wire.Signal) -> messages.SlotSignal:
    samples = unpacked(sent.samples if len(sent.samples) % 8 == 0 else b"")
    return messages.SlotSignal(sent.id, samples, sent.scale, sent.charged)


def _not_understood() -> None:
    raise RejectedError("not understood")


class RankingService(RankingServicer):
    def __init__(self, ranking: RankingServer, credentials: Credentials | None = None) -> None:
        self._ranking, self._credentials = ranking, credentials

    async def Rank(self, request: wire.Score, context: Any) -> wire.Selected:
        await transport.require_peer(context, f"device-{request.device}", self._credentials)
        try:
            chosen = await self._ranking.selected(request.id, request.device, request.devices, request.noisy_score)
            return wire.Selected(selected=chosen)
        except RejectedError as why:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(why))
        except messages.DisconnectedError as why:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(why))
        raise AssertionError("abort raises")


class InferencesService(InferencesServicer):
    def __init__(self, server: Server, credentials: Credentials | None = None) -> None:
        self._server, self._credentials = server, credentials
        self._allowed = Bucket(_CALLS, int(2 * _CALLS))
        self._inferences = Inferences(server)

    async def Infer(self, request: wire.Nothing, context: Any) -> wire.Result:
        caller = await transport.require_client(context, self._credentials)
        if not self._allowed.take():
            await transport.refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls")
        key = dict(context.invocation_metadata() or ()).get("idempotency-key")
        try:
            task = self._inferences.started(caller, key, b"").task
        except BusyError as why:
            await transport.refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, str(why))
        except ValueError as why:
            await transport.refuse(context, grpc.StatusCode.INVALID_ARGUMENT, str(why))
        return message_of(await asyncio.shield(task))

    async def FindResult(self, request: wire.ResultRequest, context: Any) -> wire.Result:
        await transport.require_client(context, self._credentials)
        found = self._server.result(request.id)
        if found is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such result, or too old")
        assert found is not None
        return message_of(found)


def message_of(result: InferenceResult) -> wire.Result:
    told: dict[str, Any] = asdict(result)
    told |= {"label": -1 if result.label is None else result.label, "name": result.name or "", "note": result.note}
    return wire.Result(**told)
