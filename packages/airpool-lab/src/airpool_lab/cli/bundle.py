"""`airpool bundle`: what a device needs of a model, in one file that runs without torch."""

from pathlib import Path
from typing import Annotated

import typer

from airpool.cli import options as o
from airpool.cli.output import file_to_write, print_json, progress, say_written

app = typer.Typer(add_completion=False)


@app.command()
def bundle(
    out: Annotated[Path, typer.Option(help="The file to write, such as cameras.zip.", callback=file_to_write)],
    model: o.Model = "modelnet40",
    codec: Annotated[str | None, typer.Option(help="One of the model's (default: its first).")] = None,
    images: Annotated[Path | None, typer.Option(help="Of your own cameras: pictures to fit int8 to.")] = None,
    json: o.Json = False,
) -> None:
    """Write trunk (int8), local heads and encoder of a model into one file for `airpool device --bundle`.

    A model of your own cameras holds no pictures: name the folder that `airpool fit` was given. 120 of them are read.
    """
    from airpool._support.extras import load

    write = load("airpool_runtime.bundle", "airpool bundle").write
    from airpool_lab.bundle import folder_views, made

    views = None if images is None else folder_views(images)
    with progress("putting the trunk into int8"):
        write(out, made(model, codec=codec, views=views))
    if json:
        print_json({"bundle": str(out), "bytes": out.stat().st_size})
    else:
        say_written({"bundle": out})
