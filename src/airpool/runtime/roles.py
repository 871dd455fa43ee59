"""Each role as a process: starts, says where it listens, runs until it is stopped, stops cleanly.

A role prints one line on stdout once it is set up, and logs on stderr. It stops on SIGINT or SIGTERM, and when its
stdin is closed where it was started with `attached`: so nothing outlives `airpool up`.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from grpc import aio

from airpool.runtime import balance, logs, transport
from airpool.runtime import device as devices
from airpool.runtime.air import Air
from airpool.runtime.device import Device
from airpool.runtime.medium import DevicePort, Line
from airpool.runtime.ranking import RankingServer
from airpool.runtime.remote import RemoteDevice, connected
from airpool.runtime.role_metrics import RoleMetrics, serving
from airpool.runtime.server import Server
from airpool.runtime.service import AirService, InferencesService, RankingService
from airpool.runtime.transport import PeerCredentials
from airpool.runtime.wire_pb2_grpc import (
    add_AirServicer_to_server,
    add_FleetServicer_to_server,
    add_InferencesServicer_to_server,
    add_RankingServicer_to_server,
)

if TYPE_CHECKING:
    from airpool.runtime.telling import FleetService


@dataclass(frozen=True)
class Console:
    """attached: the role stops when its stdin is closed. json: it says in JSON where it listens, else in words.

    drain_seconds: that what is running may take to end. metrics: the address of metrics; None: nowhere.
    """

    attached: bool = False
    json: bool = False
    drain_seconds: float = 1.0
    metrics: str | None = None


_ALONE = Console()
_HANG_UP_SECONDS = 0.5


async def run_air(
    air: Air, address: str, *, credentials: PeerCredentials | None = None, console: Console = _ALONE
) -> None:
    service = AirService(air, credentials)
    server, where = await transport.serve(address, lambda it: add_AirServicer_to_server(service, it), credentials)
    async with _running(_metrics("air", credentials), console, address=where):
        pass
    stopping = asyncio.create_task(server.stop(console.drain_seconds + _HANG_UP_SECONDS))
    await service.close(console.drain_seconds)
    await stopping


async def run_ranking(
    ranking: RankingServer, address: str, *, credentials: PeerCredentials | None = None, console: Console = _ALONE
) -> None:
    service = RankingService(ranking, credentials)
    server, where = await transport.serve(address, lambda it: add_RankingServicer_to_server(service, it), credentials)
    async with _running(_metrics("ranking", credentials), console, address=where):
        pass
    await server.stop(console.drain_seconds)


async def run_server(
    server: Server,
    address: str,
    *,
    http: str | None = None,
    token: str | None = None,
    fleet: "FleetService | None" = None,
    credentials: PeerCredentials | None = None,
    console: Console = _ALONE,
) -> None:
    """http: where the HTTP API listens; None: nowhere. token: required of its clients. fleet: takes rows."""
    service, web, said = InferencesService(server, credentials), None, {}

    def add(it: aio.Server) -> None:
        add_InferencesServicer_to_server(service, it)
        if fleet is not None:
            add_FleetServicer_to_server(fleet, it)

    if http is not None:  # first: where its address is wrong, nothing runs yet
        from airpool.runtime.http import Web

        view = None if fleet is None else fleet.keeper
        web = Web(server, http, token=token, credentials=credentials, fleet=view)
        said["http"] = web.address
    listening, said["address"] = await transport.serve(address, add, credentials)
    if web is not None:
        await web.start()
    async with _running(_metrics("server", credentials), console, **said):
        pass
    server.stop()
    if web is not None:
        await web.stop()
    if fleet is not None:
        await fleet.keeper.stop()
    await listening.stop(console.drain_seconds)


async def run_devices(
    hosted: Sequence[Device],
    air: str,
    *,
    credentials: Mapping[int, PeerCredentials] | None = None,
    console: Console = _ALONE,
    ports: Callable[[Line, int], DevicePort] | None = None,
) -> None:
    """One or more devices in this process, each with its own stream to the air; they reconnect when it is gone.

    credentials: of each device, by its index; with them each has a connection of its own. ports: makes a device's
    port of the medium out of its connection; None: that is its port.
    """
    async with AsyncExitStack() as open_channels:
        shared = transport.channel(air, role="air") if credentials is None else None
        channels = {
            each.index: shared or transport.channel(air, (credentials or {})[each.index], role="air") for each in hosted
        }
        for channel in {id(each): each for each in channels.values()}.values():
            await open_channels.enter_async_context(channel)

        metrics = _metrics("device", credentials)
        metrics.watch_budgets(hosted)

        def port_of(line: Line, k: int) -> DevicePort:
            port = line if ports is None else ports(line, k)
            return port if console.metrics is None else metrics.metered(port, k)

        async def one(device: Device) -> None:
            channel, own = channels[device.index], (credentials or {}).get(device.index)

            def opened() -> Awaitable[RemoteDevice]:
                stale = None if own is None else partial(_is_stale, own, own.renewed())
                simulated = device.seed is not None
                return RemoteDevice.opened(
                    channel, device.index, simulated=simulated, network=device.network, stale=stale
                )

            async def use(line: RemoteDevice) -> None:
                async with balance.told(device, line):
                    await devices.run(device, port_of(line, device.index))

            await connected(opened, use)

        async with _running(metrics, console) as stop:
            tasks = [asyncio.create_task(one(each)) for each in hosted]
            for task in tasks:
                task.add_done_callback(lambda _: stop.set())
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended


def _is_stale(own: PeerCredentials, used: PeerCredentials) -> bool:
    return own.renewed() != used


def _metrics(role: str, credentials: "PeerCredentials | Mapping[int, PeerCredentials] | None") -> RoleMetrics:
    """Metrics of a role, with the expiry of its certificates."""
    if credentials is None:
        return RoleMetrics(role)
    from airpool.runtime.keys.credentials import until

    own = {role: credentials} if isinstance(credentials, PeerCredentials) else credentials
    return RoleMetrics(role, {str(name): until(each.certificate).timestamp() for name, each in own.items()})


@asynccontextmanager
async def _running(metrics: RoleMetrics, console: Console, **where: str) -> AsyncIterator[asyncio.Event]:
    """Announces that the role is up, and waits at the end of the block for the signal to stop."""
    async with serving(metrics, console.metrics) as address:
        where |= {} if address is None else {"metrics": address}
        async with _announced(metrics.role, console, where) as stop:
            yield stop


@asynccontextmanager
async def _announced(role: str, console: Console, where: Mapping[str, str]) -> AsyncIterator[asyncio.Event]:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for sign in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(sign, stop.set)
    if console.attached:
        await _watch_stdin(stop)
    line = json.dumps({"role": role, "pid": os.getpid(), **where})
    print(line if console.json else " ".join([role, "runs;", *(f"{k}: {v}" for k, v in where.items())]), flush=True)
    logs.event("started", **where)
    yield stop
    await stop.wait()
    logs.event("stopped")


async def _watch_stdin(stop: asyncio.Event) -> None:
    class Watch(asyncio.Protocol):
        def eof_received(self) -> None:
            stop.set()

        def connection_lost(self, exc: Exception | None) -> None:
            stop.set()

    await asyncio.get_running_loop().connect_read_pipe(Watch, sys.stdin)
