"""`airpool device`: one device or several in one process."""

import typer

from airpool.cli import running as r
from airpool.runtime.options import DeviceOptions

app = typer.Typer(add_completion=False)


@app.command()
@r.role(DeviceOptions)
def device(_: DeviceOptions) -> None:
    """Run a device: it clips and noises its own feature and transmits it, by its own network file."""
