"""Prometheus metrics of a server: counts, times, ε, and devices at fault; nothing of what a device sees or sends."""

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from airpool.runtime.messages import AirStatus
from airpool.runtime.results import InferenceResult
from airpool.runtime.server import Server

if TYPE_CHECKING:
    from airpool.runtime.fleet_keeper import FleetKeeper

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20)


class Metrics:
    def __init__(self, server: Server, fleet: "FleetKeeper | None" = None) -> None:
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
