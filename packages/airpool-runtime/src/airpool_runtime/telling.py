"""Devices report new rows of their ledgers to the server's view of the fleet. Its answers can only silence them.

The server has one connection to the view: one thread, a bounded queue, and a new connection after a loss. Inferences
never wait for the view. It may be absent when the server starts, restart, or hang: devices are then asked to try later,
and readiness, metrics and the log say so.
"""

import asyncio
import json
import queue
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import grpc
from grpc import aio

from airpool._support.errors import AirpoolError
from airpool_runtime import logs, transport
from airpool_runtime import wire_pb2 as wire
from airpool_runtime.keys.credentials import Credentials
from airpool_runtime.ledger import fleet
from airpool_runtime.ledger.backup import Content, content, exported, imported
from airpool_runtime.ledger.chain import Row
from airpool_runtime.ledger.fleet import Fleet, FleetReportError
from airpool_runtime.ledger.refused import SpendingError
from airpool_runtime.wire_pb2_grpc import FleetServicer, FleetStub

_QUEUED = 8  # jobs, of one message each
_PAUSE_SECONDS = 1e-4  # after each row: the event loop gets its turn in between
_PING_SECONDS, _SLOW_SECONDS, _STOP_SECONDS = 5.0, 10.0, 2.0
_SHORTEST_WAIT, _LONGEST_WAIT = 0.5, 30.0

_Found = TypeVar("_Found")
Pause = Callable[[], None]


class ViewUnavailableError(AirpoolError):
    """The view cannot be reached now, or has too much to do: try later."""


class _StoppedError(AirpoolError):
    """The server is stopping."""


@dataclass(frozen=True)
class ViewStatus:
    """State of the view. up: it answers. reason: why not. rows: taken. postponed: messages that must come again."""

    up: bool
    reason: str
    queued: int
    rows: int
    postponed: int


class FleetKeeper:
    """The view at a URL. A wrong URL, or a SQLite file that cannot be opened, is an error at once."""

    def __init__(self, url: str) -> None:
        self._url, self._view = url, None
        if not fleet.is_remote(url):
            self._view = Fleet(url)
        self._jobs: queue.Queue[tuple[Future[Any], Callable[[Fleet, Pause], Any]]] = queue.Queue(_QUEUED)
        self._reason = "" if self._view else "not connected yet"
        self._busy_since: float | None = None
        self._wait, self._retry_at = _SHORTEST_WAIT, 0.0
        self._rows = self._postponed = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fleet view", daemon=True)
        self._thread.start()

    @property
    def status(self) -> ViewStatus:
        since, reason = self._busy_since, self._reason
        if not reason and since is not None and time.monotonic() - since > _SLOW_SECONDS:
            reason = f"no answer for {time.monotonic() - since:.0f} s"
        return ViewStatus(not reason, reason, self._jobs.qsize(), self._rows, self._postponed)

    async def done(self, job: Callable[[Fleet, Pause], _Found]) -> _Found:
        """Result of a job in the view's thread. The job calls the pause that it is given between its parts."""
        future: Future[_Found] = Future()
        try:
            if self._reason:
                raise ViewUnavailableError(f"the fleet view is not available ({self._reason}): try later")
            self._jobs.put_nowait((future, job))
        except (queue.Full, ViewUnavailableError) as error:
            self._postponed += 1
            raise ViewUnavailableError(str(error) or "the fleet view has too much to do: try later") from None
        return await asyncio.wrap_future(future)

    def count(self, rows: int) -> None:
        self._rows += rows

    async def stop(self) -> None:
        """Ends the thread; one that hangs in the database is left behind after a moment."""
        self._stopping.set()
        until = time.monotonic() + _STOP_SECONDS
        while self._thread.is_alive() and time.monotonic() < until:
            await asyncio.sleep(0.01)

    def _run(self) -> None:
        pinged = time.monotonic()
        while not self._stopping.is_set():
            if self._view is None and time.monotonic() >= self._retry_at:
                self._connect()
            try:
                future, job = self._jobs.get(timeout=0.1)
            except queue.Empty:
                if time.monotonic() - pinged > _PING_SECONDS:
                    pinged = time.monotonic()
                    if self._view is not None and not self._view.answers():
                        self._lose("the connection is lost", seconds=0.0)
                continue
            if future.set_running_or_notify_cancel():
                self._busy_since = time.monotonic()
                self._answer(future, job)
                self._busy_since = None
        if self._view is not None:
            self._view.close()

    def _answer(self, future: Future[Any], job: Callable[[Fleet, Pause], Any]) -> None:
        try:
            future.set_result(self._with_view(job))
        except _StoppedError:
            future.set_exception(ViewUnavailableError("the server is stopping: try later"))
        except Exception as error:
            self._postponed += isinstance(error, ViewUnavailableError)
            future.set_exception(error)

    def _with_view(self, job: Callable[[Fleet, Pause], Any]) -> Any:
        """Result of a job; after a loss of the connection, once more over a new one: rows are taken once."""
        for last in (False, True):
            if self._view is None:
                self._connect()
            if self._view is None:
                break
            try:
                return job(self._view, self._pause)
            except fleet.base_errors() as error:
                if not fleet.is_passing(error):
                    raise FleetReportError(f"the view does not take this ({type(error).__name__})") from None
                if self._view.answers():
                    raise ViewUnavailableError(f"the fleet view is busy ({type(error).__name__}): try later") from None
                self._lose(type(error).__name__, seconds=self._wait if last else 0.0)
        raise ViewUnavailableError(f"the fleet view is not available ({self._reason}): try later")

    def _connect(self) -> None:
        try:
            self._view = Fleet(self._url)
        except ValueError as error:
            self._lose(str(error), seconds=self._wait)
            return
        if self._reason:
            logs.event("fleet", reason="the view is connected")
        self._reason, self._wait = "", _SHORTEST_WAIT

    def _lose(self, reason: str, *, seconds: float) -> None:
        if self._view is not None:
            self._view.close()
        if reason != self._reason:
            logs.event("fleet", reason=f"not connected: {reason[:200]}", seconds=seconds)
        self._view, self._reason, self._retry_at = None, reason, time.monotonic() + seconds
        self._wait = min(2 * self._wait, _LONGEST_WAIT) if seconds else self._wait

    def _pause(self) -> None:
        if self._stopping.is_set():
            raise _StoppedError
        time.sleep(_PAUSE_SECONDS)


_EVERY_SECONDS, _LONGEST_SECONDS = 5.0, 60.0
_ROWS, _BYTES = 500, 2**20  # in one message: rows, about 250 kB, and mechanisms, of which one may be larger


class FleetService(FleetServicer):
    """Takes rows into a view. A device speaks only for itself, by rows that it has signed, one call at a time."""

    def __init__(self, keeper: FleetKeeper, credentials: Credentials | None = None) -> None:
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
        except ValueError as why:
            await transport.refuse(context, grpc.StatusCode.INVALID_ARGUMENT, str(why)[:200])
        finally:
            self._calling.discard(peer)
        return wire.LedgerHead(row="" if newest is None else json.dumps(newest))


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


def _part(found: Content) -> Content:
    """As many rows as one message takes, and the mechanisms that they name first."""
    rows, texts, room = list[Row](), dict[str, str](), _BYTES
    for row in found.rows[:_ROWS]:
        if row.mechanism in found.texts and row.mechanism not in texts:
            room -= len(found.texts[row.mechanism])
            if rows and room < 0:
                break
            texts[row.mechanism] = found.texts[row.mechanism]
        rows.append(row)
    return Content(found.origin, texts, tuple(rows))


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
        part = _part(found)
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
