"""Prometheus metrics of a server, and of any role on a loopback port; nothing of what a device sees or sends.

Counts of a role are made of the log's own events, so nothing is measured here that may not be logged.
"""

import asyncio
import json
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from airpool._support.version import __version__
from airpool_runtime import logs, transport
from airpool_runtime.device import Device
from airpool_runtime.medium import DevicePort
from airpool_runtime.messages import AirStatus, SlotSignal
from airpool_runtime.seeing import faults
from airpool_runtime.server import InferenceResult, Server
from airpool_runtime.telling import FleetKeeper

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
_REASONS = 64  # different ones, in all; a peer may have caused them
_CONNECTIONS, _REQUEST_SECONDS, _REQUEST_BYTES = 16, 5.0, 8192
_SPENT_SECONDS = 10.0  # between two looks at the ledgers


class Metrics:
    def __init__(self, server: Server, fleet: FleetKeeper | None = None) -> None:
        self._registry = CollectorRegistry()
        if fleet is not None:
            view = Gauge(
                "airpool_fleet_view", "The fleet view: up, queued, rows, postponed.", ["what"], registry=self._registry
            )
            for what in ("up", "queued", "rows", "postponed"):
                view.labels(what).set_function(lambda what=what: float(getattr(fleet.status, what)))
        counter = Counter("airpool_inferences", "Inferences by what came of them.", ["status"], registry=self._registry)
        spent = Counter("airpool_inferences_spent", "Inferences that count as spent.", registry=self._registry)
        slots = Counter("airpool_slots", "Slots that inferences have used.", registry=self._registry)
        seconds = Histogram("airpool_inference_seconds", "Time.", buckets=_SECONDS, registry=self._registry)
        self._ready = Gauge("airpool_devices_ready", "Devices that are counted on.", registry=self._registry)
        self._quorum = Gauge("airpool_quorum", "Devices that a slot needs.", registry=self._registry)
        self._fault = Gauge(
            "airpool_device_fault", "Devices that are not counted on.", ["device", "reason"], registry=self._registry
        )
        epsilon = Gauge("airpool_epsilon", "ε of one inference.", ["of"], registry=self._registry)
        for name in ("device", "local", "object"):
            epsilon.labels(name).set(getattr(server.guarantee, name))

        def observe(result: InferenceResult) -> None:
            counter.labels(result.status).inc()
            spent.inc(result.spent)
            slots.inc(result.slots)
            seconds.observe(result.seconds)

        server.observers.append(observe)

    def text(self, status: AirStatus) -> bytes:
        self._ready.set(status.able)
        self._quorum.set(status.quorum)
        self._fault.clear()
        for each in status.faults:
            self._fault.labels(str(each.device), each.reason.partition(":")[0]).set(1)
        return generate_latest(self._registry)


class RoleMetrics:
    """Metrics of one process. certificates: expiry (seconds since 1970) by name."""

    def __init__(self, role: str, certificates: Mapping[str, float] | None = None) -> None:
        self.role, self._registry, self._reasons = role, CollectorRegistry(), set[str]()
        self._hosted: Sequence[Device] = ()
        self._looked = -_SPENT_SECONDS
        info = self._gauge("airpool_role", "Role and version of this process.", "role", "version")
        info.labels(role, __version__).set(1)
        self._events = Counter("airpool_events", "Events of the log.", ["event"], registry=self._registry)
        self._refusals = Counter(
            "airpool_refusals", "What was refused, by reason.", ["event", "reason"], registry=self._registry
        )
        self._slots = Histogram("airpool_slot_seconds", "Time of a slot.", buckets=_SECONDS, registry=self._registry)
        self._last = self._gauge("airpool_last_event_timestamp_seconds", "Time of the newest event.", "event")
        self._frame = self._gauge("airpool_last_frame_timestamp_seconds", "Time of the newest frame.", "device")
        self._sources = self._gauge("airpool_source_fault", "Sources that fail, by kind.", "device", "kind")
        expiry = self._gauge("airpool_certificate_expiry_timestamp_seconds", "End of a certificate.", "name")
        for name, until in (certificates or {}).items():
            expiry.labels(name).set(until)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self._registry)

    def observe(self, event: str, fields: Mapping[str, Any]) -> None:
        """Counts one event of the log."""
        self._events.labels(event).inc()
        self._last.labels(event).set(time.time())
        if event == "slot" and (seconds := fields.get("seconds")) is not None:
            self._slots.observe(seconds)
        elif event != "budget" and (reason := fields.get("reason")):
            self._refusals.labels(event, self._class(str(reason))).inc()

    def _class(self, reason: str) -> str:
        """A reason without its numbers and details, so that there are few of them."""
        short = re.sub(r"\d[\d.e+-]*", "N", reason.partition(":")[0])[:60]
        if short not in self._reasons and len(self._reasons) >= _REASONS:
            return "other"
        self._reasons.add(short)
        return short

    def metered(self, port: DevicePort, device: int) -> DevicePort:
        """A port that notes the time when the device has transmitted."""
        noted = self._frame.labels(str(device)).set_to_current_time
        return cast(DevicePort, MeteredPort(port, noted))

    def watch_budgets(self, hosted: Sequence[Device]) -> None:
        """Shows budget and ε spent of the devices that keep a ledger, as of a few seconds ago."""
        self._hosted = hosted
        self._limit = self._gauge("airpool_budget_epsilon", "Budget of a device.", "device")
        self._spent = self._gauge("airpool_spent_epsilon", "ε of all that a device has charged.", "device")
        self._left = self._gauge("airpool_budget_left_epsilon", "Budget less ε spent.", "device")

    async def text(self) -> bytes:
        if time.monotonic() - self._looked >= _SPENT_SECONDS:
            self._looked = time.monotonic()
            for each in self._hosted:
                found, name = await asyncio.to_thread(each.charge.spending), str(each.index)
                if found is not None and found.spent is not None:
                    self._spent.labels(name).set(found.spent)
                    if found.budget is not None:
                        self._limit.labels(name).set(found.budget)
                        self._left.labels(name).set(max(0.0, found.budget - found.spent))
        self._sources.clear()
        for device, kind in faults():
            self._sources.labels(str(device), kind).set(1)
        return generate_latest(self._registry)


class MeteredPort:
    """A port that notes when a device has transmitted."""

    def __init__(self, port: DevicePort, noted: Callable[[], None]) -> None:
        self._port, self._noted = port, noted

    async def transmit(self, signals: Sequence[SlotSignal]) -> None:
        await self._port.transmit(signals)
        self._noted()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


@asynccontextmanager
async def serving(metrics: RoleMetrics, address: str | None) -> AsyncIterator[str | None]:
    """Serves /metrics and /healthz at a loopback address while the block runs; gives the address. None: nowhere."""
    if address is None:
        yield None
        return
    there, sock = 0, transport.listening(address)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal there
        there += 1
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                if there <= _CONNECTIONS:
                    request = await reader.readuntil(b"\r\n\r\n")
                    writer.write(await _response(metrics, request.split(b" ", 2)[:2]))
                    await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            there -= 1
            writer.close()

    server = await asyncio.start_server(answer, sock=sock, limit=_REQUEST_BYTES)
    logs.observers.append(metrics.observe)
    host, port = sock.getsockname()[:2]
    try:
        yield f"{host}:{port}"
    finally:
        logs.observers.remove(metrics.observe)
        server.close()


async def _response(metrics: RoleMetrics, asked: Sequence[bytes]) -> bytes:
    match tuple(asked):
        case (b"GET", b"/metrics"):
            status, kind, body = "200 OK", CONTENT_TYPE, await metrics.text()
        case (b"GET", b"/healthz"):
            said = {"role": metrics.role, "version": __version__, "pid": os.getpid()}
            status, kind, body = "200 OK", "application/json", json.dumps(said).encode()
        case _:
            status, kind, body = "404 Not Found", "text/plain", b"GET /metrics or /healthz\n"
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body
