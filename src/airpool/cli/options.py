"""Flags that several commands share, and the network that they describe."""

import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping
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


def seed(text: str) -> Any:
    """A --seed, or several, that every generator here can take."""
    return typer.Option("--seed", help=text, callback=_checked_seed)


def _checked_seed(given: Any) -> Any:
    for number in given if isinstance(given, list) else [given]:
        if number is not None and not 0 <= number <= 2**40:
            raise ValueError(f"--seed {number} must be ≥ 0 and at most {2**40}")
    return given


def _option(flag: str, text: str) -> Any:
    return typer.Option(flag, help=f"{text}; or one each: 1,2,3.", parser=per_device, metavar="NUMBER")


# The flags that describe a network, in the order of --help.
FLAGS: dict[str, Any] = {
    "network": Annotated[Path | None, typer.Option("--network", help="Network file (TOML); flags override it.")],
    "devices": Annotated[int | None, typer.Option("--devices", help="Number of devices K.")],
    "weight": Annotated[Any, _option("--weight", "Weight w (default 1/K)")],
    "clip_norm": Annotated[Any, _option("--clip-norm", "Clip norm C")],
    "noise_std": Annotated[Any, _option("--noise-std", "Standard deviation σ of the noise, per coordinate")],
    "participation": Annotated[Any, _option("--participation", "Probability p of taking part")],
    "power_dbm": Annotated[Any, _option("--power-dbm", "Peak power P in dBm")],
    "dimension": Annotated[int | None, typer.Option(help="Length r of the latent.")],
    "delta": Annotated[float | None, typer.Option(help="δ of the promise.")],
    "neighbours": Annotated[str | None, typer.Option(help="zero-out, replace or remove.")],
    "cover_noise": Annotated[bool | None, typer.Option(help="Silent devices still send their noise.")],
    "colluders": Annotated[
        str | None, typer.Option(help="How many others collude, whichever they are; or which, as in '#3,#7'.")
    ],
    "dropouts": Annotated[int | None, typer.Option(help="How many others may drop out.")],
    "inferences": Annotated[int | None, typer.Option(help="Number of inferences that share the ε.")],
}
ChannelNoise = Annotated[bool, typer.Option("--credit-channel-noise", help="Count the receiver's noise too.")]
Tail = Annotated[str, typer.Option(help="Form of the paper's slack: quadratic, appendix, statement or bernstein.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Plot = Annotated[Path | None, typer.Option(help="Write a picture (PNG, SVG or PDF).")]


_DEVICE_FLAGS = ("weight", "clip_norm", "noise_std", "participation", "power_dbm")
_NETWORK_FLAGS = ("dimension", "delta", "neighbours", "cover_noise", "dropouts", "inferences")


def on_network(
    *, without: tuple[str, ...] = (), plain: Mapping[str, Any] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the flags that describe a network, and calls it with that network and the known colluders.

    The command takes `net` and `colluding` first, then its own options by keyword. Typer reads the signature made here.
    plain: what flags are where neither they nor a network file are given.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        names = [name for name in FLAGS if name not in without]
        own = list(inspect.signature(command).parameters.values())[2:]

        def run(**given: Any) -> None:
            flags = {name: given.pop(name, None) for name in FLAGS}
            if flags["network"] is None:
                flags |= {name: value for name, value in (plain or {}).items() if flags[name] is None}
            net, colluding = network_from(flags)
            command(net, colluding, **given)

        keyword = inspect.Parameter.KEYWORD_ONLY
        described = [inspect.Parameter(name, keyword, default=None, annotation=FLAGS[name]) for name in names]
        parameters = [*described, *own]
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


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


def check_dimension(net: Network, path: Path, needed: int, by: str) -> None:
    """That a network file fits the latents it is to send, whose dimension `by` needs."""
    if net.dimension != needed:
        raise ValueError(
            f"{path} has dimension {net.dimension}, {by} needs {needed}: calibrate with --dimension {needed}, "
            f"or write dimension = {needed}"
        )


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
