"""`airpool train codec`, trained through the noise of the networks it is to serve; and `all`: trunk, head and codec."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airpool.cli import codecs, train
from airpool.cli import options as o
from airpool.cli import training as t
from airpool.cli.settings import given, settled
from airpool.network import Network

if TYPE_CHECKING:
    from airpool.models.codec import CodecShape
    from airpool.models.codec_training import CodecRecipe, Setting

Epsilon = Annotated[
    list[float] | None,
    typer.Option(help="Target ε; repeat it: one codec is trained for all (default 1, 2, 3.98 and 10)."),
]
Fading = Annotated[str | None, typer.Option(help="none, rician, rayleigh or sionna:MODEL.")]
ReceiverNoise = Annotated[float | None, typer.Option("--receiver-noise-std", help="The receiver's, per coordinate.")]

BUDGETS = (1.0, 2.0, 3.98, 10.0)

_without = ("devices", "weight", "clip_norm", "noise_std", "power_dbm", "colluders", "dropouts", "inferences")
_on_network = o.on_network(without=_without, plain={"devices": 12, "dimension": 40})


@_on_network
def codec(
    net: Network,
    _: tuple[int, ...],
    *,
    data: t.Data,
    trunk: t.Trunk,
    out: t.Out,
    name: t.Name = "codec",
    kind: Annotated[
        str, typer.Option(help="compact (averages of maps), or map (whole ones, as the paper).")
    ] = "compact",
    epsilon: Epsilon = None,
    fading: Fading = None,
    receiver_noise_std: ReceiverNoise = None,
    trials: Annotated[int, typer.Option(help="How often every object is sent when it is measured.")] = 20,
    seed: t.SeedList = None,
    seeds: t.Seeds = None,
    epochs: t.Epochs = None,
    settings: t.Settings = None,
    recipe_file: t.RecipeFile = None,
    limit: t.Limit = None,
    test: t.Test = False,
    hardware: t.Hardware = None,
    json: o.Json = False,
) -> None:
    """Train encoder and decoder together through fading and noise, for every ε at once, on a trunk's features.

    Twelve devices, 40 numbers from each, all taking part over an ideal channel, unless a network file or flags say so.

    Writes NAME-SEED.safetensors for each seed, and NAME.json and NAME.md for all. What was made already is not made
    again, so --test can be added later.
    """
    net = over(net, fading=fading, receiver_noise_std=receiver_noise_std)
    recipe, shape = codec_settings(given(recipe_file, settings, epochs=epochs), kind, net.dimension)
    recipes = [replace(recipe, seed=number) for number in t.numbers(seed, seeds)]
    if trials < 1:
        raise ValueError(f"--trials {trials} must be ≥ 1")
    here = calibrated(net, epsilon)
    torch_device = t.torch_device(hardware)
    model = t.loaded(trunk, torch_device)
    work = t.work(data, out, name, limit=limit, test=test, torch_device=torch_device)
    images = work.images(model.architecture.resolution)
    seen = t.features(model, images, work.source, what="codec", whole=shape.kind == "map")
    t.show(codecs.make(work, name, trunk, recipes, shape, here, seen, trials=trials), json=json)


@_on_network
def everything(
    net: Network,
    _: tuple[int, ...],
    *,
    data: t.Data,
    out: t.Out,
    epsilon: Epsilon = None,
    fading: Fading = None,
    receiver_noise_std: ReceiverNoise = None,
    seed: Annotated[int, o.seed("Seed of all three.")] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PART.NAME=VALUE", help="As in trunk.epochs=30, head.hidden=64, codec.epochs=9."),
    ] = None,
    limit: t.Limit = None,
    test: t.Test = False,
    hardware: t.Hardware = None,
    json: o.Json = False,
) -> None:
    """Train a trunk, then its local head and a codec on its features: `trunk`, `head` and `codec` in one go."""
    parts, numbers = _parts(settings), t.numbers([seed], None)
    net = over(net, fading=fading, receiver_noise_std=receiver_noise_std)
    trunk_recipe, architecture = train.trunk_settings(parts["trunk"])
    head_recipe = train.head_settings(parts["head"], seed)
    codec_recipe, shape = codec_settings(parts["codec"], "compact", net.dimension)
    here, recipes = calibrated(net, epsilon), [replace(codec_recipe, seed=seed)]
    work = t.work(data, out, "codec", limit=limit, test=test, torch_device=t.torch_device(hardware))
    t.require(work.source, "validation", "head")  # now, rather than when the trunk is trained
    images = work.images(architecture.resolution)  # rendered once, for all three

    made = {"trunk": train.make_trunk(work, "trunk", numbers, trunk_recipe, architecture, images)}
    files = [work.folder / f"trunk-{seed}.safetensors"]
    seen = t.features(t.loaded(files, work.torch_device), images, work.source, what="head")
    made["head"] = train.make_head(work, "head", files, head_recipe, seen)
    made["codec"] = codecs.make(work, "codec", files, recipes, shape, here, seen)
    if json:
        o.print_json({part: {"files": [str(file) for file in made[part][1]], **made[part][0]} for part in made})
        return
    for part, each in made.items():
        typer.echo(f"\n{part}")
        t.show(each, json=False)


def codec_settings(wanted: dict[str, Any], kind: str, dimension: int) -> "tuple[CodecRecipe, CodecShape]":
    from airpool.models.codec import CodecShape, paper_shape
    from airpool.models.codec_training import CodecRecipe

    plain = paper_shape(1) if kind == "map" else CodecShape()
    shape = replace(plain, kind=kind, dimension=dimension)
    recipe, shape = settled(
        wanted, CodecRecipe(), shape, fixed=("seed", "kind", "dimension", "num_classes", "features")
    )
    return recipe, shape


def over(net: Network, *, fading: str | None, receiver_noise_std: float | None) -> Network:
    """The network with what the flags change of its channel."""
    changes = {"fading": fading, "noise_std": receiver_noise_std}
    return replace(net, channel=replace(net.channel, **{k: v for k, v in changes.items() if v is not None}))


def calibrated(net: Network, epsilon: Sequence[float] | None) -> "list[Setting]":
    """The network once for each ε, the strictest first, with the least noise that meets it."""
    from airpool.account.calibration import calibrate
    from airpool.data.voxels import NUM_POSES
    from airpool.models.codec_training import setting

    if net.devices.count != NUM_POSES:
        raise ValueError(f"a network of {net.devices.count} devices must have {NUM_POSES}, one for each view")
    with o.progress("calibrating"):
        return [setting(calibrate(net, epsilon=each)) for each in sorted(set(epsilon or BUDGETS))]


def _parts(settings: Sequence[str] | None) -> dict[str, dict[str, Any]]:
    """Fields of each of the three recipes, from PART.NAME=VALUE."""
    texts: dict[str, list[str]] = {"trunk": [], "head": [], "codec": []}
    for each in settings or ():
        part, dot, rest = each.partition(".")
        if not dot or part not in texts:
            raise ValueError(f"--set {each!r} must begin with {', '.join(f'{name}.' for name in texts)}")
        texts[part].append(rest)
    return {part: given(None, own) for part, own in texts.items()}
