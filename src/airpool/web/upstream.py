"""A client of a running server's HTTP API: its feed of events, and one inference. Standard library alone.

Requests are of HTTP/1.0: the reply then ends with the connection, and needs no decoding.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airpool._support.errors import AirpoolError
from airpool.runtime import transport
from airpool.web.asked import no_constant

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
