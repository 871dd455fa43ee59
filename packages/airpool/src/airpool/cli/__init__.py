"""The command line: one module per command, loaded when the command is called. Each parses, calls and prints.

options      shared options: those of a network            output           JSON, tables, progress
help         text of --help, in groups, with examples
values       of options, for completion                    typed            errors in the words of the command line

Commands of the other packages are found by the entry points of the group airpool.commands.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import core

from airpool.cli.output import print_plainly

# Group in --help → command → its line there. A command is the Typer `app` of the module of its name.
GROUPS = {
    "Start": {
        "demo": "Run the main job on the shipped model and write a page about it.",
        "ui": "Serve the page: look, turn the knobs, attack, plan, watch.",
    },
    "Account": {
        "epsilon": "Print the exact ε of every device, beside the paper's claim.",
        "report": "Write what a network leaks on one page, in plain words.",
        "calibrate": "Find the least noise that meets a target ε.",
        "audit": "Attack the implementation for a lower bound on ε.",
        "attack": "Attack what is sent, beside the bound on the attack's success.",
    },
    "Simulate": {
        "evaluate": "Measure accuracy, energy and ε of a network.",
        "plan": "Find the most accurate network for an ε.",
        "theory": "Bound the accuracy of a network before it runs.",
        "design": "Choose weights or clip norms for heterogeneous targets.",
        "sweep": "Run a function over a grid of parameters.",
    },
    "Train": {
        "fit": "Fit a model to photographs of your own cameras.",
        "data": "Prepare objects and describe them.",
        "train": "Train a trunk, a local head or a codec.",
        "bundle": "Write what a device needs of a model into one file.",
    },
    "Run": {
        "up": "Run devices, air and server on this machine, all at once.",
        "device": "Run one device, or several in one process.",
        "air": "Run the medium, a stand-in for the radio.",
        "server": "Run the server, over gRPC and HTTP.",
        "ranking": "Run the ranking server of Scheme 2.2.",
        "check": "Check a role's file of options, without starting it.",
        "fleet": "Show who is up, what was spent, and until when it is certified.",
        "radio": "Write and read the samples of a real radio.",
    },
    "Keys and ledger": {
        "keys": "Make, renew and revoke the keys of devices and servers.",
        "ledger": "Show, check and copy what a device has spent.",
    },
    "Paper": {
        "reproduce": "Redraw the paper's figures and tables.",
    },
}
COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}
# Words that people try → what they may mean.
MEANT = {
    **dict.fromkeys(("run", "start"), "up"),
    **dict.fromkeys(("infer", "simulate", "accuracy"), "evaluate"),
    **dict.fromkeys(("privacy", "guarantee", "account", "odds"), "epsilon"),
    **dict.fromkeys(("paper", "figures"), "reproduce"),
    **dict.fromkeys(("web", "page", "gui"), "ui"),
    "help": "airpool -h",
    "version": "airpool --version",
}


# Package → its commands, entry points of the group airpool.commands. All others are the library's own.
PACKAGES = {
    "airpool-lab": "attack bundle data demo fit radio reproduce sweep theory train",
    "airpool-runtime": "air check device fleet keys ledger ranking server up",
    "airpool-web": "ui",
}
_PACKAGE_OF = {name: package for package, names in PACKAGES.items() for name in names.split()}

# Extras without which a command does nothing but print its help. What options ask for beyond them is found in the work.
EXTRAS = {
    **dict.fromkeys(("evaluate", "plan", "design clipping"), ("airpool[models]",)),
    "design weights": ("airpool[models]", "airpool[design]"),
    "fit": ("airpool[camera]",),
    "bundle": ("airpool[int8]", "airpool-lab[bundle]"),
}


def load_command(name: str) -> Any:
    """The Typer app of a command; None for an unknown one, and an ImportError for one whose package is missing."""
    if name in COMMANDS and name not in _PACKAGE_OF:
        return import_module(f"airpool.cli.{name}").app
    from importlib.metadata import entry_points

    for entry in entry_points(group="airpool.commands", name=name):  # of another package that is installed
        return entry.load()
    if name not in COMMANDS:
        return None
    from airpool._support.extras import install

    package = _PACKAGE_OF[name]
    raise ImportError(f"airpool {name} is a command of {package}: {install(package)}")


class Commands(core.TyperGroup):
    """The commands, each imported only when it is called."""

    listing = False

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = dict.fromkeys(COMMANDS)  # whose names are suggested for a mistyped one

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if self.listing:
            return core.TyperCommand(cmd_name, help=COMMANDS[cmd_name])
        if (loaded := load_command(cmd_name)) is None:
            return None
        from airpool.cli.help import dressed

        command = typer.main.get_command(loaded)
        command.name = cmd_name
        return dressed(command, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in MEANT:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {MEANT[args[0]]!r}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            if hasattr(error, "format_message"):  # of the command line's grammar
                from airpool.cli.typed import hinted

                hinted(error)
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from airpool.cli.help import write

        write(self, "", GROUPS, ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        self.listing = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self.listing = False


app = typer.Typer(
    cls=Commands,
    name="airpool",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from airpool._support.version import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
    ),
    plugin: Annotated[
        list[Path] | None, typer.Option(help="Load a plug-in: a Python file that registers, say, a codec; repeat it.")
    ] = None,
) -> None:
    """Private collaborative inference over the air, with an exact account of what it leaks."""
    for path in plugin or ():
        from airpool._support.plugins import load_file

        load_file(path)


_NUMBERS = {int: "a whole number", float: "a number"}


class _PlainValue:
    """Converts texts and numbers without pydantic, which Typer would load for it.

    With pydantic `airpool epsilon` takes 1.2 times as long to start (`python -m benchmarks --only start`).
    """

    def __init__(self, descriptor: Any, slow: Callable[[Any], Any]) -> None:
        self.descriptor, self.slow = descriptor, slow

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        parser = self.descriptor.parameter_info.parser
        convert = parser or self.descriptor.annotation
        if value is None:
            return None
        if not (param.multiple or param.nargs == -1):
            if isinstance(convert, type) and isinstance(value, convert):
                return value
            if isinstance(value, str) and (parser or convert in (int, float)):
                with suppress(ValueError):
                    return convert(value)
        try:
            return self.slow(self.descriptor).coerce(value, param=param, ctx=ctx)  # the rest
        except typer.BadParameter:
            if parser or convert not in _NUMBERS or not isinstance(value, str):
                raise
            raise typer.BadParameter(f"{value!r} must be {_NUMBERS[convert]}", ctx=ctx, param=param) from None


def plugins_first(words: list[str]) -> list[str]:
    """The command line with every --plugin FILE before the command, wherever it was typed.

    >>> plugins_first(["evaluate", "--plugin", "own.py", "--json"])
    ['--plugin', 'own.py', 'evaluate', '--json']
    """
    first: list[str] = []
    rest = list(words)
    while "--plugin" in rest[:-1]:
        at = rest.index("--plugin")
        first += rest[at : at + 2]
        del rest[at : at + 2]
    return first + rest


_INTERRUPTED = 130


def main() -> None:
    """Bad input ends with one line and exit status 2, without a traceback; a missing extra too; Ctrl-C with 130."""
    slow = getattr(core, "build_runtime_param", None)  # of recent versions of Typer
    if slow is not None and not isinstance(slow, partial):
        core.build_runtime_param = partial(_PlainValue, slow=slow)  # pyright: ignore
    words = plugins_first(sys.argv[1:])
    print_plainly()
    try:
        _require_extras(words)
        app(words)
    except BaseException as error:
        if _by_interrupt(error):
            print("interrupted", file=sys.stderr)
            sys.exit(_INTERRUPTED)
        if not isinstance(error, ImportError | ValueError | OSError):
            raise
        message = str(error)
        if isinstance(error, ImportError):
            from airpool._support.extras import advice

            message = advice(error, "this command")
            if message is None:
                raise
        elif isinstance(error, OSError) and error.filename and error.strerror:
            message = f"{error.filename}: {error.strerror}"
        elif isinstance(error, ValueError):
            from airpool.cli.typed import in_words_of

            message = in_words_of(words, message)
        print(f"error: {message}", file=sys.stderr)
        sys.exit(2)


def _require_extras(words: list[str]) -> None:
    """All that is missing is named at once, and before the work. Help needs nothing."""
    named = words[2 * words.count("--plugin") :]
    name = next((each for each in (" ".join(named[:2]), *named[:1]) if each in EXTRAS), "")
    if name and not {"--help", "-h"} & set(words):
        from airpool._support.extras import require

        require(f"airpool {name}", EXTRAS[name])


def _by_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error. A library that it reaches within an import or in C may raise its own."""
    while error is not None:
        left = isinstance(error, SystemExit) and error.code == _INTERRUPTED  # as Typer leaves
        if left or isinstance(error, KeyboardInterrupt) or "KeyboardInterrupt" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
