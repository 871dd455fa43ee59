"""Random and mutated bytes against the HTTP API, and against all roles as processes (benchmarks/fuzz.py)."""

import asyncio
import random

import httpx
import pytest

from airpool_runtime import logs
from airpool_runtime.http import Web
from benchmarks import fuzz

from .systems import network, small


def test_http_survives_anything(monkeypatch, capfd):
    monkeypatch.setattr(logs, "_state", {"role": "test", "on": True})
    rng = random.Random(1)

    async def play():
        async with small(network(), running=(0, 1), patience=0.01) as system:
            web, found = Web(system.server, "127.0.0.1:0"), set()
            await web.start()
            try:
                for _ in range(30):
                    sent = (fuzz._sent(web.address, fuzz.http_request(rng, "x")) for _ in range(10))
                    found |= set(await asyncio.gather(*sent))
                async with httpx.AsyncClient(trust_env=False) as client:
                    assert (await client.get(f"http://{web.address}/healthz")).status_code == 200
            finally:
                await web.stop()
            return found

    found = asyncio.run(play())
    assert {"HTTP/1.1 200", "HTTP/1.1 400", "HTTP/1.1 413", "HTTP/1.1 421", "HTTP/1.1 431"} <= found
    assert "HTTP/1.1 500" not in found
    said = capfd.readouterr().err
    assert "Traceback" not in said
    assert '"failed"' not in said


def test_messages_of_every_type_can_be_made():
    rng = random.Random(2)
    for name, service in fuzz.wire.DESCRIPTOR.services_by_name.items():
        for method in service.methods:
            made = {fuzz.message(method.input_type, rng).SerializeToString() for _ in range(50)}
            assert len(made) > 1 or not method.input_type.fields, (name, method.name)


@pytest.mark.check
def test_roles_survive_anything():
    found = asyncio.run(fuzz.run(1_500, seed=3))
    assert found["messages"] >= 1_500
    assert found["crashed"] == []
    assert found["tracebacks"] == []
    assert found["failures"] == []
    assert {"no TLS: closed", "no token: HTTP/1.1 401", "call: PERMISSION_DENIED", "call: OK"} <= found[
        "outcomes"
    ].keys()
    assert not any(each.endswith("HTTP/1.1 500") for each in found["outcomes"])
