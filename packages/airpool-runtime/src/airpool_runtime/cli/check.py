"""`airpool check`: a role's file of options, checked as at its start."""

from pathlib import Path
from typing import Annotated

import typer

from airpool.cli import options as o
from airpool.cli.output import print_json

app = typer.Typer(add_completion=False)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help='Options of a role (TOML), with role = "device", "air" and so on.')],
    json: o.Json = False,
) -> None:
    """Check all that a role would check at its start; no socket is opened, and no ledger is written."""
    import asyncio

    from airpool_runtime import options, roles

    found = options.read(file)
    looked = asyncio.run(roles.check(found))
    role = options.role_of(type(found))
    if json:
        print_json({"role": role, "checked": looked, "options": options.data_of(found)})
    else:
        typer.echo(f"{file}: {role} would start; checked: {', '.join(looked)}")
