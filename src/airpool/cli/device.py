"""`airpool device`: one device or several in one process."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airpool.cli import options as o
from airpool.cli import running as r
from airpool.cli.spending import Spending

if TYPE_CHECKING:
    from grpc import aio

    from airpool.runtime.bundle import Bundle
    from airpool.runtime.ledger.chain import Row

app = typer.Typer(add_completion=False)


@app.command()
@o.grouped(Spending)
def device(
    spending: Spending,
    *,
    network: r.NetworkFile,
    air: r.AirAddress,
    view: Annotated[str, typer.Option(help="Which device: its index; or several in one process, as in 0-49.")],
    source: Annotated[
        str,
        typer.Option(help="latents:MODEL/SPLIT, mesh:PATH, folder:PATH, camera:INDEX or MODULE:FUNCTION of your own."),
    ] = "latents:modelnet40/test",
    bundle: Annotated[
        Path | None, typer.Option(help="What makes latents of views; `airpool bundle` writes it.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of the trunk (default: one per core).")] = None,
    codec: Annotated[str | None, typer.Option(help="Codec of shipped latents (default: the model's first).")] = None,
    ranking: Annotated[str | None, typer.Option(help="Address of the ranking server, for Scheme 2.2.")] = None,
    budget: Annotated[
        int | None, typer.Option(help="Inferences that each device may spend (default: no limit).")
    ] = None,
    keys: r.Keys = None,
    identities: r.Identities = None,
    quorum: Annotated[int | None, typer.Option(help="Secure access: fewest devices in a sum (default: all).")] = None,
    simulate: r.SimulationSeed = None,
    json: o.Json = False,
    attached: r.Attached = False,
) -> None:
    """Run a device: it clips and noises its own feature and transmits it, by its own network file."""
    import asyncio
    from contextlib import AsyncExitStack

    from airpool.network import file as network_file
    from airpool.runtime import logs, transport
    from airpool.runtime.device import Device
    from airpool.runtime.medium import MEDIA, PortOptions, medium_of
    from airpool.runtime.remote import RemoteRanking
    from airpool.runtime.roles import Console, run_devices
    from airpool.runtime.sources import Place, source_of

    logs.start("device")
    net = network_file.read(network)
    indices = indices_of(view, net.devices.count)

    async def run() -> None:
        async with AsyncExitStack() as open_channels:
            own = {k: r.credentials(keys_of(keys, k), f"device-{k}") for k in indices}
            rank: dict[int, RemoteRanking] = {}
            for k in indices if ranking is not None else ():
                to = transport.channel(str(ranking), own[k], role="ranking")
                rank[k] = RemoteRanking(await open_channels.enter_async_context(to))
            made = None if bundle is None else read_bundle(bundle, threads)
            hosted, background = [], []
            open_channels.callback(lambda: [task.cancel() for task in background])
            for k in indices:
                found, quick = source_of(source, Place(k, net.devices.count), codec=codec, bundle=made)
                how = {"keys": keys, "several": len(indices) > 1, "budget": budget, "simulated": simulate is not None}
                view = None
                if spending.fleet is not None and spending.ledger is not None:
                    to = transport.channel(spending.fleet, own[k], role="server")
                    view = await open_channels.enter_async_context(to)
                seen = None if view is None else await asked(view, spending.key_of(k, keys))
                charge = spending.charge(k, net, seen=seen, **how)
                if view is not None:
                    background.append(asyncio.create_task(told(view, charge)))
                hosted.append(Device(k, net, found, charge, rank.get(k), simulate, quick))
            known = {k: each for k, each in own.items() if each is not None}
            ports = MEDIA.get(medium_of(net)).ports(net, indices, PortOptions(identities, keys, quorum))
            await run_devices(hosted, air, credentials=known or None, console=Console(attached, json), ports=ports)

    asyncio.run(run())


def keys_of(keys: Path | None, k: int) -> Path | None:
    """The folder of one device's keys."""
    if keys is None:
        return None
    from airpool.runtime import secured

    return secured.home(keys, k)


async def asked(view: "aio.Channel", key: Path) -> "Row | None":
    """The newest row that the fleet has of a device."""
    from airpool.runtime import secured, telling

    return await telling.newest(view, secured.public_key(key))


async def told(view: "aio.Channel", charge: Any) -> None:
    """Reports new rows of a device's ledger to the fleet, without end."""
    from airpool.runtime import telling

    await telling.telling(view, charge.path)


def read_bundle(path: Path, threads: int | None) -> "Bundle":
    from airpool.runtime.bundle import read

    return read(path, threads=threads)


def indices_of(text: str, devices: int) -> list[int]:
    """
    >>> indices_of("3", 12), indices_of("0-3", 12)
    ([3], [0, 1, 2, 3])
    """
    first, _, last = text.partition("-")
    try:
        found = list(range(int(first), int(last or first) + 1))
    except ValueError:
        found = []
    if not found or not 0 <= found[0] <= found[-1] < devices:
        raise ValueError(f"--view {text} must be from 0 to {devices - 1}, or a range as in 0-3")
    return found
