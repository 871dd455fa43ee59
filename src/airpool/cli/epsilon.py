"""`airpool epsilon`: what each device leaks."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airpool.cli import options as o
from airpool.cli.output import print_json, progress
from airpool.cli.start import quick

if TYPE_CHECKING:
    from airpool.account.guarantee import PrivacyReport

app = typer.Typer(add_completion=False)


@app.command()
@o.on_network
def epsilon(
    wanted: o.NetworkOptions,
    *,
    credit_channel_noise: o.CreditNoise = False,
    live: Annotated[bool, typer.Option("--live", help="Account for noise as devices sample it.")] = False,
    tail: Annotated[str, typer.Option(help="Paper's slack: quadratic, appendix, statement, bernstein.")] = "quadratic",
    json: o.Json = False,
    plot: o.Plot = None,
) -> None:
    """Print the exact ε of every device of a network, beside the paper's claim.

    --live counts the δ that the grid of sampled noise costs.
    """
    claim: Any = tail
    with progress("computing ε"):
        quick()
        from airpool.account.guarantee import guarantee

        net, colluding = wanted.network(), wanted.colluding
        report = guarantee(net, colluding=colluding, credit_channel_noise=credit_channel_noise, live=live, tail=claim)
    show(report, json=json, plot=plot)


def show(report: "PrivacyReport", *, json: bool, plot: Path | None, extra: dict[str, Any] | None = None) -> None:
    """A report as JSON or as a table, and its figure where one is wanted."""
    if plot is not None:
        report.plot(str(plot))
    if json:
        print_json({**report.to_json(), **(extra or {})})
        return
    from rich.console import Console

    from airpool.account.report import table

    Console().print(table(report))
    if plot is not None:
        typer.echo(f"Picture: {plot}")
