"""`airpool fleet`: the devices of a running system, their versions, refusals, spending and certificates."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airpool._support import files
from airpool._support.rounding import shown, shown_below
from airpool.cli import options as o
from airpool.cli.output import print_json, print_table

if TYPE_CHECKING:
    from airpool_runtime.ledger.fleet import Account
    from airpool_runtime.messages import AirStatus

app = typer.Typer(add_completion=False)


@app.command()
def fleet(
    air: Annotated[str, typer.Option(help="Address of the air.")],
    keys: Annotated[Path | None, typer.Option(help="The authority's folder, with the server's keys in it.")] = None,
    view: Annotated[
        str | None, typer.Option(help="View of the ledgers: sqlite:///FILE or postgresql://USER@HOST/BASE.")
    ] = None,
    budget_epsilon: Annotated[float | None, typer.Option(help="Budget of each device, to show what is left.")] = None,
    delta: Annotated[float, typer.Option(help="δ at which ε is computed.")] = 1e-5,
    json: o.Json = False,
) -> None:
    """Show who is up, with which version, the last refusal, ε spent and left, and the expiry of certificates."""
    import asyncio

    status = asyncio.run(_status(air, keys))
    accounts, until = _accounts(view, delta), _until(keys)
    spent = {name: each[0].epsilon for name, each in accounts.items()}
    faults = {each.device: each for each in status.faults}
    found = []
    for k in range(status.devices):
        name, fault = f"device-{k}", faults.get(k)
        found.append(
            {
                "device": k,
                "up": k in status.versions,
                "version": status.versions.get(k),
                "last_refusal": None if fault is None else fault.reason,
                "epsilon": spent.get(name),
                "left": max(0.0, budget_epsilon - spent[name]) if budget_epsilon and name in spent else None,
                "certificate_until": until.get(name),
                "earlier": [each.epsilon for each in accounts.get(name, ())[1:]],
            }
        )
    if json:
        air_says = {"version": status.version, "quorum": status.quorum, "able": status.able}
        print_json(files.jsonable({"air": air_says, "devices": found}))
        return
    print_table(
        ("device", "up", "version", "last refusal", "ε spent", "ε left", "certificate until"),
        [tuple(_text(name, value) for name, value in each.items() if name != "earlier") for each in found],
    )
    for name, (newest, *earlier) in accounts.items():
        if newest.reason is not None:
            typer.echo(f"{name}: ε is inf ({newest.reason})")
        if earlier:
            more = ", ".join(shown(each.epsilon, 4) for each in earlier)
            typer.echo(f"{name}: earlier identities have spent ε = {more}; for whoever they watched too, it adds up")
    typer.echo(f"air {status.version}: {status.able} of {status.devices} devices are able, {status.quorum} needed")


async def _status(air: str, keys: Path | None) -> "AirStatus":
    from airpool_runtime import transport
    from airpool_runtime.messages import DisconnectedError
    from airpool_runtime.remote import RemoteServer

    own = None
    if keys is not None:
        from airpool_runtime import secured

        own = secured.credentials(keys / "server", "server")
    async with transport.channel(air, own, role="air") as channel:
        try:
            return await RemoteServer(channel, slot_seconds=1.0).status()
        except DisconnectedError as why:
            raise OSError(f"the air at {air} does not answer: {why}") from None


def _accounts(view: str | None, delta: float) -> "dict[str, list[Account]]":
    """Spending of each device, as far as it has reported: of its ledgers the one last written to first."""
    if view is None:
        return {}
    from airpool_runtime.ledger.fleet import Fleet

    with closing(Fleet(view)) as found:
        by_date = sorted(found.accounts(delta), key=lambda each: each.date, reverse=True)
    return {name: [each for each in by_date if each.device == name] for name in {each.device for each in by_date}}


def _until(keys: Path | None) -> dict[str, str]:
    """The day on which the newest certificate of each name expires."""
    if keys is None:
        return {}
    from airpool_runtime.keys import authority

    return {each.name: each.until[:10] for each in authority.issued(keys) if each.kind == "tls" and not each.revoked}


def _text(name: str, value: Any) -> str:
    """A cell: ε spent is rounded up, and what is left down."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return shown_below(value, 4) if name == "left" else shown(value, 4)
    return "–" if value in (None, "") else str(value)
