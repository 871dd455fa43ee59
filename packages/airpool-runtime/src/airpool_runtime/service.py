"""The gRPC services: each turns messages into calls of an air, a ranking server or a server, and back."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc import aio

from airpool._support.version import __version__
from airpool.runtime import legacy, logs, messages, transport
from airpool.runtime import wire_pb2 as wire
from airpool.runtime.air import Air
from airpool.runtime.idempotency import MOST_WAITING, BusyError, Repeats, StartedInference
from airpool.runtime.limits import Bucket
from airpool.runtime.messages import RejectedError
from airpool.runtime.ranking import RankingServer
from airpool.runtime.remote import PROTOCOL, packed, unpacked
from airpool.runtime.results import InferenceResult
from airpool.runtime.server import Server, new_id
from airpool.runtime.transport import PeerCredentials
from airpool.runtime.under_way import AskedSlot
from airpool.runtime.wire_pb2_grpc import AirServicer, InferencesServicer, RankingServicer
from airpool.runtime.wire_values import balance_message, balance_of, reason_of

_DIGEST, _VERSION = 64, 32  # characters
_ENDED = 64  # inferences that a server may say are over
_QUEUED = 64  # messages that a device may leave unread
_MESSAGES = 2_000.0  # of one device in a second
_TRUSTED_SECONDS = 1.0
_POLL_SECONDS = 0.02
_CALLS = 2_000.0  # of all clients in a second


class AirService(AirServicer):
    def __init__(self, air: Air, credentials: PeerCredentials | None = None) -> None:
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

        if hello.protocol == 0:
            stated, deliver = None, legacy.deliverer(say)
        else:
            stated, deliver = messages.StatedTerms(hello.digest[:_DIGEST], hello.terms), _deliverer(say)
        try:
            how = {"simulated": hello.simulated, "stated": stated, "version": hello.version[:_VERSION]}
            self._air.connect(hello.device, deliver, **how)
        except RejectedError as why:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(why))
        trusted = partial(transport.require_peer, context, f"device-{hello.device}", self._credentials)
        listening = asyncio.create_task(self._listen(hello, request_iterator, say, trusted))
        self._lines.add(say)
        try:
            yield wire.ToDevice(welcome=wire.Welcome(protocol=PROTOCOL, version=__version__, balances=True))
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
        await transport.require_peer(context, f"device-{first.hello.device}", self._credentials)
        return first.hello

    async def _listen(
        self, hello: wire.Hello, requests: AsyncIterator[wire.FromDevice], say: Any, trusted: Any
    ) -> None:
        """Handles the messages of a device until it hangs up. A message that cannot be read is rejected.

        trusted: ends the call if the device's certificate has been revoked, or has expired; asked now and then.
        """
        device = hello.device
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
                        of_ready = said.WhichOneof("what") in ("ready", "advert") and hello.protocol > 0
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
                if said.ready.advert:
                    return [lambda: air.advertise(device, said.ready.advert, left)]
                return [lambda: air.ready(device, said.ready.inferences, left)]
            case "advert":
                return [lambda: air.advertise(device, said.advert)]
            case "answer":
                return [lambda: air.take(device, messages.RoundMessage(said.answer.id, said.answer.content))]
            case "balance":
                return [lambda: air.told(device, balance_of(said.balance))]
            case "answers":
                signals, withdrawals = said.answers.signals, said.answers.withdrawals
            case "signal":
                signals, withdrawals = [said.signal], []
            case "withdraw":
                signals, withdrawals = [], [wire.Withdrawal(id=said.withdraw)]
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
            why = {"reason": got.reason, "spent": got.spent, "rejected": got.rejected}
            return wire.SlotOutcome(withheld=True, **why, course=course)
        what = {"devices": got.devices, "carrier": got.carrier, "simulated": got.simulated}
        return wire.SlotOutcome(y=packed(got.y), **what, course=course)

    async def Status(self, request: wire.Nothing, context: Any) -> wire.AirStatus:
        await transport.require_client(context, self._credentials)
        now = self._air.status()
        faults = [wire.Fault(device=each.device, reason=each.reason, seconds=each.seconds) for each in now.faults]
        return wire.AirStatus(
            ready=now.ready,
            quorum=now.quorum,
            connected=now.connected,
            able=now.able,
            faults=faults,
            version=now.version,
            devices=now.devices,
            versions=now.versions,
            balances={k: balance_message(each) for k, each in now.balances.items()},
        )


def _deliverer(say: Callable[[wire.ToDevice], None]) -> messages.Deliver:
    return lambda said: say(to_device(said))


def to_device(said: messages.Turn | messages.RoundMessage | messages.RoundOver) -> wire.ToDevice:
    """A message of the hub to a device, on the wire."""
    if isinstance(said, messages.RoundMessage):
        return wire.ToDevice(message=wire.RoundMessage(id=said.id, content=said.content))
    if isinstance(said, messages.RoundOver):
        return wire.ToDevice(over=wire.RoundOver(id=said.id))
    return wire.ToDevice(turn=wire.Turn(announcements=[_announcement(each) for each in said]))


def _announcement(told: messages.Announcement) -> wire.Announcement:
    same = ("id", "number", "gain", "devices", "epoch", "digest", "ended", "moment", "window")
    what = {name: getattr(told, name) for name in same}
    if told.inference not in ("", told.id):  # of several slots
        what |= {"inference": told.inference, "slot": told.slot}
    return wire.Announcement(**what)


def _signal_of(sent: wire.Signal) -> messages.SlotSignal:
    samples = unpacked(sent.samples if len(sent.samples) % 8 == 0 else b"")
    return messages.SlotSignal(sent.id, samples, sent.scale, sent.charged)


def _not_understood() -> None:
    raise RejectedError("not understood")


class RankingService(RankingServicer):
    def __init__(self, ranking: RankingServer, credentials: PeerCredentials | None = None) -> None:
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
    def __init__(self, server: Server, credentials: PeerCredentials | None = None) -> None:
        self._server, self._credentials = server, credentials
        self._allowed = Bucket(_CALLS, int(2 * _CALLS))
        self._repeats, self._waiting = Repeats(), set[asyncio.Task[InferenceResult]]()

    async def Infer(self, request: wire.Nothing, context: Any) -> wire.Result:
        caller = await transport.require_client(context, self._credentials)
        if not self._allowed.take():
            await transport.refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls")
        key = dict(context.invocation_metadata() or ()).get("idempotency-key")
        try:
            task = self._repeats.started(caller, key, b"", self._started).task
        except BusyError as why:
            await transport.refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, str(why))
            raise AssertionError("abort raises") from None
        except ValueError as why:
            await transport.refuse(context, grpc.StatusCode.INVALID_ARGUMENT, str(why))
            raise AssertionError("abort raises") from None
        return message_of(await asyncio.shield(task))

    def _started(self) -> StartedInference:
        if len(self._waiting) >= MOST_WAITING:
            raise BusyError(f"{MOST_WAITING} inferences are waiting")
        id = new_id()
        # It goes on when the client hangs up, and is counted: the devices have paid.
        task = asyncio.create_task(self._server.infer(id))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)
        return StartedInference(id, task)

    async def FindResult(self, request: wire.ResultRequest, context: Any) -> wire.Result:
        await transport.require_client(context, self._credentials)
        found = self._server.result(request.id)
        if found is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such result, or too old")
        assert found is not None
        return message_of(found)


def message_of(result: InferenceResult) -> wire.Result:
    promised = result.guarantee
    return wire.Result(
        id=result.id,
        number=result.number,
        status=result.status,
        label=-1 if result.label is None else result.label,
        name=result.name or "",
        probabilities=result.probabilities,
        logits=result.logits,
        devices=result.devices,
        spent=result.spent,
        seconds=result.seconds,
        reason=result.reason,
        simulated=result.simulated,
        note=result.note,
        guarantee=wire.Guarantee(
            device=promised.device,
            local=promised.local,
            object=promised.object,
            delta=promised.delta,
            neighbours=promised.neighbours,
        ),
        slots=result.slots,
        cap=result.cap,
        sure=result.sure,
        probability=result.probability,
    )
