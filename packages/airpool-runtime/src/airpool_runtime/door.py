"""The door of the HTTP API: accepts connections, counts them in all and per peer, and bounds how long each may dawdle.

uvicorn counts a connection after its TLS handshake; before that, idle ones could take every file descriptor. Here each
counts from the moment it is accepted. Where the number is reached, the oldest that has not yet asked anything makes
way for the newest; where all have asked, the newest is turned away.
"""

import asyncio
import hmac
import ipaddress
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal
from urllib.parse import urlsplit

import h11
import uvicorn
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from airpool_runtime import logs, transport
from airpool_runtime.keys.credentials import Credentials
from airpool_runtime.logs import Bucket, SparseLog

HEADER_BYTES = 16 * 2**10


class Guard:
    """Refuses a request before any of it is acted upon.

    token: required of every client but a health check, compared in constant time. Without one the API is for programs
    of this machine: a web page must not use it through a browser, neither by a name that leads here (Host) nor from
    another site (Origin). per_second: requests of all clients.
    """

    def __init__(self, app: ASGIApp, token: str | None, per_second: float) -> None:
        self._app, self._wanted = app, None if token is None else f"Bearer {token}".encode()
        self._allowed, self._log = Bucket(per_second, int(2 * per_second)), SparseLog()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        why = self._refusal(scope) if scope["type"] == "http" else None
        if why is None:
            await self._app(scope, receive, send)
            return
        status, reason = why
        self._log.event("rejected", reason=f"HTTP {status}")
        # What is left of a request that was not read must not be taken for the next one.
        headers = {"Connection": "close"} if status in (413, 431) else None
        await JSONResponse({"reason": reason}, status, headers)(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Status and reason; None for a request that may pass."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        size = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
        if size + len(scope.get("raw_path") or b"") + len(scope["query_string"]) > HEADER_BYTES:
            return 431, f"the request line and headers must have at most {HEADER_BYTES} bytes"
        if self._wanted is None and (why := foreign(headers, scope["scheme"])):
            return why
        if scope["path"] != "/healthz":
            if self._wanted is not None and not hmac.compare_digest(headers.get(b"authorization", b""), self._wanted):
                return 401, "the token is missing or wrong"
            if not self._allowed.take():
                return 429, "too many requests"
        if headers.get(b"content-length", b"0").strip(b"0") or b"transfer-encoding" in headers:
            return 413, "the request has a body, must have none"
        return None


def foreign(headers: dict[bytes, bytes], scheme: str) -> tuple[int, str] | None:
    """The refusal of a request that a web page of another site may have made."""
    host = headers.get(b"host", b"").decode("latin-1")
    if host and not transport.is_loopback(_host_name(host)):
        return 421, "the Host must be a loopback address or localhost, or the server must have a token"
    origin = headers.get(b"origin")
    if origin is not None and origin.decode("latin-1") != f"{scheme}://{host}":
        return 403, "a request of another Origin needs a server with a token"
    return None


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


_BACKLOG, _AT_ONCE = 1_024, 64
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True)
class DoorLimits:
    """Connections in all and of one peer (an IPv4 address, or the /64 of an IPv6 one); seconds of a TLS handshake
    and of one request."""

    in_all: int = 1_000
    per_peer: int = 256
    handshake_seconds: float = 5.0
    request_seconds: float = 5.0


@dataclass(eq=False)
class Visit:
    """One accepted connection. asked: it has sent a whole request. transport: None during the handshake."""

    peer: str
    leave: Callable[["Visit"], None]
    asked: bool = False
    transport: asyncio.Transport | None = None
    task: asyncio.Task[None] | None = None


class Patient(H11Protocol):
    """HTTP protocol that closes a connection whose request is not complete within a few seconds."""

    visit: Visit | None = None
    request_seconds = 5.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._cancel()
        if self.visit is not None:
            self.visit.leave(self.visit)

    def send_400_response(self, msg: str) -> None:
        """Refuses what is no HTTP; where an answer is under way already, it hangs up instead of answering twice."""
        begun = self.cycle is not None and not self.cycle.response_complete
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE) and not begun:
            super().send_400_response(msg)
            return
        if self.cycle is not None:
            self.cycle.disconnected = True
        self.transport.abort()

    @property
    def _complete(self) -> bool:
        return self.conn.their_state in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED)

    def _watch(self) -> None:
        """Starts the timer at the first byte of a request; later bytes do not extend it."""
        if self._complete:
            self._cancel()
            if self.visit is not None:
                self.visit.asked = True
        elif self._timer is None:
            self._timer = self.loop.call_later(self.request_seconds, self._late)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if not self._complete:
            logs.event("rejected", reason="a request that does not end")
            self.transport.close()


class Door:
    """Accepts the connections of one socket. make: the protocol of a connection. context: TLS, or None."""

    def __init__(
        self, sock: socket.socket, make: Callable[[], Patient], limits: DoorLimits, context: ssl.SSLContext | None
    ) -> None:
        self._sock, self._make, self._limits, self._context = sock, make, limits, context
        self._visits: dict[Visit, None] = {}  # the oldest first
        self._peers: Counter[str] = Counter()
        self._log, self._open = SparseLog(), False

    @property
    def connections(self) -> int:
        return len(self._visits)

    def open(self) -> None:
        self._sock.listen(_BACKLOG)
        self._sock.setblocking(False)
        self._open = True
        self._resume()

    def close(self) -> None:
        """Accepts no more, and ends what has not asked anything."""
        self._open = False
        asyncio.get_running_loop().remove_reader(self._sock)
        for each in [each for each in self._visits if not each.asked]:
            self._drop(each)

    def _resume(self) -> None:
        if self._open:
            asyncio.get_running_loop().add_reader(self._sock, self._accept)

    def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(_AT_ONCE):
            try:
                connection, address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no descriptor or memory is left: the socket stays readable, so look away
                self._log.event("failed", reason=f"no connection is accepted: {error.strerror}")
                loop.remove_reader(self._sock)
                loop.call_later(_PAUSE_SECONDS, self._resume)
                self._make_way(self._visits)
                return
            peer = _peer(address[0])
            if not self._has_room(peer):
                self._log.event("rejected", reason="too many connections")
                connection.close()
                continue
            connection.setblocking(False)
            visit = Visit(peer, self._left)
            self._visits[visit] = None
            self._peers[peer] += 1
            visit.task = loop.create_task(self._welcome(connection, visit))
            visit.task.add_done_callback(lambda task, c=connection, v=visit: self._welcomed(task, c, v))

    def _has_room(self, peer: str) -> bool:
        if self._peers[peer] >= self._limits.per_peer:
            return self._make_way(each for each in self._visits if each.peer == peer)
        return len(self._visits) < self._limits.in_all or self._make_way(self._visits)

    def _make_way(self, among: Any) -> bool:
        """Ends the oldest connection that has not asked anything; whether there was one."""
        oldest = next((each for each in among if not each.asked), None)
        if oldest is None:
            return False
        self._log.event("rejected", reason="a connection that asks nothing, for another one")
        self._drop(oldest)
        return True

    async def _welcome(self, connection: socket.socket, visit: Visit) -> None:
        protocol = self._make()
        protocol.visit, protocol.request_seconds = visit, self._limits.request_seconds
        seconds = None if self._context is None else self._limits.handshake_seconds
        visit.transport, _ = await asyncio.get_running_loop().connect_accepted_socket(  # pyright: ignore
            lambda: protocol,
            connection,
            ssl=self._context,
            ssl_handshake_timeout=seconds,
            ssl_shutdown_timeout=seconds,
        )

    def _welcomed(self, task: asyncio.Task[None], connection: socket.socket, visit: Visit) -> None:
        if task.cancelled():
            connection.close()
        elif (error := task.exception()) is not None:
            self._log.event("rejected", reason=f"TLS handshake: {type(error).__name__}")
            connection.close()
            self._left(visit)

    def _drop(self, visit: Visit) -> None:
        self._left(visit)
        if visit.transport is not None:
            visit.transport.abort()
        elif visit.task is not None:
            visit.task.cancel()

    def _left(self, visit: Visit) -> None:
        if visit in self._visits:
            del self._visits[visit]
            self._peers[visit.peer] -= 1
            if not self._peers[visit.peer]:
                del self._peers[visit.peer]


class DoorServer(uvicorn.Server):
    """uvicorn behind a door: idle connections, or handshakes that do not end, keep nobody out."""

    def __init__(
        self,
        app: ASGIApp,
        sock: socket.socket,
        limits: DoorLimits,
        credentials: Credentials | None,
        *,
        keep_alive: int,
        lifespan: Literal["on", "off"] = "off",
    ) -> None:
        config = uvicorn.Config(
            app,
            http=Patient,
            ws="none",
            lifespan=lifespan,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=keep_alive,
            timeout_graceful_shutdown=1,
        )
        config.load()
        super().__init__(config)
        make = partial(Patient, config=config, server_state=self.server_state, app_state={})
        self._sock = sock
        self._door = Door(sock, make, limits, None if credentials is None else transport.http_context(credentials))
        self._task: asyncio.Task[None] | None = None

    def end(self) -> None:
        """Ends the streams of the application when the server stops: they would go on for ever."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])  # the door accepts
        self._door.open()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._door.close()
        self.end()
        await super().shutdown(sockets)
        self._sock.close()

    async def start(self) -> None:
        """Serves beside what else runs in this loop, until `stop`; whoever runs the loop handles signals."""
        self.capture_signals = nullcontext  # pyright: ignore
        self._task = asyncio.create_task(self.serve())
        while not self.started and not self._task.done():
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        self.should_exit = True
        if self._task is not None:
            await self._task


def _peer(host: str) -> str:
    """The peer that an address counts for: one host commonly has a whole /64 of IPv6.

    >>> _peer("192.0.2.1"), _peer("::ffff:192.0.2.1"), _peer("2001:db8::1"), _peer("fe80::1%eth0")
    ('192.0.2.1', '192.0.2.1', '2001:db8::/64', 'fe80::/64')
    """
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))
