"""`airpool keys init|device|rotate|revoke|show`: who may connect, and for how long."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from airpool.cli import options as o
from airpool.cli.output import print_json, print_table

app = typer.Typer(
    help="Make, renew and revoke the keys of devices and servers.", no_args_is_help=True, add_completion=False
)

Folder = Annotated[Path, typer.Option("--keys", help="Folder of the authority.")]
Days = Annotated[float, typer.Option(help="Days until the certificates expire.")]
Name = Annotated[str, typer.Argument(help="Name, such as device-3.")]


@app.command()
def init(keys: Folder = Path("keys"), days: Days = 365, json: o.Json = False) -> None:
    """Make an authority, and keys for server, air and ranking server. Once."""
    from airpool.runtime.keys import authority

    authority.create(keys, days=days)
    _say(f"Authority and keys of {', '.join(authority.ROLES)}: {keys}", keys, json=json)


@app.command()
def device(
    names: Annotated[list[str], typer.Argument(help="Names, such as device-3: the device of index 3.")],
    keys: Folder = Path("keys"),
    days: Days = 365,
    json: o.Json = False,
) -> None:
    """Make the keys of devices, each in a folder of its own to copy to it. Another name is a client of the server."""
    from airpool.runtime.keys import authority

    homes = [authority.add(keys, name, days=days) for name in names]
    _say(
        "".join(f"Keys of {home.name}: {home} (copy this folder, and nothing else)\n" for home in homes),
        keys,
        json=json,
    )


@app.command()
def rotate(name: Name, keys: Folder = Path("keys"), days: Days = 365, json: o.Json = False) -> None:
    """Make a new connection key and new certificates; the old ones are revoked. Identity and ledger stay."""
    from airpool.runtime.keys import authority

    authority.rotate(keys, name, days=days)
    _say(f"New keys of {name}: {keys / name}; copy revoked.crl to every role", keys, json=json)


@app.command()
def revoke(name: Name, keys: Folder = Path("keys"), json: o.Json = False) -> None:
    """Put all certificates of a name on the list of revoked ones."""
    from airpool.runtime.keys import authority

    authority.revoke(keys, name)
    _say(f"{name} is revoked; copy {keys / 'revoked.crl'} to every role", keys, json=json)


@app.command()
def show(keys: Folder = Path("keys"), json: o.Json = False) -> None:
    """List all certificates that were issued."""
    from airpool.runtime.keys import authority

    found = authority.issued(keys)
    if json:
        print_json({"issued": [each._asdict() for each in found]})
        return
    now = datetime.now(UTC)
    states = ["revoked" if x.revoked else "expired" if datetime.fromisoformat(x.until) < now else "" for x in found]
    rows = [(x.name, x.kind, x.until[:10], state) for x, state in zip(found, states, strict=True)]
    print_table(("name", "kind", "until", "state"), rows)


def _say(text: str, keys: Path, *, json: bool) -> None:
    if not json:
        typer.echo(text.rstrip())
        return
    from airpool.runtime.keys import authority

    print_json({"keys": str(keys), "issued": [each._asdict() for each in authority.issued(keys)]})
