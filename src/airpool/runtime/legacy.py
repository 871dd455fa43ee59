"""Version 0 of the wire, for one version more: its method names, and the form in which its devices get messages.

A device, server or client of version 0 works with roles of version 1, but for devices of a secure sum. Upgrade the
air, the ranking server and the server first, then the devices: a device of version 1 finds no `airpool.v1` at an air
of version 0.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import grpc
from grpc import aio

from airpool.runtime import logs
from airpool.runtime import wire_pb2 as wire
from airpool.runtime.messages import Deliver, RoundMessage, RoundOver, Turn

# Old names of methods, by service, and the present one of each.
_NAMES = {
    "Air": {"Take": "Connect", "Hold": "RunSlot", "Count": "Status"},
    "Ranking": {"Rank": "Rank"},
    "Inferences": {"Infer": "Infer", "Find": "FindResult"},
    "Fleet": {"Tell": "ReportLedger"},
}


class BothNames:
    """A gRPC server that serves each method of `airpool.v1` under its name of version 0 too."""

    def __init__(self, server: aio.Server) -> None:
        self._server: Any = server  # its type lacks registered methods
        self.services = list[str]()

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        self._server.add_generic_rpc_handlers(handlers)

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        self._server.add_registered_method_handlers(service, handlers)
        self.services.append(service)
        package, _, name = service.rpartition(".")
        if package != "airpool.v1":
            return
        known = {old: now for old, now in _NAMES.get(name, {}).items() if now in handlers}
        renamed = {old: _warned(f"/airpool.{name}/{old}", handlers[now]) for old, now in known.items()}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(f"airpool.{name}", renamed),))


def _warned(path: str, handler: Any) -> Any:
    """A handler that logs its first call."""
    said = set[str]()

    def warn() -> None:
        if path not in said:
            said.add(path)
            logs.event("old version", reason=f"{path} is a name of version 0; upgrade the caller")

    if handler.unary_unary is not None:

        async def unary(request: Any, context: Any) -> Any:
            warn()
            return await handler.unary_unary(request, context)

        return handler._replace(unary_unary=unary)

    async def stream(requests: Any, context: Any) -> Any:
        warn()
        async for reply in handler.stream_stream(requests, context):
            yield reply

    return handler._replace(stream_stream=stream)


def deliverer(say: Callable[[wire.ToDevice], None]) -> Deliver:
    """Says a hub's messages to a device of version 0: one inference at a time, with its network file."""

    def deliver(said: Turn | RoundMessage | RoundOver) -> None:
        for one in said if isinstance(said, tuple) else ():
            announced = {"id": one.id, "number": one.number, "gain": one.gain, "asked": one.asked}
            announced |= {"devices": one.devices, "epoch": one.epoch}
            say(wire.ToDevice(announcement=wire.Announcement(**announced)))

    return deliver
