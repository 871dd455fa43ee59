"""Options and steps that the commands of the running system share."""

from pathlib import Path
from typing import Annotated

import typer

NetworkFile = Annotated[Path, typer.Option("--network", help="Network file (TOML).")]
Address = Annotated[str, typer.Option("--listen", help="Address to listen at, HOST:PORT; port 0: any free one.")]
AirAddress = Annotated[str, typer.Option("--air", help="Address of the air.")]
Attached = Annotated[bool, typer.Option("--attached", help="Stop when stdin is closed.", hidden=True)]
SimulationSeed = Annotated[
    int | None, typer.Option("--simulate", help="Seed of a simulated run, whose noise protects nobody.", metavar="SEED")
]
SlotSeconds = Annotated[float, typer.Option(help="How long a slot waits for its signals.")]
ANYWHERE = "127.0.0.1:0"
