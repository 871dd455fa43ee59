"""`airpool plan`: the most accurate network for an ε, the smallest ε for an accuracy, or the fewest devices."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from airpool.cli import options as o
from airpool.network import Network

if TYPE_CHECKING:
    from airpool.plan import Plan

# What a plan decides cannot be given.
_DECIDED = ("weight", "clip_norm", "noise_std", "participation", "dimension", "cover_noise")


@o.on_network(without=_DECIDED, plain={"devices": 12})
def plan(
    net: Network,
    colluding: tuple[int, ...],
    *,
    epsilon: Annotated[
        Any,
        typer.Option("--epsilon", help="ε of all devices, or one each: 1,2,3.", parser=o.per_device, metavar="NUMBER"),
    ] = None,
    accuracy: Annotated[
        float | None, typer.Option(help="Reach this accuracy with the smallest ε; with --epsilon, the fewest devices.")
    ] = None,
    fading: Annotated[str | None, typer.Option(help="none, rician, rayleigh or sionna:MODEL.")] = None,
    channel_noise_std: Annotated[
        float | None, typer.Option(help="Receiver noise σ_m per real coordinate, in √mW.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the chosen network (TOML), for airpool evaluate.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the frontier, accuracy against ε (PNG, SVG or PDF).")] = None,
    seed: Annotated[int, o.seed("Seed of the simulated noise.")] = 0,
    json: o.Json = False,
) -> None:
    """Finds codec, participation, scheme, weights, noise and cover noise; predicts on validation objects."""
    from airpool import network_file
    from airpool.models.pretrained import load
    from airpool.plan import fewest_devices, smallest_epsilon
    from airpool.plan import plan as planned
    from airpool.plan.candidates import candidates
    from airpool.plan.frontier import FACTORS, draw, frontier

    if colluding:
        raise ValueError("--colluders takes a number here: a plan holds whichever devices collude")
    changes = {"fading": fading, "noise_std": channel_noise_std}
    net = replace(net, channel=replace(net.channel, **{k: v for k, v in changes.items() if v is not None}))
    wanted: Any = net.devices.epsilon if epsilon is None and accuracy is None else epsilon
    if wanted is None and accuracy is None:
        raise ValueError("give --epsilon, or --accuracy for the smallest ε that reaches it")
    if isinstance(wanted, list | tuple) and len(wanted) != net.devices.count:
        raise ValueError(f"--epsilon has {len(wanted)} values for {net.devices.count} devices; give one or one each")
    with o.progress("loading"):
        model = load("modelnet40")
    if accuracy is None:
        tried = len(candidates(net.devices.count, model.codecs, heterogeneous=isinstance(wanted, list | tuple)))
        with o.progress("planning", total=tried) as advance:
            found = planned(net, model=model, epsilon=cast(Any, wanted), seed=seed, on_candidate=lambda _: advance(1))
    elif wanted is None:
        with o.progress("looking for the smallest ε"):
            _, found = smallest_epsilon(net, model=model, accuracy=accuracy, seed=seed)
    elif isinstance(wanted, list | tuple):
        raise ValueError("--accuracy with --epsilon looks for the fewest devices: give one --epsilon for all")
    else:
        with o.progress("looking for the fewest devices"):
            _, found = fewest_devices(net, model=model, epsilon=wanted, accuracy=accuracy, seed=seed)
    chosen = found.best.network
    if out is not None:
        network_file.write(chosen, out)
    curve = None
    if plot is not None or json:
        with o.progress("drawing the frontier", total=2 * len(FACTORS)) as advance:
            curve = frontier(found, model=model, on_point=lambda: advance(1))
        if plot is not None:
            draw(curve, found, plot)
    if json:
        o.print_json({**found.record(), "network": network_file.dump(chosen), "frontier": curve and curve.columns()})
        return
    _print(found)
    for name, path in (("Network file", out), ("Frontier", plot)):
        if path is not None:
            typer.echo(f"{name}: {path}")
    if out is not None:
        file, codec = shlex.quote(str(out)), found.best.candidate.codec
        typer.echo(f"Measure it on the test objects: airpool evaluate --network {file} --codec {codec}")


def _print(found: "Plan") -> None:
    from rich.console import Console
    from rich.table import Table

    from airpool.account.report import shown

    console = Console()
    best, report = found.best, found.best.evaluation.report
    low, high = best.interval
    console.print(f"[bold]{best.candidate.words}[/bold]")
    console.print(
        f"accuracy {best.accuracy:.3f}, {low:.3f} to {high:.3f} on as many other objects (95 %, validation, "
        f"{best.evaluation.objects} objects, {best.evaluation.trials} runs)"
    )
    console.print(
        f"ε = {shown(report.worst)} (local {shown(float(max(report.epsilon_local)))}, object "
        f"{shown(report.epsilon_object)}) at δ = {best.network.delta:g}, {best.network.neighbours}, "
        f"{best.network.inferences} inference(s), {best.network.devices.count} devices"
    )
    console.print(
        f"{best.evaluation.channel_uses} channel uses and {best.evaluation.energy:.4g} mW·uses an inference\n"
    )
    table = Table("runners-up", "accuracy", "runs", "energy", title=None)
    rows = [*found.others, *([found.paper] if found.paper else [])]
    for option in rows:
        name = "the paper's network: " if option is found.paper else ""
        table.add_row(
            name + option.candidate.words,
            f"{option.accuracy:.3f}",
            str(option.evaluation.trials),
            f"{option.evaluation.energy:.3g}",
        )
    for candidate, why in found.impossible:
        table.add_row(candidate.words, "–", "", why)
    console.print(table)
    if found.cameras is not None:
        typer.echo(found.cameras)
