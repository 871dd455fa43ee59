"""Connections that use new keys as soon as their files have changed, without a restart."""

from collections.abc import Callable
from typing import Any

import grpc
from grpc import aio


class RenewedChannel(aio.Channel):
    """A channel whose calls each use the newest keys; a call that has begun goes on with the keys it began with.

    opened: makes a channel. version: what its keys are now; another value than before asks for a new one.
    """

    def __init__(self, opened: Callable[[], aio.Channel], version: Callable[[], object]) -> None:
        self._opened, self._version = opened, version
        self._used, self._channels = version(), [opened()]

    def _newest(self) -> aio.Channel:
        if (version := self._version()) != self._used:
            self._channels.append(self._opened())
            self._used = version
        return self._channels[-1]

    def _method(self, kind: str, *how: Any, **more: Any) -> Any:
        made: tuple[aio.Channel | None, Any] = None, None

        def call(*args: Any, **options: Any) -> Any:
            nonlocal made
            if made[0] is not (channel := self._newest()):
                made = channel, getattr(channel, kind)(*how, **more)
            return made[1](*args, **options)

        return call

    def unary_unary(self, *how: Any, **more: Any) -> Any:
        return self._method("unary_unary", *how, **more)

    def unary_stream(self, *how: Any, **more: Any) -> Any:
        return self._method("unary_stream", *how, **more)

    def stream_unary(self, *how: Any, **more: Any) -> Any:
        return self._method("stream_unary", *how, **more)

    def stream_stream(self, *how: Any, **more: Any) -> Any:
        return self._method("stream_stream", *how, **more)

    async def close(self, grace: float | None = None) -> None:
        for channel in self._channels:
            await channel.close(grace)

    async def __aenter__(self) -> "RenewedChannel":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._newest().get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._channels[-1].wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._channels[-1].channel_ready()
