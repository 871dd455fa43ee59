"""`airpool audit`: does the code keep the promise? A distinguishing game on the real transmission path."""

import math
from typing import Annotated, Any

import typer

from airpool.network import Network

from . import options as o


@o.on_network(without=("colluders", "dropouts", "inferences"))
def audit(
    net: Network,
    _: tuple[int, ...],
    *,
    device: Annotated[int | None, typer.Option(help="Device to attack; the one with the largest ε by default.")] = None,
    runs: Annotated[int, typer.Option(help="Runs with the feature, and as many without it.")] = 100_000,
    confidence: Annotated[float, typer.Option(help="Confidence of the lower bound.")] = 0.95,
    score: Annotated[
        str, typer.Option(help="Schemes 2.1, 2.2: which end of the scores goes with the feature, high or low.")
    ] = "high",
    seed: Annotated[int, o.seed("Seed of the simulation.")] = 0,
    json: o.Json = False,
    plot: o.Plot = None,
) -> None:
    """An empirical lower bound on ε from the transmissions themselves; above the claim, something is broken."""
    import numpy as np

    from airpool.adversary import likelihood_ratio, mechanism, worst_worlds
    from airpool.guarantees import guarantee
    from airpool.privacy.audit import audit as play
    from airpool.version import __version__

    if net.neighbours == "remove":
        raise ValueError("neighbours='remove' is always seen where participation is visible; audit zero-out or replace")
    transmission = mechanism(net)
    promise = guarantee(net)
    k = int(np.argmax(promise.epsilon)) if device is None else device
    if not 0 <= k < net.devices.count:
        raise ValueError(f"--device {k} must be from 0 to {net.devices.count - 1}")
    end: Any = score
    with_feature, without_it = worst_worlds(net, k, score=end)
    with o.progress("auditing", total=2 * runs) as advance:
        game = play(
            transmission,
            with_feature,
            without_it,
            runs=runs,
            rng=np.random.default_rng(seed),
            delta=net.delta,
            confidence=confidence,
            score=likelihood_ratio(net, with_feature, without_it),
            claimed_epsilon=float(promise.epsilon[k]),
            on_batch=advance,
        )
    if plot is not None:
        from airpool.privacy.tradeoff import plot as draw

        draw(game, plot)
    if json:
        extra: dict[str, Any] = {"device": k, "neighbours": net.neighbours, "seed": seed, "version": __version__}
        o.print_json(game.to_json() | extra)
    else:
        typer.echo(f"Device {k}, {net.neighbours} neighbours, {runs} runs a side, seed {seed}")
        typer.echo(str(game))
        if plot is not None:
            typer.echo(f"Picture: {plot}")
    if game.violated and not math.isinf(promise.epsilon[k]):
        raise typer.Exit(1)
