"""`airpool fit`: from a folder of photographs to a model of your cameras."""

from pathlib import Path
from typing import Annotated

import typer

from airpool.cli.output import progress, say_written
from airpool.cli.training import warnings_shown

app = typer.Typer(add_completion=False)


@app.command()
def fit(
    images: Annotated[Path, typer.Option(help="Folder CAMERA/CLASS/OBJECT.jpg, or a CSV file that lists pictures.")],
    out: Annotated[Path, typer.Option(help="The model to write, such as shop.safetensors.")],
) -> None:
    """Fit local heads, the vote and a codec to pictures of your cameras, on the ImageNet trunk that ships."""
    from airpool.models.images.fitting import fit as fitted

    with warnings_shown():
        model = fitted(images=images, cache=out.with_suffix(".features"), name=out.stem, progress=progress)
    model.save(out)
    say_written({"model": out})
