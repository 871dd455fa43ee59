"""`airpool ranking`: the ranking server of Scheme 2.2."""

import typer

from airpool.cli import running as r
from airpool.runtime.options import RankingOptions

app = typer.Typer(add_completion=False)


@app.command()
@r.role(RankingOptions)
def ranking(_: RankingOptions) -> None:
    """Run the ranking server: it receives noisy scores, and says who is selected."""
