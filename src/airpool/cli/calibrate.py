"""`airpool calibrate`: the network that meets a target ε, or target odds."""

from typing import Annotated, Any

import typer

from airpool.cli import options as o
from airpool.cli.epsilon import quick, show
from airpool.cli.output import progress, say_written

app = typer.Typer(add_completion=False)


@app.command()
@o.on_network
def calibrate(
    wanted: o.NetworkOptions,
    *,
    epsilon: o.Target = None,
    odds: Annotated[
        float | None, typer.Option(help="Target odds instead of ε: a guess is right so often at most.")
    ] = None,
    prior: o.Prior = None,
    credit_channel_noise: o.CreditNoise = False,
    knob: Annotated[str, typer.Option(help="What to change: noise, weight, clip or inferences.")] = "noise",
    per_device: Annotated[bool, typer.Option("--per-device", help="Share the noise by each device's target.")] = False,
    out: o.OutNetwork = None,
    json: o.Json = False,
    plot: o.Plot = None,
) -> None:
    """Find the smallest noise (or the largest weight, clip norm or number of inferences) that meets ε.

    The ε that results is never above the target; with --odds, the odds of the worst device at --prior are not.
    """
    quick()
    from airpool.account.calibrated_odds import calibrate_odds
    from airpool.account.calibration import calibrate as calibrated
    from airpool.account.guarantee import guarantee
    from airpool.network import file as network_file

    turned: Any = knob
    adversary: Any = {"colluding": wanted.colluding, "credit_channel_noise": credit_channel_noise}
    with progress("calibrating"):
        if odds is None:
            if prior is not None:
                raise ValueError("--prior needs --odds")
            met = calibrated(wanted.network(), epsilon=epsilon, knob=turned, per_device=per_device, **adversary)
        else:
            if epsilon is not None or per_device or knob != "noise":
                raise ValueError("--odds sets one factor on the noise: leave out --epsilon, --knob and --per-device")
            met = calibrate_odds(wanted.network(), odds=odds, prior=0.5 if prior is None else prior, **adversary)
        report = guarantee(met, **adversary)
    if out is not None:
        network_file.write(met, out)
    d = met.devices
    columns: Any = {"noise_std": d.noise_std, "weight": d.weight, "clip_norm": d.clip_norm, "target": d.epsilon}
    show(report, json=json, plot=plot, **columns)
    if not json:
        say_written({"Network file": out})
