"""`airpool air`: the medium, a stand-in for the radio."""

from typing import Annotated

import typer

from airpool.cli import options as o
from airpool.cli import running as r

app = typer.Typer(add_completion=False)


@app.command()
def air(
    network: r.NetworkFile,
    listen: r.Address = r.ANYWHERE,
    quorum: Annotated[int | None, typer.Option(help="Devices that must be ready for a slot (default: all).")] = None,
    slot_seconds: r.SlotSeconds = None,
    patience: Annotated[float, typer.Option(help="How long a slot waits for devices to be ready.")] = 1.0,
    simulate: r.SimulationSeed = None,
    keys: r.Keys = None,
    identities: r.Identities = None,
    json: o.Json = False,
    attached: r.Attached = False,
) -> None:
    """Run the air: it adds up what devices send in a slot, and hands the server the noisy sum."""
    import asyncio

    from airpool.network import file as network_file
    from airpool.runtime import logs
    from airpool.runtime.air import Air
    from airpool.runtime.medium import PortOptions
    from airpool.runtime.roles import Console, run_air

    logs.start("air")

    async def run() -> None:
        net = network_file.read(network)
        waits = {"slot_seconds": slot_seconds, "patience": patience}
        it = Air(net, quorum=quorum, seed=simulate, options=PortOptions(identities, keys), **waits)
        own, console = r.credentials(keys, "air"), Console(attached, json)
        await run_air(it, listen, credentials=own, console=console)

    asyncio.run(run())
