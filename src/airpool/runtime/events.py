"""Server-sent events: their text, and listeners with bounded queues.

Each listener gets a snapshot first and changes from then on. One that reads too slowly loses what waits for it, is told
how many events that were, and begins anew with a snapshot: nothing grows, and nobody else waits.
"""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from starlette.types import Receive, Scope, Send

QUEUED, HEARTBEAT_SECONDS = 512, 5.0
_STUCK_SECONDS = 30.0  # after which a listener that reads nothing is given up
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
Snapshot = Callable[[], Awaitable[dict[str, Any]]]


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
        """Ends all streams."""
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


class EventStream:
    """The response of a listener: an ASGI application. It ends when the client hangs up, or reads nothing."""

    def __init__(self, listeners: Listeners, snapshot: Snapshot) -> None:
        self._listeners, self._snapshot = listeners, snapshot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def say(text: str, *, more: bool = True) -> None:
            async with asyncio.timeout(_STUCK_SECONDS):
                await send({"type": "http.response.body", "body": text.encode("utf-8", "replace"), "more_body": more})

        with self._listeners.one() as listener:
            gone = asyncio.create_task(_hung_up(receive))
            gone.add_done_callback(lambda _: listener.end())
            try:
                await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
                await say(event("snapshot", await self._snapshot()))
                while not listener.over:
                    await say(await listener.next(self._snapshot))
                await say("", more=False)
            except TimeoutError:
                return
            finally:
                gone.cancel()


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
