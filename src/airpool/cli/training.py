"""Shared by the commands of `airpool train`: options, and the card that describes a result."""

import sys
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airpool.cli import options as o
from airpool.cli.output import folder_to_write, print_json, print_table, progress

if TYPE_CHECKING:
    from airpool.evaluation.training.work import Made, TrainingJob

DATA = typer.Argument(help="Packed file of meshes, as `airpool data prepare` writes it.")
Data = Annotated[Path, DATA]
TRUNK = typer.Option("--trunk", help="File of a trunk's weights; repeat it for several parts.")
TrunkFiles = Annotated[list[Path], TRUNK]
Seeds = Annotated[list[int] | None, o.seed("Seed; repeat it for several models (default 0).")]
NumSeeds = Annotated[int | None, typer.Option("--seeds", help="Number of models, with seeds 0, 1, …")]


@dataclass(frozen=True)
class JobOptions:
    """Options of a training job: folder of the results, hardware, and the objects it may use."""

    out: Annotated[Path, typer.Option(help="Folder for the weights and their card.", callback=folder_to_write)]
    objects: Annotated[int | None, typer.Option(help="Use at most N objects of each split.", metavar="N")] = None
    test: Annotated[bool, typer.Option("--test/--no-test", help="Read the test set, after training.")] = False
    torch_device: Annotated[str | None, typer.Option(help="cpu or cuda; default: cuda where there is one.")] = None
    json: o.Json = False

    def on(self, data: Path) -> "TrainingJob":
        """The job on this file."""
        from airpool.evaluation.training.work import TrainingJob

        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "json"}
        return TrainingJob(data, progress=progress, log=log, **own)


@dataclass(frozen=True)
class RecipeOptions:
    """The name of the files, and fields of the recipe: of a file, over them --set, over all --epochs."""

    name: Annotated[str | None, typer.Option(help="Name of the files (default: the command's).")] = None
    epochs: Annotated[int | None, typer.Option(help="Passes over the training objects.")] = None
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any field of the recipe; repeat it.")
    ] = None
    file: Annotated[Path | None, typer.Option("--recipe", help="TOML file of such fields; --set overrides it.")] = None

    def values(self, **options: Any) -> dict[str, Any]:
        """Given values by field; `options` that are not None override them."""
        values: dict[str, Any] = {}
        if self.file is not None:
            try:
                values |= tomllib.loads(self.file.read_text("utf-8"))
            except ValueError as error:  # of TOML or of UTF-8
                raise ValueError(f"{self.file}: {error}") from None
        values |= dict(map(assignment, self.settings or ()))
        return values | {name: value for name, value in {**options, "epochs": self.epochs}.items() if value is not None}


on_job, on_recipe = o.grouped(JobOptions), o.grouped(RecipeOptions)


def assignment(text: str) -> tuple[str, Any]:
    """Name and value of NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set {text!r} must be NAME=VALUE")
    return name.strip(), o.value(value.strip())


def numbers(seed: list[int] | None, seeds: int | None) -> list[int]:
    """The seeds of --seed and --seeds."""
    if seed and seeds is not None:
        raise ValueError("give --seed or --seeds, not both")
    o.at_least(1, seeds=seeds)
    return list(range(seeds)) if seeds is not None else sorted(set(seed or [0]))


@contextmanager
def warnings_shown() -> Iterator[None]:
    """Prints warnings on stderr, a line each."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: typer.echo(f"warning: {message}", err=True)
        yield


def log(line: str) -> None:
    """Prints a line for each epoch, unless there is a bar on a terminal."""
    if not sys.stderr.isatty():
        typer.echo(line, err=True)


def show(made: "Mapping[str, Made]", *, json: bool) -> None:
    """Cards as JSON, or what they say about accuracy; a single one stands alone."""
    records = {part: {"files": [str(file) for file in files], **card} for part, (card, files) in made.items()}
    if json:
        print_json(records if len(records) > 1 else next(iter(records.values())))
        return
    from airpool.models.card import summary

    for part, (card, files) in made.items():
        if len(made) > 1:
            typer.echo(f"\n{part}")
        _print(summary(card))
        for file in files:
            typer.echo(file)


def _print(markdown: str) -> None:
    """A card's page on the terminal: its tables as all others are printed, its text as it stands."""
    for is_table, lines in groupby(markdown.splitlines(), key=lambda line: line.startswith("|")):
        if is_table:
            header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
            print_table(header, rows)
        else:
            typer.echo("\n".join(line.lstrip("# ") for line in lines))
