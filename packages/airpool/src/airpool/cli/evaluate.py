"""`airpool evaluate`: accuracy, energy and ε of a network."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from airpool.cli import options as o
from airpool.cli.output import file_to_write, print_json, print_table, progress
from airpool.network import Network

if TYPE_CHECKING:
    from airpool.evaluation.objects import EncodedObjects
    from airpool.models.model import Model
    from airpool.protocol.inference import Baseline

app = typer.Typer(add_completion=False)


@app.command()
@o.on_network
def evaluate(
    wanted: o.NetworkOptions,
    *,
    epsilon: Annotated[float | None, typer.Option(help="Scale the noise to this ε of the worst device.")] = None,
    accounting: Annotated[str, typer.Option(help="What --epsilon means: exact, or theorem1 (the paper's).")] = "exact",
    share: Annotated[float | None, typer.Option(help="Schemes 2.1, 2.2: share of --epsilon for the scores.")] = None,
    model: o.Model = "modelnet40",
    codec: Annotated[str | None, typer.Option(help="One of the model's (default: its first), or a file.")] = None,
    latents: Annotated[Path | None, typer.Option(help="Own file: latents, labels, optional classifier.")] = None,
    views: Annotated[Path | None, typer.Option(help="Own file: views (N, K, C, 224, 224) uint8, labels.")] = None,
    split: o.Split = "test",
    baseline: Annotated[str | None, typer.Option(help="orthogonal, best-device or centralised.")] = None,
    trials: Annotated[int, typer.Option(help="Transmissions of every object.")] = 20,
    seed: o.Seed = 0,
    out: Annotated[
        Path | None, typer.Option(help="Write the record as a table: .csv, .json or .parquet.", callback=file_to_write)
    ] = None,
    json: o.Json = False,
) -> None:
    """Measure accuracy with error bars, energy and ε of a network, on shipped or on your own latents or views.

    Where posteriors are known, the vote's accuracy on the same noise stands beside it.

    Default: as many devices as the model has sensors, of equal weight. --latents and --views are safetensors files. In
    Scheme 2.1 with --latents, --participation is what the server expects.
    """
    from airpool._support.table import one_row, writer_for
    from airpool.evaluation.evaluate import evaluate as evaluated
    from airpool.evaluation.settings import scaled
    from airpool.models.pretrained import load

    if out is not None:
        writer_for(out)  # an error for an unknown format, before the work
    if accounting not in ("exact", "theorem1"):
        raise ValueError(f"--accounting {accounting!r} must be exact or theorem1")
    if share is not None and (epsilon is None or accounting != "exact"):
        raise ValueError("--share divides --epsilon between scores and features, with exact accounting: give --epsilon")
    with progress("loading"):
        known = load(model) if latents is None else None
        if codec is None and known is not None:
            codec = known.codecs[0]
        shape, encoded = _objects(known, codec, latents=latents, views=views, split=split)
    net, claim = wanted.network(**shape), wanted.claim()
    wanted.check_dimension(net, shape["dimension"], f"the codec {codec}" if latents is None else str(latents))
    if epsilon is not None:
        with progress("calibrating"):
            net = scaled(net, replace(claim, per_event=None), epsilon=epsilon, accounting=accounting, share=share)
    objects, cameras = encoded(net, wanted.given.get("participation"))
    with progress("transmitting", total=len(objects.labels) * max(trials, 0)) as advance:
        result = evaluated(
            objects,
            net,
            claim,
            instead=cast("Baseline | None", baseline),
            trials=trials,
            seed=seed,
            on_inferences=advance,
        )
    record = {**result.record(), "accounting": accounting, "codec": codec, "split": split, "cameras": cameras}
    if out is not None:
        one_row(record, function="airpool evaluate").write(out)
    record["reasons"] = dict(result.report.reasons)
    print_json(record) if json else _print(record)


def _objects(
    model: "Model | None", codec: str | None, *, latents: Path | None, views: Path | None, split: str
) -> "tuple[dict[str, int], Callable[[Network, Any], tuple[EncodedObjects, str | None]]]":
    """Devices and dimension of the objects; and for a network and its expected participation, the objects as it
    transmits them, with a note where the model's sensors do not fit its devices."""
    from airpool.evaluation.objects import held_out, of_latents, of_views
    from airpool.models.codecs.codec import SUFFIX
    from airpool.models.codecs.codec import load as load_codec
    from airpool.models.latents import read, read_views
    from airpool.models.vision.features import check_views

    if latents is not None and views is not None:
        raise ValueError("give --latents or --views, not both")
    own = load_codec(Path(codec))[0] if codec is not None and codec.endswith(SUFFIX) else None
    if model is None:
        assert latents is not None
        objects = read(latents)
        if codec is not None and objects.classifier is not None:
            raise ValueError(f"{latents} brings a classifier, so --codec {codec} has nothing to decode: leave one out")
        if own is None and objects.classifier is None:
            raise ValueError(f"{latents} holds no classifier: add one, or give the --codec FILE that made the latents")
        server = own.server if own is not None else lambda _: objects.decoder
        _, devices, dimension = objects.latents.shape
        shape = {"devices": devices, "dimension": dimension}
        return shape, lambda net, given: (of_latents(objects, net, server, participation=given), None)
    if own is not None and views is None and own.reads != "posterior":
        raise ValueError("--codec FILE decodes --latents of your own; the shipped latents belong to the shipped codecs")
    if views is not None:
        if (wanted := model.view_shape) is None:
            raise ValueError(f"--views are images, which {model.name} does not take: leave it out, or --model")
        seen, labels = read_views(views)
        try:
            check_views(seen, wanted)
        except ValueError as error:
            raise ValueError(f"{views}: {error}") from None
        shape = {"devices": seen.shape[1], "dimension": model.codec(codec).dimension}
        return shape, lambda net, _: (of_views(seen, labels, net, model, codec=codec), None)
    which: Any = split

    def shipped(net: Network, _: Any) -> "tuple[EncodedObjects, str | None]":
        note = model.held_out(which, codec=codec).fitted(net.devices.count).note
        return held_out(model, net, codec=codec, split=which, against_vote=True), note

    return model.wanted(codec), shipped


def _print(record: Mapping[str, Any]) -> None:
    from airpool.evaluation.evaluate import facts

    print_table(("", ""), facts(record).items())
    if record["cameras"] is not None:
        typer.echo(record["cameras"])
