"""`airpool design weights|clipping`: the weights, or clip norms and noise, that serve devices with unlike targets."""

from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airpool.cli import options as o
from airpool.network import Network

if TYPE_CHECKING:
    from airpool.arrays import Floats

app = typer.Typer(help="Weights and clip norms for devices with targets of their own.", no_args_is_help=True)

_Epsilon = Annotated[
    Any,
    typer.Option(
        "--epsilon", help="Target ε; or one each: 1,2,3; default: the file's.", parser=o.per_device, metavar="NUMBER"
    ),
]
_Latents = Annotated[
    Path | None, typer.Option(help="Calibration latents (safetensors: latents, labels); shipped validation otherwise.")
]
_Codec = Annotated[str, typer.Option(help="Whose shipped validation latents: compact or q16.")]
_Out = Annotated[Path | None, typer.Option(help="Write the network file.")]
# Without a network file: the devices whose latents ship.
_PLAIN = {"devices": 12}


@app.command("weights")
@o.on_network(plain=_PLAIN)
def weights(
    net: Network,
    colluding: tuple[int, ...],
    *,
    epsilon: _Epsilon = None,
    latents: _Latents = None,
    codec: _Codec = "compact",
    normalise: Annotated[
        str, typer.Option(help="sum: weights add up to 1; free: only how they compare matters.")
    ] = "sum",
    out: _Out = None,
    json: o.Json = False,
) -> None:
    """The weights of least error at this noise, each within what its device's target allows."""
    from airpool.design.weights import design

    how: Any = normalise
    with o.progress("designing"):
        objects, cameras = _calibration(latents, codec, net.devices.count)
        net = _sized(net, objects)
        found = design(net, objects, epsilon=epsilon, normalise=how, colluding=colluding)
    extra = {
        "weight_max": found.upper.tolist(),
        "scale": found.scale,
        "kkt_residual": found.kkt_residual,
        "normalise": normalise,
        "cameras": cameras,
    }
    _show(net, found, colluding=colluding, extra=extra, out=out, json=json)


@app.command("clipping")
@o.on_network(plain=_PLAIN)
def clipping(
    net: Network,
    colluding: tuple[int, ...],
    *,
    epsilon: _Epsilon = None,
    latents: _Latents = None,
    codec: _Codec = "compact",
    out: _Out = None,
    json: o.Json = False,
) -> None:
    """Clip norms, each as large as its device's target allows, at the common noise of least error."""
    from airpool.design.clipping import design

    with o.progress("designing"):
        objects, cameras = _calibration(latents, codec, net.devices.count)
        net = _sized(net, objects)
        found = design(net, objects, epsilon=epsilon, colluding=colluding)
    extra = {"noise_factor": found.noise_factor, "cameras": cameras}
    _show(net, found, colluding=colluding, extra=extra, out=out, json=json)


def _calibration(path: Path | None, codec: str, num_devices: int) -> "tuple[Floats, str | None]":
    """Latents of objects that nothing is evaluated on, and which shipped cameras do not fit the devices."""
    if path is not None:
        from airpool.data.latents_file import read

        return read(path).latents.double().numpy(), None
    from airpool.models.pretrained import load

    held = load("modelnet40").held_out("validation", codec=codec).fitted(num_devices)
    return held.latents.double().numpy(), held.note


def _sized(net: Network, latents: "Floats") -> Network:
    """The network with the latents' dimension, which no target depends on but removal's; other sizes are errors."""
    _, count, dimension = latents.shape
    if count != net.devices.count:
        raise ValueError(f"the calibration latents are of {count} devices, the network has {net.devices.count}")
    return replace(net, dimension=dimension)


def _show(
    before: Network, found: Any, *, colluding: tuple[int, ...], extra: dict[str, Any], out: Path | None, json: bool
) -> None:
    from airpool import network_file
    from airpool.account.guarantee import aggregate
    from airpool.account.guarantee import epsilon as device_epsilon
    from airpool.account.report import number

    if out is not None:
        network_file.write(found.network, out)
    d = found.network.devices
    leaked = device_epsilon(before, aggregate(before, colluding=colluding))
    if json:
        columns = {name: list(d.column(name)) for name in ("weight", "clip_norm", "noise_std")}
        epsilons = {"epsilon": found.epsilon, "epsilon_before": leaked}
        o.print_json(
            {
                **columns,
                "target": list(d.column("epsilon")),
                **{name: [number(x) for x in values.tolist()] for name, values in epsilons.items()},
                "mse": found.mse,
                "mse_before": found.mse_before,
                **extra,
                "delta": found.network.delta,
                "neighbours": found.network.neighbours,
            }
        )
        return
    _print(found, leaked, extra)
    if out is not None:
        typer.echo(f"Network file: {out}")


def _print(found: Any, leaked: "Floats", extra: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from airpool.account.report import shown

    net, d = found.network, found.network.devices
    table = Table(title=f"Design: {net.neighbours} neighbours, δ = {net.delta:g}", title_justify="left")
    table.add_column("device")
    for name in ("weight", "clip norm", "noise std", "ε", "target", "ε before"):
        table.add_column(name, justify="right")
    columns = [d.column(name) for name in ("weight", "clip_norm", "noise_std")]
    lines = [
        (
            *(f"{column[k]:.4g}" for column in columns),
            shown(found.epsilon[k]),
            f"{d.column('epsilon')[k]:g}",
            shown(leaked[k]),
        )
        for k in range(d.count)
    ]
    for line, run in groupby(range(d.count), key=lambda k: lines[k]):
        members = list(run)
        table.add_row(str(members[0]) if len(members) == 1 else f"{members[0]} to {members[-1]}", *line)
    console = Console()
    console.print(table)
    console.print(f"Mean square error on calibration objects: {found.mse_before:.4g} before, {found.mse:.4g} now.")
    if "kkt_residual" in extra:
        console.print(f"No weights within these limits are better by more than {extra['kkt_residual']:.1g}.")
    if extra["cameras"] is not None:
        typer.echo(extra["cameras"])
