"""`airpool reproduce ID|all`: the paper's figures and tables, redrawn from committed tables or measured again."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from airpool.cli import options as o
from airpool.cli.output import print_json, progress

if TYPE_CHECKING:
    from airpool.reproduce.report import Told


app = typer.Typer(add_completion=False)


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(metavar="ID|all", help="table-2, fig-p21, …; all: a page of everything.")],
    out: Annotated[Path, typer.Option(help="Folder for figures, data and the page.")] = Path("report"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again; default: the committed table.")] = False,
    seed: o.Seed = 0,
    json: o.Json = False,
) -> None:
    """Redraw a figure or table of the paper, with the exact one beside it and whether the paper's finding holds."""
    from airpool.reproduce import IDS, report, result

    began = time.monotonic()
    names = IDS if name == "all" else (name,)
    for each in names:
        result(each)  # an unknown name is an error before the work
    out.mkdir(parents=True, exist_ok=True)
    told = [_told(each, out, fresh=fresh, seed=seed, alone=name != "all") for each in names]
    page = report.write(told, out) if name == "all" else None
    if json:
        print_json(report.record(told) | ({"page": str(page)} if page else {}))
        return
    _print(told)
    where = f"The page: {page}" if page else "\n".join(map(str, told[0].files))
    typer.echo(f"{where}  ({time.monotonic() - began:.0f} s)")


def _told(name: str, out: Path, *, fresh: bool, seed: int, alone: bool) -> "Told":
    from airpool import reproduce as r
    from airpool.reproduce.report import Told

    module = r.result(name)
    # Among all, what needs a GPU is drawn from its committed table; by itself, asking for it is an error.
    if fresh and (module.FRESH or alone):
        with progress(f"measuring {name}") as advance:
            table = r.fresh(name, out, seed=seed, on_step=advance)
    else:
        table = r.stored(name)
    with progress(f"drawing {name}"):
        files = r.drawn(name, table, out)
    return Told(module, table, files, module.finding(table.rows))


def _print(told: "list[Told]") -> None:
    from rich.console import Console

    from airpool.reproduce.verdicts import WORDS

    console = Console(highlight=False)
    for each in told:
        finding = each.finding
        title = f"{each.module.ID}: {each.module.TITLE}. The finding {WORDS[finding.holds]}."
        console.print(title, style="bold", markup=False)
        lines = [(check.word, f"{check.says}. {check.found}") for check in finding.checks]
        for what, text in (*lines, ("more", finding.more), ("instead", finding.instead)):
            if text:
                console.print(f"  {what}: {text}", markup=False)
