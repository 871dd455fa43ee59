"""`airpool train trunk|head|vote|codec|all`: from a packed file of meshes to weights and their card."""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airpool.cli import codecs, own
from airpool.cli import options as o
from airpool.cli import training as t
from airpool.cli.output import print_json, progress

if TYPE_CHECKING:
    from airpool.models.local import HeadRecipe
    from airpool.models.vision.mvcnn import Architecture
    from airpool.models.vision.training import TrunkRecipe

app = typer.Typer(
    help="Train a trunk, a local head, a vote or a codec. Resumes after an interruption.",
    no_args_is_help=True,
    add_completion=False,
)

_FEW = 100  # validation objects, below which calibration is rough

Epsilon = Annotated[
    list[float] | None, typer.Option(help="Target ε; repeat it: one codec serves all (default 1, 2, 3.98 and 10).")
]

Kind = Annotated[str, typer.Option(help="lite0, lite1, lite2; or vgg11, the paper's.")]
ImageNet = Annotated[Path | None, typer.Option(help="ImageNet weights of Lite to start from (pth).")]


@app.command()
@t.on_job
@t.on_recipe
def trunk(
    job: t.TrainingJob,
    recipe: t.RecipeOptions,
    *,
    data: t.Data,
    kind: Kind = "lite2",
    imagenet: ImageNet = None,
    seed: t.Seeds = None,
    seeds: t.NumSeeds = None,
    resolution: Annotated[int | None, typer.Option(help="Pixels along a view's side: 112 or 224.")] = None,
    head: Annotated[str | None, typer.Option(help="Classifier on the server: linear, mlp, flat or vgg.")] = None,
) -> None:
    """Train a trunk on twelve views of every object, once for each seed.

    Writes NAME-SEED.safetensors for each, and NAME.json and NAME.md for all. Trains nothing twice: --test can be added
    later.
    """
    name, numbers = recipe.name or "trunk", t.numbers(seed, seeds)
    settings = _trunk_settings(recipe.values(resolution=resolution, head=head), kind)
    work = t.begin(data, job, name, settings[1], extra_views=settings[0].extra_views)
    t.show({name: _make_trunk(work, name, numbers, settings, imagenet)}, json=job.json)


@app.command()
@t.on_job
@t.on_recipe
def head(
    job: t.TrainingJob,
    recipe: t.RecipeOptions,
    *,
    data: t.Data,
    trunk: t.TrunkFiles,
    seed: Annotated[int, o.seed("Seed.")] = 0,
) -> None:
    """Fit each device's temperature to the trunk's own classifier, or with --epochs to one that is trained anew.

    Writes NAME.safetensors, NAME.json and NAME.md.
    """
    name, settings = recipe.name or "head", _head_settings(recipe.values(), seed)
    on = t.on_trunk(trunk, data, job, name)
    t.show({name: _make_head(name, settings, on)}, json=job.json)


@app.command()
@t.on_job
def vote(
    job: t.TrainingJob,
    *,
    data: t.Data,
    trunk: t.TrunkFiles,
    head: Annotated[Path, typer.Option(help="File of the trunk's local head.")],
    name: Annotated[str, typer.Option(help="Name of the file.")] = "vote",
) -> None:
    """Fit the vote, the codec that needs no training, to the local posteriors of the validation objects.

    Writes NAME.safetensors.
    """
    file = _make_vote(name, head, t.on_trunk(trunk, data, job, name))
    print_json({"files": [str(file)]}) if job.json else typer.echo(file)


@app.command()
@t.on_job
@t.on_recipe
@o.on_network
def codec(
    job: t.TrainingJob,
    recipe: t.RecipeOptions,
    wanted: o.NetworkOptions,
    *,
    data: Annotated[Path | None, t.DATA] = None,
    trunk: Annotated[list[Path] | None, t.TRUNK] = None,
    features: Annotated[Path | None, typer.Option(help="Instead of meshes and trunk: own features (npz).")] = None,
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

    --features: of K sensors of your own, features (N, K, F) and labels (N,). Local heads, the vote and a codec are
    trained, and go into one file, NAME.safetensors, which every --model takes.
    """
    if features is not None:
        if data is not None or trunk:
            raise ValueError("give --features, or meshes and a --trunk, not both")
        wanted.refuse(("clip_norm", "noise_std"), "a codec is trained for clip norm 1 and the noise of each ε")
        if kind != "compact":
            raise ValueError(f"--kind {kind}: own features have no maps, must be compact")
        if len(numbers := t.numbers(seed, seeds)) > 1:
            raise ValueError("--features makes one model: give one --seed")
        t.show(own.make(features, job, recipe, wanted, epsilon, seed=numbers[0], trials=trials), json=job.json)
        return
    if data is None or not trunk:
        raise ValueError("give a packed file of meshes and a --trunk, or --features")
    name, net = recipe.name or "codec", _codec_network(wanted)
    settings, shape = codecs.settings(recipe.values(), kind, net.dimension)
    recipes = [replace(settings, seed=number) for number in t.numbers(seed, seeds)]
    o.at_least(1, trials=trials)
    here = codecs.calibrated(net, epsilon, wanted.colluding)
    on = t.on_trunk(trunk, data, job, name)
    t.show({name: codecs.make(name, recipes, shape, here, on, trials=trials)}, json=job.json)


@app.command("all")
@t.on_job
@o.on_network
def everything(
    job: t.TrainingJob,
    wanted: o.NetworkOptions,
    *,
    data: t.Data,
    kind: Kind = "lite2",
    imagenet: ImageNet = None,
    epsilon: Epsilon = None,
    seed: Annotated[int, o.seed("Seed of all.")] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PART.NAME=VALUE", help="trunk.epochs=30, head.hidden=64, codec.epochs=9, …"),
    ] = None,
) -> None:
    """Train a trunk, then a local head, a vote and a codec on its features: all of these commands at once."""
    parts, net = _parts(settings), _codec_network(wanted)
    of_trunk, of_head = _trunk_settings(parts["trunk"], kind), _head_settings(parts["head"], seed)
    of_codec, shape = codecs.settings(parts["codec"], "compact", net.dimension)
    here = codecs.calibrated(net, epsilon, wanted.colluding)
    work = t.begin(data, job, "codec", of_trunk[1], extra_views=of_trunk[0].extra_views)
    work.splits.require("validation", "head")  # now, rather than after the trunk is trained
    made = {"trunk": _make_trunk(work, "trunk", [seed], of_trunk, imagenet)}
    files = [work.folder / f"trunk-{seed}.safetensors"]
    on = t.StoredTrunk(files, *t.loaded(files, work.splits.torch_device), work)
    made["head"] = _make_head("head", of_head, on)
    made["head"][1].append(_make_vote("vote", work.folder / "head.safetensors", on))
    made["codec"] = codecs.make("codec", [replace(of_codec, seed=seed)], shape, here, on)
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


def _trunk_settings(values: dict[str, Any], kind: str) -> "tuple[TrunkRecipe, Architecture]":
    from airpool.models import recipes
    from airpool.models.vision.mvcnn import Architecture
    from airpool.models.vision.training import RECIPES, TrunkRecipe

    fixed = ("seed", "trunk", "num_classes", "in_channels")
    recipe, architecture = recipes.settled(
        values, RECIPES.get(kind, TrunkRecipe()), Architecture(trunk=kind), fixed=fixed
    )
    return recipe, architecture


def _make_trunk(
    work: t.Work,
    name: str,
    seeds: Sequence[int],
    settings: "tuple[TrunkRecipe, Architecture]",
    imagenet: Path | None = None,
) -> t.Made:
    """Trains the weights that do not exist yet, and writes the card of all."""
    from airpool.models.vision import runs

    recipe, source = settings[0], work.source
    if settings[1].trunk.startswith("lite") and imagenet is None:
        typer.echo(f"warning: {settings[1].trunk} starts from random weights; --imagenet names others", err=True)
    architecture = replace(settings[1], num_classes=len(source.classes))
    plans = {
        work.folder / f"{name}-{seed}.safetensors": runs.TrunkPlan(
            source.record(), architecture, replace(recipe, seed=seed), imagenet, source.classes
        )
        for seed in seeds
    }
    left = {file: plan for file, plan in plans.items() if not runs.made(file, plan)}  # all are checked before any work
    for file, plan in left.items():
        shown = work.splits.images("train")
        assert shown is not None
        with progress(f"training {file.stem}", total=recipe.epochs) as advance:
            runs.make(file, plan, shown, work.splits.images("validation"), log=_log(file.stem, advance))
    aside, unseen, results = work.splits.images("validation"), work.splits.images("test") if work.test else None, []
    with progress("measuring", total=len(plans)) as advance:
        for file in plans:
            results.append(runs.result(file, source, validation=aside, test=unseen))
            advance(1)
    return work.card(name, list(plans), recipe, results, architecture=asdict(architecture))


def _head_settings(values: dict[str, Any], seed: int) -> "HeadRecipe":
    from airpool.models import recipes
    from airpool.models.local import HeadRecipe

    return recipes.settled(values, HeadRecipe(epochs=0, seed=seed), fixed=("seed",))[0]


def _make_head(name: str, recipe: "HeadRecipe", trunk: t.StoredTrunk) -> t.Made:
    """Calibrates a head, after training where it has epochs, in place of any that exists; writes its card."""
    from airpool.models import local
    from airpool.models.vision import runs

    work, source, file = trunk.work, trunk.work.source, trunk.work.folder / f"{name}.safetensors"
    if file.exists():
        local.load(file)  # nothing but a head is overwritten
    if not recipe.epochs:
        trunk.require_classes()
    aside = trunk.features("validation", "head")
    if (few := len(source.rows["validation"])) < _FEW:
        typer.echo(f"warning: {few} validation objects: temperatures and calibration errors are rough", err=True)
    if recipe.epochs:
        shown = trunk.features("train", "head")
        with progress("training", total=recipe.epochs) as advance:
            fitted = local.fit(recipe, *shown, validation=aside, num_classes=len(source.classes), on_epochs=advance)
    else:
        own = local.own(trunk.model)
        fitted = local.calibrated(own, local.logits_of(own, aside[0]), aside[1], recipe)
    local.save(file, fitted, {"data": source.about(), "trunk": trunk.hashes, "classes": list(source.classes)})
    calibration = {
        "temperatures": fitted.temperatures.tolist(),
        "validation": asdict(fitted.validation),
        "test": asdict(fitted.measured(*trunk.features("test", "head"))) if work.test else None,
    }
    accuracy = {"validation": fmean(fitted.validation.accuracy), "test": None}
    result = {"seed": recipe.seed, "weights": file.name, "sha256": runs.sha256(file), **accuracy}
    return work.card(name, [file], recipe, [result], trunk=trunk.hashes, calibration=calibration)


def _make_vote(name: str, head: Path, trunk: t.StoredTrunk) -> Path:
    """Fits a vote, in place of any that exists."""
    from airpool.models import local, weights
    from airpool.models.codecs import codec as codecs
    from airpool.models.codecs import vote as votes
    from airpool.models.vision import runs

    file = trunk.work.folder / f"{name}.safetensors"
    if file.exists() and (kind := codecs.read(file)[0].kind) != "vote":
        raise ValueError(f"{file}: holds a codec of kind {kind!r}, which is not overwritten: give another --name")
    fitted, told = local.load(head, device=trunk.work.splits.torch_device)
    channels, num_classes = fitted.sizes
    weights.require_classes(head, told, num_classes, trunk.work.source.classes)
    other = isinstance(of := told.get("trunk"), dict) and set(of.values()) != set(trunk.hashes.values())
    if other or channels != trunk.model.architecture.map_shape[0]:
        raise ValueError(f"{head}: the local head of another trunk than {', '.join(trunk.hashes)}")
    features, labels = trunk.features("validation", "vote")
    posteriors = local.local_distribution(features, fitted.classifier, fitted.temperatures)
    about = {"data": trunk.work.source.about(), "trunk": trunk.hashes, "head": runs.sha256(head)}
    about["classes"] = list(trunk.work.source.classes)
    codecs.save(file, votes.fit(posteriors, labels), about)
    return file


def _log(name: str, advance: Callable[[int], None]) -> Callable[[str], None]:
    """Logger that advances the progress bar by the epochs in the log; without a terminal, prints each line."""
    done = 0

    def log(text: str) -> None:
        nonlocal done
        if not sys.stderr.isatty():
            typer.echo(f"{name}: {text}", err=True)
        if epoch := re.search(r"epoch[= ](\d+)", text):
            advance(int(epoch[1]) - done)
            done = int(epoch[1])

    return log
