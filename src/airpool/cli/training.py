"""What the commands of `airpool train` share: options, recipes, data, and the card that describes a result."""

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airpool.cli import options as o
from airpool.cli.output import print_json, progress

if TYPE_CHECKING:
    from torch import Tensor

    from airpool.data.modelnet import Split
    from airpool.models.features import Images
    from airpool.models.runs import Source
    from airpool.models.vgg import MVCNN

    Shown = Callable[[Split], Images | None]
    Seen = Callable[[Split], tuple[Tensor, Tensor]]

Made = tuple[dict[str, Any], list[Path]]  # a card, and all files that were written

Data = Annotated[Path, typer.Argument(help="Packed voxel file (npz), as `airpool data prepare` writes it.")]
Trunk = Annotated[list[Path], typer.Option("--trunk", help="File of a trunk's weights; repeat it for several parts.")]
Seeds = Annotated[list[int] | None, o.seed("Seed; repeat it for several models (default 0).")]
NumSeeds = Annotated[int | None, typer.Option("--seeds", help="Number of models, with seeds 0, 1, …")]

_BATCH = 16  # objects at a time


@dataclass(frozen=True)
class Job:
    """Where results go, what does the work, and which objects it may use."""

    out: Annotated[Path, typer.Option(help="Folder for the weights and their card.")]
    objects: Annotated[int | None, typer.Option(help="Use at most N objects of each split.", metavar="N")] = None
    test: Annotated[bool, typer.Option("--test/--no-test", help="Read the test set, after training.")] = False
    torch_device: Annotated[str | None, typer.Option(help="cpu or cuda; default: cuda where there is one.")] = None
    json: o.Json = False


@dataclass(frozen=True)
class Recipe:
    """The name of the files, and fields of the recipe: of a file, over them --set, over all --epochs."""

    name: Annotated[str | None, typer.Option(help="Name of the files (default: the command's).")] = None
    epochs: Annotated[int | None, typer.Option(help="Passes over the training objects.")] = None
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any field of the recipe; repeat it.")
    ] = None
    file: Annotated[Path | None, typer.Option("--recipe", help="TOML file of such fields; --set overrides it.")] = None

    def values(self, **options: Any) -> dict[str, Any]:
        """What is given, by field; `options` that are not None override it."""
        values: dict[str, Any] = {}
        if self.file is not None:
            try:
                values |= tomllib.loads(self.file.read_text("utf-8"))
            except ValueError as error:  # of TOML or of UTF-8
                raise ValueError(f"{self.file}: {error}") from None
        values |= dict(map(assignment, self.settings or ()))
        return values | {name: value for name, value in {**options, "epochs": self.epochs}.items() if value is not None}


on_job, on_recipe = o.grouped(Job), o.grouped(Recipe)


def assignment(text: str) -> tuple[str, Any]:
    """Name and value of NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set {text!r} must be NAME=VALUE")
    return name.strip(), o.value(value.strip())


def settled(values: Mapping[str, Any], *defaults: Any, fixed: Sequence[str] = ()) -> list[Any]:
    """The dataclasses, each with those of its fields changed that are named in `values`; `fixed` cannot be.

    >>> from airpool.network import Channel
    >>> settled({"k_factor_db": 3}, Channel())[0].k_factor_db
    3.0
    """
    own = [{f.name for f in fields(each)} - set(fixed) for each in defaults]
    if unknown := sorted(values.keys() - set().union(*own)):
        hint = "has its own option or follows from the data" if unknown[0] in fixed else "is not a field"
        raise ValueError(f"{unknown[0]} {hint}; what can be set: {', '.join(sorted(set().union(*own)))}")
    return [
        replace(each, **{name: _checked(name, values[name], getattr(each, name)) for name in names & values.keys()})
        for each, names in zip(defaults, own, strict=True)
    ]


def _checked(name: str, value: Any, default: Any) -> Any:
    """The value, if it is of the default's type; an integer is accepted as a number, a list as a tuple."""
    kind, given = type(default), type(value)
    if kind is float and given in (int, float) and math.isfinite(value):
        return float(value)
    if kind is tuple and given is list:
        return tuple(value)
    if kind is given and kind is not float:
        return value
    wanted = {bool: "true or false", int: "an integer", float: "a number", tuple: "a list, such as [1, 2]"}
    raise ValueError(f"{name}={value!r} must be {wanted.get(kind, 'text')}")


@dataclass(frozen=True, eq=False)
class Work:
    """Data, the folder for results, the hardware, and whether the test set may be read."""

    source: "Source"
    folder: Path
    torch_device: str
    test: bool

    def images(self, resolution: int) -> "Shown":
        """What renders a split when it is first needed; None for a split without objects."""

        @cache
        def images(which: "Split") -> "Images | None":
            if not (total := len(self.source.rows[which])):
                return None
            with progress(f"rendering {which}", total=total) as advance:
                device = self.torch_device
                return self.source.images(which, resolution=resolution, torch_device=device, on_objects=advance)

        return images

    def card(self, name: str, files: Sequence[Path], recipe: Any, runs: Any, **more: Any) -> Made:
        """The card of a result, written beside its weights."""
        from airpool.models import card

        about = {"data": self.source.about(), "split": self.source.split(), "recipe": asdict(recipe)}
        made = card.card(name=name, runs=runs, **about, **more)
        return made, [*files, *card.write(self.folder / name, made)]

    def require(self, which: "Split", what: str) -> None:
        """An error where a split that `what` needs has no objects."""
        if not len(self.source.rows[which]):
            raise ValueError(f"{self.source.path} has no {which} objects, on which a {what} depends")


def begin(data: Path, job: Job, name: str) -> Work:
    """Reads the data and makes the folder."""
    from airpool.models import runs

    if not name or Path(name).name != name:
        raise ValueError(f"--name {name!r} must be a name, without folders")
    device = _torch_device(job.torch_device)
    job.out.mkdir(parents=True, exist_ok=True)
    with progress("reading"):
        source = runs.source(data, limit=job.objects)
    if job.test and not len(source.rows["test"]):
        raise ValueError(f"{data} holds no test objects: leave out --test")
    return Work(source, job.out, device, job.test)


def loaded(trunk: Sequence[Path], torch_device: str | None) -> "MVCNN":
    """A trunk for the views that are rendered here."""
    from airpool.models import weights

    model, _ = weights.load(trunk, device=_torch_device(torch_device))
    if model.architecture.in_channels != 2:
        raise ValueError(f"{trunk[0]} takes {model.architecture.in_channels} channels: must be 2, shading and depth")
    return model


def features(model: "MVCNN", work: Work, images: "Shown", *, what: str, whole: bool = False) -> "Seen":
    """What gives a split's features (N, 12, 512) and labels (N,) when it is first needed.

    whole: maps (N, 12, 25088) instead, in half precision: 0.6 MB an object, 5.3 GB for the training set of ModelNet40.
    """
    import torch

    from airpool.models import features as models
    from airpool.models.vgg import MAP_SHAPE

    @cache
    def seen(which: "Split") -> "tuple[Tensor, Tensor]":
        work.require(which, what)
        shown = images(which)
        assert shown is not None
        with progress(f"features of {which}", total=len(shown)) as advance:
            if not whole:
                return models.pooled(model.features, shown, on_objects=advance), shown.labels
            size = (*shown.views.shape[:2], prod(MAP_SHAPE))
            out = torch.empty(size, dtype=torch.float16, device=shown.views.device)
            for rows, some in zip(out.split(_BATCH), models.maps(model.features, shown, batch=_BATCH), strict=True):
                rows.copy_(some)
                advance(len(some))
            return out, shown.labels

    return seen


def numbers(seed: list[int] | None, seeds: int | None) -> list[int]:
    """The seeds of --seed and --seeds."""
    if seed and seeds is not None:
        raise ValueError("give --seed or --seeds, not both")
    o.at_least(1, seeds=seeds)
    return list(range(seeds)) if seeds is not None else sorted(set(seed or [0]))


def _torch_device(wanted: str | None) -> str:
    """The hardware; on CUDA, with the speed-ups that are safe for training."""
    import torch

    there = torch.cuda.is_available()
    if wanted not in (None, "cpu", "cuda"):
        raise ValueError(f"--torch-device {wanted!r} must be cpu or cuda")
    if wanted == "cuda" and not there:
        raise ValueError("--torch-device cuda: torch finds no CUDA device here; leave it out, or use cpu")
    if wanted == "cpu" or not there:
        return "cpu"
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    return "cuda"


def show(made: Mapping[str, Made], *, json: bool) -> None:
    """Cards as JSON, or what they say about accuracy; a single one stands alone."""
    records = {part: {"files": [str(file) for file in files], **card} for part, (card, files) in made.items()}
    if json:
        print_json(records if len(records) > 1 else next(iter(records.values())))
        return
    from rich.console import Console
    from rich.markdown import Markdown

    from airpool.models.card import summary

    for part, (card, files) in made.items():
        if len(made) > 1:
            typer.echo(f"\n{part}")
        Console().print(Markdown(summary(card)))
        for file in files:
            typer.echo(file)
