"""`airpool demo`: the main job, on what is shipped."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from airpool.cli import options as o

if TYPE_CHECKING:
    from rich.console import Console

    from airpool.demo import Demo
    from airpool.page import Table


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the page, the figures and their data.")] = Path("out"),
    object_name: Annotated[
        str, typer.Option("--object", help="Which of our own objects to send: chair, or chair_2 for a variant.")
    ] = "chair",
    epsilon: Annotated[float, typer.Option(help="ε of every device for that object.")] = 2.0,
    trials: Annotated[int, typer.Option(help="How often every test object is sent.")] = 10,
    seed: Annotated[int, o.seed("Seed of the simulated noise.")] = 0,
    json: o.Json = False,
) -> None:
    """The paper's network and ours on the ModelNet40 test set, one object sent, and the paper's claim: a page of it."""
    from airpool.demo import story

    began = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)  # where nothing can be written, say so before the work
    found = _found(object_name, epsilon=epsilon, trials=trials, seed=seed)
    with o.progress("drawing"):
        files = story.write(found, out)
    if json:
        o.print_json(found.record() | {"files": {name: str(path) for name, path in files.items()}})
        return
    _print(found)
    typer.echo(f"\nThe page, with every figure and table: {files['page']}  ({time.monotonic() - began:.0f} s)")


def _found(object_name: str, *, epsilon: float, trials: int, seed: int) -> "Demo":
    from airpool.demo import Demo, comparison, one_object
    from airpool.demo import claim as claims
    from airpool.models.pretrained import load

    if trials < 1:
        raise ValueError(f"trials={trials} must be >= 1")
    shape = one_object.find(object_name)
    with o.progress("loading the shipped model"):
        model = load("modelnet40")
        total = comparison.inferences(model, trials=trials)
    with o.progress("sending one object"):
        sent = one_object.send(model, shape, epsilon=epsilon, seed=seed)
    with o.progress("sending the test set", total=total) as advance:
        paper, ours = comparison.comparison(model, trials=trials, seed=seed, on_inferences=advance)
    with o.progress("checking the paper's claim", total=claims.NUM_STDS) as advance:
        claim = claims.claim(on_points=advance)
    return Demo(paper, ours, sent, claim, seed)


def _print(found: "Demo") -> None:
    from rich.console import Console

    from airpool.account.report import shown
    from airpool.demo import story, tables

    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, 120)  # into a file or a pipe, no row is broken
    for curve in (found.paper, found.ours):
        _print_table(console, tables.compared(curve))
    console.print(
        "ε claimed: by Theorem 1. ε device: exact, one feature becomes zero. ε remove: exact, by the paper's own "
        f"neighbours. Accuracy ± std over {found.trials} trials.\n{story.DATA}\n"
    )
    sent = found.sent
    silent = sent.on_the_air.count(False)
    console.print(
        f"One object, {sent.shape.name}, sent once at ε = {shown(sent.out.report.worst)} for every device: "
        f"{len(sent.on_the_air) - silent} of {len(sent.on_the_air)} transmitted, {len(sent.ideal)} numbers received, "
        f"label: {sent.answer}",
        highlight=False,
    )
    _print_table(console, tables.labels(sent))
    console.print(f"{story.DEFAULTS}\n")
    _print_table(console, tables.claims(found.claim))
    _print_table(console, tables.truths(found.claim))


def _print_table(console: "Console", table: "Table") -> None:
    from rich import box
    from rich.table import Table as Printed

    console.print(table.caption, style="bold", highlight=False)
    printed = Printed(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for k, name in enumerate(table.header):
        printed.add_column(name, justify="right" if table.is_numeric(k) else "left")
    for row in table.rows:
        printed.add_row(*row)
    console.print(printed)
