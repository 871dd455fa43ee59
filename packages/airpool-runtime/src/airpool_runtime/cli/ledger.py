"""`airpool ledger show|verify|export|backup|rebuild|fleet`: what a device has spent, and whether the file is whole."""

import math
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airpool._support import files
from airpool._support.errors import AirpoolError
from airpool.cli import options as o
from airpool.cli.output import print_json, print_table, progress, say_written

if TYPE_CHECKING:
    from airpool.network import Neighbours
    from airpool_runtime.ledger.backup import Content

app = typer.Typer(help="Show, check and copy what a device has spent.", no_args_is_help=True, add_completion=False)

File = Annotated[Path, typer.Argument(help="The ledger's file.")]
Out = Annotated[Path, typer.Option(help="New file to write.")]
Delta = Annotated[float, typer.Option(help="δ at which ε is computed.")]
Relation = Annotated[
    str, typer.Option(help="Neighbours that all inferences are accounted for under: zero-out, replace or remove.")
]


@app.command()
def show(file: File, delta: Delta = 1e-5, neighbours: Relation = "zero-out", json: o.Json = False) -> None:
    """Print what was charged, and the ε of all of it together, for one relation of neighbours."""
    relation = _relation(neighbours)
    with _refusing(), progress("composing"):
        from airpool._support.rounding import full, shown
        from airpool_runtime.ledger.backup import content
        from airpool_runtime.ledger.spending import total, why_infinite

        found = content(file)
        counts, (budgets, lines) = found.counts, _against(found)
        spent = total(counts, delta, relation)
        each = [(mechanism, use, total({mechanism: 1}, delta, relation)) for mechanism, use in counts.items()]
        why = why_infinite(counts, delta, relation) if math.isinf(spent) else None
    # Slots of one inference have its name before the slash.
    inferences = len({row.inference.rpartition("/")[0] or row.inference for row in found.rows})
    summary = {"device": found.origin.device, "inferences": inferences, "slots": len(found.rows)}
    summary |= {"delta": delta, "neighbours": neighbours}
    if json:
        parts = [
            {
                **{"mechanism": mechanism.digest, "device": mechanism.device, **use._asdict(), "epsilon_of_one": one},
                "plugins": [plugin._asdict() for plugin in mechanism.plugins],
            }
            for mechanism, use, one in each
        ]
        more = {"reason": why, "budgets": budgets}
        print_json(files.jsonable({**summary, "epsilon": spent, "key": found.origin.key, "mechanisms": parts, **more}))
        return
    print_table(
        ("mechanism", "device", "rows", "epochs", "ε of one"),
        [
            (mechanism.digest[:12], str(mechanism.device), str(use.inferences), str(use.epochs), shown(one, 4))
            for mechanism, use, one in each
        ],
    )
    for mechanism, *_ in each:
        for plugin in mechanism.plugins:
            typer.echo(f"{mechanism.digest[:12]}: plug-in {plugin.words}")
    last = f", the last on {_day(found.rows[-1].date)}" if found.rows else ""
    of_slots = "" if inferences == len(found.rows) else f" in {len(found.rows)} slots"
    typer.echo(f"{found.origin.device or 'this device'}: {inferences} inferences{of_slots}{last}")
    reason = "" if why is None else f" ({why})"
    typer.echo(f"ε = {shown(spent, 4)}{reason} at δ = {full(delta)} for {neighbours} neighbours, all of them together")
    for line in lines:
        typer.echo(f"spent: {line}")


@app.command()
def verify(
    file: File,
    head: Annotated[
        Path | None, typer.Option(help="File with the number and hash of the newest row (identity.head).")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="The device's identity.key or identity.crt.")] = None,
    json: o.Json = False,
) -> None:
    """Find rows that were changed, left out, exchanged or cut off. Exit status 1 if there are any."""
    from airpool_runtime.ledger import backup

    with _refusing(), progress("checking signatures"):
        found = backup.content(file)
        beside = key.with_suffix(".head") if key is not None else None
        head = head or (beside if beside is not None and beside.exists() else None)
        wrong = list(backup.faults(found, head=head, key=_public_key(key) if key else None))
        budgets, lines = (None, []) if wrong else _against(found)
    unknown = [text for text, given in (("the end (--head)", head), ("whose it is (--key)", key)) if given is None]
    if json:
        print_json({"rows": len(found.rows), "faults": wrong, "unchecked": unknown, "budgets": budgets})
    else:
        for line in wrong:
            typer.echo(line)
        checked = f" Not checked: {' and '.join(unknown)}." if unknown else ""
        typer.echo(f"{len(found.rows)} rows, {len(wrong) or 'no'} fault{'s' * (len(wrong) != 1)}.{checked}")
        for line in lines:
            typer.echo(f"spent: {line}")
    raise typer.Exit(1 if wrong else 0)


@app.command()
def export(file: File, out: Out, json: o.Json = False) -> None:
    """Write all rows with their signatures as lines of JSON."""
    from airpool_runtime.ledger import backup

    with _refusing():
        found = backup.content(file)
        files.write(out, "".join(f"{line}\n" for line in backup.exported(found)))
    _written(out, len(found.rows), json=json)


@app.command()
def backup(file: File, out: Out, json: o.Json = False) -> None:
    """Copy the file, even while a device is charging. A device refuses a restored copy that lacks its newest rows."""
    from airpool_runtime.ledger import backup as copies

    with _refusing():
        copies.copy(file, out)
        number = len(copies.content(out).rows)
    _written(out, number, json=json)


@app.command()
def rebuild(
    file: Annotated[Path, typer.Argument(help="An export, of the device or of the fleet view.")],
    out: Out,
    json: o.Json = False,
) -> None:
    """Make a ledger's file from an export; the device goes on with it if no row is missing."""
    from airpool_runtime.ledger import backup

    with _refusing():
        found = backup.imported(_lines(file))
        backup.rebuilt(found, out)
    _written(out, len(found.rows), json=json)


@app.command()
def fleet(
    url: Annotated[str, typer.Argument(help="sqlite:///FILE or postgresql://USER@HOST/BASE.")],
    take: Annotated[list[Path] | None, typer.Option(help="Exports of devices to take in; repeatable.")] = None,
    of: Annotated[str | None, typer.Option(help="Device, by name or key, whose rows --out writes.")] = None,
    out: Annotated[Path | None, typer.Option(help="New file: an export of --of, for `ledger rebuild`.")] = None,
    delta: Delta = 1e-5,
    neighbours: Relation = "zero-out",
    json: o.Json = False,
) -> None:
    """Print what all devices have spent, as far as they have reported; never trusted over their own ledgers."""
    relation = _relation(neighbours)
    if (of is None) != (out is None):
        raise ValueError("--of and --out must be given together: whose rows, and where to")
    from airpool._support.rounding import full, shown
    from airpool_runtime.ledger.backup import exported, imported
    from airpool_runtime.ledger.fleet import Fleet, base_errors

    try:
        with _refusing(), progress("composing"), closing(Fleet(url)) as view:
            taken = sum(view.take(imported(_lines(path))) for path in take or [])
            found = view.accounts(delta, relation)
            if of is not None and out is not None:
                files.write(out, "".join(f"{line}\n" for line in exported(view.ledger_of(of))))
    except base_errors() as error:
        raise ValueError(f"the fleet view: {str(error).splitlines()[0]}") from None
    if json:
        print_json(files.jsonable({"taken": taken, "delta": delta, "devices": [each._asdict() for each in found]}))
        return
    print_table(
        ("device", "key", "slots", "last", f"ε at δ = {full(delta)}, {neighbours}"),
        [(x.device, x.key[:12], str(x.inferences), _day(x.date), shown(x.epsilon, 4)) for x in found],
    )
    for x in found:
        if x.reason is not None:
            typer.echo(f"{x.device}: ε is inf ({x.reason})")


def _against(found: "Content") -> tuple[list[dict[str, Any]] | None, list[str]]:
    """Spending against each budget, for JSON and in lines; null where it is not known or cannot be computed here."""
    from airpool_runtime.ledger.backup import left, spending_lines

    try:
        spending = left(found)
    except (AirpoolError, ValueError) as error:
        return None, [f"not computed: {error}"]
    return None if spending is None else [each.to_json() for each in spending], spending_lines(spending)


def _relation(given: str) -> "Neighbours":
    from airpool.network import Neighbours

    if given not in tuple(Neighbours):
        raise ValueError(f"--neighbours {given} must be {', '.join(Neighbours)}")
    return Neighbours(given)


@contextmanager
def _refusing() -> Iterator[None]:
    """A refusal is an error of one line."""
    from airpool_runtime.ledger.refused import SpendingError

    try:
        yield
    except SpendingError as error:
        raise ValueError(str(error)) from None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no export: `airpool ledger export` writes one") from None


def _public_key(path: Path) -> str:
    """The public identity key of a private key or of an identity certificate, hexadecimal."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from airpool_runtime.keys import secret

    with path.open("rb") as file:
        content = file.read(1 << 16)
    if b"PRIVATE KEY" in content:
        return secret.identity(path).public_key().public_bytes_raw().hex()
    try:
        key = x509.load_pem_x509_certificate(content).public_key()
    except ValueError:
        raise ValueError(f"{path} holds neither a key nor a certificate: give identity.key or identity.crt") from None
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError(f"{path} is not an identity certificate: give identity.crt, not tls.crt")
    return key.public_bytes_raw().hex()


def _day(date: int) -> str:
    return datetime.fromtimestamp(date / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _written(out: Path, rows: int, *, json: bool) -> None:
    if json:
        print_json({"out": str(out), "rows": rows})
    else:
        say_written({f"{rows} rows": out})
