"""The page as an ASGI application: its files, and one module of routes for each view."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from threading import Event, Thread

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from airpool._support.version import __version__
from airpool.web import adversary, answers, files, painting, planning, scene
from airpool.web.asked import answered, reply
from airpool.web.guard import PageGuard
from airpool.web.jobs import Jobs
from airpool.web.live import Live, LiveOptions
from airpool.web.live import routes as live_routes

_END_SECONDS = 5.0


@dataclass(frozen=True)
class PageOptions:
    """token: required of every browser; None: the page is for this machine. model: the one that is looked at.

    live: the running system that is watched.
    """

    token: str | None = None
    model: str = "modelnet40"
    live: LiveOptions | None = None


def app(options: PageOptions) -> Starlette:
    """The page. Views add their routes in `_routes`; app.state has `options` and `jobs`."""
    jobs, kept, live = Jobs(), scene.SceneState(), Live(options.live)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        stop = Event()
        first = Thread(target=answers.warm, args=(options.model, stop), daemon=True, name="airpool-page-warm")
        first.start()
        try:
            async with live.running():
                yield
        finally:
            stop.set()
            first.join(_END_SECONDS)
            jobs.close()
            kept.close()

    made = Starlette(
        routes=[
            *_routes(options),
            *live_routes(live),
            Route("/api/{rest:path}", _unknown, methods=["GET", "POST"]),
            Route("/{rest:path}", files.served),
        ],
        middleware=[Middleware(PageGuard, token=options.token)],
        lifespan=lifespan,
    )
    made.state.options, made.state.jobs = options, jobs
    made.state.scene, made.state.live = kept, live
    made.state.seen_shapes = dict[str, painting.SeenShape]()  # at most as many as we ship
    return made


def _routes(options: PageOptions) -> Sequence[BaseRoute]:
    """Routes of all views."""
    return [
        Route("/api/about", answered(_about)),
        *answers.routes(),
        *scene.routes(),
        *adversary.routes(),
        *painting.routes(),
        *planning.routes(),
    ]


async def _about(request: Request) -> Response:
    """Version and model of this page."""
    options: PageOptions = request.app.state.options
    return reply(request, {"version": __version__, "model": options.model, "live": options.live is not None})


async def _unknown(request: Request) -> Response:
    return reply(request, {"error": "there is no such thing to ask for", "field": None}, 404)
