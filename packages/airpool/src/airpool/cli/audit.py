"""`airpool audit`: games on the real transmission path for lower bounds on ε, and measurements of what ε rests on."""

from typing import TYPE_CHECKING, Annotated, cast

import typer

from airpool.cli import options as o
from airpool.cli import output

if TYPE_CHECKING:
    from airpool.evaluation.audit.adversary import End

app = typer.Typer(add_completion=False)

_MODEL = "Take the number of devices and the dimension from this model."


@app.command()
@o.on_network
def audit(
    wanted: o.NetworkOptions,
    *,
    model: Annotated[str | None, typer.Option(help=_MODEL)] = None,
    device: Annotated[str | None, typer.Option(help="Device to attack: 3, or 0,3, or all (default: worst).")] = None,
    runs: Annotated[int, typer.Option(help="Runs with the feature, and as many without, for each device.")] = 100_000,
    confidence: Annotated[float, typer.Option(help="Joint confidence of all bounds and measurements.")] = 0.95,
    end: Annotated[
        str, typer.Option("--score-end", help="Schemes 2.1, 2.2: the score that goes with the feature, high or low.")
    ] = "high",
    seed: o.Seed = 0,
    json: o.Json = False,
    plot: o.Plot = None,
) -> None:
    """Attack the transmissions, and measure what ε rests on. What contradicts a claim shows a fault; exit status 1."""
    from airpool._support.version import __version__
    from airpool.evaluation.audit.whole import examined

    if not 0 < confidence < 1:
        raise ValueError(f"--confidence {confidence:g} must be > 0 and < 1")
    if end not in ("high", "low"):
        raise ValueError(f"--score-end {end!r} must be high or low")
    shape: dict[str, int] = {}
    if model is not None:
        from airpool.models.pretrained import load

        shape = load(model).wanted()
    net, claim = wanted.network(**shape), wanted.claim()
    chosen = _devices(device, net.devices.count)
    found = examined(
        net,
        claim,
        chosen,
        runs=runs,
        seed=seed,
        confidence=confidence,
        score=cast("End", end),
        progress=output.progress,
    )
    chosen = list(found.games)
    # The figure of several games is that of the claim that is closest to being refuted, or furthest beyond.
    drawn = max(chosen, key=lambda k: found.games[k].epsilon_lower - (found.games[k].claimed_epsilon or 0.0))
    if plot is not None:
        from airpool.evaluation.audit.bound import plot as draw

        draw(found.games[drawn], plot)
    if json:
        whole = found.to_json()
        if len(chosen) == 1:  # one game: its numbers at the top
            whole = whole.pop("devices")[0] | whole | {"confidence": found.games[drawn].confidence}
            whole |= {"confidence_together": confidence}
        output.print_json(whole | {"neighbours": claim.neighbours, "seed": seed, "version": __version__})
    else:
        typer.echo(f"{len(chosen)} device{'s' * (len(chosen) > 1)}, {claim.neighbours} neighbours, seed {seed}")
        for k in chosen:
            typer.echo(f"Device {k}: {found.games[k]}")
            typer.echo(f"Device {k}, own noise alone (local ε): {found.alone[k]}")
        for line in found.lines() + (found.cap.lines() if found.cap else []):
            typer.echo(line)
        refuted = [k for k in chosen if found.games[k].violated or found.alone[k].violated]
        typer.echo(
            f"claims of devices {', '.join(map(str, refuted))} VIOLATED" if refuted else "no game refutes a claim"
        )
        output.say_written({f"Picture of device {drawn}" if len(chosen) > 1 else "Picture": plot})
    if found.violated:
        raise typer.Exit(1)


def _devices(text: str | None, count: int) -> list[int] | None:
    """The devices to attack; None for the one with the largest ε."""
    if text is None:
        return None
    if text == "all":
        return list(range(count))
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--device {text!r} must be a number, numbers such as 0,3, or all") from None
    for k in found:
        if not 0 <= k < count:
            raise ValueError(f"--device {k} must be from 0 to {count - 1}")
    return found
