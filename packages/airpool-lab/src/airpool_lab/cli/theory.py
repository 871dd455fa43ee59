"""`airpool theory`: proven bounds on a network's accuracy, and the sources of its error."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from airpool.cli import options as o
from airpool.cli.output import print_json, print_table, progress

if TYPE_CHECKING:
    from airpool.evaluation.evaluate import Evaluation
    from airpool_lab.theory.prediction import Prediction

app = typer.Typer(add_completion=False)

_BOUNDS = {
    "ideal": "without noise, all received",
    "margin_paper": "median margin, the paper's lemma",
    "margin": "median margin, proven",
    "paper": "≥ Theorem 2 as printed",
    "chebyshev": "≥ Chebyshev, object by object",
    "ball": "≥ exact law, ball",
    "half_spaces": "≥ exact law, half-spaces",
    "ceiling": "≤ exact law",
}


@app.command()
@o.on_network
def theory(
    wanted: o.NetworkOptions,
    *,
    epsilon: Annotated[float | None, typer.Option(help="Scale the noise to this ε of the worst device.")] = None,
    codec: Annotated[str, typer.Option(help="vote, compact, q16 or vote-vgg11.")] = "vote",
    split: o.Split = "test",
    objects: Annotated[int | None, typer.Option(help="Use N evenly spaced objects.", metavar="N")] = None,
    trials: Annotated[int, typer.Option(help="Simulated transmissions of every object, for comparison.")] = 5,
    seed: o.Seed = 0,
    json: o.Json = False,
) -> None:
    """Bound the accuracy on the shipped latents of a codec, and split the error into its parts.

    Default: twelve devices of weight 1/12.
    """
    import numpy as np

    from airpool import calibrate, guarantee, load
    from airpool.account.report import number
    from airpool.evaluation.evaluate import evaluate
    from airpool.evaluation.mse import check_network
    from airpool.evaluation.objects import EncodedObjects
    from airpool.models.codecs.codec import matrices
    from airpool_lab.theory.prediction import linear_for, on_tensors, predict
    from airpool_lab.theory.server import LayeredServer

    o.at_least(0, trials=trials)
    o.at_least(1, objects=objects)
    which: Any = split
    with progress("loading"):
        model = load("modelnet40")
        held, chosen = model.held_out(which, codec=codec), model.codec(codec)
        # The linear server is never fitted to the objects that it is judged by.
        others = model.held_out("validation" if split == "test" else "test", codec=codec)
    dimension = held.latents.shape[2]
    net, claim = wanted.network(devices=12, dimension=dimension), wanted.claim()
    check_network(net)
    wanted.check_dimension(net, dimension, f"the codec {codec}")
    held, others = (each.fitted(net.devices.count) for each in (held, others))
    if epsilon is not None:
        net = calibrate(net, claim, epsilon=epsilon)
    rows = np.linspace(0, len(held) - 1, min(objects or len(held), len(held))).round().astype(int)
    latents, labels = held.latents[rows], held.labels[rows]
    examples = others.latents.double().numpy(), others.labels.numpy()
    with progress("proving"):
        known = latents.double().numpy(), labels.numpy()
        bounds = predict(net, *known, server=lambda level: LayeredServer(matrices(chosen, level)), examples=examples)
    runs: dict[str, Evaluation] = {}
    if trials:
        with progress("transmitting"):
            linear = on_tensors(linear_for(net, *examples, num_classes=len(model.classes)))
            for name, server in (("server", chosen.server), ("linear", linear)):
                runs[name] = evaluate(EncodedObjects(latents, labels, server), net, claim, trials=trials, seed=seed)
    worst = guarantee(net, claim).worst
    if json:
        measured = {
            name: {"accuracy": run.accuracy_mean, "accuracy_ci": list(run.accuracy_ci)}
            | {"mse": run.mse, "mse_error": run.mse_error}
            for name, run in runs.items()
        }
        about = {"epsilon": number(worst), "codec": codec, "split": split, "trials": trials, "seed": seed}
        print_json({**about, **bounds.to_json(), "measured": measured, "cameras": held.note})
    else:
        _print(bounds, runs, worst, claim.delta)
        if held.note is not None:
            typer.echo(held.note)


def _print(found: "Prediction", runs: "dict[str, Evaluation]", epsilon: float, delta: float) -> None:
    from airpool._support.rounding import full, shown

    typer.echo(f"ε = {shown(epsilon)} at δ = {full(delta)}, {found.objects} objects, no answer {found.no_answer:.2g}")
    parts = [(name.replace("_", " "), f"{value:z.5f}") for name, value in found.error.items()]
    if runs:
        run = runs["server"]
        parts.append(("measured", _measured(run.mse, None if run.mse_error is None else 1.96 * run.mse_error, 5)))
    print_table(("error E‖ẑ − Σwz‖²", "value"), parts)

    servers = {"server": found.server, "linear": found.linear}
    lines = [
        (text, *("–" if (value := getattr(each, name)) is None else f"{value:.4f}" for each in servers.values()))
        for name, text in _BOUNDS.items()
    ]
    if runs:
        means = [(run.accuracy_mean, run.accuracy_ci) for run in runs.values()]
        reach = [max(abs(end - mean) for end in ends) for mean, ends in means]
        lines.insert(-1, ("measured", *(_measured(mean, r, 4) for (mean, _), r in zip(means, reach, strict=True))))
    print_table(("accuracy", "codec's server", "linear server"), lines)
    if runs:
        typer.echo("±: half the 95 % interval, for the noise and for the choice of objects.")


def _measured(value: float, error: float | None, digits: int) -> str:
    """A measured value with its error bar, beside a bound."""
    from airpool._support.rounding import spread

    return f"{value:.{digits}f}" + ("" if error is None else f" ± {spread(error)}")
