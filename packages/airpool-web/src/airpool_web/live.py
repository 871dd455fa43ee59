"""A running system, watched: one connection to its server, however many pages look, and what they are told.

`GET /api/live` is a stream of server-sent events: `snapshot` first, then what the server's feed says (runtime/feed.py),
`state` when the connection changes, and `local` for what only the machine of the devices knows. All of it is
read-only. `POST /api/live/infer` spends the devices' budgets: it needs the operator's token.
"""

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from airpool.runtime import logs
from airpool.runtime.events import EventStream, Listeners
from airpool.runtime.limits import Bucket
from airpool.web.asked import AskedError, answered, fields, reply
from airpool.web.upstream import Upstream, UpstreamError

MOST_PAGES = 64
_SHORTEST_WAIT, _LONGEST_WAIT, _LOCAL_SECONDS, _INFER_SECONDS = 0.25, 4.0, 1.0, 60.0
_KEPT = {"inferences": 50, "changes": 50, "seconds": 300}
NO_SERVER = (
    "no server is watched: `airpool up --ui` starts a system and its page, `airpool ui --server HOST:PORT` watches one"
)
NO_TOKEN = "an inference spends budget: start the page with --operator-token-file to ask for one here"


@dataclass(frozen=True)
class LiveOptions:
    """upstream: the server that is watched. operator: the token of whoever may ask for an inference; None: nobody.

    local: by device, what only this machine knows, such as a camera that fails; under `airpool up`.
    """

    upstream: Upstream
    operator: str | None = field(default=None, repr=False)
    local: Callable[[], Mapping[int, str]] | None = None


class Live:
    """The system that is watched: the server's last snapshot with all changes since."""

    def __init__(self, options: LiveOptions | None) -> None:
        self.options, self.listeners = options, Listeners(MOST_PAGES)
        self._known: dict[str, Any] | None = None
        self._state = {"state": "connecting", "reason": ""} if options else {"state": "no server", "reason": NO_SERVER}
        self._local: dict[str, str] = {}
        self._tries = Bucket(1.0, 5)

    async def snapshot(self) -> dict[str, Any]:
        can_ask = self.options is not None and self.options.operator is not None
        address = None if self.options is None else self.options.upstream.address
        told = {"connection": self._state, "address": address, "local": self._local}
        return {**told, "ask": {"allowed": can_ask, "reason": "" if can_ask else NO_TOKEN}, "system": self._known}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watches while the block runs."""
        work = [] if self.options is None else [self._watch(self.options.upstream), self._look()]
        tasks = [asyncio.create_task(each) for each in work]
        try:
            yield
        finally:
            self.listeners.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def infer(self, token: str) -> dict[str, Any]:
        """One inference for the operator; AskedError for anyone else."""
        if self.options is None or self.options.operator is None:
            raise AskedError(NO_SERVER if self.options is None else NO_TOKEN, status=403)
        if not self._tries.take():
            raise AskedError("too many tries: wait a few seconds", status=429)
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self.options.operator.encode()):
            raise AskedError("this is not the operator's token", field="token", status=401)
        try:
            return await self.options.upstream.infer(_INFER_SECONDS)
        except UpstreamError as why:
            raise AskedError(str(why), status=503) from None

    async def _watch(self, upstream: Upstream) -> None:
        """Takes events, over one connection after the other."""
        wait, reason = _SHORTEST_WAIT, ""
        while True:
            try:
                async with aclosing(upstream.events()) as events:
                    async for name, data in events:
                        wait = _SHORTEST_WAIT
                        self._take(name, data)
            except UpstreamError as why:
                reason = str(why)
            except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
                reason = "the server says what this page does not understand"
                logs.event("failed", reason=f"{reason}: {type(error).__name__}")
            self._turn("lost" if self._known is not None else "connecting", reason)
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)

    def _turn(self, state: str, reason: str = "") -> None:
        if (told := {"state": state, "reason": reason}) != {k: self._state[k] for k in told}:
            same = self._state["state"] == state and "since" in self._state
            self._state = {**told, "since": self._state["since"] if same else round(time.time(), 3)}
            self.listeners.publish("state", self._state)

    def _take(self, name: str, data: Any) -> None:
        """Notes an event of the server, and passes it on."""
        if name == "snapshot":
            self._known = {**data, "devices": {str(each["device"]): each for each in data["devices"]}}
            self._turn("connected")
            self.listeners.publish("system", self._known)
            return
        known = self._known
        if known is None:
            return
        match name:
            case "devices":
                known["devices"] |= {str(each["device"]): each for each in data["devices"]}
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
                return
        self.listeners.publish(name, data)

    async def _look(self) -> None:
        """Asks this machine what it knows of its devices."""
        while self.options is not None and (local := self.options.local) is not None:
            found = {str(k): reason for k, reason in (await asyncio.to_thread(local)).items()}
            if found != self._local:
                self._local = found
                self.listeners.publish("local", found)
            await asyncio.sleep(_LOCAL_SECONDS)


def _keep(known: dict[str, Any], name: str, *more: Any) -> None:
    known[name] = [*known[name], *more][-_KEPT[name] :]


def _count(counts: dict[str, int], what: str, number: int = 1) -> None:
    counts[what] = counts.get(what, 0) + number


def routes(live: Live) -> list[Route]:
    """The routes of this view."""

    async def watched(request: Request) -> Response | EventStream:
        if live.listeners.full:
            return reply(request, {"error": f"{MOST_PAGES} pages look already", "field": None}, 429)
        return EventStream(live.listeners, live.snapshot)

    async def infer(request: Request) -> Response:
        given = await fields(request)
        if given.keys() != {"token"} or not isinstance(given["token"], str):
            raise AskedError("give the operator's token, and nothing else", field="token")
        return reply(request, await live.infer(given["token"].strip()))

    return [Route("/api/live", watched), Route("/api/live/infer", answered(infer), methods=["POST"])]
