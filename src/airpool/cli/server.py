"""`airpool server`: announces inferences and answers over gRPC and HTTP."""

import typer

from airpool.cli import running as r
from airpool.runtime.options import ServerOptions

app = typer.Typer(add_completion=False)


@app.command()
@r.role(ServerOptions)
def server(_: ServerOptions) -> None:
    """Run the server: it announces inferences, decodes the noisy sum and names the object."""
