"""The server's HTTP API over a small system, and over a real socket."""

import asyncio
import json

import httpx
import pytest

from airpool.runtime.http import Web, app
from airpool.runtime.server import InferenceResult

from .systems import network, small


def ask(*requests, running=None, then=None):
    """The answers to requests (method, path), one after the other."""

    async def play():
        async with small(network(), running=running, patience=0.05) as system:
            transport = httpx.ASGITransport(app=app(system.server))
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                answers = [await client.request(*each) for each in requests]
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
    assert ready.json() == {"ready": 2, "needed": 4}
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


def test_openapi_describes_what_is_answered():
    schema, answer = (each.json() for each in ask(("GET", "/openapi.json"), ("POST", "/infer")))
    described = schema["components"]["schemas"]["Result"]
    assert set(described["required"]) == set(described["properties"]) == set(answer)
    assert set(described["properties"]["guarantee"]["properties"]) == set(answer["guarantee"])
    status = InferenceResult.__annotations__["status"]
    assert described["properties"]["status"]["enum"] == list(status.__args__)
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


def test_beyond_loopback_it_does_not_start():
    async def play():
        async with small(network(), running=()) as system:
            Web(system.server, "0.0.0.0:0")

    with pytest.raises(ValueError, match="beyond this machine"):
        asyncio.run(play())
