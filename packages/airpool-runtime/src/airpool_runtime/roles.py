"""Each role as a process, from its options: all that can be wrong is checked first, then sockets are opened.

A role prints one line on stdout once it is set up, and logs on stderr. It stops on SIGINT or SIGTERM, and when its
stdin is closed where it was started with `attached`: so nothing outlives `airpool up`.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from grpc import aio

from airpool.network import Claim, Network
from airpool.network import file as network_file
from airpool_runtime import bundle, charge, logs, secured, sources, telling, transport
from airpool_runtime import device as devices
from airpool_runtime.air import Air
from airpool_runtime.device import Device, Source
from airpool_runtime.keys.credentials import Credentials
from airpool_runtime.medium import MEDIA, PortOptions, medium_of, slot_seconds_of
from airpool_runtime.metrics import RoleMetrics, serving
from airpool_runtime.options import AirOptions, DeviceOptions, RankingOptions, RoleOptions, ServerOptions, role_of
from airpool_runtime.ranking import RankingServer
from airpool_runtime.remote import RemoteDevice, RemoteRanking, RemoteServer, connected
from airpool_runtime.server import Server, codec_of
from airpool_runtime.service import AirService, InferencesService, RankingService
from airpool_runtime.sources import Place, source_of
from airpool_runtime.wire_pb2_grpc import (
    add_AirServicer_to_server,
    add_FleetServicer_to_server,
    add_InferencesServicer_to_server,
    add_RankingServicer_to_server,
)

_HANG_UP_SECONDS = 0.5


@dataclass(frozen=True)
class Console:
    """attached: the role stops when its stdin is closed. json: it says in JSON where it listens, else in words.

    metrics: the address of metrics; None: nowhere.
    """

    attached: bool
    json: bool
    metrics: str | None


def run(options: RoleOptions, *, attached: bool = False, json: bool = False) -> None:
    """Runs a role until it is stopped."""
    role: Any = role_of(type(options))
    logs.start(role)
    console = Console(attached, json, options.metrics)
    asyncio.run({"air": _air, "ranking": _ranking, "server": _server, "device": _devices}[role](options, console))


async def check(options: RoleOptions) -> list[str]:
    """Raises what a start would raise, without a socket; returns what was looked at."""
    network = require(options)
    looked = [f"network of {network.devices.count} devices", "addresses", "keys" if options.keys else "no keys"]
    if isinstance(options, ServerOptions):
        looked.append("codec")
    elif isinstance(options, DeviceOptions):
        views, _ = _prepared(options, network, network_file.read_claim(options.network))
        for k in views if options.ledger is not None else ():
            charge.check_ledger(options, k)
        looked += ["source", "ledger" if options.ledger else "no ledger"]
    return looked


def require(options: RoleOptions) -> Network:
    """The network of a role. Raises where its options contradict each other; no source or ledger is opened."""
    network = network_file.read(options.network)
    _require_addresses(options)
    match options:
        case AirOptions():
            _made_air(options, network)
        case RankingOptions():
            RankingServer(network, seconds=options.seconds)
        case ServerOptions():
            codec_of(options.model, network, codec=options.codec)
            _token(options)
        case DeviceOptions():
            indices = indices_of(options.device, network.devices.count)
            claim = network_file.read_claim(options.network)
            charge.require_consistent(options, network, claim, several=len(indices) > 1)
            charge.require_covered(options, network, claim, indices)
            sources.require(options.source, bundle=options.bundle is not None)
            if options.bundle is not None and not options.bundle.is_file():
                raise ValueError(f"--bundle {options.bundle}: no such file; `airpool bundle` makes one")
        case _:
            raise TypeError(f"{type(options).__name__} is not the options of a role")
    if not isinstance(options, DeviceOptions):
        _credentials(options)
    return network


def _require_addresses(options: RoleOptions) -> None:
    secure = options.keys is not None
    for name in ("listen", "air", "ranking", "http"):
        if (address := getattr(options, name, None)) is not None:
            transport.split(address, secure)
    if options.metrics is not None:
        transport.split(options.metrics, False)
    if isinstance(options, DeviceOptions) and options.fleet is not None:
        transport.split(options.fleet, secure)


def _credentials(options: RoleOptions) -> Credentials | None:
    """Credentials of a role's sockets; None without keys."""
    return None if options.keys is None else secured.credentials(options.keys, role_of(type(options)))


def _made_air(options: AirOptions, network: Network) -> Air:
    return Air(
        network,
        quorum=options.quorum,
        slot_seconds=options.slot_seconds,
        patience=options.patience,
        seed=options.simulate,
        medium=options.medium,
        options=PortOptions(options.keys, window=options.frame_window),
    )


async def _air(options: AirOptions, console: Console) -> None:
    air, own = _made_air(options, network_file.read(options.network)), _credentials(options)
    service = AirService(air, own)
    server, where = await transport.serve(options.listen, lambda it: add_AirServicer_to_server(service, it), own)
    async with _running(_metrics("air", own), console, {"address": where}):
        pass
    stopping = asyncio.create_task(server.stop(options.drain_seconds + _HANG_UP_SECONDS))
    await service.close(options.drain_seconds)
    await stopping


async def _ranking(options: RankingOptions, console: Console) -> None:
    ranking, own = RankingServer(network_file.read(options.network), seconds=options.seconds), _credentials(options)
    service = RankingService(ranking, own)
    server, where = await transport.serve(options.listen, lambda it: add_RankingServicer_to_server(service, it), own)
    async with _running(_metrics("ranking", own), console, {"address": where}):
        pass
    await server.stop(options.drain_seconds)


async def _server(options: ServerOptions, console: Console) -> None:
    network, claim = network_file.read(options.network), network_file.read_claim(options.network)
    chosen = codec_of(options.model, network, codec=options.codec)
    own, said = _credentials(options), dict[str, str]()
    fleet = None if options.fleet is None else telling.FleetService(telling.FleetKeeper(options.fleet), own)
    token = _token(options)
    async with transport.channel(options.air, own, role="air") as channel:
        seconds = slot_seconds_of(network) if options.slot_seconds is None else options.slot_seconds
        port = RemoteServer(channel, slot_seconds=seconds)
        longest = 4 * seconds if options.deadline is None else options.deadline
        simulated = options.simulate is not None
        server = Server(network, chosen, port, claim=claim, simulated=simulated, deadline=longest)
        service, web = InferencesService(server, own), None

        def add(it: aio.Server) -> None:
            add_InferencesServicer_to_server(service, it)
            if fleet is not None:
                add_FleetServicer_to_server(fleet, it)

        if options.http is not None:  # first: where its address is wrong, nothing runs yet
            from airpool_runtime.http import Web

            view = None if fleet is None else fleet.keeper
            web = Web(server, options.http, token=token, credentials=own, fleet=view)
            said["http"] = web.address
        listening, said["address"] = await transport.serve(options.listen, add, own)
        if web is not None:
            await web.start()
        async with _running(_metrics("server", own), console, said):
            pass
        server.stop()
        if web is not None:
            await web.stop()
        if fleet is not None:
            await fleet.keeper.stop()
        await listening.stop(options.drain_seconds)


def _token(options: ServerOptions) -> str | None:
    if options.token_file is None and options.token is None:
        return None
    if options.token_file is not None:
        return secured.token(options.token_file)
    return secured.checked_token(str(options.token), "AIRPOOL_TOKEN")


def _prepared(
    options: DeviceOptions, network: Network, claim: Claim
) -> tuple[dict[int, tuple[Source, bool]], dict[int, Credentials]]:
    """Sources and credentials of the devices of a process, by index."""
    indices = indices_of(options.device, network.devices.count)
    charge.require_consistent(options, network, claim, several=len(indices) > 1)
    own = dict[int, Credentials]()
    if options.keys is not None:
        own = {k: secured.credentials(secured.home(options.keys, k), f"device-{k}") for k in indices}
    made = None if options.bundle is None else bundle.read(options.bundle, threads=options.threads)
    place = [Place(k, network.devices.count) for k in indices]
    found = [source_of(options.source, each, codec=options.codec, bundle=made) for each in place]
    return dict(zip(indices, found, strict=True)), own


async def _devices(options: DeviceOptions, console: Console) -> None:
    """One or more devices in this process, each with its own stream to the air; they reconnect when it is gone.

    With credentials each has a connection of its own.
    """
    network, claim = network_file.read(options.network), network_file.read_claim(options.network)
    views, own = _prepared(options, network, claim)
    hosted, background = list[Device](), list[asyncio.Task[None]]()
    async with AsyncExitStack() as stack:
        stack.callback(lambda: [task.cancel() for task in background])

        async def opened(address: str, keys: Credentials | None, role: str) -> aio.Channel:
            return await stack.enter_async_context(transport.channel(address, keys, role=role))

        for k, (source, quick) in views.items():
            rank, view, seen = None, None, None
            if options.ranking is not None:
                rank = RemoteRanking(await opened(options.ranking, own.get(k), "ranking"))
            if options.fleet is not None:
                view = await opened(options.fleet, own.get(k), "server")
                seen = await telling.newest(view, secured.public_key(charge.key_of(options, k)))
            paid = charge.charge_of(options, k, network, claim, seen)
            stack.callback(paid.close)
            if view is not None and isinstance(paid, charge.Booked):
                background.append(asyncio.create_task(telling.telling(view, paid.path)))
            hosted.append(Device(k, network, source, paid, rank, options.simulate, quick, claim))
        given = PortOptions(options.keys, options.quorum)
        port_of = MEDIA.get(options.medium or medium_of(network)).ports(network, list(views), given)
        shared = None if own else await opened(options.air, None, "air")
        channels = {k: shared or await opened(options.air, own[k], "air") for k in views}
        metrics = RoleMetrics("device", {str(k): each.expires for k, each in own.items()})
        metrics.watch_budgets(hosted)

        async def one(device: Device) -> None:
            k, keys = device.index, own.get(device.index)

            def line() -> Awaitable[RemoteDevice]:
                used = None if keys is None else keys.renewed()
                stale = None if keys is None else lambda of=keys: of.renewed() != used
                simulated = device.seed is not None
                return RemoteDevice.opened(channels[k], k, simulated=simulated, network=network, stale=stale)

            async def use(line: RemoteDevice) -> None:
                port = port_of(line, k)
                async with devices.told(device, line):
                    await devices.run(device, port if console.metrics is None else metrics.metered(port, k))

            await connected(line, use)

        async with _running(metrics, console, {}) as stop:
            tasks = [asyncio.create_task(one(each)) for each in hosted]
            for task in tasks:
                task.add_done_callback(lambda _: stop.set())
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended


def indices_of(text: str, devices: int) -> list[int]:
    """
    >>> indices_of("3", 12), indices_of("0-3", 12)
    ([3], [0, 1, 2, 3])
    """
    first, _, last = text.partition("-")
    try:
        found = range(int(first), int(last or first) + 1)
    except ValueError:
        found = range(0)
    if not found or not 0 <= found[0] <= found[-1] < devices:
        raise ValueError(f"--device {text} must be from 0 to {devices - 1}, or a range as in 0-3")
    return list(found)


def _metrics(role: str, own: Credentials | None) -> RoleMetrics:
    """Metrics of a role, with the expiry of its certificate."""
    return RoleMetrics(role, {} if own is None else {role: own.expires})


@asynccontextmanager
async def _running(metrics: RoleMetrics, console: Console, where: dict[str, str]) -> AsyncIterator[asyncio.Event]:
    """Announces that the role is up, and waits at the end of the block for the signal to stop."""
    async with serving(metrics, console.metrics) as address:
        where |= {} if address is None else {"metrics": address}
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for sign in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(sign, stop.set)
        if console.attached:
            await _watch_stdin(stop)
        told = {"role": metrics.role, "pid": os.getpid(), **where}
        words = " ".join([metrics.role, "runs;", *(f"{k}: {v}" for k, v in where.items())])
        print(json.dumps(told) if console.json else words, flush=True)
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
