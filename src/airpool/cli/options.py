"""Flags that several commands share, and the network that they describe."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from airpool import network_file
from airpool.network import Devices, Network


def per_device(text: str) -> Any:
    """A number for all devices, or a comma-separated list with one for each."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text!r} must be a number, or numbers separated by commas") from None
    return values[0] if len(values) == 1 else values


def _option(flag: str, text: str) -> Any:
    return typer.Option(flag, help=f"{text}; one number, or one per device with commas.", parser=per_device)


NetworkFile = Annotated[Path | None, typer.Option("--network", help="Network file (TOML); flags override it.")]
NumDevices = Annotated[int | None, typer.Option("--devices", help="Number of devices K.")]
Weight = Annotated[Any, _option("--weight", "Weight w (default 1/K)")]
ClipNorm = Annotated[Any, _option("--clip-norm", "Clip norm C")]
NoiseStd = Annotated[Any, _option("--noise-std", "Standard deviation σ of the noise, per coordinate")]
Participation = Annotated[Any, _option("--participation", "Probability p of taking part")]
PowerDbm = Annotated[Any, _option("--power-dbm", "Peak power P in dBm")]
Dimension = Annotated[int | None, typer.Option(help="Length r of the latent.")]
Delta = Annotated[float | None, typer.Option(help="δ of the promise.")]
Neighbours = Annotated[str | None, typer.Option(help="zero-out, replace or remove.")]
CoverNoise = Annotated[bool | None, typer.Option(help="Silent devices still send their noise.")]
Colluders = Annotated[
    str | None, typer.Option(help="How many others collude, whichever they are; or which, as in '#3,#7'.")
]
Dropouts = Annotated[int | None, typer.Option(help="How many others may drop out.")]
Inferences = Annotated[int | None, typer.Option(help="Number of inferences that share the ε.")]
ChannelNoise = Annotated[bool, typer.Option("--credit-channel-noise", help="Count the receiver's noise too.")]
Tail = Annotated[str, typer.Option(help="Form of the paper's slack: quadratic, appendix, statement or bernstein.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Plot = Annotated[Path | None, typer.Option(help="Write a picture (PNG, SVG or PDF).")]


_DEVICE_FLAGS = ("weight", "clip_norm", "noise_std", "participation", "power_dbm")
_NETWORK_FLAGS = ("dimension", "delta", "neighbours", "cover_noise", "dropouts", "inferences")


def network_from(flags: dict[str, Any]) -> tuple[Network, tuple[int, ...]]:
    """The network that a command's flags describe, on top of a file or alone, and the devices known to collude.

    `flags` are the command's own arguments by name; those that were not given are None.
    """
    number, colluding = colluders_from(flags["colluders"])
    columns = {name: flags[name] for name in _DEVICE_FLAGS if flags[name] is not None}
    fields = {name: flags[name] for name in _NETWORK_FLAGS if flags[name] is not None}
    if number is not None:
        fields["colluders"] = number
    path, count = flags["network"], flags["devices"]
    if path is None:
        lengths = {len(value) for value in columns.values() if isinstance(value, list)}
        if count is None and not lengths:
            raise ValueError("give --devices K or --network FILE")
        return Network(devices=Devices(count=lengths.pop() if count is None else count, **columns), **fields), colluding
    base = network_file.read(path)
    if count is not None and count != base.devices.count:
        raise ValueError(f"--devices {count} contradicts the {base.devices.count} devices of {path}")
    return replace(base, devices=replace(base.devices, **columns), **fields), colluding


def colluders_from(text: str | None) -> tuple[int | None, tuple[int, ...]]:
    """A number of unknown colluders, or the indices of known ones."""
    if text is None:
        return None, ()
    try:
        if text.lstrip().startswith("#"):
            return None, tuple(int(part.strip().removeprefix("#")) for part in text.split(","))
        return int(text), ()
    except ValueError:
        raise ValueError(f"--colluders {text!r} must be a number, or devices such as '#3,#7'") from None


def print_json(data: Any) -> None:
    typer.echo(json.dumps(data, ensure_ascii=False, allow_nan=False))


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A bar on the terminal (a moving line if the total is unknown); gives the function that moves it on."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    known = (BarColumn(), TimeRemainingColumn()) if total is not None else ()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), *known, TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda steps: bar.advance(task, steps)
