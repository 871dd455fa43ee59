"""`airpool data prepare|info`: meshes into one packed file, and what such a file holds."""

import os
from pathlib import Path
from typing import Annotated

import typer

from airpool.cli import options as o
from airpool.cli.output import file_to_write, print_json, print_table, progress

app = typer.Typer(help="Prepare objects and describe them.", no_args_is_help=True, add_completion=False)


@app.command()
def prepare(
    path: Annotated[Path, typer.Argument(help="Folder or zip of meshes, CLASS/{train,test}/NAME.off (obj, stl, ply).")],
    out: Annotated[
        Path, typer.Option(help="File to write (.npz, or .npz.xz: smaller, slower to read).", callback=file_to_write)
    ],
    workers: Annotated[int | None, typer.Option(help="Processes (default: one for each processor).")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if any mesh cannot be read.")] = False,
    json: o.Json = False,
) -> None:
    """Simplify and pack meshes, such as the official ModelNet40.zip, into one file. Resumes after an interruption."""
    from airpool_lab.vision import prepare as preparation

    if not out.name.endswith((".npz", ".npz.xz")):
        raise ValueError(f"--out {out} must end in .npz or .npz.xz")
    number = len(preparation.entries(path))
    workers = (os.cpu_count() or 1) if workers is None else workers
    with progress("packing", total=number) as advance:
        unreadable = preparation.prepare(path, out, workers=workers, on_objects=advance)
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
def info(file: Annotated[Path, typer.Argument(help="Packed file of meshes (npz).")], json: o.Json = False) -> None:
    """Count the objects of every class and split, their faces, and the test objects that repeat a training object."""
    import numpy as np

    from airpool_lab.vision import cad

    with progress("reading"):
        data = cad.read(file)
        splits = {which: data.indices(which) for which in cad.SPLITS}
    names = data.classes.tolist()
    counts = {which: np.bincount(data.label[index], minlength=len(names)) for which, index in splits.items()}
    classes = {label: {which: int(count[i]) for which, count in counts.items()} for i, label in enumerate(names)}
    totals = {which: len(index) for which, index in splits.items()}
    faces, twins = np.diff(data.face_start), int(data.twin.sum())
    size = {"median": int(np.median(faces)), "largest": int(faces.max())}
    sources = {name: int(count) for name, count in zip(*np.unique(data.source, return_counts=True), strict=True)}
    if json:
        print_json({"objects": totals, "twins": twins, "sources": sources, "faces": size, "classes": classes})
        return
    rows = {**classes, "all": totals}
    print_table(("class", *totals), [(name, *map(str, row.values())) for name, row in rows.items()])
    typer.echo(f"{len(data)} meshes, {size['median']} faces in the median, {size['largest']} in the largest")
    typer.echo(f"{twins} test objects have the mesh of a training object")
    if sources.keys() - {"cad"}:
        typer.echo(f"{len(data) - sources.get('cad', 0)} objects were rebuilt from surface points")
