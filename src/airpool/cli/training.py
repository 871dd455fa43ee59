"""Shared by the commands of `airpool train`: options, recipes, data, and the card that describes a result."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airpool.cli import options as o
from airpool.cli.output import print_json, progress

if TYPE_CHECKING:
    from torch import Tensor

    from airpool.models.vision.cad import Split
    from airpool.models.vision.mvcnn import MVCNN, Architecture
    from airpool.models.vision.runs import Source
    from airpool.models.vision.splits import Splits

Made = tuple[dict[str, Any], list[Path]]  # a card, and all files that were written

DATA = typer.Argument(help="Packed file of meshes, as `airpool data prepare` writes it.")
Data = Annotated[Path, DATA]
TRUNK = typer.Option("--trunk", help="File of a trunk's weights; repeat it for several parts.")
TrunkFiles = Annotated[list[Path], TRUNK]
Seeds = Annotated[list[int] | None, o.seed("Seed; repeat it for several models (default 0).")]
NumSeeds = Annotated[int | None, typer.Option("--seeds", help="Number of models, with seeds 0, 1, …")]


@dataclass(frozen=True)
class TrainingJob:
    """Options of a training job: folder of the results, hardware, and the objects it may use."""

    out: Annotated[Path, typer.Option(help="Folder for the weights and their card.")]
    objects: Annotated[int | None, typer.Option(help="Use at most N objects of each split.", metavar="N")] = None
    test: Annotated[bool, typer.Option("--test/--no-test", help="Read the test set, after training.")] = False
    torch_device: Annotated[str | None, typer.Option(help="cpu or cuda; default: cuda where there is one.")] = None
    json: o.Json = False


@dataclass(frozen=True)
class RecipeOptions:
    """The name of the files, and fields of the recipe: of a file, over them --set, over all --epochs."""

    name: Annotated[str | None, typer.Option(help="Name of the files (default: the command's).")] = None
    epochs: Annotated[int | None, typer.Option(help="Passes over the training objects.")] = None
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any field of the recipe; repeat it.")
    ] = None
    file: Annotated[Path | None, typer.Option("--recipe", help="TOML file of such fields; --set overrides it.")] = None

    def values(self, **options: Any) -> dict[str, Any]:
        """Given values by field; `options` that are not None override them."""
        values: dict[str, Any] = {}
        if self.file is not None:
            try:
                values |= tomllib.loads(self.file.read_text("utf-8"))
            except ValueError as error:  # of TOML or of UTF-8
                raise ValueError(f"{self.file}: {error}") from None
        values |= dict(map(assignment, self.settings or ()))
        return values | {name: value for name, value in {**options, "epochs": self.epochs}.items() if value is not None}


on_job, on_recipe = o.grouped(TrainingJob), o.grouped(RecipeOptions)


def assignment(text: str) -> tuple[str, Any]:
    """Name and value of NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set {text!r} must be NAME=VALUE")
    return name.strip(), o.value(value.strip())


@dataclass(frozen=True, eq=False)
class Work:
    """Data, the folder for results, and whether the test set may be read."""

    source: "Source"
    splits: "Splits"
    folder: Path
    test: bool

    def card(self, name: str, files: Sequence[Path], recipe: Any, runs: Any, **more: Any) -> Made:
        """The card of a result, written beside its weights."""
        from airpool.models import card

        about = {"data": self.source.about(), "split": self.source.split(), "recipe": asdict(recipe)}
        made = card.card(name=name, runs=runs, **about, **more)
        return made, [*files, *card.write(self.folder / name, made)]


@dataclass(frozen=True, eq=False)
class StoredTrunk:
    """A trunk on disk, what it makes of each split, and where what is trained on that goes."""

    files: Sequence[Path]
    model: "MVCNN"
    about: Mapping[str, Any]
    work: Work

    def require_classes(self) -> None:
        """Raises an error if the trunk's own classifier names other classes than the data's."""
        from airpool.models import weights

        weights.require_classes(self.files, self.about, self.model.architecture.num_classes, self.work.source.classes)

    def features(self, which: "Split", what: str, *, whole: bool = False) -> "tuple[Tensor, Tensor]":
        return self.work.splits.features(self.model, which, what, whole=whole)

    @property
    def hashes(self) -> dict[str, str]:
        """SHA-256 of the files, by name."""
        from airpool.models.vision import runs

        return {path.name: runs.sha256(path) for path in self.files}


def begin(data: Path, job: TrainingJob, name: str, architecture: "Architecture", *, extra_views: int = 0) -> Work:
    """Reads the data and makes the folder."""
    from airpool.models.vision import runs
    from airpool.models.vision.splits import Splits

    if not name or Path(name).name != name:
        raise ValueError(f"--name {name!r} must be a name, without folders")
    device = _torch_device(job.torch_device)
    job.out.mkdir(parents=True, exist_ok=True)
    with progress("reading"):
        source = runs.source(data, limit=job.objects)
    if job.test and not len(source.rows["test"]):
        raise ValueError(f"{data} holds no test objects: leave out --test")
    return Work(source, Splits(source, architecture.resolution, extra_views, device, progress), job.out, job.test)


def loaded(files: Sequence[Path], torch_device: Any) -> "tuple[MVCNN, dict[str, Any]]":
    """A trunk for the views that are rendered here, and its header."""
    from airpool.models import weights

    model, about = weights.load(files, device=torch_device)
    if model.architecture.in_channels != 2:
        raise ValueError(f"{files[0]} takes {model.architecture.in_channels} channels: must be 2, shading and depth")
    return model, about


def on_trunk(files: Sequence[Path], data: Path, job: TrainingJob, name: str) -> StoredTrunk:
    """A trunk that lies on disk, and the data that it is to see."""
    model, about = loaded(files, _torch_device(job.torch_device))
    return StoredTrunk(files, model, about, begin(data, job, name, model.architecture))


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
