"""`airpool demo`: the main job, on what is shipped."""

import os
import sys
import time
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Annotated

import typer

from airpool.cli import options as o
from airpool.cli.output import folder_to_write, print_json, print_table, progress

if TYPE_CHECKING:
    from airpool_lab.demo import Demo

app = typer.Typer(add_completion=False)


@app.command()
def demo(
    out: Annotated[
        Path, typer.Option(help="Folder for the page, the figures and their data.", callback=folder_to_write)
    ] = Path("out"),
    object_name: Annotated[
        str, typer.Option("--object", help="One of our own objects: chair, or chair_2 for a variant.")
    ] = "chair",
    epsilon: Annotated[float, typer.Option(help="ε of every device for that object.")] = 2.0,
    trials: Annotated[int, typer.Option(help="Transmissions of every test object.")] = 10,
    seed: o.Seed = 0,
    json: o.Json = False,
) -> None:
    """Run the main job on the shipped model and write a page about it.

    Compare the paper's network with ours on the ModelNet40 test set, transmit one object, check the paper's claim.
    """
    from airpool._support.arrays import positive
    from airpool_lab.demo import one_object, story

    positive("epsilon", epsilon)
    if trials < 1:
        raise ValueError(f"trials={trials} must be >= 1")
    one_object.find(object_name)
    began = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    found = _found(object_name, epsilon=epsilon, trials=trials, seed=seed)
    with progress("drawing"):
        files = story.write(found, out)
    if json:
        print_json(found.record() | {"files": {name: str(path) for name, path in files.items()}})
        return
    _print(found)
    typer.echo(f"\nWhat our network at ε = 2 gives away, in plain words: {files['statement']}")
    typer.echo(f"The page, with every figure and table: {files['page']}  ({time.monotonic() - began:.0f} s)")
    typer.echo(f"See it and turn the knobs: {_command()} ui --open")


def _command() -> str:
    """The name of airpool as it can be typed here: with its folder where the shell does not find it."""
    typed = Path(sys.argv[0])
    return "airpool" if which("airpool") or typed.name != "airpool" else os.path.relpath(typed)


def _found(object_name: str, *, epsilon: float, trials: int, seed: int) -> "Demo":
    from airpool.models.pretrained import load
    from airpool_lab.demo import Demo, claim, comparison, one_object

    shape = one_object.find(object_name)
    with progress("loading the shipped model"):
        model = load("modelnet40")
        total = comparison.inferences(model, trials=trials) + comparison.asked_inferences(model, trials=trials)
    with progress("sending one object"):
        sent = one_object.send(model, shape, epsilon=epsilon, seed=seed)
    with progress("sending the test set", total=total) as advance:
        curves = comparison.comparison(model, trials=trials, seed=seed, on_inferences=advance)
        asked = comparison.until_sure(model, trials=trials, seed=seed, on_inferences=advance)
    with progress("checking the paper's claim", total=claim.NUM_STDS) as advance:
        return Demo(*curves, asked, sent, claim.claim(on_points=advance), seed)


def _print(found: "Demo") -> None:
    from rich.console import Console

    from airpool.account.report import shown
    from airpool_lab.demo import story, tables

    sent, count = found.sent, len(found.sent.views)
    compared = (
        "ε claimed: by Theorem 1. ε device: exact, one feature becomes zero. ε remove: exact, by the paper's own "
        f"neighbours. Accuracy ± std over {found.trials} trials.\n{story.DATA}\n\n"
        f"One object, {sent.shape.name}, sent once at ε = {shown(sent.out.report.worst)} for every device: "
        f"{count - len(sent.silent)} of {count} transmitted, {len(sent.ideal)} numbers received, label: {sent.answer}"
    )
    beside = [story.VOTE, table] if (table := tables.voted(*found.curves)) else []
    parts = [
        tables.compared(found.paper),
        tables.compared(found.ours),
        *beside,
        story.SLOTS,
        tables.asked(found.asked),
        compared,
        tables.labels(sent),
    ]
    for part in (*parts, f"{story.DEFAULTS}\n", tables.claims(found.claim), tables.truths(found.claim)):
        if isinstance(part, str):
            Console(highlight=False).print(part, markup=False)
        else:
            print_table(part.header, part.rows, title=part.caption)
