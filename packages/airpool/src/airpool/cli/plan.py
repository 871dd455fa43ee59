"""`airpool plan`: the most accurate network for an ε, the smallest ε for an accuracy, the fewest devices, or the cap,
slots and threshold for a total budget."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airpool.cli import options as o
from airpool.cli.output import file_to_write, print_json, print_table, progress, say_written
from airpool.network import Claim, Network

if TYPE_CHECKING:
    from airpool.evaluation.plan import LifePlan, Plan

app = typer.Typer(add_completion=False)

_DECIDED = ("weight", "clip_norm", "noise_std", "participation", "dimension", "cover_noise")


@app.command()
@o.on_network
def plan(
    wanted: o.NetworkOptions,
    *,
    model: o.Model = "modelnet40",
    epsilon: o.Target = None,
    live: o.MetLive = False,
    accuracy: Annotated[float | None, typer.Option(help="Accuracy to reach with least ε or fewest devices.")] = None,
    budget_epsilon: Annotated[
        float | None,
        typer.Option(help="Total ε of a device's life: how to ask in slots. Needs --accuracy, --inferences or both."),
    ] = None,
    out: o.OutNetwork = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the frontier, accuracy against ε (PNG, SVG or PDF).", callback=file_to_write),
    ] = None,
    seed: o.Seed = 0,
    json: o.Json = False,
) -> None:
    """Find codec, participation, scheme, weights, noise and cover noise of the most accurate network for an ε.

    Default: as many devices as the model has sensors. --accuracy finds the smallest ε; with --epsilon too, the fewest
    devices.

    --budget-epsilon plans a device's life: the cap, number of slots and threshold with which the budget lasts for
    --inferences on average at the best accuracy, or longest at --accuracy. --epsilon is then the cap of one inference,
    --slots the most slots that it may take.

    Accuracy is predicted on validation objects, for classes that come as often as there. Options that the plan decides
    are refused. --scheme takes a plug-in's, which is tried beside airpool's own.
    """
    from airpool.evaluation.plan.search import FACTORS, draw, frontier
    from airpool.models.pretrained import load
    from airpool.network import file as network_file

    wanted.refuse(_DECIDED, "the plan decides it")
    wanted.refuse_named_colluders()
    with progress("loading"):
        known = load(model)
    net, claim = wanted.network(devices=known.num_devices), wanted.claim(live=live)
    if not net.scheme.sets_participation:
        wanted.refuse(("scheme",), "the plan decides it; a plug-in's is tried beside airpool's own")
    if budget_epsilon is not None:
        if plot is not None:
            raise ValueError("--plot draws the frontier of --epsilon, which a budget has not: leave it out")
        found = _life(wanted, net, claim, known, budget_epsilon, cap=epsilon, accuracy=accuracy, seed=seed)
        _finish_life(found, claim, model, out, json=json)
        return
    target: Any = net.devices.epsilon if epsilon is None and accuracy is None else epsilon
    if target is None and accuracy is None:
        raise ValueError("give --epsilon, or --accuracy for the smallest ε that reaches it")
    if isinstance(target, list | tuple) and len(target) != net.devices.count:
        raise ValueError(f"--epsilon has {len(target)} values for {net.devices.count} devices; give one or one each")
    found = _search(net, claim, known, target, accuracy=accuracy, seed=seed)
    chosen = found.best.network
    if out is not None:
        network_file.write(chosen, out, claim)
    curve = None
    if plot is not None or json:
        with progress("drawing the frontier", total=2 * len(FACTORS)) as advance:
            curve = frontier(found, model=known, on_point=lambda: advance(1))
        if plot is not None:
            draw(curve, found, plot)
    if json:
        print_json(
            {**found.record(), "network": network_file.dump(chosen, claim), "frontier": curve and curve.columns()}
        )
        return
    _print(found)
    say_written({"Network file": out, "Frontier": plot})
    _say_measure(model, out, found.best.candidate.codec)


def _say_measure(model: str, out: Path | None, codec: str) -> None:
    if out is not None:
        of = "" if model == "modelnet40" else f" --model {shlex.quote(model)}"
        file = shlex.quote(str(out))
        typer.echo(f"Measure it on the test objects: airpool evaluate{of} --network {file} --codec {codec}")


def _life(
    wanted: o.NetworkOptions,
    net: Network,
    claim: Claim,
    model: Any,
    budget: float,
    *,
    cap: Any,
    accuracy: float | None,
    seed: int,
) -> "LifePlan":
    """The plan of a device's life."""
    from airpool.evaluation.plan.lifetime import COUNTS, Wanted, life_plan, tried

    wanted.refuse(("sure", "slots_redrawn"), "the plan decides it")
    if isinstance(cap, list):
        raise ValueError("--budget-epsilon plans for equal devices: give one --epsilon, the cap of an inference")
    inferences = claim.inferences if claim.inferences > 1 or "inferences" in wanted.given else None
    slots = net.slots.count if net.slots.count > 1 else COUNTS[-1]
    goal = Wanted(budget, inferences=inferences, accuracy=accuracy, cap=cap, slots=slots)
    with progress("planning", total=tried(goal)) as advance:
        return life_plan(net, claim, model=model, wanted=goal, seed=seed, on_way=lambda: advance(1))


def _finish_life(found: "LifePlan", claim: Claim, model: str, out: Path | None, *, json: bool) -> None:
    from airpool.evaluation.plan.lifetime import life_in_words, ways
    from airpool.network import file as network_file

    best, one = found.best, replace(claim, inferences=1, per_event=None)
    if out is not None:
        network_file.write(best.network, out, one)
    if json:
        print_json({**found.record(), "network": network_file.dump(best.network, one)})
        return
    typer.echo("\n".join(life_in_words(found)))
    print_table(*ways(found))
    say_written({"Network file": out})
    _say_measure(model, out, best.option.candidate.codec)


def _search(net: Network, claim: Claim, model: Any, target: Any, *, accuracy: float | None, seed: int) -> "Plan":
    from airpool.evaluation.plan import fewest_devices, plan, smallest_epsilon
    from airpool.evaluation.plan.candidates import brought, candidates

    each = isinstance(target, list | tuple)
    if accuracy is None:
        covered = net.channel.rules.cover_noise
        tried = candidates(net.devices.count, model.deployable, heterogeneous=each, covered=covered)
        tried += brought(net, model.deployable)
        with progress("planning", total=len(tried)) as advance:
            return plan(net, claim, model=model, epsilon=target, seed=seed, on_candidate=lambda _: advance(1))
    if target is None:
        with progress("finding the smallest ε"):
            return smallest_epsilon(net, claim, model=model, accuracy=accuracy, seed=seed)[1]
    if each:
        raise ValueError("--accuracy with --epsilon finds the fewest devices: give one --epsilon for all")
    with progress("finding the fewest devices"):
        return fewest_devices(net, claim, model=model, epsilon=target, accuracy=accuracy, seed=seed)[1]


def _print(found: "Plan") -> None:
    from airpool.evaluation.plan.search import RUNNERS_UP, best_in_words, runners_up

    title, *lines = best_in_words(found)
    typer.secho(title, bold=True)
    typer.echo("\n".join(lines))
    print_table(RUNNERS_UP, runners_up(found))
    if found.cameras is not None:
        typer.echo(found.cameras)
