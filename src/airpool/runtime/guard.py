"""Middleware before the HTTP API: who may ask, how often, and how large a request may be."""

import hmac
from urllib.parse import urlsplit

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from airpool.runtime import transport
from airpool.runtime.limits import Bucket, SparseLog

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
