"""Middleware before the page: who may ask, and the headers that bind the browser.

Without a token the page is for this machine: a request by a name that leads here (Host) or from another site (Origin)
is refused. With one, a browser shows it once in a form and keeps it in a cookie that scripts cannot read.
"""

import hmac
from hashlib import sha256
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airpool.runtime.guard import HEADER_BYTES, foreign
from airpool.runtime.limits import Bucket
from airpool.web import asked

_COOKIE = "airpool"
_PER_SECOND = 500.0
_TRIES = 1.0  # at a token, in a second, of all clients
_HEADERS = {
    b"content-security-policy": b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"x-frame-options": b"DENY",
}
_FORM = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>airpool</title></head>
<body><main><h1>airpool</h1><form method="post" action="/enter"><p><label for="token">Token of this page</label></p>
<p><input id="token" name="token" type="password" required autocomplete="current-password"> <button>Enter</button></p>
<p>{note}</p></form></main></body></html>
"""


class PageGuard:
    """Refuses a request before any of it is acted upon, and adds the headers to every reply."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app, self._token = app, token
        self._pass = None if token is None else sha256(b"airpool page\0" + token.encode()).hexdigest()
        self._allowed, self._tries = Bucket(_PER_SECOND, int(2 * _PER_SECOND)), Bucket(_TRIES, 5)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def bound(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS.items()]
            await send(message)

        request = Request(scope, receive)
        refused = self._refusal(scope) or await self._entrance(request)
        await (self._app if refused is None else refused)(scope, receive, bound)

    def _refusal(self, scope: Scope) -> Response | None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        size = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
        if size + len(scope.get("raw_path") or b"") + len(scope["query_string"]) > HEADER_BYTES:
            return _said(431, f"the request line and headers must have at most {HEADER_BYTES} bytes")
        why = foreign(headers, scope["scheme"]) if self._token is None else _elsewhere(headers, scope["scheme"])
        if why is not None:
            return _said(*why)
        return None if self._allowed.take() else _said(429, "too many requests")

    async def _entrance(self, request: Request) -> Response | None:
        """None for a browser that has shown the token; else the form, or the reply to it."""
        if self._pass is None:
            return None
        if hmac.compare_digest(request.cookies.get(_COOKIE, "").encode(), self._pass.encode()):
            return None
        path: str = request.scope["path"]  # never by way of the Host
        if path != "/enter" or request.method != "POST":
            if path.startswith("/api/"):
                return _said(401, "this page needs its token: load it again")
            return HTMLResponse(_FORM.format(note=""), 401)
        if not self._tries.take():
            return _said(429, "too many tries: wait a few seconds")
        try:
            given = parse_qs((await asked.body(request, 4_096)).decode("utf-8", "replace")).get("token", [""])[0]
        except asked.AskedError as error:
            return _said(error.status, str(error))
        assert self._token is not None
        if not hmac.compare_digest(given.strip().encode(), self._token.encode()):
            return HTMLResponse(_FORM.format(note="This token is wrong."), 401)
        entered = RedirectResponse("/", 303)
        entered.set_cookie(
            _COOKIE, self._pass, httponly=True, samesite="strict", secure=request.scope["scheme"] == "https"
        )
        return entered


def _elsewhere(headers: dict[bytes, bytes], scheme: str) -> tuple[int, str] | None:
    """The refusal of a request from a page of another origin. The cookie alone is sent from other ports too."""
    origin, own = headers.get(b"origin"), scheme.encode() + b"://" + headers.get(b"host", b"")
    return None if origin in (None, own) else (403, "a page of another Origin must not use this one")


def _said(status: int, reason: str) -> Response:
    return JSONResponse({"error": reason, "field": None}, status, {"Connection": "close"})
