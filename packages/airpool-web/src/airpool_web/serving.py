"""The process that serves the page: a socket on loopback, or with a token and TLS beyond it."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import cast

import uvicorn
from starlette.applications import Starlette

from airpool_runtime import logs, transport
from airpool_runtime.door import Door, DoorLimits, Patient
from airpool_runtime.transport import PeerCredentials
from airpool_web.app import PageOptions, app

DEFAULT_ADDRESS = "127.0.0.1:8350"
_MOST, _OF_ONE_PEER, _REQUEST_SECONDS = 256, 64, 30.0  # connections; a mesh may take a while
_LIMITS = {
    over_tls: DoorLimits(_MOST, _OF_ONE_PEER if over_tls else _MOST, transport.HANDSHAKE_SECONDS, _REQUEST_SECONDS)
    for over_tls in (False, True)
}


@dataclass(frozen=True)
class PageAddress:
    """A bound socket, and the address to open in a browser."""

    sock: socket.socket
    url: str


def bound(address: str = DEFAULT_ADDRESS, *, token: str | None, credentials: PeerCredentials | None) -> PageAddress:
    """Binds the socket. Port 0 is any free one. Beyond loopback a token and TLS are needed.

    An error says what is missing, before anything is computed.
    """
    host = address.rpartition(":")[0]
    if not transport.is_loopback(host) and host and (token is None or credentials is None):
        raise ValueError(
            f"--listen {address} is beyond this machine: the page then needs --token-file FILE and --keys FOLDER (TLS)"
        )
    sock = transport.listening(address, secured=token is not None and credentials is not None)
    sock.listen()  # a browser that opens the address at once waits for its answer
    host, port = sock.getsockname()[:2]
    name = f"[{host}]" if ":" in host else host
    return PageAddress(sock, f"{'http' if credentials is None else 'https'}://{name}:{port}/")


def _unsaid(_: logging.LogRecord) -> bool:
    return False


class PageServer(uvicorn.Server):
    """uvicorn behind a door: idle connections, or handshakes that do not end, keep nobody out.

    It ends the streams and jobs of its pages when it stops: they would go on for ever.
    """

    _door: Door | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        (sock,) = sockets or []
        await super().startup(sockets=[])  # the door accepts
        make = partial(Patient, config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
        self._door = Door(sock, make, _LIMITS[self.config.ssl is not None], self.config.ssl)
        self._door.open()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._door is not None:
            self._door.close()
        state = cast("Starlette", self.config.app).state
        state.live.listeners.close()
        state.jobs.close()
        state.scene.close()
        told = logging.getLogger("uvicorn.error")
        told.addFilter(_unsaid)  # what it cancels now is no accident, and no traceback is told of it
        try:
            await super().shutdown(sockets)
        finally:
            told.removeFilter(_unsaid)


def server(options: PageOptions, credentials: PeerCredentials | None = None) -> PageServer:
    """uvicorn with the page; `serve(sockets=[place.sock])` runs it."""
    config = uvicorn.Config(
        app(options),
        http=Patient,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_keep_alive=20,
        timeout_graceful_shutdown=1,
        lifespan="on",
    )
    config.load()
    if credentials is not None:
        config.ssl = transport.http_context(credentials)
    return PageServer(config)


@asynccontextmanager
async def beside(where: PageAddress, options: PageOptions) -> AsyncIterator[None]:
    """Serves the page while the block runs, beside what else runs in this loop."""
    made = server(options)
    made.capture_signals = nullcontext  # pyright: ignore  # whoever runs the loop handles signals
    serving = asyncio.create_task(made.serve(sockets=[where.sock]))
    try:
        yield
    finally:
        made.should_exit = True
        await serving
        where.sock.close()


def serve(where: PageAddress, options: PageOptions, credentials: PeerCredentials | None = None) -> None:
    """Serves the page until Ctrl-C. Accidents are told on stderr, one line of JSON each."""
    logs.start("page")
    with where.sock, suppress(KeyboardInterrupt):
        server(options, credentials).run(sockets=[where.sock])
