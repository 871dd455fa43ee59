"""The server's HTTP API over a small system, and over a real socket."""

import asyncio
import json
import socket
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from airpool_runtime import idempotency
from airpool_runtime.http import Web, app
from airpool_runtime.idempotency import Inferences
from airpool_runtime.messages import DisconnectedError
from airpool_runtime.server import InferenceResult

from .systems import network, small


def ask(*requests, running=None, then=None):
    """The answers to requests (method, path, and options of httpx), one after the other."""

    async def play():
        async with small(network(), running=running, patience=0.05) as system:
            transport = httpx.ASGITransport(app=app(system.server))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
                answers = [await client.request(*each[:2], **dict(*each[2:])) for each in requests]
                if then is not None:
                    answers += await then(client, answers)
                return answers

    return asyncio.run(play())


def test_an_inference_is_answered_and_found_again():
    async def again(client, answers):
        return [await client.get(f"/results/{answers[0].json()['id']}")]

    first, again_ = ask(("POST", "/infer"), then=again)
    assert first.status_code == again_.status_code == 200
    assert first.json() == again_.json()
    result = first.json()
    assert result["status"] == "answered"
    assert result["name"] in ("a", "b", "c")
    assert sum(result["probabilities"]) == pytest.approx(1)
    assert (result["devices"], result["spent"], result["simulated"]) == (4, True, False)
    assert set(result["guarantee"]) == {"device", "local", "object", "delta", "neighbours"}


def test_nothing_of_a_single_device_is_in_an_answer():
    (answer,) = ask(("POST", "/infer"))
    for word in ("latent", "feature", "score", "gain", "taking", "logits"):
        assert word not in answer.text


def test_a_client_need_not_wait():
    async def poll(client, answers):
        for _ in range(200):
            found = await client.get(f"/results/{answers[0].json()['id']}")
            if found.status_code == 200:
                return [found]
            assert found.json()["status"] == "pending"
            await asyncio.sleep(0.01)
        raise AssertionError("no result")

    first, found = ask(("POST", "/infer?wait=false"), then=poll)
    assert first.status_code == 202
    assert found.json()["id"] == first.json()["id"]
    assert found.json()["status"] == "answered"


def test_below_quorum_is_said_in_words():
    infer, ready, metrics = ask(("POST", "/infer"), ("GET", "/readyz"), ("GET", "/metrics"), running=(0, 1))
    assert infer.status_code == ready.status_code == 503
    assert infer.json()["reason"] == "below quorum: 2 devices are ready, 4 are needed"
    assert infer.json()["spent"] is False
    assert ready.json() == {"ready": 2, "needed": 4, "connected": 2, "faults": {}}
    assert 'airpool_inferences_total{status="below quorum"} 1.0' in metrics.text
    assert "airpool_inferences_spent_total 0.0" in metrics.text
    assert "airpool_devices_ready 2.0" in metrics.text


def test_health_readiness_and_metrics():
    health, ready, _, metrics = ask(("GET", "/healthz"), ("GET", "/readyz"), ("POST", "/infer"), ("GET", "/metrics"))
    assert health.json() == {"status": "ok"}
    assert ready.status_code == 200
    assert 'airpool_inferences_total{status="answered"} 1.0' in metrics.text
    assert "airpool_inference_seconds_count 1.0" in metrics.text
    assert 'airpool_epsilon{of="device"}' in metrics.text


def test_other_requests_are_refused():
    answers = ask(("GET", "/infer"), ("GET", "/results/x"), ("GET", "/"))
    assert [each.status_code for each in answers] == [405, 404, 404]


@pytest.mark.parametrize("name", ["evil.example:8000", "127.0.0.1.evil.example", "[::1", "192.0.2.1", "127.0.0.1@x"])
def test_a_name_that_leads_here_is_no_way_in_without_a_token(name):
    """DNS rebinding: a page's own name resolves to this machine."""
    answers = ask(*((method, path, {"headers": {"Host": name}}) for method, path in (("POST", "/infer"), ("GET", "/"))))
    assert [each.status_code for each in answers] == [421, 421]


def test_a_page_of_another_site_cannot_ask_without_a_token():
    foreign = ("https://evil.example", "null", "http://127.0.0.1:9999", "https://127.0.0.1:8000")
    answers = ask(*(("POST", "/infer", {"headers": {"Origin": each}}) for each in foreign))
    assert [each.status_code for each in answers] == [403] * 4
    own = [{"Origin": "http://127.0.0.1:8000"}, {"Host": "localhost"}, {"Host": "[::1]:8000"}, {"Host": "127.0.0.9"}]
    assert [each.status_code for each in ask(*(("POST", "/infer", {"headers": h}) for h in own))] == [200] * 4


def test_what_would_be_ignored_is_refused():
    bodies = [
        {"content": b"x"},
        {"json": {}},
        {"content": b"x" * 100_000},
        {"headers": {"Transfer-Encoding": "chunked"}},
    ]
    answers = ask(
        *(("POST", "/infer", body) for body in bodies),
        ("GET", "/healthz", {"content": b"x"}),
        *(("POST", f"/infer?{query}") for query in ("wait=maybe", "wit=false", "wait=true&object=3")),
        ("POST", "/infer", {"headers": {"Content-Length": "0"}}),
    )
    assert [each.status_code for each in answers] == [413] * 5 + [400] * 3 + [200]


def test_headers_have_at_most_the_promised_size():
    def sized(count):
        return ("GET", "/healthz", {"headers": {"X-Long": "x" * count}})

    few, many, path = ask(sized(12_000), sized(20_000), ("GET", "/results/" + "x" * 20_000))
    assert (few.status_code, many.status_code, path.status_code) == (200, 431, 431)


def keyed(key, path="/infer"):
    return ("POST", path, {"headers": {"Idempotency-Key": key}})


def test_retries_with_one_key_are_one_inference():
    """At the same time, and afterwards."""

    async def more(client, answers):
        at_once = [client.post("/infer", headers={"Idempotency-Key": "b"}) for _ in range(20)]
        metrics = client.get("/metrics")
        return [*await asyncio.gather(*at_once), await metrics]

    answers = ask(*[keyed("a")] * 20, ("POST", "/infer"), ("POST", "/infer"), then=more)
    first, without, at_once, metrics = answers[:20], answers[20:22], answers[22:42], answers[42]
    assert {each.status_code for each in answers} == {200}
    for same in (first, at_once):
        assert {each.text for each in same} == {same[0].text}
    assert len({each.json()["id"] for each in (*first, *without, *at_once)}) == 4
    assert "airpool_inferences_spent_total 4.0" in metrics.text


def test_a_key_with_another_request_and_a_bad_key_are_refused():
    long, other, empty, odd = ask(keyed("x" * 256), keyed("a"), keyed(""), keyed(b"\xff"))
    assert [long.status_code, empty.status_code, odd.status_code] == [400] * 3
    assert other.status_code == 200
    first, second, again = ask(keyed("a"), keyed("a", "/infer?wait=false"), keyed("a"))
    assert (first.status_code, second.status_code, again.status_code) == (200, 422, 200)
    assert "another request" in second.json()["reason"]


def test_what_spent_nothing_is_tried_again():
    first, again = ask(keyed("a"), keyed("a"), running=(0, 1))
    assert first.status_code == again.status_code == 503
    assert first.json()["id"] != again.json()["id"]


def test_keys_are_kept_for_an_hour_and_a_bounded_number(monkeypatch):
    ids = iter(range(100_000))
    monkeypatch.setattr(idempotency, "new_id", lambda: str(next(ids)))

    async def play():
        now = 0.0

        async def infer(_):
            return cast("InferenceResult", SimpleNamespace(spent=True))

        repeats = Inferences(cast("Any", SimpleNamespace(infer=infer)), clock=lambda: now)

        async def found(caller, key):
            at = repeats.started(caller, key, b"")
            await at.task
            return at.id

        assert await found("a", "k") == await found("a", "k") == "0"
        assert await found("b", "k") == "1"  # another caller's
        now = 3599.0
        assert await found("a", "k") == "0"
        now = 3601.0
        assert await found("a", "k") == "2"
        for i in range(idempotency.KEPT + 5):
            await found("a", str(i))
        assert len(repeats._entries) == idempotency.KEPT
        assert await found("a", str(idempotency.KEPT)) == str(idempotency.KEPT + 3)

    asyncio.run(play())


def test_openapi_describes_what_is_answered():
    schema, answer = (each.json() for each in ask(("GET", "/openapi.json"), ("POST", "/infer")))
    described = schema["components"]["schemas"]["Result"]
    assert set(described["required"]) == set(described["properties"]) == set(answer)
    assert set(described["properties"]["guarantee"]["properties"]) == set(answer["guarantee"])
    status = InferenceResult.__annotations__["status"]
    assert described["properties"]["status"]["enum"] == list(status.__args__)
    statuses = set(schema["paths"]["/infer"]["post"]["responses"])
    assert statuses == {"200", "202", "400", "401", "403", "413", "421", "422", "429", "431", "503"}
    assert "Idempotency-Key" in {each["name"] for each in schema["paths"]["/infer"]["post"]["parameters"]}
    routes = {getattr(route, "path", "") for route in app_routes()}
    assert set(schema["paths"]) == routes - {"/openapi.json"}


def app_routes():
    async def play():
        async with small(network(), running=()) as system:
            return app(system.server).routes

    return asyncio.run(play())


def test_it_listens_on_a_free_port_of_this_machine_and_stops():
    async def play():
        async with small(network()) as system:
            web = Web(system.server, "127.0.0.1:0")
            await web.start()
            try:
                async with httpx.AsyncClient(base_url=f"http://{web.address}", trust_env=False) as client:
                    return (await client.post("/infer")).json()
            finally:
                await web.stop()

    assert json.dumps(asyncio.run(play()))


def test_accepted_connections_do_not_wait_to_fill_a_packet():
    """Without TCP_NODELAY each keep-alive request waits 40 ms for the other end's acknowledgement."""

    async def play():
        async with small(network(), running=()) as system:
            web, seen = Web(system.server, "127.0.0.1:0"), []
            await web.start()
            try:
                async with httpx.AsyncClient(base_url=f"http://{web.address}", trust_env=False) as client:
                    await client.get("/healthz")
                    for each in web.server_state.connections:
                        sock = each.transport.get_extra_info("socket")
                        seen.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
                return seen
            finally:
                await web.stop()

    seen = asyncio.run(play())
    assert len(seen) == 1
    assert seen[0] != 0


def test_a_request_that_waits_when_the_server_stops_is_told_so():
    async def play():
        async with small(network(), running=()) as system:
            begun, release = asyncio.Event(), asyncio.Event()

            async def run_slot(*_):
                begun.set()
                await release.wait()
                raise DisconnectedError("stopped")

            system.server.port = cast("Any", SimpleNamespace(run_slot=run_slot))
            web = Web(system.server, "127.0.0.1:0")
            await web.start()
            async with httpx.AsyncClient(base_url=f"http://{web.address}", trust_env=False, timeout=30) as client:
                asked = asyncio.create_task(client.post("/infer"))
                await begun.wait()
                await web.stop()
                found = await asked
            release.set()
            return found

    found = asyncio.run(play())
    assert found.status_code == 503
    assert found.json()["reason"].startswith("the server is stopping")


def test_beyond_loopback_it_does_not_start():
    async def play():
        async with small(network(), running=()) as system:
            Web(system.server, "0.0.0.0:0")

    with pytest.raises(ValueError, match="beyond this machine"):
        asyncio.run(play())
