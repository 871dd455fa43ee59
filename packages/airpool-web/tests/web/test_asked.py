"""Requests read safely, and replies part by part."""

import asyncio
import json
import threading
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from airpool._support.errors import AirpoolError
from airpool_runtime import feed
from airpool_web import asked
from airpool_web.asked import AskedError


def reply_of(handler, content: Any = b"", headers=None):
    """The reply of a page with one handler."""

    async def play():
        page = Starlette(routes=[Route("/", asked.answered(handler), methods=["POST"])])
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=page), base_url="http://127.0.0.1") as client:
            return await client.post("/", content=content, headers=headers)

    return asyncio.run(play())


async def echo(request):
    return asked.reply(request, {"found": await asked.fields(request)})


async def tasted(request):
    return asked.reply(request, {"size": len(await asked.body(request, 10))})


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[1]", b"1", b'"x"', b"null", b"\xff\xfe", b'{"a": NaN}', b'{"a": Infinity}', b'{"a":1}{'),
        *(b"[" * 30_000, b'{"a": ' + b"9" * 5_000 + b"}", b'{"a": -Infinity}', b"\x00", b'{"a" 1}'),
    ],
)
def test_what_is_no_json_object_is_refused_in_words(content):
    one = reply_of(echo, content)
    assert one.status_code == 400
    assert one.json()["error"] in ("the request is no JSON", "the request must be a JSON object")
    assert one.json()["field"] is None


def test_half_a_character_does_not_break_the_reply():
    one = reply_of(echo, b'{"a": "\\ud800", "\\udfff": "\\ud83d\\ude00"}')
    assert (one.status_code, one.json()) == (200, {"found": {"a": "?", "?": "😀"}})


def test_the_page_is_told_mistakes_without_a_status_that_its_browser_would_log():
    one = reply_of(echo, b"{", headers={"X-Errors-In-Body": "1"})
    assert (one.status_code, one.json()["error"]) == (200, "the request is no JSON")


def test_a_request_has_at_most_so_many_bytes():
    assert reply_of(tasted, b"0123456789").json() == {"size": 10}
    long = reply_of(tasted, b"0123456789x")
    assert (long.status_code, long.json()["error"]) == (413, "the request has more than 10 bytes")
    assert reply_of(echo, b'{"a": "' + b"x" * asked.MOST_BYTES + b'"}').status_code == 413


def test_a_body_without_an_end_is_not_read_to_its_end():
    taken = 0

    async def endless():
        nonlocal taken
        for _ in range(1_000):
            taken += 1
            yield b"x" * 8

    assert reply_of(tasted, endless()).status_code == 413
    assert taken < 1_000


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (AskedError("too many", field="devices", status=409), 409, "too many"),
        (ValueError("devices=0 must be >= 1"), 400, "devices=0 must be >= 1"),
        (AirpoolError("no such model"), 400, "no such model"),
        (OverflowError("too large"), 400, "too large"),
        (KeyError("secret"), 503, "airpool failed here: KeyError. The terminal says more."),
    ],
)
def test_an_error_becomes_a_reply_without_a_traceback(error, status, said):
    async def fails(request):
        raise error

    one = reply_of(fails)
    assert (one.status_code, one.json()["error"]) == (status, said)
    assert one.json()["field"] == getattr(error, "field", None)


def test_long_replies_are_compressed():
    async def long(request):
        return asked.reply(request, {"x": "x" * 5_000})

    packed, plain = (reply_of(long, headers={"accept-encoding": how}) for how in ("gzip", "br"))
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.json() == plain.json()
    assert packed.headers["cache-control"] == "no-store"


def lines_of(one):
    return [json.loads(line) for line in one.text.splitlines()]


def test_parts_are_lines_and_an_error_is_the_last_one():
    async def parts():
        yield {"part": "network", "x": 1}
        raise AskedError("no such codec", field="codec")

    async def handler(request):
        return asked.lines(request, parts())

    one = reply_of(handler)
    assert one.headers["content-type"].startswith("application/x-ndjson")
    assert lines_of(one) == [
        {"part": "network", "x": 1},
        {"part": "error", "error": "no such codec", "field": "codec"},
    ]


def test_a_number_that_json_has_not_is_an_error_and_not_a_broken_line():
    async def parts():
        yield {"part": "leakage", "epsilon": float("nan")}

    async def handler(request):
        return asked.lines(request, parts())

    assert [part["part"] for part in lines_of(reply_of(handler))] == ["error"]


@pytest.mark.parametrize("moment", ["between two parts", "within a part"])
def test_whoever_hangs_up_ends_the_parts(moment):
    async def play():
        ended, begun = asyncio.Event(), asyncio.Event()

        async def parts():
            try:
                while True:
                    yield {"part": "x"}
                    begun.set()
                    await asyncio.sleep(0 if moment == "between two parts" else 3600)
            finally:
                ended.set()

        async def handler(request):
            return asked.lines(request, parts())

        async def receive():
            if not said:
                said.append(True)
                return {"type": "http.request", "body": b"", "more_body": False}
            await begun.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            await asyncio.sleep(0)

        said = []
        page = Starlette(routes=[Route("/", asked.answered(handler))])
        scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b"", "scheme": "http"}
        await asyncio.wait_for(page(scope | {"asgi": {"spec_version": "2.3"}}, receive, send), 30)
        await asyncio.wait_for(ended.wait(), 30)

    asyncio.run(play())


def test_short_computations_run_beside_the_page():
    async def play():
        return await asyncio.gather(*(asked.computed(pow, 2, k) for k in range(20)))

    assert asyncio.run(play()) == [2**k for k in range(20)]


def test_quick_computations_do_not_wait_behind_slow_ones_and_only_so_many_wait(monkeypatch):
    monkeypatch.setattr(asked, "MOST_QUEUED", 2)

    async def play():
        go = threading.Event()
        slow = [asyncio.create_task(asked.computed(go.wait, 30, lane="slow")) for _ in range(3)]
        await asyncio.sleep(0)
        try:
            assert await asyncio.wait_for(asked.computed(pow, 2, 3), 30) == 8
            with pytest.raises(AskedError, match="try again") as refused:
                await asked.computed(pow, 2, 3, lane="slow")
            assert refused.value.status == 429
        finally:
            go.set()
        assert all(await asyncio.gather(*slow))

    asyncio.run(play())


def test_whoever_reads_nothing_is_given_up_and_the_work_with_it(monkeypatch):
    monkeypatch.setattr(feed, "_STUCK_SECONDS", 0.05)

    async def play():
        ended = asyncio.Event()

        async def parts():
            try:
                while True:
                    yield {"part": "one"}
            finally:
                ended.set()

        async def handler(request):
            return asked.lines(request, parts())

        async def receive() -> dict[str, Any]:
            await asyncio.Event().wait()
            return {}

        async def send(message):
            if message.get("body"):
                await asyncio.Event().wait()

        page = Starlette(routes=[Route("/", asked.answered(handler))])
        scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b"", "scheme": "http"}
        await asyncio.wait_for(page(scope | {"asgi": {"spec_version": "2.3"}}, receive, send), 30)
        await asyncio.wait_for(ended.wait(), 30)

    asyncio.run(play())
