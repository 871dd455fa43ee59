"""The page as an ASGI application: its guard, its files, and one module of routes for each view.

Without a token the page is for this machine: a request by a name that leads here (Host) or from another site (Origin)
is refused. With one, a browser shows it once in a form and keeps it in a cookie that scripts cannot read. Files are
read once and compressed once; a path is looked up in a table, so that none leads out of it.
"""

import gzip
import hmac
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from threading import Event, Thread
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airpool import _support
from airpool._support.version import __version__
from airpool_runtime.door import HEADER_BYTES, foreign
from airpool_runtime.logs import Bucket
from airpool_web import adversary, answers, planning, scene
from airpool_web.asked import AskedError, answered, body, reply, takes_gzip
from airpool_web.jobs import Jobs
from airpool_web.live import Live, LiveOptions
from airpool_web.live import routes as live_routes
from airpool_web.objects import Scenery

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
            given = parse_qs((await body(request, 4_096)).decode("utf-8", "replace")).get("token", [""])[0]
        except AskedError as error:
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


_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}


@dataclass(frozen=True)
class PageFile:
    """One file: its bytes, the same compressed, its media type, and its tag for caches."""

    content: bytes
    compressed: bytes
    kind: str
    tag: str


@cache
def table() -> dict[str, PageFile]:
    """Path in the address → file. The page itself is at /; tokens.css is shared with the pages that are written."""
    static = Path(__file__).with_name("static")
    served = [path for path in sorted(static.rglob("*")) if path.suffix in _TYPES]
    found = {f"/{path.relative_to(static).as_posix()}": _read(path) for path in served}
    shared = Path(_support.__file__).with_name("templates") / "tokens.css"
    return found | {"/": found["/index.html"], "/css/tokens.css": _read(shared)}


def _read(file: Path) -> PageFile:
    content = file.read_bytes()
    compressed = gzip.compress(content, 9, mtime=0)
    return PageFile(content, compressed, _TYPES[file.suffix], f'"{sha256(content).hexdigest()[:32]}"')


async def served(request: Request) -> Response:
    """A file of the page; 304 where the browser has it already."""
    found = table().get(request.scope["path"])
    if found is None:
        return Response("there is no such page\n", 404, media_type="text/plain")
    headers = {"ETag": found.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    if takes_gzip(request):
        return Response(found.compressed, headers=headers | {"Content-Encoding": "gzip"}, media_type=found.kind)
    return Response(found.content, headers=headers, media_type=found.kind)


_END_SECONDS = 5.0


@dataclass(frozen=True)
class PageOptions:
    """token: required of every browser; None: the page is for this machine. model: the one that is looked at.

    live: the running system that is watched.
    """

    token: str | None = None
    model: str = "modelnet40"
    live: LiveOptions | None = None


def app(options: PageOptions) -> Starlette:
    """The page. Views add their routes in `_routes`; app.state has `options` and `jobs`."""
    jobs, scenery, live = Jobs(), Scenery(), Live(options.live)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        stop = Event()
        first = Thread(target=answers.warm, args=(options.model, stop), daemon=True, name="airpool-page-warm")
        first.start()
        try:
            async with live.running():
                yield
        finally:
            stop.set()
            first.join(_END_SECONDS)
            jobs.close()
            scenery.jobs.close()

    made = Starlette(
        routes=[
            *_routes(options),
            *live_routes(live),
            Route("/api/{rest:path}", _unknown, methods=["GET", "POST"]),
            Route("/{rest:path}", served),
        ],
        middleware=[Middleware(PageGuard, token=options.token)],
        lifespan=lifespan,
    )
    made.state.options, made.state.jobs = options, jobs
    made.state.scenery, made.state.live = scenery, live
    made.state.seen_shapes = dict[str, adversary.SeenShape]()  # at most as many as we ship
    return made


def _routes(options: PageOptions) -> Sequence[BaseRoute]:
    """Routes of all views."""
    return [
        Route("/api/about", answered(_about)),
        *answers.routes(),
        *scene.routes(),
        *adversary.routes(),
        *planning.routes(),
    ]


async def _about(request: Request) -> Response:
    """Version and model of this page."""
    options: PageOptions = request.app.state.options
    return reply(request, {"version": __version__, "model": options.model, "live": options.live is not None})


async def _unknown(request: Request) -> Response:
    return reply(request, {"error": "there is no such thing to ask for", "field": None}, 404)
