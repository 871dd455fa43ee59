"""`airpool design weights|clipping`: weights, or clip norms and noise, for devices with heterogeneous targets."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from airpool.cli import options as o
from airpool.cli.output import print_json, print_table, progress, say_written

if TYPE_CHECKING:
    from airpool.evaluation.design.qp import Normalise

app = typer.Typer(help="Weights or clip norms for heterogeneous targets.", no_args_is_help=True, add_completion=False)


@dataclass(frozen=True)
class Job:
    """Options of both designs."""

    epsilon: o.Target = None
    live: o.MetLive = False
    latents: Annotated[Path | None, typer.Option(help="Calibration latents (default: the model's).")] = None
    model: o.Model = "modelnet40"
    codec: Annotated[str | None, typer.Option(help="One of the model's (default: its first).")] = None
    out: o.OutNetwork = None
    json: o.Json = False


@app.command()
@o.on_network
@o.grouped(Job)
def weights(
    wanted: o.NetworkOptions,
    job: Job,
    *,
    normalise: Annotated[str, typer.Option(help="sum: they add up to 1; free: only ratios matter.")] = "sum",
) -> None:
    """Find the weights of least error at this noise, each within what its device's target allows."""
    _design(wanted, job, "weight", cast("Normalise", normalise))


@app.command()
@o.on_network
@o.grouped(Job)
def clipping(wanted: o.NetworkOptions, job: Job) -> None:
    """Find clip norms, each as large as its device's target allows, at the common noise of least error."""
    _design(wanted, job, "clip")


def _design(
    wanted: o.NetworkOptions, job: Job, knob: Literal["weight", "clip"], normalise: "Normalise | None" = None
) -> None:
    """Designs, writes and prints. The network takes the latents' dimension, which only removal depends on."""
    from airpool._support.rounding import full
    from airpool._support.table import runs_of
    from airpool.account.guarantee import device_epsilon
    from airpool.account.report import number, shown
    from airpool.evaluation.design import design
    from airpool.models.latents import read
    from airpool.models.pretrained import load
    from airpool.network import file as network_file

    with progress("designing"):
        model = load(job.model)
        before, claim = wanted.network(devices=model.num_devices), wanted.claim(live=job.live)
        if job.latents is None:
            held = model.held_out("validation", codec=job.codec).fitted(before.devices.count)
            latents, cameras = held.latents, held.note
        else:
            latents, cameras = read(job.latents).latents, None
        _, count, dimension = latents.shape
        if count != before.devices.count:
            raise ValueError(f"the calibration latents are of {count} devices, the network has {before.devices.count}")
        before, objects = replace(before, dimension=dimension), latents.double().numpy()
        found = design(before, objects, claim, knob=knob, epsilon=job.epsilon, normalise=normalise)
        leaked = device_epsilon(before, claim.of_target)
    if job.out is not None:
        network_file.write(found.network, job.out, claim)
    d = found.network.devices
    columns: dict[str, Any] = {name: list(d.column(name)) for name in ("weight", "clip_norm", "noise_std")}
    if job.json:
        for name, values in (("epsilon", found.epsilon), ("epsilon_before", leaked)):
            columns[name] = [number(value) for value in values.tolist()]
        own = {"weight_max": found.upper.tolist(), "scale": found.scale, "kkt_residual": found.kkt_residual}
        about = {"target": list(d.column("epsilon")), "mse": found.mse, "mse_before": found.mse_before}
        about |= own | {"normalise": normalise} if knob == "weight" else {"noise_factor": found.noise_factor}
        print_json(columns | about | {"cameras": cameras, "delta": claim.delta, "neighbours": claim.neighbours})
        return
    cells = [[f"{value:.4g}" for value in column] for column in columns.values()]
    cells += [[*map(shown, found.epsilon)], [*map(full, d.column("epsilon"))], [*map(shown, leaked)]]
    header = ("device", "weight", "clip norm", "noise std", "ε", "target", "ε before")
    rows = [(label, *line) for label, line in runs_of(list(zip(*cells, strict=True)))]
    print_table(header, rows, title=f"Design: {claim.neighbours} neighbours, δ = {full(claim.delta)}")
    typer.echo(f"Mean square error on calibration objects: {found.mse_before:.4g} before, {found.mse:.4g} now.")
    if found.kkt_residual is not None:
        typer.echo(f"No weights within these limits are better by more than {found.kkt_residual:.1g}.")
    if cameras is not None:
        typer.echo(cameras)
    say_written({"Network file": job.out})
