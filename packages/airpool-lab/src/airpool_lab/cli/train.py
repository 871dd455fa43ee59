"""`airpool train trunk|head|vote|codec|all`: from a packed file of meshes to weights and their card."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from airpool.cli import options as o
from airpool.cli import training as t
from airpool.cli.output import print_json, progress
from airpool.network import Network

app = typer.Typer(
    help="Train a trunk, a local head, a vote or a codec. Resumes after an interruption.",
    no_args_is_help=True,
    add_completion=False,
)

_NOISE = "a codec is trained for clip norm 1 and the noise of each ε"

Epsilon = Annotated[
    list[float] | None, typer.Option(help="Target ε; repeat it: one codec serves all (default 1, 2, 3.98 and 10).")
]

Kind = Annotated[str, typer.Option(help="lite0, lite1, lite2; or vgg11, the paper's.")]
ImageNet = Annotated[Path | None, typer.Option(help="ImageNet weights of Lite to start from (pth).")]


@app.command()
@t.on_job
@t.on_recipe
def trunk(
    job: t.JobOptions,
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
    from airpool.evaluation.training import trunk as trunks

    name, numbers = recipe.name or "trunk", t.numbers(seed, seeds)
    settings = trunks.settings(recipe.values(resolution=resolution, head=head), kind)
    with t.warnings_shown():
        work = trunks.begin(job.on(data), name, settings)
        made = trunks.make(work, name, settings, seeds=numbers, imagenet=imagenet)
    t.show({name: made}, json=job.json)


@app.command()
@t.on_job
@t.on_recipe
def head(
    job: t.JobOptions,
    recipe: t.RecipeOptions,
    *,
    data: t.Data,
    trunk: t.TrunkFiles,
    seed: Annotated[int, o.seed("Seed.")] = 0,
) -> None:
    """Fit each device's temperature to the trunk's own classifier, or with --epochs to one that is trained anew.

    Writes NAME.safetensors, NAME.json and NAME.md.
    """
    from airpool.evaluation.training import head as heads
    from airpool.evaluation.training.work import on_trunk

    name, settings = recipe.name or "head", heads.settings(recipe.values(), seed)
    with t.warnings_shown():
        made = heads.make(on_trunk(trunk, job.on(data), name), name, settings)
    t.show({name: made}, json=job.json)


@app.command()
@t.on_job
def vote(
    job: t.JobOptions,
    *,
    data: t.Data,
    trunk: t.TrunkFiles,
    head: Annotated[Path, typer.Option(help="File of the trunk's local head.")],
    name: Annotated[str, typer.Option(help="Name of the file.")] = "vote",
) -> None:
    """Fit the vote, the codec that needs no training, to the local posteriors of the validation objects.

    Writes NAME.safetensors.
    """
    from airpool.evaluation.training.head import make_vote
    from airpool.evaluation.training.work import on_trunk

    file = make_vote(on_trunk(trunk, job.on(data), name), name, head)
    print_json({"files": [str(file)]}) if job.json else typer.echo(file)


@app.command()
@t.on_job
@t.on_recipe
@o.on_network
def codec(
    job: t.JobOptions,
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
    from airpool.evaluation.training import codec as codecs
    from airpool.evaluation.training.work import on_trunk

    numbers = t.numbers(seed, seeds)
    o.at_least(1, trials=trials)
    if features is not None:
        if data is not None or trunk:
            raise ValueError("give --features, or meshes and a --trunk, not both")
        if kind != "compact":
            raise ValueError(f"--kind {kind}: own features have no maps, must be compact")
        if len(numbers) > 1:
            raise ValueError("--features makes one model: give one --seed")
        _own(features, job, recipe, wanted, epsilon=epsilon, seed=numbers[0], trials=trials)
        return
    if data is None or not trunk:
        raise ValueError("give a packed file of meshes and a --trunk, or --features")
    name, net = recipe.name or "codec", _codec_network(wanted)
    how: Any = {"kind": kind, "epsilon": epsilon, "colluding": wanted.colluding, "progress": progress}
    settings = codecs.settings(recipe.values(), net, **how)
    made = codecs.make(on_trunk(trunk, job.on(data), name), name, settings, seeds=numbers, trials=trials)
    t.show({name: made}, json=job.json)


@app.command("all")
@t.on_job
@o.on_network
def everything(
    job: t.JobOptions,
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
    from airpool.evaluation.training import codec, head, trunk, whole

    parts, net = _parts(settings), _codec_network(wanted)
    of_trunk, of_head = trunk.settings(parts["trunk"], kind), head.settings(parts["head"], seed)
    how: Any = {"epsilon": epsilon, "colluding": wanted.colluding, "progress": progress}
    of_codec = codec.settings(parts["codec"], net, **how)
    with t.warnings_shown():
        made = whole.make(job.on(data), of_trunk, of_head, of_codec, seed=seed, imagenet=imagenet)
    t.show(made, json=job.json)


def _own(
    path: Path,
    job: t.JobOptions,
    recipe: t.RecipeOptions,
    wanted: o.NetworkOptions,
    *,
    epsilon: Sequence[float] | None,
    seed: int,
    trials: int,
) -> None:
    """`airpool train codec --features`."""
    from airpool.evaluation.training import sensors
    from airpool.models.sensors import file as features_file

    wanted.refuse(("clip_norm", "noise_std"), _NOISE)
    for option, given in (("--objects", job.objects), ("--torch-device", job.torch_device)):
        if given is not None:
            raise ValueError(f"{option} is for meshes: --features takes all objects, on the CPU; leave it out")
    name, found = recipe.name or path.stem, features_file.read(path)
    if found.missing:
        typer.echo(f"{found.missing} of {found.measurements} measurements hold NaN: taken as missing sensors", err=True)
    net = wanted.network(devices=found.num_devices)
    settings = sensors.settings(recipe.values(), seed, dimension=wanted.given.get("dimension"))
    with t.warnings_shown():
        made = sensors.make(job.on(path), name, found, net, recipe=settings, epsilon=epsilon, trials=trials)
    t.show({name: made}, json=job.json)


def _codec_network(wanted: o.NetworkOptions) -> Network:
    wanted.refuse(("weight", "clip_norm", "noise_std"), _NOISE)
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
