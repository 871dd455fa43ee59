"""`airpool calibrate`: the network that meets a target ε."""

from pathlib import Path
from typing import Annotated, Any

import typer

from airpool.cli import options as o
from airpool.cli.epsilon import show
from airpool.network import Network


@o.on_network()
def calibrate(
    net: Network,
    colluding: tuple[int, ...],
    *,
    epsilon: Annotated[
        Any, typer.Option("--epsilon", help="Target ε; or one each: 1,2,3.", parser=o.per_device, metavar="NUMBER")
    ] = None,
    credit_channel_noise: o.ChannelNoise = False,
    knob: Annotated[str, typer.Option(help="What to turn: noise, weight, clip or inferences.")] = "noise",
    per_device: Annotated[
        bool, typer.Option("--per-device", help="Share the noise by what each device's own target needs.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the calibrated network file.")] = None,
    json: o.Json = False,
    plot: o.Plot = None,
) -> None:
    """The smallest noise (or the largest weight, clip norm or number of inferences) that meets ε; never above it."""
    from airpool import network_file
    from airpool.account.calibration import calibrate as calibrated
    from airpool.account.guarantee import guarantee

    turn: Any = knob
    with o.progress("calibrating"):
        met = calibrated(
            net,
            epsilon=epsilon,
            knob=turn,
            per_device=per_device,
            colluding=colluding,
            credit_channel_noise=credit_channel_noise,
        )
        report = guarantee(met, colluding=colluding, credit_channel_noise=credit_channel_noise)
    if out is not None:
        network_file.write(met, out)
    d = met.devices
    columns = {"noise_std": d.noise_std, "weight": d.weight, "clip_norm": d.clip_norm, "target": d.epsilon}
    show(report, json=json, plot=plot, extra=columns)
    if out is not None and not json:
        typer.echo(f"Network file: {out}")
