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

from airpool._support.table import wrapped
from airpool.cli import values

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
        groups = {
            "Commands": {
                name: " ".join(inspect.cleandoc(each.help or "").split("\n\n")[0].split())
                for name, each in within.items()
            }
        }
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
    from airpool.evaluation.settings import KEYS, default_of

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
    value = default_of(name)
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _unbroken(text: str) -> str:
    """Short text with spaces that no line breaks at; `_listed` turns them back."""
    return text.replace(" ", "\u00a0") if len(text) <= _COLUMN else text


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


EXAMPLES: dict[str, tuple[str, ...]] = {
    "": (
        "demo",
        "epsilon --devices 12 --noise-std 0.05 --participation 0.9",
        "calibrate --epsilon 2 --devices 12 --dimension 40 --out net.toml",
        "evaluate --network net.toml --trials 2",
        "--show-completion",
    ),
    "demo": ("demo", "demo --object lamp_1 --epsilon 1 --out lamp"),
    "ui": ("ui", "ui --listen 127.0.0.1:0 --open", "ui --server 127.0.0.1:8080"),
    "epsilon": (
        "epsilon --devices 12 --noise-std 0.05 --participation 0.9",
        "epsilon --network net.toml --neighbours replace --inferences 1000 --colluders 2",
        "epsilon --devices 12 --noise-std 0.3 --stay 1min --every 2s",
        "epsilon --devices 12 --noise-std 0.3 --odds --prior 0.1",
        "epsilon --devices 12 --noise-std 0.3 --inferences 100 --units",
    ),
    "report": ("report net.toml --out statement.html --every 10s --hours 8", "report net.toml --per-day 200"),
    "calibrate": (
        "calibrate --epsilon 2 --devices 12 --dimension 40 --out net.toml",
        "calibrate --network net.toml --epsilon 20 --adjust inferences",
        "calibrate --devices 12 --odds 0.75",
    ),
    "audit": (
        "audit --network net.toml --runs 10000",
        "audit --devices 3 --noise-std 0.1 --device all --runs 10000 --plot audit.png",
    ),
    "attack": (
        "attack antipodal --devices 12 --noise-std 0.05 --position sum",
        "attack attribute --position link --epsilon 1 --option secret=side",
    ),
    "evaluate": (
        "evaluate --epsilon 2 --trials 2",
        "evaluate --network net.toml --codec compact --out accuracy.csv",
        "evaluate --latents own.safetensors --epsilon 2",
    ),
    "plan": (
        "plan --epsilon 2 --out plan.toml --plot frontier.png",
        "plan --accuracy 0.9 --devices 12 --fading rician --power-dbm 20",
        "plan --budget-epsilon 8 --accuracy 0.9 --slots 16",
    ),
    "theory": ("theory --epsilon 2 --objects 300 --trials 2", "theory --network net.toml --codec compact --json"),
    "design weights": (
        "design weights --epsilon 0.5,2,0.5,2,0.5,2,0.5,2,0.5,2,0.5,2 --out weights.toml",
        "design weights --network net.toml --normalise free",
    ),
    "design clipping": (
        "design clipping --epsilon 0.5,2,0.5,2,0.5,2,0.5,2,0.5,2,0.5,2 --out clipping.toml",
        "design clipping --network net.toml --json",
    ),
    "sweep": (
        "sweep epsilon --set devices=4,12,40 --set noise_std=0.02,0.05,0.1 --out table.csv",
        "sweep evaluate --set epsilon=1,2,10 --set fading=none,rician --set trials=2",
    ),
    "fit": (
        "fit --images photos --out shop.safetensors",
        "fit --videos clips --labels labels.csv --every 2 --out shop.safetensors --folds 5",
    ),
    "data prepare": (
        "data prepare ModelNet40.zip --out meshes.npz",
        "data prepare meshes/ --out meshes.npz.xz --workers 4 --strict",
    ),
    "data info": ("data info meshes.npz", "data info meshes.npz --json"),
    "train trunk": (
        "train trunk meshes.npz --out trained --kind lite2 --seeds 3",
        "train trunk meshes.npz --out trained --epochs 10 --objects 500",
    ),
    "train head": ("train head meshes.npz --trunk trained/trunk-0.safetensors --out trained",),
    "train vote": (
        "train vote meshes.npz --trunk trained/trunk-0.safetensors --head trained/head.safetensors --out trained",
    ),
    "train codec": (
        "train codec meshes.npz --trunk trained/trunk-0.safetensors --out trained --epsilon 1 --epsilon 4",
        "train codec --features own.npz --out trained --name own",
    ),
    "train all": ("train all meshes.npz --out trained", "train all meshes.npz --out trained --set trunk.epochs=30"),
    "bundle": ("bundle --out cameras.zip", "bundle --out cameras.zip --codec compact"),
    "up": (
        "up --devices 12 --inferences 100",
        "up --network net.toml --http 127.0.0.1:8080",
        "up --devices 12 --ui",
        "up --devices 3 --inferences 10 --keys keys --ledger ledgers --budget-epsilon 20",
    ),
    "device": (
        "device --network net.toml --air 127.0.0.1:7000 --device 0",
        "device --config device.toml --ledger device-0.db --budget-epsilon 20",
    ),
    "air": ("air --network net.toml --listen 127.0.0.1:7000", "air --config air.toml"),
    "server": (
        "server --network net.toml --air 127.0.0.1:7000 --http 127.0.0.1:8080",
        "server --config server.toml",
    ),
    "ranking": ("ranking --network net.toml --listen 127.0.0.1:7001", "ranking --config ranking.toml"),
    "check": ("check device.toml",),
    "fleet": (
        "fleet --air 127.0.0.1:7000",
        "fleet --air 127.0.0.1:7000 --keys keys --view sqlite:///fleet.db --budget-epsilon 20",
    ),
    "radio transmit": ("radio transmit --network net.toml --latent z0.npy --device 0 --out device-0",),
    "radio receive": ("radio receive --network net.toml --recordings device-0,device-1 --out sum.npy",),
    "radio evaluate": ("radio evaluate", "radio evaluate --taps 3 --direct 0.8 --timing 1 --pilot-noise-std 0.02"),
    "keys init": ("keys init", "keys init --keys keys --days 90"),
    "keys device": ("keys device device-0 device-1 device-2", "keys device dashboard --keys keys"),
    "keys rotate": ("keys rotate device-3",),
    "keys revoke": ("keys revoke device-3",),
    "keys reissue": ("keys reissue device-3 --days 90",),
    "keys show": ("keys show --keys keys",),
    "ledger show": ("ledger show ledgers/device-0.db", "ledger show ledgers/device-0.db --neighbours replace --json"),
    "ledger verify": (
        "ledger verify ledgers/device-0.db --key keys/device-0/identity.key",
        "ledger verify ledgers/device-0.db --head identity.head",
    ),
    "ledger export": ("ledger export ledgers/device-0.db --out device-0.jsonl",),
    "ledger backup": ("ledger backup ledgers/device-0.db --out device-0-copy.db",),
    "ledger rebuild": ("ledger rebuild device-0.jsonl --out device-0.db",),
    "ledger fleet": (
        "ledger fleet sqlite:///fleet.db --take device-0.jsonl --take device-1.jsonl",
        "ledger fleet sqlite:///fleet.db --of device-0 --out device-0.jsonl",
    ),
    "reproduce": ("reproduce table-2", "reproduce all --out report"),
}
