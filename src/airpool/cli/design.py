"""`airpool design weights|clipping`: weights, or clip norms and noise, for devices with heterogeneous targets."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airpool.cli import options as o
from airpool.cli.output import print_json, print_table, progress

if TYPE_CHECKING:
    from airpool.network import Network

app = typer.Typer(help="Weights or clip norms for heterogeneous targets.", no_args_is_help=True, add_completion=False)

_Latents = Annotated[Path | None, typer.Option(help="Calibration latents (default: shipped validation).")]
_Codec = Annotated[str, typer.Option(help="Codec of the shipped validation latents: compact or q16.")]


@app.command()
@o.on_network
def weights(
    wanted: o.NetworkOptions,
    *,
    epsilon: o.Target = None,
    latents: _Latents = None,
    codec: _Codec = "compact",
    normalise: Annotated[str, typer.Option(help="sum: they add up to 1; free: only ratios matter.")] = "sum",
    out: o.OutNetwork = None,
    json: o.Json = False,
) -> None:
    """Find the weights of least error at this noise, each within what its device's target allows."""
    net, found, extra = _designed(wanted, "weight", latents, codec, epsilon=epsilon, normalise=normalise)
    extra |= {"weight_max": found.upper.tolist(), "scale": found.scale, "kkt_residual": found.kkt_residual}
    _show(net, found, wanted.colluding, extra | {"normalise": normalise}, out=out, json=json)


@app.command()
@o.on_network
def clipping(
    wanted: o.NetworkOptions,
    *,
    epsilon: o.Target = None,
    latents: _Latents = None,
    codec: _Codec = "compact",
    out: o.OutNetwork = None,
    json: o.Json = False,
) -> None:
    """Find clip norms, each as large as its device's target allows, at the common noise of least error."""
    net, found, extra = _designed(wanted, "clip", latents, codec, epsilon=epsilon)
    _show(net, found, wanted.colluding, extra | {"noise_factor": found.noise_factor}, out=out, json=json)


def _designed(
    wanted: o.NetworkOptions, knob: Any, path: Path | None, codec: str, **how: Any
) -> tuple["Network", Any, dict[str, Any]]:
    """The network before, its design, and a note where the shipped cameras do not fit the devices.

    The network takes the latents' dimension: no target depends on it but that of removal.
    """
    with progress("designing"):
        from airpool.data.latents_file import read
        from airpool.design import design
        from airpool.models.pretrained import load

        net = wanted.network(devices=12)
        if path is None:
            held = load("modelnet40").held_out("validation", codec=codec).fitted(net.devices.count)
            latents, note = held.latents, held.note
        else:
            latents, note = read(path).latents, None
        _, count, dimension = latents.shape
        if count != net.devices.count:
            raise ValueError(f"the calibration latents are of {count} devices, the network has {net.devices.count}")
        net = replace(net, dimension=dimension)
        found = design(net, latents.double().numpy(), knob=knob, colluding=wanted.colluding, **how)
    return net, found, {"cameras": note}


def _show(
    before: "Network", found: Any, colluding: tuple[int, ...], extra: Mapping[str, Any], *, out: Path | None, json: bool
) -> None:
    from airpool import network_file
    from airpool.account.guarantee import aggregate
    from airpool.account.guarantee import epsilon as device_epsilon
    from airpool.account.report import number, runs_of, shown

    if out is not None:
        network_file.write(found.network, out)
    net, d = found.network, found.network.devices
    leaked = device_epsilon(before, aggregate(before, colluding=colluding))
    columns = {name: list(d.column(name)) for name in ("weight", "clip_norm", "noise_std")}
    if json:
        epsilons = {"epsilon": found.epsilon, "epsilon_before": leaked}
        columns |= {"target": list(d.column("epsilon"))}
        columns |= {name: [number(x) for x in values.tolist()] for name, values in epsilons.items()}
        about = {"delta": net.delta, "neighbours": net.neighbours}
        print_json({**columns, "mse": found.mse, "mse_before": found.mse_before, **extra, **about})
        return
    lines = [
        (
            *(f"{column[k]:.4g}" for column in columns.values()),
            shown(found.epsilon[k]),
            f"{d.column('epsilon')[k]:g}",
            shown(leaked[k]),
        )
        for k in range(d.count)
    ]
    header = ("device", "weight", "clip norm", "noise std", "ε", "target", "ε before")
    rows = [(label, *line) for label, line in runs_of(lines)]
    print_table(header, rows, title=f"Design: {net.neighbours} neighbours, δ = {net.delta:g}")
    typer.echo(f"Mean square error on calibration objects: {found.mse_before:.4g} before, {found.mse:.4g} now.")
    if "kkt_residual" in extra:
        typer.echo(f"No weights within these limits are better by more than {extra['kkt_residual']:.1g}.")
    if extra["cameras"] is not None:
        typer.echo(extra["cameras"])
    if out is not None:
        typer.echo(f"Network file: {out}")
