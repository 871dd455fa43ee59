"""Devices report new rows of their ledgers to the server's view of the fleet. Its answers can only silence them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

from airpool.runtime import logs, transport
from airpool.runtime import wire_pb2 as wire
from airpool.runtime.ledger.backup import Content, content, exported, imported
from airpool.runtime.ledger.chain import Row
from airpool.runtime.ledger.fleet import Fleet
from airpool.runtime.ledger.refused import SpendingError
from airpool.runtime.transport import PeerCredentials
from airpool.runtime.wire_pb2_grpc import FleetServicer, FleetStub

_EVERY_SECONDS = 5.0
_ROWS = 2_000  # in one message, about 1 MB


class FleetService(FleetServicer):
    """Takes rows into a view. A device speaks only for itself, and only by rows that it has signed."""

    def __init__(self, view: Fleet, credentials: PeerCredentials | None = None) -> None:
        self._view, self._credentials, self._one = view, credentials, asyncio.Lock()

    async def Tell(self, request: wire.Told, context: Any) -> wire.Newest:
        await transport.require_known(context, self._credentials)
        try:
            told = imported(request.export.splitlines()) if request.export else None
            if told is not None:
                await transport.require_peer(context, told.origin.device, self._credentials)
            async with self._one:
                owner, newest = await asyncio.to_thread(self._taken, told, request.key)
            if owner is not None:
                await transport.require_peer(context, owner, self._credentials)
        except ValueError as why:
            await transport.refuse(context, grpc.StatusCode.INVALID_ARGUMENT, str(why)[:200])
            raise AssertionError("abort raises") from None
        return wire.Newest(row="" if newest is None else json.dumps(newest.listed))

    def _taken(self, told: Content | None, key: str) -> tuple[str | None, Row | None]:
        if told is not None:
            self._view.take(told)
        return self._view.owner(key), self._view.newest(key)


async def newest(channel: aio.Channel, key: str) -> Row | None:
    """The newest row that the view has of a key; None also if the view cannot be reached: it is not relied on."""
    try:
        told = await FleetStub(channel).Tell(wire.Told(key=key), timeout=transport.CALL_SECONDS)
        return Row(*json.loads(told.row)) if told.row else None
    except (aio.AioRpcError, ValueError, TypeError, RecursionError) as error:
        logs.event("fleet", reason=error.details() if isinstance(error, aio.AioRpcError) else "not understood")
        return None


async def tell(channel: aio.Channel, path: Path) -> int:
    """Sends all rows that the view lacks; returns their number."""
    stub, told, sent = FleetStub(channel), 0, 0
    key = (await asyncio.to_thread(content, path, after=2**62)).origin.key
    reply = await stub.Tell(wire.Told(key=key), timeout=transport.CALL_SECONDS)
    while True:
        after = int(json.loads(reply.row)[0]) if reply.row else 0
        if after < sent:
            raise ValueError(f"the view does not have row {sent}, which it has received")
        found = await asyncio.to_thread(content, path, after=after)
        if not found.rows:
            return told
        part = Content(found.origin, found.texts, found.rows[:_ROWS])
        asked = wire.Told(key=key, export="\n".join(exported(part)))
        reply = await stub.Tell(asked, timeout=transport.CALL_SECONDS)
        told, sent = told + len(part.rows), part.rows[-1].seq


async def telling(channel: aio.Channel, path: Path) -> None:
    """Sends new rows at intervals, without end. A view that is gone, or that refuses, changes nothing."""
    while True:
        try:
            await tell(channel, path)
        except aio.AioRpcError as error:
            logs.event("fleet", reason=error.details() or error.code().name.lower())
        except (SpendingError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
            logs.event("fleet", reason=str(error)[:200])
        await asyncio.sleep(_EVERY_SECONDS)
