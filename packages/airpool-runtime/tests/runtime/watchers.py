"""A reader of server-sent events, for tests of what is watched."""

import asyncio
import json
from contextlib import asynccontextmanager, suppress

import httpx


class Watcher:
    """The events of one stream, in their order."""

    def __init__(self, response):
        self._lines = response.aiter_lines()

    async def next(self):
        """Name and data of the next event."""
        name = ""
        while True:
            line = await anext(self._lines)
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                return name, json.loads(line.removeprefix("data: "))

    async def until(self, good, seconds=30.0):
        """The first event that is good, of all that come; an error if there is none in time."""
        async with asyncio.timeout(seconds):
            while not good(*(found := await self.next())):
                continue
            return found

    async def to_its_end(self):
        with suppress(StopAsyncIteration, httpx.RemoteProtocolError):
            while True:
                await self.next()


@asynccontextmanager
async def watching(base, path="/events", **rest):
    async with (
        httpx.AsyncClient(base_url=base, trust_env=False, timeout=30, **rest) as client,
        client.stream("GET", path) as response,
    ):
        assert response.status_code == 200, response.status_code
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Watcher(response)
