"""`airpool data prepare|info`: meshes into packed voxels, and what a packed file holds."""

import os
from pathlib import Path
from typing import Annotated

import typer

from airpool.cli import options as o
from airpool.cli.output import print_json, print_table, progress

app = typer.Typer(help="Prepare objects and describe them.", no_args_is_help=True, add_completion=False)


@app.command()
def prepare(
    path: Annotated[Path, typer.Argument(help="Folder or zip of meshes, CLASS/{train,test}/NAME.off (obj, stl, ply).")],
    out: Annotated[Path, typer.Option(help="File to write (npz).")],
    workers: Annotated[int | None, typer.Option(help="Processes (default: one for each processor).")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if any mesh cannot be read.")] = False,
    json: o.Json = False,
) -> None:
    """Voxelise meshes, such as the official ModelNet40.zip, into one file. Resumes after an interruption."""
    from airpool.data import prepare as preparation

    number = len(preparation.entries(path))
    with progress("voxelising", total=number) as advance:
        unreadable = preparation.prepare(path, out, workers=workers or os.cpu_count() or 1, on_objects=advance)
    if json:
        print_json({"out": str(out), "objects": number - len(unreadable), "unreadable": unreadable})
    else:
        typer.echo(f"{number - len(unreadable)} objects → {out} ({out.stat().st_size / 1e6:.1f} MB)")
    if unreadable:
        typer.echo(f"warning: {len(unreadable)} left out, because they could not be read:", err=True)
        for line in unreadable:
            typer.echo(f"  {line}", err=True)
        if strict:
            raise typer.Exit(1)


@app.command()
def info(file: Annotated[Path, typer.Argument(help="Packed voxel file (npz).")], json: o.Json = False) -> None:
    """Count the objects of every class and split, and the test objects that repeat a training object."""
    import numpy as np

    from airpool.data import dataset, modelnet, voxels

    with progress("reading"):
        data = dataset.read(file)
        splits = {which: modelnet.split(data, which) for which in modelnet.SPLITS}
        repeated = len(modelnet.duplicates(data))
    counts = {which: np.bincount(data.labels[index], minlength=len(data.classes)) for which, index in splits.items()}
    classes = {label: {which: int(count[i]) for which, count in counts.items()} for i, label in enumerate(data.classes)}
    totals = {which: len(index) for which, index in splits.items()}
    if json:
        form = {"poses": voxels.NUM_POSES, "side": voxels.SIDE, "filled": voxels.FILL}
        print_json({"format": form, "objects": totals, "duplicates": repeated, "classes": classes})
        return
    rows = {**classes, "all": totals}
    print_table(("class", *totals), [(name, *map(str, row.values())) for name, row in rows.items()])
    typer.echo(f"{len(data)} objects in {voxels.NUM_POSES} poses of {voxels.SIDE}³ voxels, {voxels.FILL} filled")
    typer.echo(f"{repeated} test objects equal a training object in every pose")
