"""`airpool reproduce ID|all`: the paper's figures and tables, redrawn from committed tables or measured again."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airpool.cli import options as o
from airpool.cli.output import folder_to_write, print_json, progress

if TYPE_CHECKING:
    from airpool_lab.paper.figures.report import Reproduced


app = typer.Typer(add_completion=False)


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(metavar="ID|all", help="table-2, fig-p21, …; all: every result and a page.")],
    out: Annotated[Path, typer.Option(help="Folder for figures, data and the page.", callback=folder_to_write)] = Path(
        "report"
    ),
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again; default: the committed table.")] = False,
    seed: o.Seed = 0,
    json: o.Json = False,
) -> None:
    """Redraw a figure or table of the paper, with the exact one beside it and whether the paper's finding holds."""
    from airpool_lab.paper import figures as r
    from airpool_lab.paper.figures import report

    began = time.monotonic()
    names = r.IDS if name == "all" else (name,)
    described = [r.result(each) for each in names]  # an unknown name is an error before the work
    out.mkdir(parents=True, exist_ok=True)
    made: list[report.Reproduced] = []
    for each in described:
        # Among all, what needs a GPU is drawn from its committed table; by itself, asking for it is an error.
        if fresh and (name != "all" or not isinstance(each.measurement, str)):
            with progress(f"measuring {each.id}") as advance:
                table = r.fresh(each.id, out, seed=seed, on_step=advance)
        else:
            table = r.stored(each.id)
        with progress(f"drawing {each.id}"):
            files = r.drawn(each.id, table, out)
        made.append(report.Reproduced(each, table, files, each.finding(table.rows)))
    page = report.write(made, out) if name == "all" else None
    if json:
        print_json(report.record(made) | ({"page": str(page)} if page else {}))
        return
    _print(made)
    where = f"The page: {page}" if page else "\n".join(map(str, made[0].files))
    typer.echo(f"{where}  ({time.monotonic() - began:.0f} s)")


# By what a finding, or a check of it, says: icon and colour, beside the word. As on the page (style.css).
_MOODS = {"yes": ("✔", "green"), True: ("✔", "green"), "partly": ("◐", "yellow"), None: ("○", "dim")}
_MOODS |= {"no": ("✘", "red"), False: ("✘", "red")}


def _print(results: "list[Reproduced]") -> None:
    from rich.console import Console
    from rich.text import Text

    from airpool_lab.paper.figures.description import WORDS

    console = Console(highlight=False)

    def verdict(holds: Any, word: str) -> tuple[str, str]:
        icon, colour = _MOODS[holds]
        return f"{icon} {word}", colour

    for each in results:
        finding = each.finding
        title = Text.assemble(f"{each.result.id}: {each.result.title}. ", style="bold")
        console.print(title.append(*verdict(finding.holds, f"The finding {WORDS[finding.holds]}.")))
        for check in finding.checks:
            said = verdict(check.holds, check.word)
            console.print(Text.assemble("  ", said, f": {check.says}. {check.found}"))
        for what, text in (("more", finding.more), ("instead", finding.instead)):
            if text:
                console.print(f"  {what}: {text}", markup=False)
