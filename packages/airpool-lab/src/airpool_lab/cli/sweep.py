"""`airpool sweep`: a function over a grid of parameters, into a table."""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from airpool.cli import options as o
from airpool.cli.output import file_to_write, print_json, print_table, progress, say_written

_SHOWN_ROWS, _SHOWN_FAILURES = 60, 20

app = typer.Typer(add_completion=False)


@app.command()
def sweep(
    function: Annotated[str, typer.Argument(help="epsilon, evaluate, or module:function (a file in this folder).")],
    values: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=V1,V2,...", help="Values of a parameter; repeatable.")
    ] = None,
    seed: Annotated[int, o.seed("Base seed; each point derives its own.")] = 0,
    backend: Annotated[str, typer.Option(help="serial, pool (processes on this machine) or ray.")] = "pool",
    workers: Annotated[int | None, typer.Option(help="Points at a time (default: one for each processor).")] = None,
    address: Annotated[str | None, typer.Option(help="Address of a Ray cluster (default: this machine).")] = None,
    cache: Annotated[Path, typer.Option(help="Folder of measured points.")] = Path("out/sweep"),
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Measure every point, and keep nothing.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="File to write the table to (csv, json or parquet).", callback=file_to_write)
    ] = None,
    json: o.Json = False,
) -> None:
    """Run a function at every combination of parameters. Resumes after an interruption, even a kill."""
    from airpool._support.table import writer_for
    from airpool_lab.sweep import Workers, grid, run

    if out is not None:
        writer_for(out)
    chosen: Any = backend
    # What the function prints must not mix with the table.
    with redirect_stdout(sys.stderr):
        table = run(
            _function(function),
            grid(**_axes(values or [])),
            seed=seed,
            cache=None if no_cache else cache,
            backend=Workers(chosen, workers, address),
            progress=progress,
            command=shlex.join(["airpool", *sys.argv[1:]]),
        )
    if out is not None:
        table.write(out)
    if json:
        print_json(table.to_json())
    else:
        _show(table)
        say_written({"Table": out})
    if table.failures:
        listed = "".join(f"\n  {failure}" for failure in table.failures[:_SHOWN_FAILURES])
        more = len(table.failures) - _SHOWN_FAILURES
        listed += f"\n  ... and {more} more" if more > 0 else ""
        failed = f"{_points(len(table.failures))} failed, and will be tried again by the next run"
        typer.echo(f"error: {failed}:{listed}", err=True)
        raise typer.Exit(1)


def _function(name: str) -> Any:
    from airpool.evaluation.settings import FUNCTIONS
    from airpool_lab.sweep import named

    if ":" in name:
        sys.path.insert(0, os.getcwd())
        return named(name)
    if name not in FUNCTIONS:
        raise ValueError(f"{name!r} must be one of {', '.join(FUNCTIONS)}, or module:function")
    return FUNCTIONS[name]


def _axes(given: list[str]) -> dict[str, list[Any]]:
    axes: dict[str, list[Any]] = {}
    for text in given:
        name, equals, values = text.partition("=")
        if not (equals and values and name.isidentifier()):
            raise ValueError(f"--set {text!r} must be NAME=V1,V2,...")
        if name in axes:
            raise ValueError(f"--set {name} is given twice: --set {name}=V1,V2,... takes all of its values")
        axes[name] = [o.value(part.strip()) for part in values.split(",")]
    return axes


def _show(table: Any) -> None:
    given, found = table.parameters, table.rows()[:_SHOWN_ROWS]
    rows = [{name: _cell(name, value, given) for name, value in row.items()} for row in found]
    room, names = shutil.get_terminal_size().columns, []
    for name in (name for name in table.columns if name != "seed"):  # parameters, every ε, and the results that fit
        room -= 2 + max(len(name), *(len(row[name]) for row in rows)) if rows else 0
        if room >= 0 or name in given or "epsilon" in name:
            names.append(name)
    print_table(names, [[row[name] for name in names] for row in rows], title=f"{table.function}, seed {table.seed}")
    left = [name for name in table.columns if name not in (*names, "seed")]
    left += [f"{_points(len(table) - _SHOWN_ROWS)} more"] if len(table) > _SHOWN_ROWS else []
    if left:
        typer.echo(f"... and {', '.join(left)}: --out FILE writes them all")
    effort = table.effort
    done = f"{_points(effort.measured)} measured"
    done += f" in {effort.seconds:.1f} s, {effort.work:.1f} s of work" if effort.measured else ""
    typer.echo(done + (f"; {effort.cached} kept from before" if effort.cached else ""))


def _points(number: int) -> str:
    return "1 point" if number == 1 else f"{number} points"


def _cell(name: str, value: Any, given: Sequence[str]) -> str:
    from airpool._support.rounding import full, shown

    if isinstance(value, float):  # a printed ε is rounded up: it is a valid bound too
        return full(value) if name in given else shown(value) if "epsilon" in name else f"{value:.5g}"
    return "" if value is None else str(value)
