"""`airpool train`: a trunk, and the local head on top of one, from a packed voxel file to weights and their card."""

import re
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options as o
from .settings import given, settled

if TYPE_CHECKING:
    from airpool.data.modelnet import Split
    from airpool.models.runs import Source
    from airpool.models.train import Images

app = typer.Typer(help="Train models. Stopped, it goes on where it was.", no_args_is_help=True)

Data = Annotated[Path, typer.Argument(help="Packed voxel file (npz), as `airpool data prepare` writes it.")]
Out = Annotated[Path, typer.Option(help="Folder for the weights and their card.")]
Name = Annotated[str, typer.Option(help="What the files are called.")]
Epochs = Annotated[int | None, typer.Option(help="How often every training object is seen.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any field of the recipe; can be repeated.")
]
RecipeFile = Annotated[Path | None, typer.Option("--recipe", help="TOML file of such fields; --set overrides it.")]
Limit = Annotated[int | None, typer.Option("--objects", help="Use so few objects of each split: a trial.")]
Test = Annotated[bool, typer.Option("--test/--no-test", help="Read the test set, once, when all is trained.")]
Hardware = Annotated[str | None, typer.Option("--device", help="cpu or cuda; by default cuda where there is one.")]

_FEW = 100  # validation objects that say little about calibration


@app.command()
def trunk(
    data: Data,
    out: Out,
    name: Name = "trunk",
    seed: Annotated[list[int] | None, typer.Option(help="Seed; repeat it for several models (default 0).")] = None,
    seeds: Annotated[int | None, typer.Option(help="So many models, of seeds 0, 1, …")] = None,
    epochs: Epochs = None,
    resolution: Annotated[int | None, typer.Option(help="Pixels along a view's side: 112 or 224.")] = None,
    head: Annotated[str | None, typer.Option(help="Classifier on the server: linear, mlp, flat or vgg.")] = None,
    settings: Settings = None,
    recipe_file: RecipeFile = None,
    limit: Limit = None,
    test: Test = False,
    hardware: Hardware = None,
    json: o.Json = False,
) -> None:
    """Train VGG11 on twelve views of every object, once for each seed.

    Writes NAME-SEED.safetensors for each, and NAME.json and NAME.md for all.

    The same command goes on after a stop and trains nothing twice, so --test can be added later.
    """
    from airpool.models import card, runs
    from airpool.models.train import Recipe
    from airpool.models.vgg import Architecture

    numbers = _numbers(seed, seeds)
    wanted = given(recipe_file, settings, epochs=epochs, resolution=resolution, head=head)
    recipe, architecture = settled(wanted, Recipe(), Architecture(), fixed=("seed", "num_classes", "in_channels"))
    torch_device, folder = _torch_device(hardware), _folder(out, name)
    source = _source(data, limit=limit, test=test)
    architecture = replace(architecture, num_classes=len(source.dataset.classes))
    plans = {
        folder / f"{name}-{number}.safetensors": runs.Plan(
            replace(recipe, seed=number), architecture, source.sha256, source.limit
        )
        for number in numbers
    }
    images = _images(source, architecture.resolution, torch_device)
    left = {file: plan for file, plan in plans.items() if not runs.made(file, plan)}  # all are checked before any work
    for file, plan in left.items():
        shown, validation = images("train"), images("validation")
        assert shown is not None
        with o.progress(f"training {file.stem}", total=recipe.epochs) as advance:
            runs.make(file, plan, shown, validation, log=_log(file.stem, advance))

    aside, unseen = images("validation"), images("test") if test else None
    with o.progress("measuring", total=len(plans)) as advance:
        results = []
        for file in plans:
            results.append(runs.result(file, source, validation=aside, test=unseen))
            advance(1)
    made = card.card(
        name=name,
        data=source.about(),
        split=source.split(),
        architecture=asdict(architecture),
        recipe=asdict(recipe),
        runs=results,
    )
    _show(made, [*plans, *card.write(folder / name, made)], json=json)


@app.command()
def head(
    data: Data,
    trunk: Annotated[list[Path], typer.Option(help="File of a trunk's weights; repeat it if there are several parts.")],
    out: Out,
    name: Name = "head",
    seed: Annotated[int, typer.Option(help="Seed.")] = 0,
    epochs: Epochs = None,
    settings: Settings = None,
    recipe_file: RecipeFile = None,
    limit: Limit = None,
    test: Test = False,
    hardware: Hardware = None,
    json: o.Json = False,
) -> None:
    """Train the shallow classifier of every device on a trunk's features, and fit each device's temperature.

    Writes NAME.safetensors, NAME.json and NAME.md.
    """
    from airpool.models import card, features, local, runs, weights

    wanted = given(recipe_file, settings, epochs=epochs)
    (recipe,) = settled(wanted, local.HeadRecipe(seed=seed), fixed=("seed",))
    torch_device, folder = _torch_device(hardware), _folder(out, name)
    model, _ = weights.load(trunk, device=torch_device)
    if model.architecture.in_channels != 2:
        raise ValueError(f"{trunk[0]} looks at {model.architecture.in_channels} channels: must be 2, shading and depth")
    source = _source(data, limit=limit, test=test)
    images = _images(source, model.architecture.resolution, torch_device)

    def seen(which: "Split") -> Any:
        """Features and labels of a split."""
        shown = images(which)
        if shown is None:
            raise ValueError(f"{data} has no {which} objects, on which a head depends")
        with o.progress(f"features of {which}", total=len(shown)) as advance:
            return features.pooled(model.features, shown, on_objects=advance), shown.labels

    file = folder / f"{name}.safetensors"
    if file.exists():
        local.load(file)  # nothing but a head is overwritten
    aside, shown = seen("validation"), seen("train")
    if (few := len(source.rows["validation"])) < _FEW:
        typer.echo(f"warning: {few} validation objects: temperatures and calibration errors are rough", err=True)
    with o.progress("training", total=recipe.epochs) as advance:
        num_classes = len(source.dataset.classes)
        fitted = local.fit(recipe, *shown, validation=aside, num_classes=num_classes, on_epochs=advance)
    local.save(file, fitted, {"data": source.about(), "trunk": [path.name for path in trunk]})
    calibration = {
        "temperatures": fitted.temperatures.tolist(),
        "validation": asdict(fitted.validation),
        "test": asdict(fitted.measured(*seen("test"))) if test else None,
    }
    result = {
        "seed": seed,
        "weights": file.name,
        "sha256": runs.sha256(file),
        "validation": fmean(fitted.validation.accuracy),
        "test": None,
    }
    made = card.card(
        name=name,
        data=source.about(),
        split=source.split(),
        recipe=asdict(recipe),
        runs=[result],
        trunk={path.name: runs.sha256(path) for path in trunk},
        calibration=calibration,
    )
    _show(made, [file, *card.write(folder / name, made)], json=json)


def _numbers(seed: list[int] | None, seeds: int | None) -> list[int]:
    if seed and seeds is not None:
        raise ValueError("give --seed or --seeds, not both")
    if seeds is not None and seeds < 1:
        raise ValueError(f"--seeds {seeds} must be ≥ 1")
    if seed and min(seed) < 0:
        raise ValueError(f"--seed {min(seed)} must be ≥ 0")
    return list(range(seeds)) if seeds is not None else sorted(set(seed or [0]))


def _torch_device(hardware: str | None) -> str:
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


def _folder(out: Path, name: str) -> Path:
    if not name or Path(name).name != name:
        raise ValueError(f"--name {name!r} must be a name, without folders")
    out.mkdir(parents=True, exist_ok=True)
    return out


def _source(path: Path, *, limit: int | None, test: bool) -> "Source":
    from airpool.models import runs

    with o.progress("reading"):
        source = runs.source(path, limit=limit)
    if test and not len(source.rows["test"]):
        raise ValueError(f"{path} holds no test objects: leave out --test")
    return source


def _images(source: "Source", resolution: int, torch_device: str) -> Callable[["Split"], "Images | None"]:
    """What renders a split when it is first asked for; None where it has no objects."""

    @cache
    def images(which: "Split") -> "Images | None":
        if not (total := len(source.rows[which])):
            return None
        with o.progress(f"rendering {which}", total=total) as advance:
            return source.images(which, resolution=resolution, torch_device=torch_device, on_objects=advance)

    return images


def _log(name: str, advance: Callable[[int], None]) -> Callable[[str], None]:
    """What moves the bar on by what the training says of its epochs; a line for each where there is no bar."""
    done = 0

    def log(text: str) -> None:
        nonlocal done
        if not sys.stderr.isatty():
            typer.echo(f"{name}: {text}", err=True)
        if epoch := re.search(r"epoch[= ](\d+)", text):
            advance(int(epoch[1]) - done)
            done = int(epoch[1])

    return log


def _show(card: dict[str, Any], files: list[Path], *, json: bool) -> None:
    if json:
        o.print_json({"files": [str(file) for file in files], **card})
        return
    from rich.console import Console
    from rich.markdown import Markdown

    from airpool.models.card import summary

    Console().print(Markdown(summary(card)))
    for file in files:
        typer.echo(file)
