"""The page's view of a running system: one connection to its server, its states, what the operator may do."""

import asyncio
import json
import signal
import sys
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
import pytest
from tests.runtime.systems import network, small
from tests.runtime.watchers import watching

from airpool_runtime.feed import event
from airpool_runtime.http import Web
from airpool_web.app import PageOptions
from airpool_web.live import NO_SERVER, NO_TOKEN, Live, LiveOptions, Upstream, UpstreamError
from airpool_web.serving import beside, bound

TOKEN, OPERATOR = "0123456789abcdef", "fedcba9876543210"


@asynccontextmanager
async def page(live):
    where = bound("127.0.0.1:0", token=None, credentials=None)
    async with beside(where, PageOptions(live=live)):
        async with asyncio.timeout(20):
            while True:  # until it answers
                try:
                    async with httpx.AsyncClient(trust_env=False) as client:
                        await client.get(f"{where.url}api/about")
                    break
                except httpx.ConnectError:
                    await asyncio.sleep(0.02)
        yield where.url.rstrip("/")


@asynccontextmanager
async def served(system, address="127.0.0.1:0", **how):
    web = Web(system.server, address, **how)
    await web.start()
    try:
        yield web
    finally:
        await web.stop()


def in_state(state):
    def good(name, data):
        told = data["connection"] if name == "snapshot" else data
        return name in ("snapshot", "state") and told["state"] == state

    return good


def is_down(name, data):
    return name == "devices" and data["devices"][0]["state"] == "down"


def test_a_page_is_told_what_the_server_says():
    async def play():
        async with (
            small(network()) as system,
            served(system) as web,
            page(LiveOptions(Upstream.of(web.address))) as at,
            watching(at, "/api/live") as watcher,
            httpx.AsyncClient(base_url=at, trust_env=False) as client,
        ):
            await watcher.until(lambda name, data: bool(data.get("system")) or name == "system")
            result = (await system.infer())[0]
            _, told = await watcher.until(lambda name, _: name == "inference")
            system.tasks[1].cancel()
            system.ports[1].close()
            _, gone = await watcher.until(is_down)
            async with watching(at, "/api/live") as late:
                _, whole = await late.next()
            about = (await client.get("/api/about")).json()
            return result, told, gone, whole, len(web.feed.listeners), about

    result, told, gone, whole, upstream, about = asyncio.run(play())
    assert told["id"] == result.id
    assert gone["devices"][0]["device"] == 1
    assert whole["connection"]["state"] == "connected"
    assert [each["state"] for each in whole["system"]["devices"].values()] == ["up", "down", "up", "up"]
    assert whole["system"]["totals"]["inferences"] == 1
    assert whole["system"]["inferences"][-1]["id"] == result.id
    assert upstream == 1  # however many pages look
    assert about["live"] is True


def test_without_a_server_the_page_says_how_to_have_one():
    async def play():
        async with page(None) as at, watching(at, "/api/live") as watcher:
            _, told = await watcher.next()
            async with httpx.AsyncClient(base_url=at, trust_env=False) as client:
                asked = await client.post("/api/live/infer", json={"token": OPERATOR})
                return told, asked, (await client.get("/api/about")).json()

    told, asked, about = asyncio.run(play())
    assert told["connection"] == {"state": "no server", "reason": NO_SERVER}
    assert told["system"] is None
    assert asked.status_code == 403
    assert about["live"] is False


def test_a_server_that_restarts_is_lost_and_found_again():
    async def play():
        async with small(network()) as system, AsyncExitStack() as first:
            web = await first.enter_async_context(served(system))
            live = LiveOptions(Upstream.of(web.address))
            async with page(live) as at, watching(at, "/api/live") as watcher:
                await watcher.until(in_state("connected"))
                await first.aclose()
                _, lost = await watcher.until(in_state("lost"))
                async with served(system, web.address):
                    await watcher.until(in_state("connected"))
                return lost

    assert asyncio.run(play())["reason"] == "the server has ended the connection"


@pytest.mark.parametrize(
    ("shown", "reason"), [(None, "refuses the token"), ("x" * 16, "refuses the token"), (TOKEN, "")]
)
def test_the_server_wants_its_own_token(shown, reason):
    async def play():
        async with small(network()) as system, served(system, token=TOKEN) as web:
            live = Live(LiveOptions(Upstream.of(web.address, token=shown)))
            async with live.running(), asyncio.timeout(20):
                while not (live._state["reason"] or live._known):
                    await asyncio.sleep(0.01)
                return live._state

    found = asyncio.run(play())
    assert reason in found["reason"]
    assert found["state"] == ("connecting" if reason else "connected")


def test_an_inference_needs_the_operators_token():
    async def play():
        async with small(network()) as system, served(system, token=TOKEN) as web:
            live = LiveOptions(Upstream.of(web.address, token=TOKEN), OPERATOR)
            async with page(live) as at, httpx.AsyncClient(base_url=at, trust_env=False, timeout=30) as client:
                wrong = [{"token": each} for each in ("", OPERATOR[:-1], TOKEN)]
                bad = [{}, {"token": 3}, {"token": None}, [OPERATOR], {"token": OPERATOR, "more": 1}]
                answers = [(await client.post("/api/live/infer", json=each)).status_code for each in (*wrong, *bad)]
                before = system.server._numbered
                got = await client.post("/api/live/infer", json={"token": OPERATOR})
                tries = [(await client.post("/api/live/infer", json={"token": "x"})).status_code for _ in range(8)]
                foreign = await client.post(
                    "/api/live/infer", json={"token": OPERATOR}, headers={"Origin": "https://evil.example"}
                )
                return answers, before, got, tries, foreign.status_code, system.server._numbered

    answers, before, got, tries, foreign, after = asyncio.run(play())
    assert answers == [401] * 3 + [400] * 5
    assert (before, after, foreign) == (0, 1, 403)
    assert got.json()["status"] == "answered"
    assert 429 in tries


def test_without_an_operators_token_nobody_may_ask():
    async def play():
        async with (
            small(network()) as system,
            served(system) as web,
            page(LiveOptions(Upstream.of(web.address))) as at,
            httpx.AsyncClient(base_url=at, trust_env=False) as client,
        ):
            return await client.post("/api/live/infer", json={"token": ""}), system.server._numbered

    found, asked = asyncio.run(play())
    assert (found.status_code, found.json()["error"], asked) == (403, NO_TOKEN, 0)


def test_what_only_this_machine_knows_is_shown_beside():
    async def play():
        said = {2: "its process has ended", 3: "no file \udcff"}  # of a name that is no text
        async with small(network()) as system, served(system) as web:
            live = LiveOptions(Upstream.of(web.address), local=lambda: said)
            async with page(live) as at, watching(at, "/api/live") as watcher:
                while True:
                    name, data = await watcher.next()
                    if name == "local" or data.get("local"):
                        return data if name == "local" else data["local"]

    assert asyncio.run(play()) == {"2": "its process has ended", "3": "no file ?"}


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 500 X\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nevent: snapshot\ndata: {nonsense\n\n",
        b'HTTP/1.1 200 OK\r\n\r\nevent: snapshot\ndata: {"devices": 3}\n\n',
        b'HTTP/1.1 200 OK\r\n\r\nevent: snapshot\ndata: {"devices": [{}]}\n\n',
        b'HTTP/1.1 200 OK\r\n\r\nevent: snapshot\ndata: {"devices": []}\n\nevent: inference\ndata: {}\n\n',
        b"HTTP/1.1 200 OK\r\n\r\ndata: " + b"x" * 2**21 + b"\n\n",
        b"HTTP/1.1 200 OK\r\n\r\ndata: " + b"[" * 2**19 + b"\n\n",
        b'HTTP/1.1 200 OK\r\n\r\nevent: snapshot\ndata: {"devices": [], "since": NaN}\n\n',
    ],
)
def test_a_server_that_is_none_breaks_nothing(reply):
    async def play():
        async def answer(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(reply)
            writer.close()

        other = await asyncio.start_server(answer, "127.0.0.1", 0)
        host, port = other.sockets[0].getsockname()
        live = Live(LiveOptions(Upstream.of(f"{host}:{port}")))
        async with live.running(), asyncio.timeout(20):
            while not live._state["reason"]:
                await asyncio.sleep(0.01)
        other.close()
        return live._state, await live.snapshot()

    state, snapshot = asyncio.run(play())
    assert state["state"] in ("connecting", "lost")
    assert json.loads(event("snapshot", snapshot).split("data: ")[1])["connection"] == state


@pytest.mark.parametrize(
    "address", ["nowhere", "127.0.0.1", "ftp://127.0.0.1:80", "192.0.2.1:80", "https://127.0.0.1:80"]
)
def test_addresses_that_cannot_be_watched_are_refused(address):
    with pytest.raises(ValueError, match=r"address|--server"):
        Upstream.of(address)


def test_an_address_where_nobody_is_says_so():
    async def play():
        async for _ in Upstream.of("127.0.0.1:1").events():
            pass

    with pytest.raises(UpstreamError, match=r"nothing answers at 127\.0\.0\.1:1"):
        asyncio.run(play())


def test_a_server_with_keys_is_watched_over_tls_and_known_by_its_authority(tmp_path):
    pytest.importorskip("cryptography")
    from airpool_runtime import secured
    from airpool_runtime.keys import authority

    for name in ("keys", "others"):
        authority.create(tmp_path / name)

    async def state(address, folder):
        live = Live(LiveOptions(Upstream.of(address, token=TOKEN, keys=tmp_path / folder)))
        async with live.running(), asyncio.timeout(20):
            while not (live._state["reason"] or live._known):
                await asyncio.sleep(0.01)
            return live._state

    async def play():
        own = secured.credentials(tmp_path / "keys" / "server", "server")
        async with small(network()) as system, served(system, token=TOKEN, credentials=own) as web:
            return [await state(web.address, folder) for folder in ("keys", "others")]

    good, bad = asyncio.run(play())
    assert good["state"] == "connected"
    assert "TLS" in bad["reason"]


def test_many_events_leave_no_more_than_few():
    live = Live(LiveOptions(Upstream.of("127.0.0.1:1")))
    told = {"counts": {}, "totals": {}, "inferences": [], "changes": [], "seconds": [], "air": {}, "devices": []}
    live._take("snapshot", told)
    for i in range(3_000):
        live._take("inference", {"status": "answered", "slots": 1, "spent": True, "number": i})
        live._take("second", {"time": i})
    known = live._known
    assert known is not None
    assert (len(known["inferences"]), len(known["seconds"]), known["counts"]) == (50, 300, {"answered": 3_000})
    assert known["totals"] == {"inferences": 3_000, "slots": 3_000, "spent": 3_000}


def _four(name, data):
    """Whether an event says that four inferences were made."""
    if name == "inference":
        return data["number"] >= 3
    system = data if name == "system" else data.get("system")
    return bool(system) and system["totals"].get("inferences", 0) >= 4


@pytest.mark.check
def test_up_with_its_page_runs_until_ctrl_c():
    """A whole system with one command: the page answers, a source's fault would be seen, and nothing is left."""

    async def play():
        command = ["-m", "airpool", "up", "--devices", "3", "--ui", "--ui-listen", "127.0.0.1:0", "--inferences", "4"]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=pipe, stderr=pipe)
        assert process.stderr is not None
        said = dict[str, str]()
        try:
            async with asyncio.timeout(120):
                while len(said) < 2:
                    line = (await process.stderr.readline()).decode()
                    for name, start in (
                        ("url", "The page: "),
                        ("token", "Operator's token, to ask for an inference there: "),
                    ):
                        if line.startswith(start):
                            said[name] = line.removeprefix(start).split()[0]
                at = said["url"].partition("/#")[0]
                async with watching(at, "/api/live") as watcher:
                    await watcher.until(_four, 60)
                async with httpx.AsyncClient(base_url=at, trust_env=False, timeout=60) as client:
                    got = (await client.post("/api/live/infer", json={"token": said["token"]})).json()
                process.send_signal(signal.SIGINT)
                out, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        return got, process.returncode, out.decode()

    got, status, out = asyncio.run(play())
    assert (got["status"], got["number"]) == ("answered", 4)
    assert status == 0
    assert "4 answered" in out
