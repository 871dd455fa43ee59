"""Requests to the page without a socket."""

import asyncio

import httpx

from airpool_web.app import PageOptions, app

HERE = "http://127.0.0.1:8350"


def asked(*requests, options=None, then=None):
    """The answers to requests (method, path, and options of httpx), one after the other, of one page."""

    async def play():
        page = app(options or PageOptions())
        transport = httpx.ASGITransport(app=page)
        async with page.router.lifespan_context(page), httpx.AsyncClient(transport=transport, base_url=HERE) as client:
            answers = [await client.request(*each[:2], **dict(*each[2:])) for each in requests]
            return answers + ([] if then is None else await then(client))

    return asyncio.run(play())


def at_path(path, *, method="GET", headers=()):
    """Status, headers and body of the reply to a path as it is after decoding, which no client could send so."""

    async def play():
        page, sent = app(PageOptions()), []

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1"}
        scope |= {"method": method, "scheme": "http", "path": path, "raw_path": path.encode("utf-8", "replace")}
        scope |= {"query_string": b"", "root_path": "", "server": ("127.0.0.1", 8350), "client": ("127.0.0.1", 1)}
        scope["headers"] = [(b"host", b"127.0.0.1:8350"), *headers]
        await page(scope, receive, send)
        return sent[0]["status"], dict(sent[0]["headers"]), b"".join(each.get("body", b"") for each in sent[1:])

    return asyncio.run(play())
