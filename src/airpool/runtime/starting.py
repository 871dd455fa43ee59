"""A role from its options: all that can be wrong is checked first, then sockets are opened. `check` does the first."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass

from airpool.network import Network
from airpool.network import file as network_file
from airpool.runtime import charging, logs, sources, transport
from airpool.runtime.air import Air
from airpool.runtime.device import Device, Source
from airpool.runtime.medium import MEDIA, PortOptions, medium_of, slot_seconds_of
from airpool.runtime.options import AirOptions, DeviceOptions, RankingOptions, RoleOptions, ServerOptions, role_of
from airpool.runtime.ranking import RankingServer
from airpool.runtime.remote import RemoteRanking, RemoteServer
from airpool.runtime.roles import Console, run_air, run_devices, run_ranking, run_server
from airpool.runtime.server import Server, codec_of
from airpool.runtime.sources import Place, source_of
from airpool.runtime.transport import PeerCredentials


def run(options: RoleOptions, *, attached: bool = False, json: bool = False) -> None:
    """Runs a role until it is stopped."""
    logs.start(role_of(type(options)))
    console = Console(attached, json, options.drain_seconds, options.metrics)
    match options:
        case AirOptions():
            asyncio.run(_air(options, console))
        case RankingOptions():
            asyncio.run(_ranking(options, console))
        case ServerOptions():
            asyncio.run(_server(options, console))
        case DeviceOptions():
            asyncio.run(_devices(options, console))
        case _:
            raise TypeError(f"{type(options).__name__} is not the options of a role")


async def check(options: RoleOptions) -> list[str]:
    """Raises what a start would raise, without a socket; returns what was looked at."""
    network = require(options)
    looked = [f"network of {network.devices.count} devices", "addresses", "keys" if options.keys else "no keys"]
    if isinstance(options, ServerOptions):
        looked.append("codec")
    elif isinstance(options, DeviceOptions):
        prepared = _prepared(options, network)
        for k in prepared.sources if options.ledger is not None else ():
            charging.check_ledger(options, k)
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
            charging.require_consistent(options, network, several=len(indices) > 1)
            charging.require_covered(options, network, indices)
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


def _credentials(options: RoleOptions) -> PeerCredentials | None:
    """Credentials of a role's sockets; None without keys."""
    if options.keys is None:
        return None
    from airpool.runtime import secured

    return secured.credentials(options.keys, role_of(type(options)))


def _made_air(options: AirOptions, network: Network) -> Air:
    return Air(
        network,
        quorum=options.quorum,
        slot_seconds=options.slot_seconds,
        patience=options.patience,
        seed=options.simulate,
        medium=options.medium,
        options=PortOptions(options.identities, options.keys, window=options.frame_window),
    )


async def _air(options: AirOptions, console: Console) -> None:
    it = _made_air(options, network_file.read(options.network))
    await run_air(it, options.listen, credentials=_credentials(options), console=console)


async def _ranking(options: RankingOptions, console: Console) -> None:
    it = RankingServer(network_file.read(options.network), seconds=options.seconds)
    await run_ranking(it, options.listen, credentials=_credentials(options), console=console)


def _token(options: ServerOptions) -> str | None:
    if options.token_file is None and options.token is None:
        return None
    from airpool.runtime import secured

    if options.token_file is not None:
        return secured.token(options.token_file)
    return secured.checked_token(str(options.token), "AIRPOOL_TOKEN")


async def _server(options: ServerOptions, console: Console) -> None:
    network = network_file.read(options.network)
    chosen = codec_of(options.model, network, codec=options.codec)
    own, view = _credentials(options), None
    if options.fleet is not None:
        from airpool.runtime import telling
        from airpool.runtime.fleet_keeper import FleetKeeper

        view = telling.FleetService(FleetKeeper(options.fleet), own)
    token = _token(options)
    async with transport.channel(options.air, own, role="air") as channel:
        seconds = slot_seconds_of(network) if options.slot_seconds is None else options.slot_seconds
        port = RemoteServer(channel, slot_seconds=seconds)
        longest = 4 * seconds if options.deadline is None else options.deadline
        it = Server(network, chosen, port, simulated=options.simulate is not None, deadline=longest)
        more = {"http": options.http, "token": token, "fleet": view, "credentials": own, "console": console}
        await run_server(it, options.listen, **more)


@dataclass(frozen=True, eq=False)
class _Prepared:
    """Sources and credentials of the devices of a process, by index."""

    sources: dict[int, tuple[Source, bool]]
    credentials: dict[int, PeerCredentials]


def _prepared(options: DeviceOptions, network: Network) -> _Prepared:
    indices = indices_of(options.device, network.devices.count)
    charging.require_consistent(options, network, several=len(indices) > 1)
    own = dict[int, PeerCredentials]()
    if options.keys is not None:
        from airpool.runtime import secured

        own = {k: secured.credentials(secured.home(options.keys, k), f"device-{k}") for k in indices}
    made = None
    if options.bundle is not None:
        from airpool.runtime.bundle import read

        made = read(options.bundle, threads=options.threads)
    place = [Place(k, network.devices.count) for k in indices]
    found = [source_of(options.source, each, codec=options.codec, bundle=made) for each in place]
    return _Prepared(dict(zip(indices, found, strict=True)), own)


async def _devices(options: DeviceOptions, console: Console) -> None:
    network = network_file.read(options.network)
    prepared = _prepared(options, network)
    own, hosted, background = prepared.credentials, list[Device](), list[asyncio.Task[None]]()
    async with AsyncExitStack() as stack:
        stack.callback(lambda: [task.cancel() for task in background])
        for k, (source, quick) in prepared.sources.items():
            rank, view, seen = None, None, None
            if options.ranking is not None:
                channel = transport.channel(options.ranking, own.get(k), role="ranking")
                rank = RemoteRanking(await stack.enter_async_context(channel))
            if options.fleet is not None:
                channel = transport.channel(options.fleet, own.get(k), role="server")
                view = await stack.enter_async_context(channel)
                seen = await charging.newest(options, k, view)
            charge = charging.charge_of(options, k, network, seen)
            stack.callback(charge.close)
            if view is not None:
                background.append(asyncio.create_task(charging.reported(charge, view)))
            hosted.append(Device(k, network, source, charge, rank, options.simulate, quick))
        given = PortOptions(options.identities, options.keys, options.quorum)
        ports = MEDIA.get(options.medium or medium_of(network)).ports(network, list(prepared.sources), given)
        await run_devices(hosted, options.air, credentials=own or None, console=console, ports=ports)


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
