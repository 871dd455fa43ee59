"""`airpool calibrate`: the network that meets a target ε, or target odds."""

from dataclasses import replace
from typing import Annotated, Any

import typer

from airpool.cli import options as o
from airpool.cli.epsilon import event_of, quick, show
from airpool.cli.output import progress, say_written
from airpool.network import Claim

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
    adjust: Annotated[str, typer.Option(help="What to change: noise, weight, clip, slots or inferences.")] = "noise",
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
    from airpool.account.calibration import calibrate as calibrated
    from airpool.account.guarantee import guarantee
    from airpool.network import file as network_file
    from airpool.protocol.traffic import require_limits

    turned: Any = adjust
    event = event_of(per_event, stay, every)
    if event is not None:
        wanted.refuse(("inferences",), "--per-event says how many inferences share the ε")
    net = wanted.network()
    if net.channel.rules.majority:  # a secure sum of another size would be calibrated in vain
        count = net.devices.count
        require_limits(count, count - net.dropouts, net.colluders, net.slots.count)
    claim = wanted.claim(live=live, credit_channel_noise=credit_channel_noise, per_event=event)
    if claim.per_event is not None and adjust == "inferences":
        raise ValueError("--adjust inferences finds how many inferences share the ε: leave out --per-event and --stay")
    if prior is not None and odds is None:
        raise ValueError("--prior needs --odds")
    if odds is not None and (epsilon is not None or per_device or adjust != "noise"):
        raise ValueError("--odds sets one factor on the noise: leave out --epsilon, --adjust and --per-device")
    guess = 0.5 if prior is None else prior
    with progress("calibrating"):
        met = calibrated(net, claim, epsilon=epsilon, odds=odds, prior=guess, adjust=turned, per_device=per_device)
        if isinstance(met, Claim):
            aimed = net.devices.epsilon if epsilon is None else epsilon
            net, claim = replace(net, devices=replace(net.devices, epsilon=aimed)), met
        else:
            net = met
        report = guarantee(net, claim)
    if out is not None:
        network_file.write(net, out, claim)
    d = net.devices
    columns = {"noise_std": d.noise_std, "weight": d.weight, "clip_norm": d.clip_norm, "target": d.epsilon}
    show(report, columns, json=json, plot=plot)
    if not json:
        say_written({"Network file": out})
