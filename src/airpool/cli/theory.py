"""`airpool theory`: what is proven of a network's accuracy before it runs, and where its error comes from."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airpool.cli import options as o

if TYPE_CHECKING:
    from airpool.evaluate import Evaluation
    from airpool.prediction import Prediction


def theory(
    network: Annotated[Path | None, typer.Option(help="Network file (TOML); by default K = 12, w = 1/12.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Scale the noise to this ε of the worst device.")] = None,
    split: Annotated[str, typer.Option(help="Which of the shipped latents: test or validation.")] = "test",
    objects: Annotated[int | None, typer.Option(help="Look at so many objects only, evenly picked.")] = None,
    trials: Annotated[int, typer.Option(help="Simulated inferences of every object beside it; 0 for none.")] = 5,
    seed: Annotated[int, o.seed("Seed of the simulated noise.")] = 0,
    json: o.Json = False,
) -> None:
    """The error in its parts and proven bounds on the accuracy, on the shipped latents of the compact codec."""
    import numpy as np

    from airpool import calibrate, guarantee, load, network_file
    from airpool.account.report import number
    from airpool.network import Network
    from airpool.prediction import linear_for, on_tensors, predict
    from airpool.theory.mse import check_network
    from airpool.theory.server import Server

    if trials < 0:
        raise ValueError(f"--trials {trials} must be ≥ 0")
    if objects is not None and objects < 1:
        raise ValueError(f"--objects {objects} must be ≥ 1")
    which: Any = split
    with o.progress("loading"):
        model = load("modelnet40")
        held, codec = model.held_out(which), model.codec("compact")
        # The linear server is never made from the objects that it is judged by.
        others = model.held_out("validation" if split == "test" else "test")
    dimension = held.latents.shape[2]
    net = network_file.read(network) if network else Network.uniform(num_devices=12, dimension=dimension)
    check_network(net)
    if network:
        o.check_dimension(net, network, dimension, "the codec compact")
    held, others = (each.fitted(net.devices.count) for each in (held, others))
    if epsilon is not None:
        net = calibrate(net, epsilon=epsilon)
    rows = np.linspace(0, len(held) - 1, min(objects or len(held), len(held))).round().astype(int)
    latents, labels = held.latents.double().numpy()[rows], held.labels.numpy()[rows]
    examples = others.latents.double().numpy(), others.labels.numpy()
    with o.progress("proving"):
        found = predict(net, latents, labels, server=lambda level: Server(codec.matrices(level)), examples=examples)
    runs: dict[str, Evaluation] = {}
    if trials:
        with o.progress("sending"):
            linear = linear_for(net, *examples, num_classes=len(model.classes))
            runs["server"] = _run(net, held.latents[rows], held.labels[rows], codec.server, trials, seed)
            runs["linear"] = _run(net, held.latents[rows], held.labels[rows], on_tensors(linear), trials, seed)
    if json:
        measured = {
            name: {"accuracy": run.accuracy_mean, "accuracy_ci": list(run.accuracy_ci), "mse": run.mse}
            for name, run in runs.items()
        }
        about = {"epsilon": number(guarantee(net).worst), "split": split, "trials": trials, "seed": seed}
        o.print_json({**about, **found.to_json(), "measured": measured, "cameras": held.note})
    else:
        _print(found, runs, guarantee(net).worst, net.delta)
        if held.note is not None:
            typer.echo(held.note)


def _run(net: Any, latents: Any, labels: Any, server: Any, trials: int, seed: int) -> "Evaluation":
    from airpool.evaluate import evaluate

    return evaluate(net, latents, labels, server=server, trials=trials, seed=seed)


def _print(found: "Prediction", runs: "dict[str, Evaluation]", epsilon: float, delta: float) -> None:
    from rich.console import Console
    from rich.table import Table

    from airpool.account.report import shown

    console = Console()
    console.print(f"ε = {shown(epsilon)} at δ = {delta:g}, {found.objects} objects, no answer {found.no_answer:.2g}")
    parts = Table("error E‖ẑ − Σwz‖²", "", title=None)
    for name, value in found.error.items():
        parts.add_row(name.replace("_", " "), f"{value:.5f}")
    if runs:
        parts.add_row("measured", f"{runs['server'].mse:.5f}")
    console.print(parts)
    table = Table("accuracy", "codec's server", "linear server")
    both = (found.server, found.linear)

    def row(text: str, name: str) -> None:
        values = [getattr(each, name) for each in both if each is not None]
        table.add_row(text, *("–" if value is None else f"{value:.4f}" for value in values))

    row("without noise, all heard", "ideal")
    row("median margin, the paper's lemma", "margin_paper")
    row("median margin, proven", "margin")
    row("≥ Theorem 2 as printed", "paper")
    row("≥ Chebyshev, object by object", "chebyshev")
    row("≥ exact law, ball", "ball")
    row("≥ exact law, half-spaces", "half_spaces")
    if runs:
        table.add_row("measured", *(f"{runs[name].accuracy_mean:.4f}" for name in ("server", "linear")))
    row("≤ exact law", "ceiling")
    console.print(table)
