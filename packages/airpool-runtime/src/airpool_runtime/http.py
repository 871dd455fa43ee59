"""The server's HTTP API (openapi.json describes it), with health, readiness and metrics."""

import asyncio
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from airpool_runtime import transport
from airpool_runtime.door import DoorLimits, DoorServer, Guard
from airpool_runtime.feed import Feed
from airpool_runtime.idempotency import BusyError, Inferences, ReusedKeyError
from airpool_runtime.keys.credentials import Credentials
from airpool_runtime.messages import AirStatus, DisconnectedError
from airpool_runtime.metrics import CONTENT_TYPE, Metrics
from airpool_runtime.server import Server
from airpool_runtime.telling import FleetKeeper

_MOST_CONNECTIONS, _MOST_OF_ONE_PEER = 1_000, 256
_REQUESTS = 2_000.0  # of all clients in a second
_REQUEST_SECONDS = 5.0
_READY_SECONDS = 2.0
_WAIT = {"true": True, "1": True, "false": False, "0": False}


def app(server: Server, token: str | None = None, fleet: FleetKeeper | None = None) -> Starlette:
    """The ASGI application of one server. token: required of every client but a health check. fleet: its view."""
    metrics, inferences, feed = Metrics(server, fleet), Inferences(server), Feed(server, fleet)
    schema = resources.files("airpool_runtime").joinpath("openapi.json").read_bytes()

    async def infer(request: Request) -> Response:
        wait = _WAIT.get(request.query_params.get("wait", "true").lower())
        if wait is None or request.query_params.keys() - {"wait"}:
            return JSONResponse({"reason": "the query must be wait=true, wait=false or empty"}, 400)
        try:
            key = request.headers.get("idempotency-key")
            id, task = inferences.started("http", key, request.url.query.encode())
        except BusyError as why:
            return JSONResponse({"reason": str(why)}, 429)
        except ValueError as why:
            return JSONResponse({"reason": str(why)}, 422 if isinstance(why, ReusedKeyError) else 400)
        if not wait:
            return JSONResponse({"id": id, "status": "pending"}, 202)
        try:
            found = await asyncio.shield(task)
        except asyncio.CancelledError:  # a client that hangs up cancels nothing: the server stops
            return JSONResponse({"id": id, "reason": "the server is stopping: what was announced is spent"}, 503)
        return JSONResponse(found.to_json(), 200 if found.status in ("answered", "no answer") else 503)

    async def result(request: Request) -> Response:
        id = request.path_params["id"]
        if (found := server.result(id)) is not None:
            return JSONResponse(found.to_json())
        if id in inferences.waiting:
            return JSONResponse({"id": id, "status": "pending"}, 202)
        return JSONResponse({"reason": "no such result, or too old"}, 404)

    async def status() -> AirStatus:
        try:
            return await asyncio.wait_for(server.port.status(), _READY_SECONDS)
        except (DisconnectedError, TimeoutError):
            count = server.network.devices.count
            return AirStatus(devices=count, quorum=count, connected=0, able=0, ready=0)

    async def readyz(_: Request) -> Response:
        now = await status()
        content: dict[str, Any] = {"ready": now.able, "needed": now.quorum, "connected": now.connected}
        content["faults"] = {str(each.device): each.reason for each in now.faults}
        if fleet is not None:  # inferences do not need it
            content["fleet"] = fleet.status.reason or "ok"
        return JSONResponse(content, 200 if now.able >= now.quorum else 503)

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def measured(_: Request) -> Response:
        return Response(metrics.text(await status()), media_type=CONTENT_TYPE)

    async def events(_: Request) -> Response:
        if feed.listeners.full:
            return JSONResponse({"reason": "too many listen"}, 429)
        return feed.stream()

    async def described(_: Request) -> Response:
        return Response(schema, media_type="application/json")

    made = Starlette(
        routes=[
            Route("/infer", infer, methods=["POST"]),
            Route("/results/{id}", result),
            Route("/openapi.json", described),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", measured),
            Route("/events", events),
        ],
        middleware=[Middleware(Guard, token=token, per_second=_REQUESTS)],
    )
    made.state.feed = feed
    return made


class Web(DoorServer):
    """The API at an address; port 0 is any free one. Beyond loopback it needs a token, and certificates for TLS."""

    def __init__(
        self,
        server: Server,
        address: str,
        *,
        token: str | None = None,
        credentials: Credentials | None = None,
        fleet: FleetKeeper | None = None,
    ) -> None:
        sock = transport.listening(address, secured=token is not None and credentials is not None)
        host, port = sock.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        made = app(server, token, fleet)
        self.feed: Feed = made.state.feed
        most = min(_MOST_CONNECTIONS, transport.descriptors() // 4)
        limits = DoorLimits(most, min(_MOST_OF_ONE_PEER, most // 2), transport.HANDSHAKE_SECONDS, _REQUEST_SECONDS)
        super().__init__(made, sock, limits, credentials, keep_alive=5)

    def end(self) -> None:
        self.feed.close()
