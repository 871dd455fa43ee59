"""`airpool train trunk|head|codec|all`: from a packed voxel file to weights and their card."""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airpool.cli import codecs
from airpool.cli import options as o
from airpool.cli import training as t
from airpool.cli.output import progress

if TYPE_CHECKING:
    from airpool.models.local import HeadRecipe
    from airpool.models.train import Recipe
    from airpool.models.vgg import Architecture

app = typer.Typer(
    help="Train a trunk, a local head or a codec. Resumes after an interruption.",
    no_args_is_help=True,
    add_completion=False,
)

_FEW = 100  # validation objects, below which calibration is rough

Epsilon = Annotated[
    list[float] | None, typer.Option(help="Target ε; repeat it: one codec serves all (default 1, 2, 3.98 and 10).")
]


@app.command()
@t.on_job
@t.on_recipe
def trunk(
    job: t.Job,
    recipe: t.Recipe,
    *,
    data: t.Data,
    seed: t.Seeds = None,
    seeds: t.NumSeeds = None,
    resolution: Annotated[int | None, typer.Option(help="Pixels along a view's side: 112 or 224.")] = None,
    head: Annotated[str | None, typer.Option(help="Classifier on the server: linear, mlp, flat or vgg.")] = None,
) -> None:
    """Train VGG11 on twelve views of every object, once for each seed.

    Writes NAME-SEED.safetensors for each, and NAME.json and NAME.md for all. Trains nothing twice: --test can be added
    later.
    """
    name, numbers = recipe.name or "trunk", t.numbers(seed, seeds)
    settings = _trunk_settings(recipe.values(resolution=resolution, head=head))
    work = t.begin(data, job, name)
    images = work.images(settings[1].resolution)
    t.show({name: _make_trunk(work, name, numbers, settings, images)}, json=job.json)


@app.command()
@t.on_job
@t.on_recipe
def head(
    job: t.Job, recipe: t.Recipe, *, data: t.Data, trunk: t.Trunk, seed: Annotated[int, o.seed("Seed.")] = 0
) -> None:
    """Train the classifier of every device on a trunk's features, and fit each device's temperature.

    Writes NAME.safetensors, NAME.json and NAME.md.
    """
    name, settings = recipe.name or "head", _head_settings(recipe.values(), seed)
    model = t.loaded(trunk, job.torch_device)
    work = t.begin(data, job, name)
    seen = t.features(model, work, work.images(model.architecture.resolution), what="head")
    t.show({name: _make_head(work, name, trunk, settings, seen)}, json=job.json)


@app.command()
@t.on_job
@t.on_recipe
@o.on_network
def codec(
    job: t.Job,
    recipe: t.Recipe,
    wanted: o.NetworkOptions,
    *,
    data: t.Data,
    trunk: t.Trunk,
    kind: Annotated[str, typer.Option(help="compact (averages of maps), or map (whole maps).")] = "compact",
    epsilon: Epsilon = None,
    trials: Annotated[int, typer.Option(help="Transmissions of every object, for the card.")] = 20,
    seed: t.Seeds = None,
    seeds: t.NumSeeds = None,
) -> None:
    """Train encoder and decoder together through fading and noise, for every ε at once, on a trunk's features.

    Default: twelve devices, 40 numbers each, all transmitting over an ideal channel.

    Writes NAME-SEED.safetensors for each seed, and NAME.json and NAME.md for all. Trains nothing twice: --test can be
    added later.
    """
    name, net = recipe.name or "codec", _codec_network(wanted)
    settings, shape = codecs.settings(recipe.values(), kind, net.dimension)
    recipes = [replace(settings, seed=number) for number in t.numbers(seed, seeds)]
    o.at_least(1, trials=trials)
    here = codecs.calibrated(net, epsilon, wanted.colluding)
    model = t.loaded(trunk, job.torch_device)
    work = t.begin(data, job, name)
    images = work.images(model.architecture.resolution)
    seen = t.features(model, work, images, what="codec", whole=shape.kind == "map")
    t.show({name: codecs.make(work, name, trunk, recipes, shape, here, seen, trials=trials)}, json=job.json)


@app.command("all")
@t.on_job
@o.on_network
def everything(
    job: t.Job,
    wanted: o.NetworkOptions,
    *,
    data: t.Data,
    epsilon: Epsilon = None,
    seed: Annotated[int, o.seed("Seed of all three.")] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PART.NAME=VALUE", help="trunk.epochs=30, head.hidden=64, codec.epochs=9, …"),
    ] = None,
) -> None:
    """Train a trunk, then a local head and a codec on its features: `trunk`, `head` and `codec` at once."""
    parts, net = _parts(settings), _codec_network(wanted)
    of_trunk, of_head = _trunk_settings(parts["trunk"]), _head_settings(parts["head"], seed)
    of_codec, shape = codecs.settings(parts["codec"], "compact", net.dimension)
    here = codecs.calibrated(net, epsilon, wanted.colluding)
    work = t.begin(data, job, "codec")
    work.require("validation", "head")  # now, rather than after the trunk is trained
    images = work.images(of_trunk[1].resolution)  # rendered once, for all three
    made = {"trunk": _make_trunk(work, "trunk", [seed], of_trunk, images)}
    files = [work.folder / f"trunk-{seed}.safetensors"]
    seen = t.features(t.loaded(files, job.torch_device), work, images, what="head")
    made["head"] = _make_head(work, "head", files, of_head, seen)
    made["codec"] = codecs.make(work, "codec", files, [replace(of_codec, seed=seed)], shape, here, seen)
    t.show(made, json=job.json)


def _codec_network(wanted: o.NetworkOptions) -> Any:
    wanted.refuse(("weight", "clip_norm", "noise_std"), "a codec is trained for clip norm 1 and the noise of each ε")
    return wanted.network(devices=12, dimension=40)


def _parts(settings: Sequence[str] | None) -> dict[str, dict[str, Any]]:
    """Fields of each of the three recipes, from PART.NAME=VALUE."""
    parts: dict[str, dict[str, Any]] = {"trunk": {}, "head": {}, "codec": {}}
    for each in settings or ():
        part, dot, rest = each.partition(".")
        if not dot or part not in parts:
            raise ValueError(f"--set {each!r} must begin with {', '.join(f'{name}.' for name in parts)}")
        parts[part] |= dict([t.assignment(rest)])
    return parts


def _trunk_settings(values: dict[str, Any]) -> "tuple[Recipe, Architecture]":
    from airpool.models.train import Recipe
    from airpool.models.vgg import Architecture

    recipe, architecture = t.settled(values, Recipe(), Architecture(), fixed=("seed", "num_classes", "in_channels"))
    return recipe, architecture


def _make_trunk(
    work: t.Work, name: str, numbers: Sequence[int], settings: "tuple[Recipe, Architecture]", images: "t.Shown"
) -> t.Made:
    """Trains the weights that do not exist yet, and writes the card of all."""
    from airpool.models import runs

    recipe, source = settings[0], work.source
    architecture = replace(settings[1], num_classes=len(source.dataset.classes))
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
        with progress(f"training {file.stem}", total=recipe.epochs) as advance:
            runs.make(file, plan, shown, validation, log=_log(file.stem, advance))
    aside, unseen, results = images("validation"), images("test") if work.test else None, []
    with progress("measuring", total=len(plans)) as advance:
        for file in plans:
            results.append(runs.result(file, source, validation=aside, test=unseen))
            advance(1)
    return work.card(name, list(plans), recipe, results, architecture=asdict(architecture))


def _head_settings(values: dict[str, Any], seed: int) -> "HeadRecipe":
    from airpool.models.local import HeadRecipe

    return t.settled(values, HeadRecipe(seed=seed), fixed=("seed",))[0]


def _make_head(work: t.Work, name: str, trunk: Sequence[Path], recipe: "HeadRecipe", seen: "t.Seen") -> t.Made:
    """Trains a head on features, in place of any that exists, and writes its card."""
    from airpool.models import local, runs

    source, file = work.source, work.folder / f"{name}.safetensors"
    if file.exists():
        local.load(file)  # nothing but a head is overwritten
    aside, shown = seen("validation"), seen("train")
    if (few := len(source.rows["validation"])) < _FEW:
        typer.echo(f"warning: {few} validation objects: temperatures and calibration errors are rough", err=True)
    with progress("training", total=recipe.epochs) as advance:
        num_classes = len(source.dataset.classes)
        fitted = local.fit(recipe, *shown, validation=aside, num_classes=num_classes, on_epochs=advance)
    local.save(file, fitted, {"data": source.about(), "trunk": [path.name for path in trunk]})
    calibration = {
        "temperatures": fitted.temperatures.tolist(),
        "validation": asdict(fitted.validation),
        "test": asdict(fitted.measured(*seen("test"))) if work.test else None,
    }
    accuracy = {"validation": fmean(fitted.validation.accuracy), "test": None}
    result = {"seed": recipe.seed, "weights": file.name, "sha256": runs.sha256(file), **accuracy}
    hashes = {path.name: runs.sha256(path) for path in trunk}
    return work.card(name, [file], recipe, [result], trunk=hashes, calibration=calibration)


def _log(name: str, advance: Callable[[int], None]) -> Callable[[str], None]:
    """What moves the bar on by the epochs in the training's log; where there is no bar, prints each line."""
    done = 0

    def log(text: str) -> None:
        nonlocal done
        if not sys.stderr.isatty():
            typer.echo(f"{name}: {text}", err=True)
        if epoch := re.search(r"epoch[= ](\d+)", text):
            advance(int(epoch[1]) - done)
            done = int(epoch[1])

    return log
