"""`airpool epsilon`: what each device leaks."""

import sys
from collections.abc import Mapping
from importlib.util import LazyLoader, find_spec, module_from_spec
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airpool._support.version import __version__
from airpool.cli import options as o
from airpool.cli.output import print_json, progress, say_written
from airpool.network import Claim, Network

if TYPE_CHECKING:
    from airpool.account.exchange import Exchange
    from airpool.account.guarantee import PrivacyReport

app = typer.Typer(add_completion=False)

_ABSENT = "Also ε if 1 or 2 other devices collude or drop out (default: only where all devices are equal)."


@app.command()
@o.on_network
def epsilon(
    wanted: o.NetworkOptions,
    *,
    credit_channel_noise: o.CreditNoise = False,
    live: o.Live = False,
    absent: Annotated[bool | None, typer.Option(help=_ABSENT)] = None,
    mean_slots: Annotated[
        float | None, typer.Option(help="Also the ε that this mean number of slots would spend: a figure, no promise.")
    ] = None,
    budget_epsilon: Annotated[
        float | None, typer.Option(help="Also how many slots and inferences a total budget of this ε allows.")
    ] = None,
    odds: Annotated[bool, typer.Option("--odds", help="The odds of a guess at --prior, of every device.")] = False,
    prior: o.Prior = None,
    units: Annotated[
        bool, typer.Option("--units", help="Also μ (GDP), ρ (zCDP) and Rényi divergences, for other accountants.")
    ] = False,
    per_event: o.PerEvent = None,
    stay: o.Stay = None,
    every: o.Every = None,
    json: o.Json = False,
    plot: o.Plot = None,
) -> None:
    """Print the exact ε of every device of a network, beside the paper's claim.

    ε is exact and proven for one inference (or --inferences) under the assumptions that are printed below the table.
    With --slots it is the cap: that of all slots, however early the server stops. --live adds the δ that the grid of
    live noise costs. --absent takes longer for heterogeneous devices. --odds prints how often a guess at a secret is
    right at most, instead of ε. --per-event adds ε of everything about one stay before the cameras, of that many
    inferences in a row; --stay 5min --every 1s counts them.
    """
    with progress("computing ε"):
        quick()
        from airpool.account.guarantee import guarantee

        event = event_of(per_event, stay, every)
        net = wanted.network()
        claim = wanted.claim(live=live, credit_channel_noise=credit_channel_noise, per_event=event)
        if prior is not None and not odds:
            raise ValueError("--prior needs --odds")
        if odds:
            if units or any(each is not None for each in (mean_slots, budget_epsilon, plot, event)):
                others = "--mean-slots, --budget-epsilon, --units, --per-event and --plot"
                raise ValueError(f"--odds prints no ε: leave out {others}")
            _show_odds(net, claim, 0.5 if prior is None else prior, json=json)
            return
        report = guarantee(net, claim)
        over, lines = over_time(net, claim, mean_slots, budget_epsilon)
        if units:
            from airpool.account.exchange import exchange

            over["units"], line = in_units(exchange(net, claim))
            lines.append(line)
    show(report, over, absent=absent, json=json, plot=plot)
    if not json:
        for line in lines:
            typer.echo(line)


def event_of(per_event: int | None, stay: str | None, every: str | None) -> int | None:
    """The inferences of an event, from their number or from a length and a rate; None where no event is asked for."""
    from airpool.account.event import most_inferences

    if (stay is None) != (every is None):
        raise ValueError("--stay and --every go together: how long somebody stays, and how often cameras send")
    o.at_least(1, per_event=per_event)
    if stay is None or every is None:
        return per_event
    if per_event is not None:
        raise ValueError("--per-event and --stay both say how long an event is: give one of them")
    return most_inferences(stay, every)


def over_time(
    net: Network, claim: Claim, mean_slots: float | None, budget_epsilon: float | None
) -> tuple[dict[str, Any], list[str]]:
    """As data and as sentences: the ε that a mean number of slots would spend, and the slots that a budget allows."""
    from airpool._support.rounding import full, shown
    from airpool.account.lifetime import lifetime, mean_epsilon

    data: dict[str, Any] = {}
    lines: list[str] = []
    if mean_slots is not None:
        spent = mean_epsilon(net, claim, mean_slots)
        data["mean"] = {"slots": mean_slots, "epsilon": spent, "promised": False}
        each = f"{claim.inferences} inferences" if claim.inferences > 1 else "an inference"
        lines.append(
            f"Figure, no promise: {each} of {mean_slots:g} slots on average would spend ε = {shown(spent)}. "
            "Promised is the cap above."
        )
    if budget_epsilon is not None:
        if not 0 < budget_epsilon < inf:
            raise ValueError(f"--budget-epsilon {budget_epsilon:g} must be > 0 and finite")
        life = lifetime(net, claim, epsilon=budget_epsilon, mean_slots=mean_slots)
        data["budget"] = {
            "epsilon": budget_epsilon,
            "slots": life.slots,
            "inferences_at_least": life.at_least,
            "inferences_on_average": life.on_average,
        }
        lines.append(
            f"Promise: a budget of ε = {full(budget_epsilon)} is {life.slots:,} slots, fixed in advance, and at least "
            f"{life.at_least:,} inferences."
        )
        if life.on_average is not None:
            lines.append(f"Figure, no promise: {life.on_average:,.1f} inferences at {mean_slots:g} slots on average.")
    return data, lines


def in_units(spent: "Exchange") -> tuple[dict[str, Any], str]:
    """As data and as a sentence: the spending in the units of other accountants (docs/howto/neighbours.md)."""
    import numpy as np

    from airpool._support.rounding import numbers, up
    from airpool.account.exchange import ORDERS

    data = {"gdp": numbers(spent.gdp), "zcdp": numbers(spent.zcdp), "gaussian": spent.gaussian}
    data["missed"] = numbers(spent.missed)
    data["rdp"] = {"orders": list(ORDERS), "worst": numbers(np.max(spent.rdp(), axis=0))}
    mu, rho = (up(float(np.max(each))) for each in (spent.gdp, spent.zcdp))
    loose = "" if spent.gaussian else ", bounds by the least noise; --json has the Rényi curve, which is closer"
    missed = float(np.max(spent.missed))
    live = f" They do not count that live noise is another with probability {up(missed, 2)} at most." if missed else ""
    return data, f"For other accountants, worst device: μ = {mu} (GDP), ρ = {rho} (zCDP){loose}.{live}"


def _show_odds(net: Network, claim: Claim, prior: float, *, json: bool) -> None:
    """The odds of every device as JSON or as a table."""
    import numpy as np
    from rich.console import Console

    from airpool._support.rounding import shown_below
    from airpool.account.odds import odds, table
    from airpool.account.reconstruction import reconstruction

    found = odds(net, claim, prior=prior)
    close = reconstruction(net, claim) if net.scheme.independent else None
    if json:
        error = None if close is None else close.to_json()
        print_json(found.to_json() | {"reconstruction": error, "version": __version__})
        return
    Console().print(table(found))
    if close is not None:
        device, local = (shown_below(float(np.min(each)), 4) for each in (close.device, close.local))
        error = f"{device} at least from the sum, {local} from the device's own signal"
        Console().print(f"Error of the best estimate of a whole feature, as a share of its variance: {error}.")


def show(
    report: "PrivacyReport", extra: Mapping[str, Any], *, json: bool, plot: Path | None, absent: bool | None = None
) -> None:
    """A report as JSON or as a table, and its figure where one is wanted.

    extra: for its JSON. absent: with `epsilon_if_absent`; None: only where all devices are equal, in no time.
    """
    if absent is None:
        names = ("weight", "clip_norm", "noise_std", "participation", "power_dbm", "path_loss_db")
        absent = all(len(set(report.network.devices.column(name))) == 1 for name in names)
    if plot is not None:
        report.plot(str(plot))
    if json:
        with progress("writing the report"):
            data = report.to_json(absent=absent)
        print_json({**data, **extra})
        return
    from rich.console import Console

    from airpool.account.report import table

    with progress("writing the report"):
        text = table(report, absent=absent)
    Console().print(text)
    say_written({"Picture": plot})


def quick() -> None:
    """Defers `numpy.f2py` and `numpy.testing`, which SciPy imports but does not use.

    With them this command takes 1.1 to 1.2 times as long to start (`python -m benchmarks --only start`). A lazy module
    stands for each (the recipe of importlib's documentation) and loads itself on first use.
    """
    import numpy as np

    for name in () if "scipy" in sys.modules else ("f2py", "testing"):
        spec = find_spec(f"numpy.{name}")
        if spec is not None and spec.loader is not None and spec.name not in sys.modules:
            spec.loader = LazyLoader(spec.loader)
            module = sys.modules[spec.name] = module_from_spec(spec)
            spec.loader.exec_module(module)
            setattr(np, name, module)
