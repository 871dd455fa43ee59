"""A number that takes up to seconds: in a thread of its own, or as a job where the network's ε is costly.

Quick answers never wait behind it.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from starlette.requests import Request

from airpool.network import Network
from airpool.web.answers import costly
from airpool.web.asked import computed
from airpool.web.jobs import Tell

Part = dict[str, Any]


async def apart(
    request: Request, network: Network, function: Callable[..., Part], *given: Any
) -> AsyncGenerator[Part, None]:
    """The one part that a function of a module gives. network: decides where it is computed."""
    if not costly(network):
        yield await computed(function, *given, lane="apart")
        return
    async with aclosing(request.app.state.jobs.run(_told, function, *given)) as parts:
        async for part in parts:
            yield part


def _told(tell: Tell, function: Callable[..., Part], *given: Any) -> None:
    tell(function(*given))
