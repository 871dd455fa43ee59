"""The feed of a server: what those who watch are told, how soon, and what is kept."""

import asyncio
import json
import ssl
import tracemalloc
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from airpool_runtime import air as hub
from airpool_runtime import device as devices
from airpool_runtime import feed, up
from airpool_runtime import wire_pb2 as wire
from airpool_runtime.air import Stopwatch
from airpool_runtime.charge import Counted
from airpool_runtime.device import Device, Seen
from airpool_runtime.feed import Feed, Listener
from airpool_runtime.http import Web
from airpool_runtime.messages import Balance, Course, DisconnectedError
from airpool_runtime.server import Guarantee, InferenceResult, SlotCourse

from .systems import epsilon_of, latents, network, small
from .watchers import watching

TOKEN = "0123456789abcdef"


@asynccontextmanager
async def served(system, **how):
    web = Web(system.server, "127.0.0.1:0", **how)
    await web.start()
    try:
        yield f"http://{web.address}", web
    finally:
        await web.stop()


def is_device(k, state):
    """Whether an event says this of a device."""
    return lambda name, data: (
        name == "devices" and any((each["device"], each["state"]) == (k, state) for each in data["devices"])
    )


@pytest.mark.parametrize("medium", ["loopback", "grpc"])
def test_a_snapshot_comes_first_then_what_changes(medium):
    async def play():
        async with small(network(), medium) as system, served(system) as (at, _):
            await system.infer(2)
            async with watching(at) as watcher:
                first = await watcher.next()
                result = (await system.infer())[0]
                told = await watcher.until(lambda name, _: name == "inference")
                system.tasks[2].cancel()
                system.ports[2].close()
                gone = await watcher.until(is_device(2, "down"))
                return first, result, told, gone

    (name, snapshot), result, (_, told), (_, gone) = asyncio.run(play())
    assert name == "snapshot"
    assert [each["state"] for each in snapshot["devices"]] == ["up"] * 4
    assert snapshot["counts"] == {"answered": 2}
    assert snapshot["totals"] == {"inferences": 2, "slots": 2, "spent": 2}
    assert [each["number"] for each in snapshot["inferences"]] == [0, 1]
    assert snapshot["air"]["quorum"] == snapshot["air"]["able"] == 4
    assert (told["id"], told["name"], told["seconds"]) == (result.id, result.name, result.seconds)
    assert gone["devices"][0]["reason"] == "not connected"
    assert gone["changes"][0]["device"] == 2
    assert gone["air"]["connected"] == 3


def test_nothing_of_a_single_device_is_in_the_feed():
    async def play():
        async with small(network()) as system, served(system) as (at, _), watching(at) as watcher:
            said = [await watcher.next()]
            await system.infer(3)
            said += [await watcher.until(lambda name, _, want=want: name == want) for want in ("course", "second")]
            return json.dumps(said)

    text = asyncio.run(play())
    for word in ("latent", "feature", "score", "gain", "taking", "logits", "probabilities", "scale"):
        assert word not in text


@pytest.mark.parametrize("medium", ["loopback", "grpc"])
def test_the_course_of_a_slot_is_in_the_order_of_its_stations(medium):
    async def play():
        async with small(network(), medium) as system:
            found = []
            system.server.slot_observers.append(found.append)
            results = await system.infer(3)
            return found, results

    found, results = asyncio.run(play())
    assert [each.id for each in found] == [each.id for each in results]
    for each, result in zip(found, results, strict=True):
        names, times = list(each.marks), list(each.marks.values())
        assert names == ["asked", "announced", "charged", "last", "summed", "answered"]
        order = [each.marks[name] for name in ("asked", "announced", "last", "summed", "answered")]
        assert order == sorted(order)
        assert each.marks["announced"] < each.marks["charged"] <= each.marks["last"]
        assert 0 < times[-1] <= result.seconds


def test_a_device_that_answers_sooner_than_the_others_does_not_show_in_the_course(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(hub, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def told(*answers):
        now[0] = 0.0
        watch = Stopwatch()
        now[0] = 1.0
        watch.announced()
        for now[0] in answers:
            watch.answered()
        return watch.summed()

    assert told(1.01, 1.5) == told(1.49, 1.5)  # one that drew no noise, or whose source has failed


def test_a_charge_that_cannot_be_true_is_not_shown():
    watch = Stopwatch()
    watch.announced()
    for charged in (float("nan"), 1e300, float("inf"), -1.0):
        watch.answered(charged)
    assert watch.summed().charged == 0
    found = SlotCourse.of(Course(announced=1.0, summed=3.0), "a", 0, 1, waited=4.0, answered=4.5)
    assert found.marks == {"asked": 0.0, "announced": 1.5, "summed": 3.5, "answered": 4.5}


def test_a_token_is_needed_where_the_server_has_one():
    async def play():
        async with small(network()) as system, served(system, token=TOKEN) as (at, _):
            async with httpx.AsyncClient(base_url=at, trust_env=False) as client:
                refused = [
                    (
                        await client.get("/events", headers={"Authorization": f"Bearer {each}"} if each else {})
                    ).status_code
                    for each in ("", "0123456789abcdeX", TOKEN[:-1], TOKEN + "0")
                ]
            async with watching(at, headers={"Authorization": f"Bearer {TOKEN}"}) as watcher:
                return refused, await watcher.next()

    refused, (name, _) = asyncio.run(play())
    assert refused == [401] * 4
    assert name == "snapshot"


def test_only_so_many_listen_and_those_who_leave_make_room():
    async def play():
        async with small(network()) as system, served(system) as (at, web):
            web.feed.listeners._most = 2
            async with watching(at) as first, watching(at) as second:
                await asyncio.gather(first.next(), second.next())
                async with httpx.AsyncClient(base_url=at, trust_env=False) as client:
                    third = await client.get("/events")
            async with asyncio.timeout(10):
                while len(web.feed.listeners):
                    await asyncio.sleep(0.01)
            async with watching(at) as again:
                return third.status_code, await again.next()

    status, (name, _) = asyncio.run(play())
    assert (status, name) == (429, "snapshot")


def test_a_stream_ends_when_the_server_stops():
    async def play():
        async with small(network()) as system, AsyncExitStack() as stack:
            at, _ = await stack.enter_async_context(served(system))
            async with watching(at) as watcher, asyncio.timeout(20):
                await watcher.next()
                await stack.aclose()
                await watcher.to_its_end()

    asyncio.run(play())


def test_a_slow_listener_loses_events_is_told_and_begins_anew():
    async def play():
        listener = Listener(queued=10)

        async def snapshot():
            return {"whole": True}

        for i in range(25):
            listener.put(feed.event("inference", {"number": i}))
        late = await listener.next(snapshot)
        listener.put(feed.event("inference", {"number": 25}))
        return late, await listener.next(snapshot)

    late, then = asyncio.run(play())
    assert late == feed.event("lost", {"count": 25}) + feed.event("snapshot", {"whole": True})
    assert then == feed.event("inference", {"number": 25})


def test_a_client_that_reads_nothing_holds_up_nobody():
    """Its socket is full, its queue bounded; the others and the inferences go on."""

    async def play():
        async with small(network()) as system, served(system) as (at, web):
            host, port = at.removeprefix("http://").split(":")
            _, writer = await asyncio.open_connection(host, int(port), limit=1024)
            writer.write(f"GET /events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            await writer.drain()
            async with watching(at) as other:
                await other.next()
                for _ in range(20):
                    for _ in range(1_000):
                        web.feed.listeners.publish("inference", {"text": "x" * 1_000})
                    await asyncio.sleep(0)
                (result,) = await system.infer()
                await other.until(lambda name, data: name in ("inference", "lost") and "text" not in data)
                kept = [len(each._waiting) for each in web.feed.listeners._all]
            writer.close()
            return result, kept

    result, kept = asyncio.run(play())
    assert result.status == "answered"
    assert max(kept) <= feed.QUEUED


def an_inference(i):
    return InferenceResult(
        f"{i:032x}", i, "answered", 0.01, True, Guarantee(1.0, 2.0, 3.0, 1e-5, "zero-out"), label=1, name="a", slots=1
    )


def test_what_a_feed_keeps_is_bounded():
    """Ten thousand events with a listener that reads and one that does not; 100,000: test_memory_..., marked check."""
    assert _growth(10_000) < 2**20


@pytest.mark.check
def test_memory_is_flat_over_100_000_events():
    """Of the second 50,000 of 100,000: nothing beyond 100 kB stays."""
    grown = _growth(100_000)
    print(f"{grown} bytes more after the second half of 100,000 events")
    assert grown < 100_000


def _growth(count):
    """Bytes that the second half of so many inferences and courses leave behind."""

    async def play():
        async with small(network(), running=()) as system:
            feed = Feed(system.server)
            with feed.listeners.one() as reads, feed.listeners.one():
                sizes = []
                for i in range(count):
                    for observe in system.server.observers:
                        observe(an_inference(i))
                    feed._slotted(SlotCourse(f"{i:032x}", i, 1, {"asked": 0.0, "answered": 0.01}))
                    if i % 100 == 0:
                        await reads.next(feed.snapshot)
                        await asyncio.sleep(0)
                    if i in (count // 2, count - 100):  # in the same phase of the one who reads
                        sizes.append(tracemalloc.get_traced_memory()[0])
                assert len(feed._known["inferences"]) == 50
                return sizes[1] - sizes[0]

    tracemalloc.start()
    try:
        return asyncio.run(play())
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("medium", ["loopback", "grpc"])
def test_a_device_tells_what_it_has_spent_and_why_it_waits(medium, ledgers):
    net = network(2, noise_std=1.0)
    spent = epsilon_of(net, 3)
    charges = ledgers(net, spent * 1.01, count=2)

    async def play():
        z = latents(count=2)
        async with small(net, medium, running=()) as system, served(system) as (at, _), watching(at) as watcher:
            hosted = [Device(k, net, lambda i, k=k: Seen(z[i % 8, k]), charge=charges[k]) for k in range(2)]

            async def one(device):
                port = await system.open_port(device.index)
                async with devices.told(device, port):
                    await devices.run(device, port)

            tasks = [asyncio.create_task(one(each)) for each in hosted]
            try:
                await watcher.until(is_device(1, "up"))
                for _ in range(3):
                    assert (await system.infer())[0].status == "answered"
                waiting = await watcher.until(is_device(1, "waiting"))
                last = await system.infer()
                snapshot = await Feed(system.server).snapshot()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            return waiting, last[0], snapshot

    (_, waiting), last, snapshot = asyncio.run(play())
    assert "its budget does not cover another inference" in waiting["devices"][-1]["reason"]
    assert last.status == "below quorum"
    assert "its budget does not cover another inference" in last.reason
    for each in snapshot["devices"]:
        assert each["state"] == "waiting"
        told = {"spent": spent, "budget": spent * 1.01, "delta": 1e-5, "neighbours": "zero-out", "waits": "budget"}
        assert each["balance"] == told


def test_a_count_without_a_ledger_says_nothing_of_epsilon():
    """Its own number of inferences is no ε."""
    assert Counted().spending() is None


def test_balances_that_are_no_numbers_are_shown_as_unknown():
    async def play():
        async with small(network()) as system:
            for k, spent in enumerate((float("nan"), float("inf"), -1.0, 1e308)):
                system.air.told(k, Balance(spent, float("nan"), float("nan"), "x" * 16))
            snapshot = await Feed(system.server).snapshot()
            return json.loads(feed.event("snapshot", snapshot).split("data: ")[1])

    found = [each["balance"] for each in asyncio.run(play())["devices"]]
    assert [each["spent"] for each in found] == [None, "inf", -1.0, 1e308]
    assert {each["budget"] for each in found} == {None}


def test_an_air_that_is_gone_is_said_so_and_found_again():
    async def play():
        async with small(network()) as system, served(system) as (at, _), watching(at) as watcher:
            await watcher.next()
            port = system.server.port

            async def gone():
                raise DisconnectedError("the air cannot be reached")

            system.server.port = cast("Any", SimpleNamespace(status=gone))
            lost = await watcher.until(lambda name, data: name == "devices" and not data["air"]["reached"])
            system.server.port = port
            return lost, await watcher.until(lambda name, data: name == "devices" and data["air"]["reached"])

    (_, lost), (_, back) = asyncio.run(play())
    assert lost["air"]["reason"] == "the air cannot be reached"
    assert {each["state"] for each in lost["devices"]} == {"unknown"}
    assert {each["state"] for each in back["devices"]} == {"up"}


@pytest.mark.check
def test_a_killed_device_is_seen_within_two_seconds(tmp_path):
    """Of real processes with TLS and ledgers; the time is printed, and held against the issue's bar."""
    from airpool_runtime.keys import authority

    authority.create(tmp_path / "keys")
    for k in range(4):
        authority.add(tmp_path / "keys", f"device-{k}")
    (tmp_path / "ledgers").mkdir()
    more = {"ledger": tmp_path / "ledgers", "budget_epsilon": 50.0}
    net = network(4, noise_std=0.5, dimension=40)

    async def play():
        setup = up.Setup(net, 4, device_options=more, keys=tmp_path / "keys", http="127.0.0.1:0")
        async with up.running(setup) as system, up.client(system) as client:
            at = f"https://{system.roles['server'].said['http']}"
            context = ssl.create_default_context(cafile=str(tmp_path / "keys" / "server" / "ca.crt"))
            context.check_hostname = False
            async with watching(at, verify=context) as watcher:
                await watcher.next()
                for _ in range(3):
                    await client.Infer(wire.Nothing(), timeout=60)
                spent = await watcher.until(
                    lambda name, data: (
                        name == "devices" and any((d["balance"] or {}).get("spent") for d in data["devices"])
                    )
                )
                await system.roles["device 2-2"].kill()
                await watcher.until(is_device(2, "down"))
                return spent

    _, spent = asyncio.run(play())
    assert any(each["balance"]["budget"] == 50.0 for each in spent["devices"])


def test_every_inference_is_counted_in_one_second_of_the_clock(monkeypatch):
    now, said, seconds = [100.0], [], feed._Seconds()
    monkeypatch.setattr(feed.time, "time", lambda: now[0])
    for moment in (100.2, 100.7, 101.1, 101.5, 101.9, 102.4, 105.0, 106.0):
        now[0] = moment
        said.append(seconds.ended())
        if moment < 105:
            seconds.note(an_inference(0))
    told = {each["time"]: each["all"] for each in said if each is not None}
    assert told == {100: 2, 101: 3, 102: 1, 105: 0}
