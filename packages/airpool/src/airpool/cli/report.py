"""`airpool report FILE`: what a network leaks, on one page, for non-experts."""

import re
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import typer

from airpool.cli import options as o
from airpool.cli.output import file_to_write, print_json, progress, say_written

app = typer.Typer(add_completion=False)

_SECONDS = {"s": 1, "min": 60, "h": 3600}


@app.command()
def report(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Network file (TOML).")],
    out: Annotated[
        Path | None, typer.Option(help="Write the page: .html, or .md or .txt for its text.", callback=file_to_write)
    ] = None,
    text: Annotated[bool, typer.Option("--text", help="Print the text (default where there is no --out).")] = False,
    every: Annotated[
        str | None, typer.Option(help="Time between two inferences, as 10s, 5min or 1h.", metavar="TIME")
    ] = None,
    per_day: Annotated[float | None, typer.Option(help="Inferences a day, instead of --every (default: 100).")] = None,
    hours: Annotated[float | None, typer.Option(help="Hours a day in use, for --every (default: 24).")] = None,
    live: o.Live = False,
    json: o.Json = False,
) -> None:
    """Write what a network leaks on one page, in plain words.

    What leaves each device and to whom; ε and odds for one inference, a day and a year at the stated rate; what is not
    protected; what an operator must do. The page is one file without scripts; a browser prints it.
    """
    from airpool.network import file as network_file

    if out is not None and out.suffix not in (".html", ".md", ".txt"):
        raise ValueError(f"--out {out} must end in .html, .md or .txt")
    count, rate = stated(every, per_day, hours)
    network, claim = network_file.read(file), network_file.read_claim(file)
    if out is not None and out.suffix == ".html":
        from airpool._support.extras import require

        require("a page", ("plots",))
    with progress("computing ε"):
        from airpool.account.guarantee import guarantee

        digest = sha256(file.read_bytes()).hexdigest()
        answer = guarantee(network, replace(claim, live=live or claim.live))
        found = answer.statement(per_day=count, rate=rate, source=file.name, digest=digest)
    if out is not None:
        from airpool._support import files

        files.write(out, found.html if out.suffix == ".html" else str(found))
    if json:
        print_json(found.to_json())
        return
    if text or out is None:
        typer.echo(str(found), nl=False)
    say_written({"Page": out})


def stated(every: str | None, per_day: float | None, hours: float | None) -> tuple[float, str]:
    """Inferences a day, and the rate in words.

    >>> stated("10s", None, 8)
    (2880.0, 'One inference every 10s, 8 hours a day.')
    """
    from airpool.account.statement import MOST_PER_DAY, in_words

    if every is None:
        if hours is not None:
            raise ValueError(f"--hours {hours:g} needs --every")
        count = 100.0 if per_day is None else per_day
        if not 0 < count <= MOST_PER_DAY:
            raise ValueError(f"--per-day {count:g} must be > 0 and at most {MOST_PER_DAY}")
        return count, in_words(count)
    if per_day is not None:
        raise ValueError("--every and --per-day state the same rate: leave one of them out")
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|min|h)", every.strip())
    if found is None or float(found[1]) <= 0:
        raise ValueError(f"--every {every!r} must be a time > 0, as 10s, 5min or 1h")
    day = 24.0 if hours is None else hours
    if not 0 < day <= 24:
        raise ValueError(f"--hours {day:g} must be > 0 and at most 24")
    count = day * 3600 / (float(found[1]) * _SECONDS[found[2]])
    if count > MOST_PER_DAY:
        raise ValueError(f"--every {every!r} is {count:g} inferences a day, at most {MOST_PER_DAY} are allowed")
    return count, f"One inference every {every.strip()}, {day:g} hours a day."
