"""`airpool data`: meshes into packed voxels, and what a packed file holds."""

import os
from pathlib import Path
from typing import Annotated

import typer

from airpool.cli import options as o

app = typer.Typer(help="Prepare objects, and look at them.", no_args_is_help=True)


@app.command()
def prepare(
    path: Annotated[Path, typer.Argument(help="Folder or zip of meshes, CLASS/{train,test}/NAME.off (obj, stl, ply).")],
    out: Annotated[Path, typer.Option(help="File to write (npz).")],
    workers: Annotated[int | None, typer.Option(help="Processes; one for each processor by default.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if any mesh cannot be read.")] = False,
    json: o.Json = False,
) -> None:
    """Voxelise meshes, such as the official ModelNet40.zip, into one file. Stopped, it goes on where it was."""
    from airpool.data import prepare as preparation

    number = len(preparation.entries(path))
    with o.progress("voxelising", total=number) as advance:
        unreadable = preparation.prepare(path, out, workers=workers or os.cpu_count() or 1, on_objects=advance)
    if json:
        o.print_json({"out": str(out), "objects": number - len(unreadable), "unreadable": unreadable})
    else:
        typer.echo(f"{number - len(unreadable)} objects → {out} ({out.stat().st_size / 1e6:.1f} MB)")
    if unreadable:
        typer.echo(f"warning: {len(unreadable)} left out, because they could not be read:", err=True)
        for line in unreadable:
            typer.echo(f"  {line}", err=True)
        if strict:
            raise typer.Exit(1)


@app.command()
def info(
    file: Annotated[Path, typer.Argument(help="Packed voxel file (npz).")],
    json: o.Json = False,
) -> None:
    """How many objects of which class a packed file holds, and how many test objects repeat a training object."""
    import numpy as np

    from airpool.data import dataset, modelnet, voxels

    with o.progress("reading"):
        data = dataset.read(file)
        splits = {which: modelnet.split(data, which) for which in modelnet.SPLITS}
        repeated = len(modelnet.duplicates(data))
    counts = {which: np.bincount(data.labels[index], minlength=len(data.classes)) for which, index in splits.items()}
    classes = {label: {which: int(count[i]) for which, count in counts.items()} for i, label in enumerate(data.classes)}
    totals = {which: len(index) for which, index in splits.items()}
    if json:
        form = {"poses": voxels.NUM_POSES, "side": voxels.SIDE, "filled": voxels.FILL}
        o.print_json({"format": form, "objects": totals, "duplicates": repeated, "classes": classes})
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("class")
    for which in totals:
        table.add_column(which, justify="right")
    for label, row in classes.items():
        table.add_row(label, *map(str, row.values()))
    table.add_section()
    table.add_row("all", *map(str, totals.values()))
    Console().print(table)
    typer.echo(f"{len(data)} objects in {voxels.NUM_POSES} poses of {voxels.SIDE}³ voxels, {voxels.FILL} filled")
    typer.echo(f"{repeated} test objects equal a training object in every pose")
