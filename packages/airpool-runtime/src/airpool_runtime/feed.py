"""The feed of a server: devices, inferences, courses of slots and rates, for those who watch (`GET /events`).

Read-only. It says what the server's answers say, and what the air says of devices; nothing of what a device sees or
sends. All that it keeps is bounded. It asks the air how devices are twice a second, while somebody watches.

Each listener gets a snapshot first and changes from then on. One that reads too slowly loses what waits for it, is told
how many events that were, and begins anew with a snapshot: nothing grows, and nobody else waits.
"""

import asyncio
import json
import math
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import asdict
from statistics import median
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Message, Send

from airpool._support.version import __version__
from airpool.account.report import number
from airpool_runtime.messages import AirStatus, Balance, DisconnectedError
from airpool_runtime.server import InferenceResult, Server, SlotCourse
from airpool_runtime.telling import FleetKeeper

LOOK_SECONDS, _ANSWER_SECONDS = 0.5, 2.0
_KEPT, _TIMES = {"inferences": 50, "changes": 50, "seconds": 300}, 256
_FOR_GOOD = 1e8  # seconds
_SHOWN = ("id", "number", "status", "label", "name", "probability", "sure", "slots", "cap", "devices", "spent")
QUEUED, HEARTBEAT_SECONDS = 512, 5.0
_STUCK_SECONDS = 30.0  # after which a client that reads nothing is given up
Snapshot = Callable[[], Awaitable[dict[str, Any]]]


class Stream(StreamingResponse):
    """A reply in parts, to a client that has to read them: else all that wait for it would be held for good."""

    def __init__(self, parts: AsyncGenerator[bytes], media_type: str) -> None:
        super().__init__(parts, 200, {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}, media_type)
        self._parts = parts

    async def stream_response(self, send: Send) -> None:
        async def read(message: Message) -> None:
            async with asyncio.timeout(_STUCK_SECONDS):
                await send(message)

        with suppress(TimeoutError):
            async with aclosing(self._parts):
                await super().stream_response(read)


def event(name: str, data: Any) -> str:
    """One event.

    >>> event("lost", {"count": 3})
    'event: lost\\ndata: {"count":3}\\n\\n'
    """
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False, separators=(',', ':'), allow_nan=False)}\n\n"


class Listener:
    """One client's queue. lost: events that it has missed since its last snapshot."""

    def __init__(self, queued: int = QUEUED) -> None:
        self._waiting, self._there = deque[str](maxlen=queued), asyncio.Event()
        self.lost, self.over = 0, False

    def put(self, text: str) -> None:
        self.lost += len(self._waiting) == self._waiting.maxlen
        self._waiting.append(text)
        self._there.set()

    def end(self) -> None:
        self.over = True
        self._there.set()

    async def next(self, snapshot: Snapshot) -> str:
        """The events since the last call, as text; a comment where nothing comes for a while."""
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                await self._there.wait()
        except TimeoutError:
            return ":\n\n"
        self._there.clear()
        if self.lost:
            lost, self.lost = self.lost + len(self._waiting), 0
            self._waiting.clear()
            return event("lost", {"count": lost}) + event("snapshot", await snapshot())
        found = "".join(self._waiting)
        self._waiting.clear()
        return found


class Listeners:
    """Those who listen, at most so many."""

    def __init__(self, most: int = 32) -> None:
        self._most, self._all = most, set[Listener]()

    def __len__(self) -> int:
        return len(self._all)

    @property
    def full(self) -> bool:
        return len(self._all) >= self._most

    def publish(self, name: str, data: Any) -> None:
        if self._all:
            text = event(name, data)
            for each in self._all:
                each.put(text)

    def close(self) -> None:
        for each in self._all:
            each.end()

    @contextmanager
    def one(self) -> Iterator[Listener]:
        listener = Listener()
        self._all.add(listener)
        try:
            yield listener
        finally:
            self._all.discard(listener)

    def stream(self, snapshot: Snapshot) -> Stream:
        """The reply to one who listens. It ends when the client hangs up, or reads nothing."""

        async def parts() -> AsyncGenerator[bytes]:
            with self.one() as listener:
                yield event("snapshot", await snapshot()).encode("utf-8", "replace")
                while not listener.over:
                    yield (await listener.next(snapshot)).encode("utf-8", "replace")

        return Stream(parts(), "text/event-stream")


def take(known: dict[str, Any], name: str, data: Any) -> bool:
    """Brings a snapshot up to date with an event; whether it is one of a feed's. Devices are by index."""
    match name:
        case "devices":
            known["devices"] |= {each["device"]: each for each in data["devices"]}
            known["air"] = data["air"]
            _keep(known, "changes", *data["changes"])
        case "inference":
            _keep(known, "inferences", data)
            _count(known["counts"], data["status"])
            for what, number in (("inferences", 1), ("slots", data["slots"]), ("spent", int(data["spent"]))):
                _count(known["totals"], what, number)
        case "course":
            known["course"] = data
        case "second":
            _keep(known, "seconds", data)
        case _:
            return False
    return True


def _keep(known: dict[str, Any], name: str, *more: Any) -> None:
    known[name] = [*known[name], *more][-_KEPT[name] :]


def _count(counts: dict[str, int], what: str, number: int = 1) -> None:
    counts[what] = counts.get(what, 0) + number


class Feed:
    """The state and the events of one server. fleet: its view of the devices' ledgers."""

    def __init__(self, server: Server, fleet: FleetKeeper | None = None) -> None:
        self.listeners = Listeners()
        self._server, self._fleet, self._began = server, fleet, time.time()
        self._known: dict[str, Any] = {"air": {}, "devices": {}, "counts": {}, "totals": {}, "course": None}
        self._known |= {name: [] for name in _KEPT}
        self._seconds = _Seconds()
        self._watching: asyncio.Task[None] | None = None
        server.observers.append(self._inferred)
        server.slot_observers.append(self._slotted)

    def stream(self) -> Stream:
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch())
        return self.listeners.stream(self.snapshot)

    def close(self) -> None:
        self.listeners.close()
        if self._watching is not None:
            self._watching.cancel()

    async def snapshot(self) -> dict[str, Any]:
        await self._look()
        server = self._server
        return {
            "time": _now(),
            "version": __version__,
            "since": round(self._began, 3),
            "simulated": server.simulated,
            "classes": len(server.codec.classes),
            "guarantee": server.guarantee.to_json(),
            "cap": server.network.slots.count,
            **self._known,
            "devices": list(self._known["devices"].values()),
        }

    def _tell(self, name: str, data: dict[str, Any]) -> None:
        take(self._known, name, data)
        self.listeners.publish(name, data)

    def _inferred(self, found: InferenceResult) -> None:
        told = {"time": _now(), **{name: getattr(found, name) for name in _SHOWN}}
        told |= {"seconds": found.seconds, "reason": found.reason, "probability": _finite(found.probability)}
        self._second_ended()
        self._seconds.note(found)
        self._tell("inference", told)

    def _slotted(self, found: SlotCourse) -> None:
        self._tell("course", {"time": _now(), **found._asdict()})

    async def _watch(self) -> None:
        """Looks at the air, and ends each second, until nobody listens any more."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not len(self.listeners):
                return
            await self._look()
            self._second_ended()

    def _second_ended(self) -> None:
        if (said := self._seconds.ended()) is not None:
            self._tell("second", said)

    async def _look(self) -> None:
        before: dict[int, dict[str, Any]] = self._known["devices"]
        try:
            status = await asyncio.wait_for(self._server.port.status(), _ANSWER_SECONDS)
            air = {"reached": True, "reason": "", "able": status.able, "quorum": status.quorum}
            air |= {"connected": status.connected, "version": status.version}
            devices = _devices(status, before)
        except (DisconnectedError, TimeoutError) as why:
            air = {"reached": False, "reason": str(why) or f"no answer within {_ANSWER_SECONDS:g} s"}
            unknown = {"state": "unknown", "reason": "the air cannot be asked"}
            count = self._server.network.devices.count
            devices = {k: {**before.get(k, _blank(k)), **unknown} for k in range(count)}
        if self._fleet is not None:
            air["fleet"] = self._fleet.status.reason or "ok"
        changed = [each for k, each in devices.items() if each != before.get(k)]
        if not changed and air == self._known["air"]:
            return
        fresh = [
            {"time": _now(), "device": each["device"], "state": each["state"], "reason": each["reason"]}
            for each in changed
            if _standing(each) != _standing(before.get(each["device"]))
        ]
        self._tell("devices", {"time": _now(), "air": air, "devices": changed, "changes": fresh})


class _Seconds:
    """Inferences and their times by the second."""

    def __init__(self) -> None:
        self._second, self._statuses, self._times = 0, Counter[str](), list[float]()

    def note(self, found: InferenceResult) -> None:
        self._statuses[found.status] += 1
        if len(self._times) < _TIMES:
            self._times.append(found.seconds)

    def ended(self) -> dict[str, Any] | None:
        """The second of the clock that has ended, once; None while it lasts."""
        now, times = int(time.time()), self._times
        if now == self._second:
            return None
        said = {"time": self._second, "answered": self._statuses["answered"], "all": self._statuses.total()}
        said |= {"median": median(times) if times else None, "longest": max(times, default=None)}
        self._second, self._statuses, self._times = now, Counter(), []
        return said if said["time"] else None


def _now() -> float:
    return round(time.time(), 3)


def _finite(value: float | None) -> float | str | None:
    """A number as JSON has it."""
    return None if value is None or math.isnan(value) else number(value)


def _blank(k: int) -> dict[str, Any]:
    return {"device": k, "state": "down", "reason": "", "until": None, "version": None, "balance": None}


def _standing(device: dict[str, Any] | None) -> tuple[str, str]:
    """State and reason; up, where nothing is known before."""
    return ("up", "") if device is None else (device["state"], device["reason"])


def _devices(status: AirStatus, before: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The state of each device, by index: up, waiting (not ready), aside or down (not connected)."""
    faults, found = {each.device: each for each in status.faults}, dict[int, dict[str, Any]]()
    for k in range(status.devices):
        it, fault, there = _blank(k), faults.get(k), k in status.versions
        if there:
            it |= {"state": "up", "version": status.versions[k], "balance": _balance(status.balances.get(k))}
        elif k in before:
            it["balance"] = before[k]["balance"]  # what it last told
        if fault is not None:
            aside = fault.reason.startswith("set aside")
            it |= {"state": "aside" if aside else "waiting" if there else "down", "reason": fault.reason}
            it["until"] = _until(fault.seconds, before.get(k))
        elif not there:
            it["reason"] = "not connected"
        found[k] = it
    return found


def _until(seconds: float, before: dict[str, Any] | None) -> float | None:
    """The time at which a device is announced to again; as said before, where that differs by rounding alone."""
    if not 0 < seconds < _FOR_GOOD:
        return None
    until, said = round(time.time() + seconds), None if before is None else before["until"]
    return said if said is not None and abs(said - until) <= 1 else until


def _balance(told: Balance | None) -> dict[str, Any] | None:
    if told is None:
        return None
    said = asdict(told)
    numbers = {name: _finite(said[name]) for name in ("spent", "budget", "delta")}
    return {**said, **numbers, "waits": told.waits.value}
