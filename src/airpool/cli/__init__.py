"""The command line: one small module per command. Each parses, calls the library and prints."""

import sys

import typer

from airpool.cli import (
    audit,
    calibrate,
    data,
    demo,
    design,
    epsilon,
    evaluate,
    plan,
    reproduce,
    sweep,
    theory,
    train,
    train_codec,
)

app = typer.Typer(
    name="airpool",
    help="Private collaborative inference over the air, and an exact account of what it leaks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.command("epsilon")(epsilon.epsilon)
app.command("calibrate")(calibrate.calibrate)
app.command("evaluate")(evaluate.evaluate)
app.command("plan")(plan.plan)
app.command("theory")(theory.theory)
app.command("audit")(audit.audit)
app.command("sweep")(sweep.sweep)
app.command("reproduce")(reproduce.reproduce)
app.add_typer(data.app, name="data")
app.add_typer(design.app, name="design")
train.app.command("codec")(train_codec.codec)
train.app.command("all")(train_codec.everything)
app.add_typer(train.app, name="train")


def _print_version(wanted: bool) -> None:
    if wanted:
        from airpool.version import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", help="Print the version and stop.", callback=_print_version, is_eager=True
    ),
) -> None:
    """Options of airpool itself, before any command."""


def _message(error: Exception) -> str:
    """What went wrong; of the operating system's errors, with which file."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def main() -> None:
    """Bad input ends with one line and exit status 2, never with a traceback."""
    try:
        app()
    except (ValueError, OSError) as error:
        print(f"error: {_message(error)}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
