"""Health and metrics of every role: over HTTP on loopback, and gRPC's own health service and reflection."""

import asyncio
import re
from typing import Any, cast

import pytest

from airpool import Network
from airpool_runtime import logs, transport
from airpool_runtime.metrics import MeteredPort, RoleMetrics, serving
from airpool_runtime.service import RankingService
from airpool_runtime.wire_pb2_grpc import add_RankingServicer_to_server


async def asked(address, request=b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"):
    reader, writer = await asyncio.open_connection(*address.rsplit(":", 1))
    writer.write(request)
    found = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return found.decode()


def lines(text, name):
    return {labels: float(value) for labels, value in re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", text, re.MULTILINE)}


def test_events_refusals_and_slot_times_are_counted():
    async def play():
        metrics = RoleMetrics("air", {"air": 4e9})
        async with serving(metrics, "127.0.0.1:0") as address:
            logs.event("refused", device=3, reason="over budget: the budget for all inferences, ε = 8, is spent")
            logs.event("refused", device=3, reason="announced to 7 devices, fewer than this device's ε counts on")
            logs.event("refused", device=3, reason="announced to 8 devices, fewer than this device's ε counts on")
            logs.event("slot", id="a", devices=3, missing=1, seconds=0.04)
            return await asked(address), await asked(address, b"GET /healthz HTTP/1.1\r\n\r\n")

    text, healthy = asyncio.run(play())
    assert "200 OK" in healthy
    assert '"role": "air"' in healthy
    refusals = lines(text, "airpool_refusals_total")
    assert refusals['event="refused",reason="over budget"'] == 1
    assert [count for labels, count in refusals.items() if "announced to N devices" in labels] == [2]
    assert lines(text, "airpool_slot_seconds_count") == {"": 1}
    assert lines(text, "airpool_certificate_expiry_timestamp_seconds") == {'name="air"': 4e9}
    assert lines(text, "airpool_last_event_timestamp_seconds")['event="slot"'] > 1e9
    assert logs.observers == []


def test_reasons_are_bounded_and_bad_requests_get_404():
    async def play():
        metrics = RoleMetrics("air")
        for i in range(500):
            metrics.observe("rejected", {"reason": "x" + chr(0x4E00 + i)})
        async with serving(metrics, "127.0.0.1:0") as address:
            return await asked(address), await asked(address, b"POST /metrics HTTP/1.1\r\n\r\n")

    text, wrong = asyncio.run(play())
    assert len(lines(text, "airpool_refusals_total")) == 65
    assert wrong.startswith("HTTP/1.1 404")


def test_metrics_are_for_this_machine_alone():
    async def play():
        async with serving(RoleMetrics("air"), "0.0.0.0:0"):
            pass

    with pytest.raises(ValueError, match="beyond this machine"):
        asyncio.run(play())


def test_a_metered_port_notes_frames_and_passes_the_rest_on():
    class Port:
        closed = False

        async def transmit(self, signals):
            self.sent = signals

        def close(self):
            self.closed = True

    noted, port = [], cast(Any, Port())
    metered = MeteredPort(port, lambda: noted.append(1))
    asyncio.run(metered.transmit(cast(Any, ["x"])))
    metered.close()
    assert (noted, port.sent, port.closed) == ([1], ["x"], True)


def test_grpc_says_that_it_serves_and_lists_its_services():
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

    from airpool import Ranking
    from airpool_runtime.ranking import RankingServer

    async def play():
        network = Network.uniform(num_devices=3, scheme=Ranking(num_selected=2))
        service = RankingService(RankingServer(network, seconds=1.0))
        server, where = await transport.serve("127.0.0.1:0", lambda it: add_RankingServicer_to_server(service, it))
        try:
            async with transport.channel(where, role="ranking") as channel:
                stub: Any = health_pb2_grpc.HealthStub(channel)
                found = [
                    (await stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=10)).status
                    for name in ("", "airpool.v1.Ranking")
                ]
                ask = reflection_pb2.ServerReflectionRequest(list_services="")
                reflection: Any = reflection_pb2_grpc.ServerReflectionStub(cast(Any, channel))
                call = reflection.ServerReflectionInfo(iter([ask]), timeout=10)
                listed = (await call.read()).list_services_response.service
            return found, {each.name for each in listed}
        finally:
            await server.stop(None)

    found, listed = asyncio.run(play())
    assert found == [health_pb2.HealthCheckResponse.SERVING] * 2
    assert {"airpool.v1.Ranking", "grpc.health.v1.Health"} <= listed


@pytest.mark.check
def test_a_running_device_shows_budget_left_and_its_last_frame(tmp_path):
    from airpool_runtime import up
    from airpool_runtime import wire_pb2 as wire
    from airpool_runtime.keys import authority

    authority.create(tmp_path / "keys")
    for k in range(2):
        authority.add(tmp_path / "keys", f"device-{k}")
    (tmp_path / "ledgers").mkdir()
    more = {"ledger": tmp_path / "ledgers", "budget_epsilon": 50.0, "metrics": "127.0.0.1:0"}
    net = Network.uniform(num_devices=2, noise_std=0.5, dimension=40)

    async def play():
        setup = up.Setup(net, 1, device_options=more, keys=tmp_path / "keys")
        async with up.running(setup) as system, up.client(system) as client:
            for _ in range(3):
                await client.Infer(wire.Nothing(), timeout=60)
            return await asked(system.roles["device 0-1"].said["metrics"])

    text = asyncio.run(play())
    left, spent = lines(text, "airpool_budget_left_epsilon"), lines(text, "airpool_spent_epsilon")
    assert left.keys() == spent.keys() == {'device="0"', 'device="1"'}
    assert all(spent[k] > 0 and left[k] == pytest.approx(50 - spent[k]) for k in left)
    assert len(lines(text, "airpool_last_frame_timestamp_seconds")) == 2
    assert len(lines(text, "airpool_certificate_expiry_timestamp_seconds")) == 2
