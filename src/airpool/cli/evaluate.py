"""`airpool evaluate`: how often a network names the object, beside what it leaks."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airpool import network_file
from airpool.cli import options as o
from airpool.network import Coin, Network, Threshold, named_scheme

if TYPE_CHECKING:
    from torch import Tensor

    from airpool.data.latents_file import Latents
    from airpool.evaluate import Server


def evaluate(
    network: Annotated[Path | None, typer.Option(help="Network file (TOML); by default K = 12, w = 1/12.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Scale the noise to this ε of the worst device.")] = None,
    accounting: Annotated[str, typer.Option(help="What --epsilon means: exact, or theorem1 (the paper's).")] = "exact",
    neighbours: Annotated[str | None, typer.Option(help="zero-out, replace or remove.")] = None,
    participation: Annotated[
        float | None,
        typer.Option(help="Probability p of taking part; in Scheme 2.1 with --latents, what the server expects of it."),
    ] = None,
    scheme: Annotated[
        str | None, typer.Option(help="Who transmits: 1, 2.1 or 2.2, as the network file has it.")
    ] = None,
    share: Annotated[
        float | None, typer.Option(help="Schemes 2.1, 2.2: of --epsilon, the share that the scores may spend.")
    ] = None,
    codec: Annotated[
        str | None, typer.Option(help="A shipped codec (compact, the default, or q16), or a file of your own.")
    ] = None,
    latents: Annotated[
        Path | None, typer.Option(help="Your own latents (safetensors: latents, labels, perhaps classifier).")
    ] = None,
    views: Annotated[
        Path | None, typer.Option(help="Raw views instead (safetensors: views (N, K, 2, H, H) uint8, labels).")
    ] = None,
    split: Annotated[str, typer.Option(help="Which of the shipped latents: test or validation.")] = "test",
    baseline: Annotated[str | None, typer.Option(help="orthogonal, best-device or centralised.")] = None,
    trials: Annotated[int, typer.Option(help="How often every object is sent.")] = 20,
    seed: Annotated[int, o.seed("Seed of the simulated noise.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Write the record as a table: .csv, .json or .parquet.")] = None,
    json: o.Json = False,
) -> None:
    """Accuracy with error bars, energy and ε of a network, on the shipped test set or on your own latents or views."""
    from airpool import evaluate as evaluation
    from airpool.sweep.table import one_row, writer_for

    if out is not None:
        writer_for(out)  # a name that cannot be written is found out before the work
    if accounting not in ("exact", "theorem1"):
        raise ValueError(f"--accounting {accounting!r} must be exact or theorem1")
    if share is not None and (epsilon is None or accounting != "exact"):
        raise ValueError("--share divides --epsilon between scores and features, with exact accounting: give --epsilon")
    given = None if network is None else network_file.read(network)
    with o.progress("loading"):
        objects, server, cameras = _objects(codec, latents, views, split, given)
    if codec is None and latents is None:
        codec = "compact"
    if given is not None and network is not None:
        needed_by = f"the codec {codec}" if latents is None else str(latents)
        o.check_dimension(given, network, objects.latents.shape[2], needed_by)
    net = _network(given, objects, scheme=scheme, neighbours=neighbours, participation=participation)
    if epsilon is not None:
        with o.progress("calibrating"):
            net = _scaled(net, epsilon, accounting, share)
    against: Any = baseline
    with o.progress("sending", total=len(objects.labels) * max(trials, 0)) as advance:
        result = evaluation.evaluate(
            net,
            objects.latents,
            objects.labels,
            server=server,
            trials=trials,
            seed=seed,
            posteriors=_posteriors(net, objects),
            participation=_expected(net, shipped=latents is None, given=participation),
            baseline=against,
            on_inferences=advance,
        )
    record = {**result.record(), "accounting": accounting, "codec": codec, "split": split, "cameras": cameras}
    if out is not None:
        one_row(record, function="airpool evaluate").write(out)
    o.print_json(record) if json else _print(record)


def _objects(
    codec: str | None, latents: Path | None, views: Path | None, split: str, given: Network | None
) -> "tuple[Latents, Server, str | None]":
    """Latents with their labels, what decodes them, and which shipped cameras do not fit the given network."""
    from airpool.data.latents_file import Latents, read, read_views
    from airpool.models import codec as codecs
    from airpool.models.pretrained import load

    if latents is not None and views is not None:
        raise ValueError("give --latents or --views, not both")
    own = codecs.load(Path(codec))[0] if codec is not None and codec.endswith(".safetensors") else None
    if latents is not None:
        objects = read(latents)
        if codec is not None and objects.classifier is not None:
            raise ValueError(f"{latents} brings a classifier, so --codec {codec} has nothing to decode: leave one out")
        if own is None and objects.classifier is None:
            raise ValueError(f"{latents} holds no classifier: add one, or give the --codec FILE that made the latents")
        return objects, own.server if own is not None else lambda _: objects.decoder, None
    if own is not None:
        raise ValueError("--codec FILE decodes --latents of your own; the shipped latents belong to the shipped codecs")
    model, name = load("modelnet40"), codec or "compact"
    chosen = model.codec(name)
    if views is not None:
        seen, labels = read_views(views)
        # The local head knows its own cameras only; Scheme 1 does without it.
        scored = seen.shape[1] == len(model.head.temperatures)
        encoded, posteriors = model.seen(seen, codec=name) if scored else (model.encode(seen, codec=name), None)
        return Latents(encoded, labels, posteriors=posteriors), chosen.server, None
    which: Any = split
    held = model.held_out(which, codec=name)
    if given is not None:
        held = held.fitted(given.devices.count)
    return Latents(held.latents, held.labels, posteriors=held.posteriors), chosen.server, held.note


def _posteriors(net: Network, objects: "Latents") -> "Tensor | None":
    if isinstance(net.scheme, Coin):
        return None
    if objects.posteriors is None:
        raise ValueError(
            f"scheme {net.scheme.name} chooses by scores: a file of latents must hold posteriors (N, K, L) as well; "
            "views must be those of as many cameras as ship"
        )
    return objects.posteriors


def _expected(net: Network, *, shipped: bool, given: float | None) -> Any:
    """How often devices are expected to transmit: by the shipped validation objects, or as the user says."""
    from airpool.models.pretrained import load

    if shipped:
        return load("modelnet40").participation(net)
    if isinstance(net.scheme, Threshold) and given is None:
        raise ValueError("scheme 2.1 with --latents needs --participation, how often devices are expected to speak")
    return None if isinstance(net.scheme, Coin) else given


def _network(given: Network | None, objects: "Latents", **changes: Any) -> Network:
    """The file's network, or the plain one for these latents, with what the flags change."""
    _, num_devices, dimension = objects.latents.shape
    net = Network.uniform(num_devices=num_devices, dimension=dimension) if given is None else given
    if changes["participation"] is not None:
        net = replace(net, devices=replace(net.devices, participation=changes["participation"]))
    if changes["neighbours"] is not None:
        net = replace(net, neighbours=changes["neighbours"])
    if changes["scheme"] is not None:
        net = replace(net, scheme=named_scheme(changes["scheme"], **asdict(net.scheme)))
    return net


def _scaled(net: Network, epsilon: float, accounting: str, share: float | None) -> Network:
    from airpool.account.budget import split
    from airpool.account.calibration import calibrate, calibrate_claim

    if share is not None:
        return split(net, epsilon=epsilon, share=share)
    return calibrate(net, epsilon=epsilon) if accounting == "exact" else calibrate_claim(net, epsilon=epsilon)


def _print(record: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from airpool.account.report import shown

    def worst(values: list[Any]) -> str:
        """Rounded up: the printed ε is a promise too."""
        return shown(max(map(float, values)))

    low, high = record["accuracy_ci"]
    spread = "" if record["accuracy_std"] is None else f" ± {record['accuracy_std']:.4f}"
    rows = {
        "accuracy": f"{record['accuracy_mean']:.4f}{spread} (95 % interval {low:.4f} to {high:.4f})",
        "mean over classes": f"{record['class_mean']:.4f}",
        "no answer": f"{record['no_answer']:.4%}",
        "ε of the worst device": f"{worst(record['epsilon'])}  ({record['neighbours']}, δ = {record['delta']:g})",
        "ε, nobody else trusted": worst(record["epsilon_local"]),
        "ε of the object": worst([record["epsilon_object"]]),
        "the paper's claim": worst(record["epsilon_paper"]),
        "mean square error": f"{record['mse']:.4g}",
        "energy": f"{record['energy']:.4g} mW · channel uses",
        "channel uses": str(record["channel_uses"]),
        "objects × trials": f"{record['objects']} × {record['trials']}, seed {record['seed']}",
    }
    table = Table(show_header=False, box=None)
    for name, value in rows.items():
        table.add_row(name, value)
    Console().print(table)
    if record["cameras"] is not None:
        typer.echo(record["cameras"])
