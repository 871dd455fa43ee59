"""`airpool ui`: the page."""

from pathlib import Path
from typing import Annotated

import typer

from airpool.cli import options as o
from airpool.cli.output import print_json

app = typer.Typer(add_completion=False)
_LIVE = "A running system"


@app.command()
def ui(
    *,
    listen: Annotated[str, typer.Option(help="Where the page is served, HOST:PORT; port 0 is any free one.")] = (
        "127.0.0.1:8350"
    ),
    model: o.Model = "modelnet40",
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token of the page; needed beyond loopback.")
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(
            help="Folder with a certificate, for TLS (`airpool keys init` makes keys/server); beyond loopback."
        ),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(help="Watch a running system: its server's HTTP API, HOST:PORT.", rich_help_panel=_LIVE),
    ] = None,
    server_token_file: Annotated[
        Path | None, typer.Option(help="File with the token of that API.", rich_help_panel=_LIVE)
    ] = None,
    server_keys: Annotated[
        Path | None,
        typer.Option(help="Folder with the ca.crt of its authority, where it has keys.", rich_help_panel=_LIVE),
    ] = None,
    operator_token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the token that asking for an inference needs (default: that of --server-token-file).",
            rich_help_panel=_LIVE,
        ),
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    json: o.Json = False,
) -> None:
    """Serve the page: see one inference, turn the knobs, attack it, plan one, watch a running system.

    It is for this machine alone unless you give a token and keys. Ctrl-C stops it.
    """
    from airpool.models import stored
    from airpool_runtime import secured
    from airpool_web import serving
    from airpool_web.app import PageOptions
    from airpool_web.live import LiveOptions, Upstream

    token = None if token_file is None else secured.token(token_file)
    credentials = None if keys is None else secured.credentials(keys, "server")
    stored.found(model)  # an error for one that is not there, before the page is served
    live = None
    if server is not None:
        shown = None if server_token_file is None else secured.token(server_token_file)
        operator = shown if operator_token_file is None else secured.token(operator_token_file)
        live = LiveOptions(Upstream.of(server, token=shown, keys=server_keys), operator)
    else:
        own = {"server-token-file": server_token_file, "server-keys": server_keys}
        own["operator-token-file"] = operator_token_file
        for name, each in own.items():
            if each is not None:
                raise ValueError(f"--{name} is for a running system: give --server HOST:PORT too")
    where = serving.bound(listen, token=token, credentials=credentials)
    if json:
        print_json({"url": where.url})
    else:
        typer.echo(f"The page: {where.url}  (Ctrl-C stops it)")
    if open_browser:
        typer.launch(where.url)
    serving.serve(where, PageOptions(token=token, model=model, live=live), credentials)
    typer.echo("The page is closed.", err=True)
