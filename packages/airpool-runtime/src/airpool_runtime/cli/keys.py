"""`airpool keys init|device|rotate|revoke|reissue|show`: who may connect, and for how long."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from airpool.cli import options as o
from airpool.cli.output import print_json, print_table
from airpool_runtime.keys import authority
from airpool_runtime.keys.credentials import expiry_warning

app = typer.Typer(
    help="Make, renew and revoke the keys of devices and servers.", no_args_is_help=True, add_completion=False
)

Folder = Annotated[Path, typer.Option("--keys", help="Folder of the authority.")]
Days = Annotated[float, typer.Option(help="Days until the certificates expire.")]
Name = Annotated[str, typer.Argument(help="Name, such as device-3.")]

_COPY = "copy revoked.crl and roster.pem to every role"


@app.command()
def init(keys: Folder = Path("keys"), days: Days = 365, json: o.Json = False) -> None:
    """Make an authority, and keys for server, air and ranking server. Once."""
    authority.create(keys, days=days)
    _say(f"Authority and keys of {', '.join(authority.ROLES)}: {keys}", keys, json=json)


@app.command()
def device(
    names: Annotated[list[str], typer.Argument(help="Names, such as device-3: the device of index 3.")],
    keys: Folder = Path("keys"),
    days: Days = 365,
    json: o.Json = False,
) -> None:
    """Make the keys of devices, each in a folder of its own to copy to it.

    A name that is not device-N makes the keys of a client of the server.
    """
    homes = [authority.add(keys, name, days=days) for name in names]
    _say(
        "".join(f"Keys of {home.name}: {home} (copy this folder, and nothing else)\n" for home in homes),
        keys,
        json=json,
    )


@app.command()
def rotate(name: Name, keys: Folder = Path("keys"), days: Days = 365, json: o.Json = False) -> None:
    """Make a new connection key and new certificates. Identity and ledger stay; running roles pick the files up."""
    authority.rotate(keys, name, days=days)
    _say(f"New keys of {name}: {keys / name}; {_COPY}", keys, json=json)


@app.command()
def revoke(name: Name, keys: Folder = Path("keys"), json: o.Json = False) -> None:
    """Put all certificates of a name on the list of revoked ones."""
    authority.revoke(keys, name)
    again = f"`airpool keys reissue {name}` makes keys for its replacement"
    _say(f"{name} is revoked; {_COPY}; {again}", keys, json=json)


@app.command()
def reissue(name: Name, keys: Folder = Path("keys"), days: Days = 365, json: o.Json = False) -> None:
    """Make new keys and a new identity for a revoked name: its replacement begins a new ledger.

    The old certificates stay revoked, and the fleet view keeps the old ledger's account beside the new one.
    """
    authority.reissue(keys, name, days=days)
    _say(f"New identity of {name}: {keys / name}; start it with a new ledger and head; {_COPY}", keys, json=json)


@app.command()
def show(keys: Folder = Path("keys"), json: o.Json = False) -> None:
    """List all certificates that were issued, and warn of those that expire within 30 days."""
    found = authority.issued(keys)
    last = {(each.name, each.kind): each for each in found if not each.revoked}.values()
    warnings = [text for x in last if x.kind == "tls" and (text := expiry_warning(x.name, _end(x)))]
    if json:
        print_json({"issued": [each._asdict() for each in found], "warnings": warnings})
        return
    now = datetime.now(UTC)
    states = ["revoked" if x.revoked else "expired" if _end(x) < now else "" for x in found]
    rows = [(x.name, x.kind, x.until[:10], state) for x, state in zip(found, states, strict=True)]
    print_table(("name", "kind", "until", "state"), rows)
    for text in warnings:
        typer.echo(f"warning: {text}", err=True)


def _end(one: authority.Issued) -> datetime:
    return datetime.fromisoformat(one.until)


def _say(text: str, keys: Path, *, json: bool) -> None:
    if not json:
        typer.echo(text.rstrip())
        return
    print_json({"keys": str(keys), "issued": [each._asdict() for each in authority.issued(keys)]})
