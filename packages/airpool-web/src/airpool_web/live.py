"""A running system, watched: one connection to its server, however many pages look, and what they are told.

`GET /api/live` is a stream of server-sent events: `snapshot` first, then what the server's feed says (runtime/feed.py),
`state` when the connection changes, and `local` for what only the machine of the devices knows. All of it is
read-only. `POST /api/live/infer` spends the devices' budgets: it needs the operator's token.

The server's HTTP API is asked by the standard library alone, in HTTP/1.0: a reply then ends with the connection, and
needs no decoding.
"""

import asyncio
import hmac
import json
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from airpool._support.errors import AirpoolError
from airpool_runtime import logs, transport
from airpool_runtime.feed import Listeners, take
from airpool_runtime.logs import Bucket
from airpool_web.asked import AskedError, answered, fields, no_constant, reply

_NAME = "server"  # that its certificate has
_LONGEST_LINE, _LONGEST_REPLY = 2**20, 2**20
_CONNECT_SECONDS, _SILENT_SECONDS = 5.0, 10.0  # its feed says something every second


class UpstreamError(AirpoolError):
    """The server cannot be watched now; the text says why, in words for the page."""


@dataclass(frozen=True)
class Upstream:
    """A server's HTTP API. address: HOST:PORT. token: that it asks for. context: TLS, of the system's authority."""

    address: str
    token: str | None = field(default=None, repr=False)
    context: ssl.SSLContext | None = field(default=None, repr=False)

    @classmethod
    def of(cls, address: str, *, token: str | None = None, keys: Path | None = None) -> "Upstream":
        """address: HOST:PORT, or the same with http:// or https://. keys: a folder with the authority's ca.crt."""
        scheme, _, rest = address.rpartition("://")
        if scheme not in ("", "http", "https") or (scheme == "http" and keys is not None):
            raise ValueError(f"--server {address} must be HOST:PORT; with https:// or --server-keys where it has keys")
        if scheme == "https" and keys is None:
            raise ValueError(f"--server {address} needs --server-keys, a folder with the authority's ca.crt")
        transport.split(rest.rstrip("/"), keys is not None)
        context = None
        if keys is not None:
            file = keys / "ca.crt" if keys.is_dir() else keys
            try:
                context = ssl.create_default_context(cafile=str(file))
            except (OSError, ssl.SSLError) as error:
                raise ValueError(f"--server-keys {keys}: {file.name} cannot be read: {error}") from None
        return cls(rest.rstrip("/"), token, context)

    async def events(self) -> AsyncGenerator[tuple[str, Any], None]:
        """Name and data of each event, until the connection is lost: that is an UpstreamError."""
        async with self._asked("GET", "/events") as reader:
            name = ""
            while True:
                async with asyncio.timeout(_SILENT_SECONDS):
                    line = (await reader.readuntil(b"\n")).decode().rstrip("\r\n")
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    yield name, json.loads(line.removeprefix("data: "), parse_constant=no_constant)

    async def infer(self, seconds: float) -> dict[str, Any]:
        """The result of one inference, which the server announces now; with `reason` where there is none."""
        async with self._asked("POST", "/infer", good=(200, 503)) as reader, asyncio.timeout(seconds):
            return json.loads(await reader.read(_LONGEST_REPLY))

    @asynccontextmanager
    async def _asked(
        self, method: str, path: str, good: tuple[int, ...] = (200,)
    ) -> AsyncIterator[asyncio.StreamReader]:
        """The body of a reply. Whatever goes wrong is an UpstreamError."""
        writer = None
        try:
            host, port = transport.split(self.address, self.context is not None)
            own = {} if self.context is None else {"ssl": self.context, "server_hostname": _NAME}
            async with asyncio.timeout(_CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(host.strip("[]"), port, limit=_LONGEST_LINE, **own)
            shown = "" if self.token is None else f"Authorization: Bearer {self.token}\r\n"
            writer.write(f"{method} {path} HTTP/1.0\r\nHost: {self.address}\r\n{shown}\r\n".encode())
            async with asyncio.timeout(60.0 if method == "POST" else _SILENT_SECONDS):
                await writer.drain()
                status = int((await reader.readuntil(b"\r\n")).split()[1])
                while (await reader.readuntil(b"\r\n")).strip():
                    continue
            if status not in good:
                raise UpstreamError(_refusals(status))
            yield reader
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            gone = "the server has ended the connection" if writer else f"nothing answers at {self.address}"
            raise UpstreamError(gone) from error
        except ssl.SSLError as error:
            raise UpstreamError(
                f"TLS with the server failed: {error.reason or 'no certificate that is known'}"
            ) from None
        except TimeoutError:
            raise UpstreamError(f"no word from {self.address} for some seconds") from None
        except OSError as error:
            raise UpstreamError(f"{self.address} cannot be reached: {error.strerror or error}") from None
        except (ValueError, IndexError, asyncio.LimitOverrunError):
            raise UpstreamError(f"{self.address} does not answer as a server of airpool does") from None
        finally:
            if writer is not None:
                writer.close()


def _refusals(status: int) -> str:
    known = {
        401: "the server refuses the token: give its own by --server-token-file",
        404: "the server is of a version without a feed: upgrade it",
        429: "too many watch this server, or ask it",
    }
    return known.get(status, f"the server answers with status {status}")


MOST_PAGES = 64
_SHORTEST_WAIT, _LONGEST_WAIT, _LOCAL_SECONDS, _INFER_SECONDS = 0.25, 4.0, 1.0, 60.0
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
            self._known = {**data, "devices": {each["device"]: each for each in data["devices"]}}
            self._turn("connected")
            self.listeners.publish("system", self._known)
            return
        if self._known is not None and take(self._known, name, data):
            self.listeners.publish(name, data)

    async def _look(self) -> None:
        """Asks this machine what it knows of its devices."""
        while self.options is not None and (local := self.options.local) is not None:
            found = {str(k): reason for k, reason in (await asyncio.to_thread(local)).items()}
            if found != self._local:
                self._local = found
                self.listeners.publish("local", found)
            await asyncio.sleep(_LOCAL_SECONDS)


def routes(live: Live) -> list[Route]:
    """The routes of this view."""

    async def watched(request: Request) -> Response:
        if live.listeners.full:
            return reply(request, {"error": f"{MOST_PAGES} pages look already", "field": None}, 429)
        return live.listeners.stream(live.snapshot)

    async def infer(request: Request) -> Response:
        given = await fields(request)
        if given.keys() != {"token"} or not isinstance(given["token"], str):
            raise AskedError("give the operator's token, and nothing else", field="token")
        return reply(request, await live.infer(given["token"].strip()))

    return [Route("/api/live", watched), Route("/api/live/infer", answered(infer), methods=["POST"])]
