"""`airpool train trunk` and `head`: from a packed voxel file to weights and their card."""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer

from airpool.cli import options as o
from airpool.cli import training as t
from airpool.cli.settings import given, settled

if TYPE_CHECKING:
    from airpool.models.local import HeadRecipe
    from airpool.models.train import Recipe
    from airpool.models.vgg import Architecture

app = typer.Typer(help="Train models. Stopped, it goes on where it was.", no_args_is_help=True)

_FEW = 100  # validation objects that say little about calibration


@app.command()
def trunk(
    data: t.Data,
    out: t.Out,
    name: t.Name = "trunk",
    seed: t.SeedList = None,
    seeds: t.Seeds = None,
    epochs: t.Epochs = None,
    resolution: Annotated[int | None, typer.Option(help="Pixels along a view's side: 112 or 224.")] = None,
    head: Annotated[str | None, typer.Option(help="Classifier on the server: linear, mlp, flat or vgg.")] = None,
    settings: t.Settings = None,
    recipe_file: t.RecipeFile = None,
    limit: t.Limit = None,
    test: t.Test = False,
    hardware: t.Hardware = None,
    json: o.Json = False,
) -> None:
    """Train VGG11 on twelve views of every object, once for each seed.

    Writes NAME-SEED.safetensors for each, and NAME.json and NAME.md for all.

    The same command goes on after a stop and trains nothing twice, so --test can be added later.
    """
    wanted = given(recipe_file, settings, epochs=epochs, resolution=resolution, head=head)
    numbers, (recipe, architecture) = t.numbers(seed, seeds), trunk_settings(wanted)
    work = t.work(data, out, name, limit=limit, test=test, torch_device=t.torch_device(hardware))
    images = work.images(architecture.resolution)
    t.show(make_trunk(work, name, numbers, recipe, architecture, images), json=json)


def trunk_settings(wanted: "dict[str, object]") -> "tuple[Recipe, Architecture]":
    from airpool.models.train import Recipe
    from airpool.models.vgg import Architecture

    recipe, architecture = settled(wanted, Recipe(), Architecture(), fixed=("seed", "num_classes", "in_channels"))
    return recipe, architecture


def make_trunk(
    work: t.Work, name: str, numbers: Sequence[int], recipe: "Recipe", architecture: "Architecture", images: "t.Shown"
) -> t.Made:
    """Trains what is not there yet, and writes the card of all."""
    from airpool.models import card, runs

    source = work.source
    architecture = replace(architecture, num_classes=len(source.dataset.classes))
    plans = {
        work.folder / f"{name}-{number}.safetensors": runs.Plan(
            replace(recipe, seed=number), architecture, source.sha256, source.limit
        )
        for number in numbers
    }
    left = {file: plan for file, plan in plans.items() if not runs.made(file, plan)}  # all are checked before any work
    for file, plan in left.items():
        shown, validation = images("train"), images("validation")
        assert shown is not None
        with o.progress(f"training {file.stem}", total=recipe.epochs) as advance:
            runs.make(file, plan, shown, validation, log=_log(file.stem, advance))

    aside, unseen = images("validation"), images("test") if work.test else None
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
    return made, [*plans, *card.write(work.folder / name, made)]


@app.command()
def head(
    data: t.Data,
    trunk: t.Trunk,
    out: t.Out,
    name: t.Name = "head",
    seed: Annotated[int, o.seed("Seed.")] = 0,
    epochs: t.Epochs = None,
    settings: t.Settings = None,
    recipe_file: t.RecipeFile = None,
    limit: t.Limit = None,
    test: t.Test = False,
    hardware: t.Hardware = None,
    json: o.Json = False,
) -> None:
    """Train the shallow classifier of every device on a trunk's features, and fit each device's temperature.

    Writes NAME.safetensors, NAME.json and NAME.md.
    """
    recipe = head_settings(given(recipe_file, settings, epochs=epochs), seed)
    torch_device = t.torch_device(hardware)
    model = t.loaded(trunk, torch_device)
    work = t.work(data, out, name, limit=limit, test=test, torch_device=torch_device)
    seen = t.features(model, work.images(model.architecture.resolution), work.source, what="head")
    t.show(make_head(work, name, trunk, recipe, seen), json=json)


def head_settings(wanted: "dict[str, object]", seed: int) -> "HeadRecipe":
    from airpool.models.local import HeadRecipe

    (recipe,) = settled(wanted, HeadRecipe(seed=seed), fixed=("seed",))
    return recipe


def make_head(work: t.Work, name: str, trunk: Sequence[Path], recipe: "HeadRecipe", seen: "t.Seen") -> t.Made:
    """Trains a head on features, whatever was there before, and writes its card."""
    from airpool.models import card, local, runs

    source, file = work.source, work.folder / f"{name}.safetensors"
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
        "test": asdict(fitted.measured(*seen("test"))) if work.test else None,
    }
    result = {
        "seed": recipe.seed,
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
    return made, [file, *card.write(work.folder / name, made)]


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
