"""Requests read safely, and replies: JSON, or lines of JSON that arrive one by one while the work goes on.

A mistake in what was asked is answered with {"error": …, "field": …}; field names the setting at fault, or is null.
"""

import gzip
import json
from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import lru_cache
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from airpool._support.errors import AirpoolError
from airpool_runtime import logs
from airpool_runtime.feed import Stream

MOST_BYTES = 64 * 2**10
MISTAKES = (AirpoolError, ValueError, TypeError, OverflowError)  # of whoever asks; all else is a fault of the page
QUICK, MOST_QUEUED = "quick", 64  # that wait for a thread of one lane
_THREADS, _WORTH_COMPRESSING = 2, 1_024
_IN_BODY = "x-errors-in-body"

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]


class AskedError(AirpoolError, ValueError):
    """A mistake of whoever asks. field: the setting at fault. status: of HTTP."""

    def __init__(self, text: str, *, field: str | None = None, status: int = 400) -> None:
        super().__init__(text)
        self.field, self.status = field, status

    def record(self) -> dict[str, Any]:
        return {"error": str(self), "field": self.field}


async def body(request: Request, most: int = MOST_BYTES) -> bytes:
    """The request's body; an error if it is longer than `most` bytes, without reading the rest."""
    found, size = list[bytes](), 0
    try:
        async for piece in request.stream():
            found.append(piece)
            size += len(piece)
            if size > most:
                raise AskedError(f"the request has more than {most:,} bytes", status=413)
    except ClientDisconnect:
        raise AskedError("the connection was closed", status=400) from None
    return b"".join(found)


async def fields(request: Request) -> dict[str, Any]:
    """The request's body as one JSON object."""
    try:
        found = json.loads(await body(request), parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise error if isinstance(error, AskedError) else AskedError("the request is no JSON") from None
    if not isinstance(found, dict):
        raise AskedError("the request must be a JSON object")
    return found


def whole(given: dict[str, Any], name: str, default: int, most: int, *, least: int = 0) -> int:
    """Takes a whole number from `least` to `most` out of what was asked."""
    value = given.pop(name, default)
    text = "" if isinstance(value, bool) else str(value)
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise AskedError(f"{name}={text[:40]!r} must be a whole number from {least:,} to {most:,}", field=name)
    return int(text)


def no_constant(name: str) -> float:
    """Refuses NaN and infinities, which JSON has not."""
    raise ValueError(name)


def reply(request: Request, content: Mapping[str, Any], status: int = 200) -> Response:
    """JSON, compressed where that is worth it."""
    data, headers = _encoded(content), {"Vary": "Accept-Encoding", "Cache-Control": "no-store"}
    if len(data) > _WORTH_COMPRESSING and takes_gzip(request):
        data, headers = gzip.compress(data, 5), headers | {"Content-Encoding": "gzip"}
    return Response(data, status, headers, media_type="application/json")


def takes_gzip(request: Request) -> bool:
    """Whether a browser reads what is compressed."""
    named = (each.partition(";") for each in request.headers.get("accept-encoding", "").lower().split(","))
    return any(name.strip() == "gzip" and how.replace(" ", "") not in ("q=0", "q=0.0") for name, _, how in named)


def _encoded(content: Mapping[str, Any]) -> bytes:
    """JSON; half of a surrogate pair, which a request can hold, becomes a question mark."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def answered(handler: Callable[[Request], Awaitable[Response]]) -> Handler:
    """A handler whose mistakes become replies: what was asked wrongly, and at the very end what went wrong here."""

    async def safe(request: Request) -> Response:
        try:
            return await handler(request)
        except Exception as error:  # a page must not show a traceback
            content, status = _told(error)
            # A browser writes every status from 400 on to its console; the page asks for a user's mistakes without one.
            return reply(request, content, 200 if 400 <= status < 420 and _IN_BODY in request.headers else status)

    return safe


def _told(error: BaseException) -> tuple[dict[str, Any], int]:
    """Content and status of the reply to an error."""
    if isinstance(error, AskedError):
        return error.record(), error.status
    if isinstance(error, MISTAKES):
        return {"error": str(error), "field": None}, 400
    logs.event("failed", reason=f"{type(error).__name__}: {error}")
    return {"error": f"airpool failed here: {type(error).__name__}. The terminal says more.", "field": None}, 503


def lines(request: Request, parts: AsyncGenerator[Mapping[str, Any]]) -> Response:
    """One JSON object a line, each sent as soon as it is there; an error is the last line, {"part": "error", …}.

    Whoever hangs up, or reads nothing, ends `parts` at once, wherever it is.
    """

    async def encoded() -> AsyncGenerator[bytes]:
        async with aclosing(parts):
            try:
                async for part in parts:
                    if await request.is_disconnected():
                        return
                    yield _encoded(part) + b"\n"
            except Exception as error:
                yield _encoded({"part": "error"} | _told(error)[0]) + b"\n"

    return Stream(encoded(), "application/x-ndjson")


async def computed(function: Callable[..., T], *given: Any, lane: str = QUICK) -> T:
    """The value of a function, in a thread; few run at once, and only so many wait.

    lane: those of other names have a thread each, so that quick functions never wait behind slow ones.
    """
    limiter = _limiter(get_running_loop(), lane)
    if limiter.statistics().tasks_waiting >= MOST_QUEUED:
        raise AskedError("too much is being computed: try again soon", status=429)
    return await to_thread.run_sync(function, *given, limiter=limiter)


@lru_cache(maxsize=32)
def _limiter(_: AbstractEventLoop, lane: str) -> CapacityLimiter:
    return CapacityLimiter(_THREADS if lane == QUICK else 1)
