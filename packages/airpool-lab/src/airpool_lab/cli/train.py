"""`airpool train trunk|head|vote|codec|all`: from a packed file of meshes to weights and their card."""

import sys
import tomllib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airpool.cli import options as o
from airpool.cli.output import folder_to_write, print_json, print_table, progress
from airpool.network import Network

if TYPE_CHECKING:
    from airpool_lab.training.work import Made, TrainingJob


DATA = typer.Argument(help="Packed file of meshes, as `airpool data prepare` writes it.")
Data = Annotated[Path, DATA]
TRUNK = typer.Option("--trunk", help="File of a trunk's weights; repeat it for several parts.")
TrunkFiles = Annotated[list[Path], TRUNK]
Seeds = Annotated[list[int] | None, o.seed("Seed; repeat it for several models (default 0).")]
NumSeeds = Annotated[int | None, typer.Option("--seeds", help="Number of models, with seeds 0, 1, …")]


@dataclass(frozen=True)
class JobOptions:
    """Options of a training job: folder of the results, hardware, and the objects it may use."""

    out: Annotated[Path, typer.Option(help="Folder for the weights and their card.", callback=folder_to_write)]
    objects: Annotated[int | None, typer.Option(help="Use at most N objects of each split.", metavar="N")] = None
    test: Annotated[bool, typer.Option("--test/--no-test", help="Read the test set, after training.")] = False
    torch_device: Annotated[str | None, typer.Option(help="cpu or cuda; default: cuda where there is one.")] = None
    json: o.Json = False

    def on(self, data: Path) -> "TrainingJob":
        """The job on this file."""
        from airpool_lab.training.work import TrainingJob

        return TrainingJob(data, self.out, self.objects, self.test, self.torch_device, progress, log)


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


on_job, on_recipe = o.grouped(JobOptions), o.grouped(RecipeOptions)


def assignment(text: str) -> tuple[str, Any]:
    """Name and value of NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set {text!r} must be NAME=VALUE")
    return name.strip(), o.value(value.strip())


def seeds_of(seed: list[int] | None, seeds: int | None) -> list[int]:
    """The seeds of --seed and --seeds."""
    if seed and seeds is not None:
        raise ValueError("give --seed or --seeds, not both")
    o.at_least(1, seeds=seeds)
    return list(range(seeds)) if seeds is not None else sorted(set(seed or [0]))


@contextmanager
def warnings_shown() -> Iterator[None]:
    """Prints warnings on stderr, a line each."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: typer.echo(f"warning: {message}", err=True)
        yield


def log(line: str) -> None:
    """Prints a line for each epoch, unless there is a bar on a terminal."""
    if not sys.stderr.isatty():
        typer.echo(line, err=True)


def show(made: "Mapping[str, Made]", *, json: bool) -> None:
    """Cards as JSON, or what they say about accuracy; a single one stands alone."""
    records = {part: {"files": [str(file) for file in files], **card} for part, (card, files) in made.items()}
    if json:
        print_json(records if len(records) > 1 else next(iter(records.values())))
        return
    from airpool_lab.training.card import summary

    for part, (card, files) in made.items():
        if len(made) > 1:
            typer.echo(f"\n{part}")
        _print(summary(card))
        for file in files:
            typer.echo(file)


def _print(markdown: str) -> None:
    """A card's page on the terminal: its tables as all others are printed, its text as it stands."""
    for is_table, lines in groupby(markdown.splitlines(), key=lambda line: line.startswith("|")):
        if is_table:
            header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
            print_table(header, rows)
        else:
            typer.echo("\n".join(line.lstrip("# ") for line in lines))


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
@on_job
@on_recipe
def trunk(
    job: JobOptions,
    recipe: RecipeOptions,
    *,
    data: Data,
    kind: Kind = "lite2",
    imagenet: ImageNet = None,
    seed: Seeds = None,
    seeds: NumSeeds = None,
    resolution: Annotated[int | None, typer.Option(help="Pixels along a view's side: 112 or 224.")] = None,
    head: Annotated[str | None, typer.Option(help="Classifier on the server: linear, mlp, flat or vgg.")] = None,
) -> None:
    """Train a trunk on twelve views of every object, once for each seed.

    Writes NAME-SEED.safetensors for each, and NAME.json and NAME.md for all. Trains nothing twice: --test can be added
    later.
    """
    from airpool_lab.training import trunk as trunks

    name, numbers = recipe.name or "trunk", seeds_of(seed, seeds)
    settings = trunks.settings(recipe.values(resolution=resolution, head=head), kind)
    with warnings_shown():
        work = trunks.begin(job.on(data), name, settings)
        made = trunks.make(work, name, settings, seeds=numbers, imagenet=imagenet)
    show({name: made}, json=job.json)


@app.command()
@on_job
@on_recipe
def head(
    job: JobOptions,
    recipe: RecipeOptions,
    *,
    data: Data,
    trunk: TrunkFiles,
    seed: Annotated[int, o.seed("Seed.")] = 0,
) -> None:
    """Fit each device's temperature to the trunk's own classifier, or with --epochs to one that is trained anew.

    Writes NAME.safetensors, NAME.json and NAME.md.
    """
    from airpool_lab.training import head as heads
    from airpool_lab.training.work import on_trunk

    name, settings = recipe.name or "head", heads.settings(recipe.values(), seed)
    with warnings_shown():
        made = heads.make(on_trunk(trunk, job.on(data), name), name, settings)
    show({name: made}, json=job.json)


@app.command()
@on_job
def vote(
    job: JobOptions,
    *,
    data: Data,
    trunk: TrunkFiles,
    head: Annotated[Path, typer.Option(help="File of the trunk's local head.")],
    name: Annotated[str, typer.Option(help="Name of the file.")] = "vote",
) -> None:
    """Fit the vote, the codec that needs no training, to the local posteriors of the validation objects.

    Writes NAME.safetensors.
    """
    from airpool_lab.training.head import make_vote
    from airpool_lab.training.work import on_trunk

    file = make_vote(on_trunk(trunk, job.on(data), name), name, head)
    print_json({"files": [str(file)]}) if job.json else typer.echo(file)


@app.command()
@on_job
@on_recipe
@o.on_network
def codec(
    job: JobOptions,
    recipe: RecipeOptions,
    wanted: o.NetworkOptions,
    *,
    data: Annotated[Path | None, DATA] = None,
    trunk: Annotated[list[Path] | None, TRUNK] = None,
    features: Annotated[Path | None, typer.Option(help="Instead of meshes and trunk: own features (npz).")] = None,
    kind: Annotated[str, typer.Option(help="compact (averages of maps), or map (whole maps).")] = "compact",
    epsilon: Epsilon = None,
    trials: Annotated[int, typer.Option(help="Transmissions of every object, for the card.")] = 20,
    seed: Seeds = None,
    seeds: NumSeeds = None,
) -> None:
    """Train encoder and decoder together through fading and noise, for every ε at once, on a trunk's features.

    Default: twelve devices, 40 numbers each, all transmitting over an ideal channel.

    Writes NAME-SEED.safetensors for each seed, and NAME.json and NAME.md for all. Trains nothing twice: --test can be
    added later.

    --features: of K sensors of your own, features (N, K, F) and labels (N,). Local heads, the vote and a codec are
    trained, and go into one file, NAME.safetensors, which every --model takes.
    """
    from airpool_lab.training import codec as codecs
    from airpool_lab.training.work import on_trunk

    numbers = seeds_of(seed, seeds)
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
    name, net, claim = recipe.name or "codec", _codec_network(wanted), wanted.claim()
    settings = codecs.settings(recipe.values(), net, claim, kind=kind, epsilon=epsilon, progress=progress)
    made = codecs.make(on_trunk(trunk, job.on(data), name), name, settings, seeds=numbers, trials=trials)
    show({name: made}, json=job.json)


@app.command("all")
@on_job
@o.on_network
def everything(
    job: JobOptions,
    wanted: o.NetworkOptions,
    *,
    data: Data,
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
    from airpool_lab.training import codec, head, trunk
    from airpool_lab.training.work import on_trunk

    parts, net, claim = _parts(settings), _codec_network(wanted), wanted.claim()
    of_trunk, of_head = trunk.settings(parts["trunk"], kind), head.settings(parts["head"], seed)
    of_codec = codec.settings(parts["codec"], net, claim, epsilon=epsilon, progress=progress)
    with warnings_shown():
        work = trunk.begin(job.on(data), "codec", of_trunk)
        work.splits.require("validation", "head")  # now, rather than after the trunk is trained
        made = {"trunk": trunk.make(work, "trunk", of_trunk, seeds=[seed], imagenet=imagenet)}
        on = on_trunk([work.file(f"trunk-{seed}")], work.job, "codec", work)
        made["head"] = head.make(on, "head", of_head)
        made["head"][1].append(head.make_vote(on, "vote", work.file("head")))
        made["codec"] = codec.make(on, "codec", of_codec, seeds=[seed])
    show(made, json=job.json)


def _own(
    path: Path,
    job: JobOptions,
    recipe: RecipeOptions,
    wanted: o.NetworkOptions,
    *,
    epsilon: Sequence[float] | None,
    seed: int,
    trials: int,
) -> None:
    """`airpool train codec --features`."""
    from airpool_lab.training import sensors

    wanted.refuse(("clip_norm", "noise_std"), _NOISE)
    for option, given in (("--objects", job.objects), ("--torch-device", job.torch_device)):
        if given is not None:
            raise ValueError(f"{option} is for meshes: --features takes all objects, on the CPU; leave it out")
    name, found = recipe.name or path.stem, sensors.read(path)
    if found.missing:
        typer.echo(f"{found.missing} of {found.measurements} measurements hold NaN: taken as missing sensors", err=True)
    net, claim = wanted.network(devices=found.num_devices), wanted.claim()
    settings = sensors.settings(recipe.values(), seed, dimension=wanted.given.get("dimension"))
    with warnings_shown():
        made = sensors.make(job.on(path), name, found, net, claim, recipe=settings, epsilon=epsilon, trials=trials)
    show({name: made}, json=job.json)


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
        parts[part] |= dict([assignment(rest)])
    return parts
