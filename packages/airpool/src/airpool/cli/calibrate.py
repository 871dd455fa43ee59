"""`airpool calibrate`: the network that meets a target ε, or target odds."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airpool.cli import options as o
from airpool.cli.epsilon import event_of, quick, show
from airpool.cli.output import progress, say_written

if TYPE_CHECKING:
    from airpool.network import Network

app = typer.Typer(add_completion=False)


@app.command()
@o.on_network
def calibrate(
    wanted: o.NetworkOptions,
    *,
    epsilon: o.Target = None,
    odds: Annotated[
        float | None, typer.Option(help="Target odds instead of ε: the largest probability that a guess is right.")
    ] = None,
    prior: o.Prior = None,
    credit_channel_noise: o.CreditNoise = False,
    live: o.MetLive = False,
    knob: Annotated[str, typer.Option(help="What to change: noise, weight, clip or inferences.")] = "noise",
    per_device: Annotated[
        bool, typer.Option("--per-device", help="Share the noise out by what each device's own target needs.")
    ] = False,
    per_event: Annotated[int | None, typer.Option(help=f"The target is ε of an event: {o.EVENT}")] = None,
    stay: o.Stay = None,
    every: o.Every = None,
    out: o.OutNetwork = None,
    json: o.Json = False,
    plot: o.Plot = None,
) -> None:
    """Find the smallest noise (or the largest weight, clip norm or number of inferences) that meets ε.

    The ε that results is never above the target; with --odds, the odds of the worst device at --prior are not. With
    --per-event the target is that of everything about one stay, of that many inferences in a row. A network that is to
    run needs --live: noise of real devices that arrives unaligned has to be louder.
    """
    quick()
    from airpool.account.calibrated_odds import calibrate_odds
    from airpool.account.calibration import calibrate as calibrated
    from airpool.account.guarantee import guarantee
    from airpool.network import file as network_file

    turned: Any = knob
    adversary: Any = {"colluding": wanted.colluding, "credit_channel_noise": credit_channel_noise, "live": live}
    wanted, event = _over_event(wanted, event_of(per_event, stay, every), knob)
    with progress("calibrating"):
        if odds is None:
            if prior is not None:
                raise ValueError("--prior needs --odds")
            met = calibrated(
                _runnable(wanted.network()), epsilon=epsilon, knob=turned, per_device=per_device, **adversary
            )
        else:
            if epsilon is not None or per_device or knob != "noise":
                raise ValueError("--odds sets one factor on the noise: leave out --epsilon, --knob and --per-device")
            met = calibrate_odds(
                _runnable(wanted.network()), odds=odds, prior=0.5 if prior is None else prior, **adversary
            )
        report = guarantee(met, **adversary)
        report = replace(report, event=report.as_event) if event else report
    if out is not None:
        network_file.write(met, out)
    d = met.devices
    columns: Any = {"noise_std": d.noise_std, "weight": d.weight, "clip_norm": d.clip_norm, "target": d.epsilon}
    show(report, json=json, plot=plot, **columns)
    if not json:
        say_written({"Network file": out})


def _over_event(wanted: o.NetworkOptions, event: int | None, knob: str) -> tuple[o.NetworkOptions, bool]:
    """The options with the inferences of an event, whose ε they share; and whether there is one."""
    if event is None:
        return wanted, False
    wanted.refuse(("inferences",), "--per-event says how many inferences share the ε")
    if knob == "inferences":
        raise ValueError("--knob inferences finds how many inferences share the ε: leave out --per-event and --stay")
    return replace(wanted, given={**wanted.given, "inferences": event}), True


def _runnable(net: "Network") -> "Network":
    """The network, unless a secure sum has not as many devices, slots or colluders: it would be calibrated in vain."""
    if net.channel.rules.majority:
        from airpool.runtime.secure.group import terms_of

        terms_of(replace(net, devices=replace(net.devices, noise_std=0.0)))  # its noise is yet to be found
    return net
