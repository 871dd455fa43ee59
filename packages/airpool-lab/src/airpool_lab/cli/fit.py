"""`airpool fit`: from a folder of photographs to a model of your cameras."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from airpool.cli import options as o
from airpool.cli.output import file_to_write, print_json, print_table, progress
from airpool_lab.cli.train import warnings_shown

app = typer.Typer(add_completion=False)


@app.command()
def fit(
    out: Annotated[
        Path,
        typer.Option(
            help="The model to write, such as shop.safetensors; its card lies beside it.", callback=file_to_write
        ),
    ],
    images: Annotated[
        Path | None,
        typer.Option(help="Folder CAMERA/CLASS/OBJECT.jpg or CLASS/OBJECT_CAMERA.jpg, or a CSV file of pictures."),
    ] = None,
    videos: Annotated[
        Path | None, typer.Option(help="Instead: a folder of one video for each camera, and labels by time.")
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="For --videos: CSV file with columns start, end, class, event (default: labels.csv there)."),
    ] = None,
    every: Annotated[float, typer.Option(help="For --videos: seconds between two frames.")] = 1.0,
    folds: Annotated[int, typer.Option(help="Test on every object, in N folds, then fit to all; 0: one split.")] = 0,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="ε to train and test for; repeat it (default 0.5, 1, 2, 4, 8).")
    ] = None,
    trials: Annotated[int, typer.Option(help="Draws of the noise for each test object.")] = 50,
    fine_tune: Annotated[bool, typer.Option("--fine-tune", help="Train the trunk on, too: needs a GPU.")] = False,
    epochs: Annotated[int | None, typer.Option(help="Of --fine-tune (default 12).")] = None,
    torch_device: Annotated[str | None, typer.Option(help="Of --fine-tune: cpu or cuda.")] = None,
    seed: o.Seed = 0,
    json: o.Json = False,
) -> None:
    """Fit a model to pictures of your cameras: local heads, the vote and a codec, on the ImageNet trunk that ships.

    A picture that is missing or cannot be read is a missing sensor, and reported. What the trunk makes of each picture
    is kept in OUT.features, by content: after Ctrl-C, the same command goes on. A CSV file has the columns file,
    camera, class, object and, optionally, split and group: pictures of one group always stay in one split.
    """
    from airpool.models.images import fitting, folder
    from airpool.models.images import videos as of_videos
    from airpool_lab.pictures import card, job

    if (images is None) == (videos is None):
        raise ValueError("give --images FOLDER or --videos FOLDER")
    if videos is None and labels is not None:
        raise ValueError("--labels are of --videos: classes of pictures are folders, or a column of a CSV file")
    o.at_least(1, trials=trials, epochs=epochs)
    budgets = tuple(sorted(set(epsilon or job.BUDGETS)))
    recipe, source = replace(fitting.RECIPE, seed=seed), images or videos or Path()
    work = job.CameraJob(out, folds, budgets, trials, recipe, progress=progress)
    with warnings_shown():
        pictures = of_videos.found(source, labels, every=every) if videos else folder.found(source)
        if fine_tune:
            work = replace(work, tune=_tuner(len(pictures.shots), epochs, seed, torch_device))
        record, written = job.make(pictures, work, source=source.resolve().name)
    _show(record, written, card, json=json)


def _tuner(pictures: int, epochs: int | None, seed: int, torch_device: str | None) -> Any:
    from airpool_lab.pictures import tuning

    recipe = tuning.TuningRecipe(seed=seed)
    recipe = recipe if epochs is None else replace(recipe, epochs=epochs)
    device = tuning.torch_device(torch_device, pictures, recipe)
    return partial(tuning.tuned, recipe=recipe, device=device, progress=progress)


def _show(record: dict[str, Any], written: Sequence[Path], card: Any, *, json: bool) -> None:
    for note in record["notes"]:
        typer.echo(f"note: {note}", err=True)
    if json:
        print_json({**record, "files": [str(path) for path in written]})
        return
    if rows := card.rows(record):
        narrow = [[cell.replace(" ± ", "±") for cell in row] for row in rows]
        print_table(card.header(record), narrow, title=f"Accuracy of {record['name']}")
    typer.echo(card.how_measured(record))
    for path in written:
        typer.echo(path)
