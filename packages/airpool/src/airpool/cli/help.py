"""The text of --help: options in groups, each with its default, and examples at the end.

Plain text in the room there is, without frames, so that a pipe and a narrow terminal show the same words.
"""

import inspect
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import typer

from airpool._support.text_table import wrapped
from airpool.cli import values
from airpool.cli.examples import EXAMPLES

OUTPUT, OPTIONS, ARGUMENTS = "Output", "Options", "Arguments"
_OUTPUT_OPTIONS = ("out", "json", "plot", "help")
_WIDEST, _NARROW, _COLUMN = 100, 60, 30
_VALUES = {int: "NUMBER", float: "NUMBER", str: "TEXT", Path: "PATH"}
# Commands that need --devices or --network. Elsewhere the model that they use gives both of `_OF_MODEL`.
_WITHOUT_MODEL = ("epsilon", "calibrate", "audit", "radio transmit", "radio receive")
_OF_MODEL = ("devices", "dimension")
# A command and its option → the default, where it is not the network's.
_DECIDED = ("weight", "clip_norm", "noise_std", "participation", "dimension", "cover_noise")
_OWN = {
    **{f"plan {name}": "the plan decides" for name in _DECIDED},
    **{f"train {each} noise_std": "of each ε; not to be given" for each in ("codec", "all")},
    **{f"train {each} devices": "12" for each in ("codec", "all")},
    **{f"train {each} dimension": "40" for each in ("codec", "all")},
    "up noise_std": "the noise of ε = 2",
    "up devices": "12",
    "up inferences": "until Ctrl-C",
}
# A command and its option → its description, where it does not mean what it means for a network.
_MEANS = {"up inferences": "Inferences to run; ε stays that of one."}


def dressed(command: Any, path: str) -> Any:
    """A command and those within it, with this help and completion of values. path: its words after `airpool`."""
    command.format_help = partial(write, command, path, None)
    for param in command.params:
        if (known := values.known(path, param.name)) is not None:
            param._custom_shell_complete = partial(values.complete, known)
        if param.param_type_name == "argument":
            param.get_usage_pieces = partial(_in_usage, param)
    for name, each in getattr(command, "commands", {}).items():
        dressed(each, f"{path} {name}")
    return command


def write(command: Any, path: str, groups: Mapping[str, Mapping[str, str]] | None, ctx: Any, formatter: Any) -> None:
    """Writes the help of a command. groups: of the commands within it, with a line for each."""
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    if groups is None and (within := getattr(command, "commands", {})):
        groups = {"Commands": {name: _first(each.help) for name, each in within.items()}}
    lines = command.get_usage(ctx).splitlines()
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        lines += ["", *wrapped(" ".join(paragraph.split()), width)]
    for title, rows in {**options_by_group(command, path, ctx), **(groups or {})}.items():
        lines += ["", typer.style("\n".join(wrapped(title, width)), bold=True), *_listed(dict(rows).items(), width)]
    if path in EXAMPLES:
        lines += ["", typer.style("Examples", bold=True)]
        lines += [line for example in EXAMPLES[path] for line in _continued(f"airpool {example}", width)]
    formatter.write("\n".join(lines) + "\n")


def options_by_group(command: Any, path: str, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """Title → name and description of each option: arguments and own options first, what is written last."""
    found: dict[str, list[tuple[str, str]]] = {ARGUMENTS: [], OPTIONS: []}
    for param in command.get_params(ctx):
        if not getattr(param, "hidden", False):
            found.setdefault(group_of(param), []).append((_name(param), _description(param, path)))
    output = found.pop(OUTPUT)
    found[OUTPUT if len(output) > 1 else OPTIONS] = output if len(output) > 1 else found[OPTIONS] + output
    return {title: rows for title, rows in found.items() if rows}


def group_of(param: Any) -> str:
    """The group that a parameter stands in."""
    if param.name in _OUTPUT_OPTIONS:
        return OUTPUT
    return getattr(param, "rich_help_panel", None) or (ARGUMENTS if param.param_type_name == "argument" else OPTIONS)


def _name(param: Any) -> str:
    if param.param_type_name == "argument":
        return (param.metavar or param.name.upper()) + " ..." * (param.nargs != 1)
    name = ", ".join(sorted(param.opts, key=len))
    if param.secondary_opts:
        name = f"--[no-]{param.opts[0].removeprefix('--')}"
    return name if param.is_flag else f"{name} {param.metavar or _kind(param)}"


def _in_usage(param: Any, ctx: Any) -> list[str]:
    """An argument as the line of usage has it: FILE, [FILE] where it may be left out."""
    return [_name(param) if param.required else f"[{_name(param)}]"]


def _kind(param: Any) -> str:
    kind = getattr(getattr(param, "type_descriptor", None), "annotation", None)
    kind = next(iter(getattr(kind, "__args__", ())), kind)  # of a list
    return _VALUES.get(kind, "VALUE")


def _description(param: Any, path: str) -> str:
    text, default = _MEANS.get(f"{path} {param.name}", param.help or "").strip(), _default(param, path)
    if param.required:
        return f"{text} [required]"
    return text if not default or "default" in text else f"{text} {_unbroken(f'[default: {default}]')}"


def _default(param: Any, path: str) -> str:
    """The default in words; "": there is none, or it goes without saying."""
    shown, default = getattr(param, "show_default", True), param.default
    if isinstance(shown, str):
        return shown
    if default is None:
        return _network_default(param.name, path) if getattr(param, "rich_help_panel", None) else ""
    if isinstance(default, bool):
        return ("on" if default else "off") if param.secondary_opts else ""
    return "" if not shown or default in ((), []) else str(default)


def _network_default(name: str, path: str) -> str:
    """The default of a network's option, as the network itself says it."""
    from airpool.evaluation.settings import KEYS
    from airpool.network import Devices, Network, Ranking, Threshold

    if name not in KEYS:
        return ""
    if own := _OWN.get(f"{path} {name}"):
        return own
    if name == "weight":
        return "1/K"
    if name in _OF_MODEL and path not in _WITHOUT_MODEL:
        return "the model's"
    if name == "devices":
        return "that of --network"
    network, (table, key) = Network(Devices(1)), KEYS[name]
    tables = (network.scheme, Threshold(), Ranking()) if table == "scheme" else (getattr(network, table, network),)
    value = next(getattr(each, key) for each in tables if hasattr(each, key))
    value = value[0] if isinstance(value, tuple) else value
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _unbroken(text: str) -> str:
    """Short text with spaces that no line breaks at; `_listed` turns them back."""
    return text.replace(" ", "\u00a0") if len(text) <= _COLUMN else text


def _first(text: str | None) -> str:
    return " ".join(inspect.cleandoc(text or "").split("\n\n")[0].split())


def _listed(rows: Iterable[tuple[str, str]], width: int) -> Iterator[str]:
    """Names with their descriptions beside them, or below where the terminal is narrow or the name long."""
    rows = list(rows)
    column = min(max(len(name) for name, _ in rows) + 4, _COLUMN) if width >= _NARROW else 6
    for name, text in rows:
        lines = [" " * column + line.replace("\u00a0", " ") for line in wrapped(text, width - column)] if text else []
        if len(name) + 4 <= column and lines:
            lines[0] = f"  {name}".ljust(column) + lines[0][column:]
        else:
            lines = [f"  {name}", *lines]
        at = lines[0].index(name)
        yield lines[0][:at] + typer.style(name, fg="cyan") + lines[0][at + len(name) :]
        yield from lines[1:]


def _continued(command: str, width: int) -> list[str]:
    """A command in lines that a shell takes as one; an option and its value stay together."""
    lines = wrapped(re.sub(r"(--\S+) (?!--)", "\\1\u00a0", command), width - 4, "    ")
    return [f"  {line} \\".replace("\u00a0", " ") for line in lines[:-1]] + [f"  {lines[-1]}".replace("\u00a0", " ")]
