"""`airpool ranking`: the ranking server of Scheme 2.2."""

from typing import Annotated

import typer

from airpool.cli import options as o
from airpool.cli import running as r

app = typer.Typer(add_completion=False)


@app.command()
def ranking(
    network: r.NetworkFile,
    listen: r.Address = r.ANYWHERE,
    seconds: Annotated[float, typer.Option(help="How long it waits for scores; less than a slot.")] = 2.0,
    keys: r.Keys = None,
    json: o.Json = False,
    attached: r.Attached = False,
) -> None:
    """Run the ranking server: it receives noisy scores, and says who is selected."""
    import asyncio

    from airpool.network import file as network_file
    from airpool.runtime import logs
    from airpool.runtime.ranking import RankingServer
    from airpool.runtime.roles import Console, run_ranking

    logs.start("ranking")

    async def run() -> None:
        it = RankingServer(network_file.read(network), seconds=seconds)
        own, console = r.credentials(keys, "ranking"), Console(attached, json)
        await run_ranking(it, listen, credentials=own, console=console)

    asyncio.run(run())
