"""The server's HTTP API (openapi.json describes it), with health, readiness and metrics."""

import asyncio
from contextlib import nullcontext
from importlib import resources
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from airpool.runtime import transport
from airpool.runtime.medium import Disconnected
from airpool.runtime.metrics import CONTENT_TYPE, Metrics
from airpool.runtime.server import Result, Server, new_id

_MOST_WAITING = 100
_READY_SECONDS = 2.0


def app(server: Server) -> Starlette:
    """The ASGI application of one server."""
    metrics, waiting = Metrics(server), dict[str, asyncio.Task[Result]]()
    schema = resources.files("airpool.runtime").joinpath("openapi.json").read_bytes()

    async def infer(request: Request) -> Response:
        if len(waiting) >= _MOST_WAITING:
            return JSONResponse({"reason": f"{_MOST_WAITING} inferences are waiting"}, 429)
        id = new_id()
        # A task of its own: it goes on when the client hangs up, for the devices have paid.
        task = waiting[id] = asyncio.create_task(server.infer(id))
        task.add_done_callback(lambda _: waiting.pop(id, None))
        if request.query_params.get("wait", "true").lower() in ("false", "0"):
            return JSONResponse({"id": id, "status": "pending"}, 202)
        found = await asyncio.shield(task)
        return JSONResponse(found.to_json(), 200 if found.status in ("answered", "no answer") else 503)

    async def result(request: Request) -> Response:
        id = request.path_params["id"]
        if (found := server.result(id)) is not None:
            return JSONResponse(found.to_json())
        if id in waiting:
            return JSONResponse({"id": id, "status": "pending"}, 202)
        return JSONResponse({"reason": "no such result, or too old"}, 404)

    async def ready() -> int:
        try:
            return await asyncio.wait_for(server.port.ready(), _READY_SECONDS)
        except (Disconnected, TimeoutError):
            return 0

    async def readyz(_: Request) -> Response:
        there, needed = await ready(), server.network.devices.count - server.network.dropouts
        return JSONResponse({"ready": there, "needed": needed}, 200 if there >= needed else 503)

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def measured(_: Request) -> Response:
        return Response(metrics.text(await ready()), media_type=CONTENT_TYPE)

    async def described(_: Request) -> Response:
        return Response(schema, media_type="application/json")

    return Starlette(
        routes=[
            Route("/infer", infer, methods=["POST"]),
            Route("/results/{id}", result),
            Route("/openapi.json", described),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", measured),
        ]
    )


class Web:
    """The API at an address of this machine; port 0 is any free one."""

    def __init__(self, server: Server, address: str) -> None:
        self._socket = transport.listening(address)
        host, port = self._socket.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        how: dict[str, Any] = {"log_config": None, "access_log": False, "lifespan": "off", "server_header": False}
        self._uvicorn = uvicorn.Server(uvicorn.Config(app(server), timeout_graceful_shutdown=1, **how))
        self._uvicorn.capture_signals = nullcontext  # pyright: ignore  # the role handles signals
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._uvicorn.serve(sockets=[self._socket]))
        while not self._uvicorn.started and not self._task.done():
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        self._uvicorn.should_exit = True
        if self._task is not None:
            await self._task
        self._socket.close()
