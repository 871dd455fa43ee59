"""What the commands of `airpool train` share: their options, their data, and how they tell what came of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airpool.cli import options as o

if TYPE_CHECKING:
    from torch import Tensor

    from airpool.data.modelnet import Split
    from airpool.models.features import Images
    from airpool.models.runs import Source
    from airpool.models.vgg import MVCNN

    Shown = Callable[[Split], Images | None]
    Seen = Callable[[Split], tuple[Tensor, Tensor]]

Data = Annotated[Path, typer.Argument(help="Packed voxel file (npz), as `airpool data prepare` writes it.")]
Out = Annotated[Path, typer.Option(help="Folder for the weights and their card.")]
Name = Annotated[str, typer.Option(help="What the files are called.")]
Trunk = Annotated[
    list[Path], typer.Option("--trunk", help="File of a trunk's weights; repeat it if there are several parts.")
]
SeedList = Annotated[list[int] | None, o.seed("Seed; repeat it for several models (default 0).")]
Seeds = Annotated[int | None, typer.Option("--seeds", help="So many models, of seeds 0, 1, …")]
Epochs = Annotated[int | None, typer.Option(help="How often every training object is seen.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any field of the recipe; can be repeated.")
]
RecipeFile = Annotated[Path | None, typer.Option("--recipe", help="TOML file of such fields; --set overrides it.")]
Limit = Annotated[int | None, typer.Option("--objects", help="Use so few objects of each split: a trial.")]
Test = Annotated[bool, typer.Option("--test/--no-test", help="Read the test set, once, when all is trained.")]
Hardware = Annotated[str | None, typer.Option("--device", help="cpu or cuda; by default cuda where there is one.")]

_BATCH = 16  # objects at a time

Made = tuple[dict[str, Any], list[Path]]  # a card, and all files that were written


@dataclass(frozen=True, eq=False)
class Work:
    """Data, where the results go, what does the work, and whether the test set may be read."""

    source: "Source"
    folder: Path
    torch_device: str
    test: bool

    def images(self, resolution: int) -> "Shown":
        """What renders a split when it is first asked for; None where it has no objects."""

        @cache
        def images(which: "Split") -> "Images | None":
            if not (total := len(self.source.rows[which])):
                return None
            with o.progress(f"rendering {which}", total=total) as advance:
                device = self.torch_device
                return self.source.images(which, resolution=resolution, torch_device=device, on_objects=advance)

        return images


def work(data: Path, out: Path, name: str, *, limit: int | None, test: bool, torch_device: str) -> Work:
    """Reads the data; the folder is there afterwards."""
    from airpool.models import runs

    if not name or Path(name).name != name:
        raise ValueError(f"--name {name!r} must be a name, without folders")
    out.mkdir(parents=True, exist_ok=True)
    with o.progress("reading"):
        source = runs.source(data, limit=limit)
    if test and not len(source.rows["test"]):
        raise ValueError(f"{data} holds no test objects: leave out --test")
    return Work(source, out, torch_device, test)


def loaded(trunk: Sequence[Path], torch_device: str) -> "MVCNN":
    """A trunk that looks at what is rendered here."""
    from airpool.models import weights

    model, _ = weights.load(trunk, device=torch_device)
    if model.architecture.in_channels != 2:
        raise ValueError(f"{trunk[0]} looks at {model.architecture.in_channels} channels: must be 2, shading and depth")
    return model


def features(model: "MVCNN", images: "Shown", source: "Source", *, what: str, whole: bool = False) -> "Seen":
    """What gives a split's features (N, 12, 512) and labels (N,) when it is first asked for.

    whole: maps (N, 12, 25088) instead, in half precision: 0.6 MB an object, 5.3 GB for all that ModelNet40 trains on.
    """
    import torch

    from airpool.models import features as models
    from airpool.models.vgg import MAP_SHAPE

    @cache
    def seen(which: "Split") -> "tuple[Tensor, Tensor]":
        require(source, which, what)
        shown = images(which)
        assert shown is not None
        with o.progress(f"features of {which}", total=len(shown)) as advance:
            if not whole:
                return models.pooled(model.features, shown, on_objects=advance), shown.labels
            size = (*shown.views.shape[:2], prod(MAP_SHAPE))
            out = torch.empty(size, dtype=torch.float16, device=shown.views.device)
            for rows, some in zip(out.split(_BATCH), models.maps(model.features, shown, batch=_BATCH), strict=True):
                rows.copy_(some)
                advance(len(some))
            return out, shown.labels

    return seen


def require(source: "Source", which: "Split", what: str) -> None:
    """A split that must have objects."""
    if not len(source.rows[which]):
        raise ValueError(f"{source.path} has no {which} objects, on which a {what} depends")


def numbers(seed: list[int] | None, seeds: int | None) -> list[int]:
    """The seeds that are asked for."""
    if seed and seeds is not None:
        raise ValueError("give --seed or --seeds, not both")
    if seeds is not None and seeds < 1:
        raise ValueError(f"--seeds {seeds} must be ≥ 1")
    if seed and min(seed) < 0:
        raise ValueError(f"--seed {min(seed)} must be ≥ 0")
    return list(range(seeds)) if seeds is not None else sorted(set(seed or [0]))


def torch_device(hardware: str | None) -> str:
    """Where the work is done; on CUDA, with the speed-ups that are safe for it."""
    import torch

    there = torch.cuda.is_available()
    if hardware not in (None, "cpu", "cuda"):
        raise ValueError(f"--device {hardware!r} must be cpu or cuda")
    if hardware == "cuda" and not there:
        raise ValueError("--device cuda: torch finds no CUDA device here; leave it out, or use cpu")
    if hardware == "cpu" or not there:
        return "cpu"
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    return "cuda"


def show(made: Made, *, json: bool) -> None:
    """The card for machines, or what it says about accuracy for people."""
    card, files = made
    if json:
        o.print_json({"files": [str(file) for file in files], **card})
        return
    from rich.console import Console
    from rich.markdown import Markdown

    from airpool.models.card import summary

    Console().print(Markdown(summary(card)))
    for file in files:
        typer.echo(file)
