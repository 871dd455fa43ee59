"""`airpool air`: the medium, a stand-in for the radio."""

import typer

from airpool.cli import running as r
from airpool.runtime.options import AirOptions

app = typer.Typer(add_completion=False)


@app.command()
@r.role(AirOptions)
def air(_: AirOptions) -> None:
    """Run the air: it adds up what devices send in a slot, and hands the server the noisy sum."""
