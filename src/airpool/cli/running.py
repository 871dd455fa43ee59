"""Commands of the roles: the fields of their options as flags, beside a file with the same names."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer

from airpool.cli import options as o

if TYPE_CHECKING:
    from airpool.runtime.options import RoleFlag, RoleOptions

SimulationSeed = Annotated[
    int | None, typer.Option("--simulate", help="Seed of a simulated run; its noise gives no privacy.", metavar="SEED")
]
SlotSeconds = Annotated[
    float | None, typer.Option(help="How long a slot waits for its signals (default: 5 s; secure sums: + K/4 s).")
]
FrameWindow = Annotated[
    float, typer.Option(help="Seconds by which a camera's frame may be before or after the announced moment; 0: any.")
]
_CONFIG = Annotated[
    Path | None, typer.Option(help="Options of this role in a file (TOML), by their names; a flag wins over it.")
]
_ATTACHED = Annotated[bool, typer.Option("--attached", help="Stop when stdin is closed.", hidden=True)]


def role(kind: "type[RoleOptions]") -> Callable[[Callable[[Any], None]], Callable[..., None]]:
    """Makes a command of a role's options: it merges file and flags, and runs the role."""

    def decorate(described: Callable[[Any], None]) -> Callable[..., None]:
        def command(config: Path | None, json: bool, attached: bool, **flags: Any) -> None:
            from airpool.runtime import starting

            given = {name: value for name, value in flags.items() if value not in (None, [])}
            starting.run(merged(kind, config, given), attached=attached, json=json)

        from airpool.runtime.options import flags_of

        known, hints = flags_of(kind), get_type_hints(kind)
        flags = [
            each
            for f in fields(kind)
            if not known[f.name].secret
            for each in _flags(f.name, known[f.name], hints[f.name], f.default)
        ]
        own = (("config", _CONFIG, None), *flags, ("json", o.Json, False), ("attached", _ATTACHED, False))
        command.__name__, command.__doc__ = described.__name__, described.__doc__
        command.__signature__ = inspect.Signature(  # pyright: ignore[reportFunctionMemberAccess]
            [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
                for name, annotation, default in own
            ]
        )
        command.__annotations__ = {name: annotation for name, annotation, _ in own}
        return command

    return decorate


def _flags(name: str, flag: "RoleFlag", hint: Any, default: Any) -> list[tuple[str, Any, None]]:
    """The flag of an option, and that of its old name; None where it is not given, so that a file may."""
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    kind = next(each for each in kinds if each is not type(None))
    kind = list[str] if get_origin(kind) is tuple else kind
    shown = False if default in (MISSING, None, "", ()) else str(default)

    def option(name: str, text: str, *, hidden: bool) -> tuple[str, Any, None]:
        how = {"rich_help_panel": flag.panel, "show_default": shown, "hidden": hidden}
        return name, Annotated[kind | None, typer.Option(f"--{name.replace('_', '-')}", help=text, **how)], None

    found = [option(name, flag.help, hidden=False)]
    return [*found, option(flag.old, f"Old name of --{name}.", hidden=True)] if flag.old else found


def merged(kind: "type[RoleOptions]", config: Path | None, flags: dict[str, Any]) -> "RoleOptions":
    """Options of a role from a file and flags, which win. An old name is taken for one version, with a warning."""
    from airpool.runtime import logs, options

    file = {} if config is None else options.tables(config)
    role = options.role_of(kind)
    if config is not None and file.get("role", role) != role:
        raise ValueError(f"{config} is of the role {file['role']!r}, not of {role!r}")
    old = {flag.old: name for name, flag in options.flags_of(kind).items() if flag.old}
    for layer in (file, flags):
        for name, new in old.items():
            if name in layer:
                logs.start(role)
                logs.event("old name", reason=f"--{name} is the old name of --{new}, and is gone in the next version")
                layer.setdefault(new, layer.pop(name))
    where = "" if config is None else f"{config}: "
    return options.made(kind, file, flags, where=where, folder=None if config is None else config.parent)
