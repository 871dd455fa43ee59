"""The process that serves the page: a socket on loopback, or with a token and TLS beyond it."""

import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from airpool_runtime import logs, transport
from airpool_runtime.door import DoorLimits, DoorServer
from airpool_runtime.keys.credentials import Credentials
from airpool_web.app import PageOptions, app

_MOST, _OF_ONE_PEER, _REQUEST_SECONDS = 256, 64, 30.0  # connections; a mesh may take a while


@dataclass(frozen=True)
class PageAddress:
    """A bound socket, and the address to open in a browser."""

    sock: socket.socket
    url: str


def bound(address: str, *, token: str | None, credentials: Credentials | None) -> PageAddress:
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


class PageServer(DoorServer):
    """The server of the page. It ends the streams and jobs of its pages when it stops."""

    def __init__(self, where: PageAddress, options: PageOptions, credentials: Credentials | None = None) -> None:
        made, of_one_peer = app(options), _MOST if credentials is None else _OF_ONE_PEER
        self._state = made.state
        limits = DoorLimits(_MOST, of_one_peer, transport.HANDSHAKE_SECONDS, _REQUEST_SECONDS)
        super().__init__(made, where.sock, limits, credentials, keep_alive=20, lifespan="on")

    def end(self) -> None:
        self._state.live.listeners.close()
        self._state.jobs.close()
        self._state.scenery.jobs.close()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        told = logging.getLogger("uvicorn.error")
        told.addFilter(_unsaid)  # what it cancels now is no accident, and no traceback is told of it
        try:
            await super().shutdown(sockets)
        finally:
            told.removeFilter(_unsaid)


def _unsaid(_: logging.LogRecord) -> bool:
    return False


@asynccontextmanager
async def beside(where: PageAddress, options: PageOptions) -> AsyncIterator[None]:
    """Serves the page while the block runs, beside what else runs in this loop."""
    made = PageServer(where, options)
    await made.start()
    try:
        yield
    finally:
        await made.stop()


def serve(where: PageAddress, options: PageOptions, credentials: Credentials | None = None) -> None:
    """Serves the page until Ctrl-C. Accidents are told on stderr, one line of JSON each."""
    logs.start("page")
    with where.sock, suppress(KeyboardInterrupt):
        PageServer(where, options, credentials).run()
