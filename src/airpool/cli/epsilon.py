"""`airpool epsilon`: what each device leaks."""

from typing import Annotated, Any

import typer

from airpool.cli import options as o
from airpool.network import Network


@o.on_network()
def epsilon(
    net: Network,
    colluding: tuple[int, ...],
    *,
    credit_channel_noise: o.ChannelNoise = False,
    live: Annotated[
        bool, typer.Option("--live", help="Account for noise that is really drawn, with the δ that its grid costs.")
    ] = False,
    tail: o.Tail = "quadratic",
    json: o.Json = False,
    plot: o.Plot = None,
) -> None:
    """The exact ε of every device of a network, next to the paper's claim."""
    from airpool.account.guarantee import guarantee

    claim: Any = tail
    with o.progress("computing ε"):
        report = guarantee(net, colluding=colluding, credit_channel_noise=credit_channel_noise, live=live, tail=claim)
    show(report, json=json, plot=plot)


def show(report: Any, *, json: bool, plot: Any, extra: dict[str, Any] | None = None) -> None:
    """A report on the terminal, and its picture where one was asked for."""
    if plot is not None:
        report.plot(plot)
    if json:
        o.print_json({**report.to_json(), **(extra or {})})
        return
    from rich.console import Console

    from airpool.account.report import table

    console = Console()
    console.print(table(report))
    if plot is not None:
        console.print(f"Picture: {plot}")
