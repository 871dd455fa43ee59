"""Devices report new rows of their ledgers to the server's view of the fleet. Its answers can only silence them."""

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

from airpool.runtime import logs, transport
from airpool.runtime import wire_pb2 as wire
from airpool.runtime.fleet_keeper import FleetKeeper, Pause, ViewUnavailableError
from airpool.runtime.ledger.backup import Content, content, exported, imported
from airpool.runtime.ledger.chain import Row
from airpool.runtime.ledger.fleet import Fleet
from airpool.runtime.ledger.refused import SpendingError
from airpool.runtime.transport import PeerCredentials
from airpool.runtime.wire_pb2_grpc import FleetServicer, FleetStub

_EVERY_SECONDS, _LONGEST_SECONDS = 5.0, 60.0
_ROWS = 500  # in one message, about 250 kB


class FleetService(FleetServicer):
    """Takes rows into a view. A device speaks only for itself, by rows that it has signed, one call at a time."""

    def __init__(self, keeper: FleetKeeper, credentials: PeerCredentials | None = None) -> None:
        self.keeper, self._credentials, self._calling = keeper, credentials, set[str]()

    async def ReportLedger(self, request: wire.LedgerReport, context: Any) -> wire.LedgerHead:
        peer = await transport.require_known(context, self._credentials)
        if peer in self._calling:
            await transport.refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "one call at a time: try later")
        self._calling.add(peer)
        try:
            told = None
            if request.export:
                told = await self.keeper.done(lambda _, pause: _parsed(request.export, pause))
                await transport.require_peer(context, told.origin.device, self._credentials)
            taken, owner, newest = await self.keeper.done(lambda view, pause: _taken(view, told, request.key, pause))
            self.keeper.count(taken)
            if owner is not None:
                await transport.require_peer(context, owner, self._credentials)
        except ViewUnavailableError as why:
            await transport.refuse(context, grpc.StatusCode.UNAVAILABLE, str(why)[:200])
            raise AssertionError("abort raises") from None
        except ValueError as why:
            await transport.refuse(context, grpc.StatusCode.INVALID_ARGUMENT, str(why)[:200])
            raise AssertionError("abort raises") from None
        finally:
            self._calling.discard(peer)
        return wire.LedgerHead(row="" if newest is None else json.dumps(newest.listed))


def _parsed(export: str, pause: Pause) -> Content:
    def lines() -> Iterator[str]:
        for line in export.splitlines():
            pause()
            yield line

    return imported(lines())


def _taken(view: Fleet, told: Content | None, key: str, pause: Pause) -> tuple[int, str | None, Row | None]:
    """Number of new rows; owner and newest row of a key."""
    taken = 0 if told is None else view.take(told, pause=pause)
    return taken, view.owner(key), view.newest(key)


async def newest(channel: aio.Channel, key: str) -> Row | None:
    """The newest row that the view has of a key; None also if the view cannot be reached: it is not relied on."""
    try:
        told = await FleetStub(channel).ReportLedger(wire.LedgerReport(key=key), timeout=transport.CALL_SECONDS)
        return Row(*json.loads(told.row)) if told.row else None
    except (aio.AioRpcError, ValueError, TypeError, RecursionError) as error:
        logs.event("fleet", reason=error.details() if isinstance(error, aio.AioRpcError) else "not understood")
        return None


async def tell(channel: aio.Channel, path: Path) -> int:
    """Sends all rows that the view lacks; returns their number."""
    stub, told, sent = FleetStub(channel), 0, 0
    key = (await asyncio.to_thread(content, path, after=2**62)).origin.key
    reply = await stub.ReportLedger(wire.LedgerReport(key=key), timeout=transport.CALL_SECONDS)
    while True:
        after = int(json.loads(reply.row)[0]) if reply.row else 0
        if after < sent:
            raise ValueError(f"the view does not have row {sent}, which it has received")
        found = await asyncio.to_thread(content, path, after=after)
        if not found.rows:
            return told
        part = Content(found.origin, found.texts, found.rows[:_ROWS])
        asked = wire.LedgerReport(key=key, export="\n".join(exported(part)))
        reply = await stub.ReportLedger(asked, timeout=transport.CALL_SECONDS)
        told, sent = told + len(part.rows), part.rows[-1].seq


async def telling(channel: aio.Channel, path: Path) -> None:
    """Sends new rows at intervals, without end. A view that is gone, or that refuses, changes nothing; it is asked
    ever less often."""
    failed = 0
    while True:
        failed += 1
        try:
            await tell(channel, path)
            failed = 0
        except aio.AioRpcError as error:
            logs.event("fleet", reason=error.details() or error.code().name.lower())
        except (SpendingError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
            logs.event("fleet", reason=str(error)[:200])
        # At random within a factor, so that devices do not all come back at once.
        await asyncio.sleep(min(_EVERY_SECONDS * 2 ** min(failed, 8), _LONGEST_SECONDS) * random.uniform(0.8, 1.2))
