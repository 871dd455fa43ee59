"""`airpool server`: announces inferences and answers over gRPC and HTTP."""

from pathlib import Path
from typing import Annotated

import typer

from airpool.cli import options as o
from airpool.cli import running as r

app = typer.Typer(add_completion=False)


@app.command()
def server(
    network: r.NetworkFile,
    air: r.AirAddress,
    listen: r.Address = r.ANYWHERE,
    http: Annotated[str | None, typer.Option(help="Address of the HTTP API, HOST:PORT; left out: none.")] = None,
    model: o.Model = "modelnet40",
    codec: Annotated[str | None, typer.Option(help="One of the model's (default: its first).")] = None,
    slot_seconds: r.SlotSeconds = None,
    deadline: Annotated[
        float | None, typer.Option(help="Longest time of one inference, in seconds (default: of four slots).")
    ] = None,
    simulate: r.SimulationSeed = None,
    keys: r.Keys = None,
    fleet: Annotated[
        str | None, typer.Option(help="View of the devices' ledgers: sqlite:///FILE or postgresql://USER@HOST/BASE.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token of HTTP clients; needed beyond loopback.")
    ] = None,
    json: o.Json = False,
    attached: r.Attached = False,
) -> None:
    """Run the server: it announces inferences, decodes the noisy sum and names the object."""
    import asyncio

    from airpool.network import file as network_file
    from airpool.runtime import logs, transport
    from airpool.runtime.medium import slot_seconds_of
    from airpool.runtime.remote import RemoteServer
    from airpool.runtime.roles import Console, run_server
    from airpool.runtime.server import Server, codec_of

    logs.start("server")
    net = network_file.read(network)
    chosen = codec_of(model, net, codec=codec)

    async def run() -> None:
        own, token, view = r.credentials(keys, "server"), None, None
        if fleet is not None:
            from airpool.runtime.fleet_keeper import FleetKeeper
            from airpool.runtime.telling import FleetService

            view = FleetService(FleetKeeper(fleet), own)
        if token_file is not None:
            from airpool.runtime import secured

            token = secured.token(token_file)
        async with transport.channel(air, own, role="air") as channel:
            seconds = slot_seconds_of(net) if slot_seconds is None else slot_seconds
            port, longest = RemoteServer(channel, slot_seconds=seconds), 4 * seconds if deadline is None else deadline
            it = Server(net, chosen, port, simulated=simulate is not None, deadline=longest)
            console = Console(attached, json)
            await run_server(it, listen, http=http, token=token, fleet=view, credentials=own, console=console)

    asyncio.run(run())
