"""`airpool audit`: a distinguishing game on the real transmission path, for a lower bound on ε."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from airpool.cli import options as o
from airpool.cli import output

if TYPE_CHECKING:
    from airpool.arrays import Floats
    from airpool.audit.bound import AuditReport

app = typer.Typer(add_completion=False)


@app.command()
@o.on_network
def audit(
    wanted: o.NetworkOptions,
    *,
    model: Annotated[str | None, typer.Option(help="As many devices and numbers as this model sends.")] = None,
    device: Annotated[str | None, typer.Option(help="Device to attack: 3, or 0,3, or all (default: worst).")] = None,
    runs: Annotated[int, typer.Option(help="Runs with the feature, and as many without, for each device.")] = 100_000,
    confidence: Annotated[float, typer.Option(help="Joint confidence of all lower bounds.")] = 0.95,
    end: Annotated[
        str, typer.Option("--score-end", help="Schemes 2.1, 2.2: the score that goes with the feature, high or low.")
    ] = "high",
    seed: o.Seed = 0,
    json: o.Json = False,
    plot: o.Plot = None,
) -> None:
    """Bound ε from below by attacking the transmissions. A bound above the claim shows a fault; exit status 1."""
    from airpool.account.guarantee import guarantee
    from airpool.audit.adversary import audited
    from airpool.version import __version__

    if not 0 < confidence < 1:
        raise ValueError(f"--confidence {confidence:g} must be > 0 and < 1")
    wanted.refuse_named_colluders()
    net = wanted.network(**_shape(model))
    report = guarantee(net)
    # With antennas elsewhere the game is theirs.
    claimed = report.epsilon if report.epsilon_eavesdropper is None else report.epsilon_eavesdropper
    chosen = _devices(device, claimed)
    several = len(chosen) > 1
    about = f"{net.neighbours} neighbours, {runs} runs a side, seed {seed}"
    if several and not json:
        typer.echo(f"{len(chosen)} devices, {about}")
    how: Any = {"runs": runs, "seed": seed, "confidence": confidence, "score": end, "together": len(chosen)}
    how |= {"elsewhere": net.adversary.antennas > 0}
    games: dict[int, AuditReport] = {}
    for k in chosen:
        what = f"auditing device {k} ({len(games) + 1} of {len(chosen)})" if several else "auditing"
        with output.progress(what, total=2 * runs) as advance:
            games[k] = audited(net, k, claimed_epsilon=float(claimed[k]), on_batch=advance, **how)
        if several and not json:
            typer.echo(f"Device {k}: {games[k]}")
    refuted = [k for k, game in games.items() if game.violated]
    # The figure of several games is that of the claim that is closest to being refuted, or furthest beyond.
    drawn = max(games, key=lambda k: games[k].epsilon_lower - claimed[k])
    if plot is not None:
        from airpool.audit.tradeoff import plot as draw

        draw(games[drawn], plot)
    if json:
        extra: dict[str, Any] = {"neighbours": net.neighbours, "seed": seed, "version": __version__}
        records = [game.to_json() | {"device": k} for k, game in games.items()]
        whole = {"confidence": confidence, "violated": bool(refuted), "devices": records} if several else records[0]
        output.print_json(whole | extra)
    else:
        if several:
            outcome = f"claims of devices {', '.join(map(str, refuted))} VIOLATED" if refuted else "no claim refuted"
            typer.echo(f"{outcome}; all {len(chosen)} bounds hold together with {confidence:g} confidence (Bonferroni)")
        else:
            typer.echo(f"Device {drawn}, {about}\n{games[drawn]}")
        output.say_written({f"Picture of device {drawn}" if several else "Picture": plot})
    if refuted:
        raise typer.Exit(1)


def _shape(model: str | None) -> dict[str, int]:
    """Devices and dimension of a model."""
    if model is None:
        return {}
    from airpool.models.pretrained import load

    return load(model).wanted()


def _devices(text: str | None, claimed: "Floats") -> list[int]:
    """The devices to attack, each once."""
    if text is None:
        return [int(claimed.argmax())]
    if text == "all":
        return list(range(len(claimed)))
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--device {text!r} must be a number, numbers such as 0,3, or all") from None
    for k in found:
        if not 0 <= k < len(claimed):
            raise ValueError(f"--device {k} must be from 0 to {len(claimed) - 1}")
    return list(dict.fromkeys(found))
