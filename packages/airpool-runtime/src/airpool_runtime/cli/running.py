"""Commands of the roles: the fields of their options as flags, beside a file with the same names."""

import inspect
from dataclasses import MISSING, fields
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from airpool.cli import options as o
from airpool_runtime import options
from airpool_runtime.options import FRAME_HELP, SEED_HELP, SLOT_HELP, RoleFlag, RoleOptions, flags_of, role_of

SimulationSeed = Annotated[int | None, typer.Option("--simulate", help=SEED_HELP, metavar="SEED")]
SlotSeconds = Annotated[float | None, typer.Option(help=SLOT_HELP)]
FrameWindow = Annotated[float, typer.Option(help=FRAME_HELP)]
_CONFIG = Annotated[
    Path | None, typer.Option(help="Options of this role in a file (TOML), by their names; a flag wins over it.")
]
_ATTACHED = Annotated[bool, typer.Option("--attached", help="Stop when stdin is closed.", hidden=True)]


def role_app(kind: type[RoleOptions], help: str) -> typer.Typer:
    """The command of a role: its options as flags, which are merged with a file."""

    def command(config: Path | None, json: bool, attached: bool, **flags: Any) -> None:
        from airpool_runtime import roles

        given = {name: value for name, value in flags.items() if value not in (None, [])}
        roles.run(merged(kind, config, given), attached=attached, json=json)

    known, hints = flags_of(kind), get_type_hints(kind)
    flags = [_flag(f.name, known[f.name], hints[f.name], f.default) for f in fields(kind) if not known[f.name].secret]
    own = (("config", _CONFIG, None), *flags, ("json", o.Json, False), ("attached", _ATTACHED, False))
    command.__name__, command.__doc__ = role_of(kind), help
    command.__signature__ = inspect.Signature(  # pyright: ignore[reportFunctionMemberAccess]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, annotation, default in own
        ]
    )
    command.__annotations__ = {name: annotation for name, annotation, _ in own}
    app = typer.Typer(add_completion=False)
    app.command()(command)
    return app


def _flag(name: str, flag: RoleFlag, hint: Any, default: Any) -> tuple[str, Any, None]:
    """The flag of an option; None where it is not given, so that a file may."""
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    kind = next(each for each in kinds if each is not type(None))
    kind = list[str] if get_origin(kind) is tuple else kind
    shown = False if default in (MISSING, None, "", ()) else str(default)
    option = typer.Option(f"--{name.replace('_', '-')}", help=flag.help, rich_help_panel=flag.panel, show_default=shown)
    return name, Annotated[kind | None, option], None


def merged(kind: type[RoleOptions], config: Path | None, flags: dict[str, Any]) -> RoleOptions:
    """Options of a role from a file and flags, which win."""
    file = {} if config is None else options.tables(config)
    role = role_of(kind)
    if config is not None and file.get("role", role) != role:
        raise ValueError(f"{config} is of the role {file['role']!r}, not of {role!r}")
    where = "" if config is None else f"{config}: "
    return options.made(kind, file, flags, where=where, folder=None if config is None else config.parent)
