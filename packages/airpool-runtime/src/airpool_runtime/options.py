"""Options of the roles as data, with the same names in a file, on the command line and in `airpool up`.

    options = read("device.toml")                    # role = "device", and its options
    options = made(AirOptions, {"network": "net.toml", "quorum": 3})

A flag wins over the file, in which paths are relative to its folder; a secret comes from the environment where neither
gives it. Values are checked by their type.
"""

import json
import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

ANYWHERE = "127.0.0.1:0"
FRAME_WINDOW = 0.5  # seconds: two frames of a camera that gives five in a second, and its delay
SLOT_HELP = "How long a slot waits for its signals (default: 5 s; secure sums: + K/4 s)."
_MEDIUM = "A registered medium, as of a plug-in (default: that of the network's access)."
FRAME_HELP = "Seconds by which a camera's frame may be before or after the announced moment; 0: any."
_SOURCE = (
    "latents:MODEL/SPLIT, images:FOLDER, camera:INDEX, video:FILE, video:demo, rtsp://..., http://... (MJPEG), "
    "mesh:PATH or MODULE:FUNCTION of your own."
)
SEED_HELP = "Seed of a simulated run; its noise gives no privacy."
LEDGER = "Ledger (ε at the δ and neighbours of the file's claim; default: no limit)"


class RoleFlag(NamedTuple):
    """An option's help, and its panel of --help.

    env: variable of the environment that gives it where nothing else does.
    secret: it is neither a flag nor in a file.
    """

    help: str
    panel: str | None = None
    env: str = ""
    secret: bool = False


def _ledger(help: str) -> RoleFlag:
    return RoleFlag(help, LEDGER)


_Listen = Annotated[str, RoleFlag("Address to listen at, HOST:PORT; port 0: any free one.")]
_Seed = Annotated[int | None, RoleFlag(SEED_HELP)]


@dataclass(frozen=True, kw_only=True)
class RoleOptions:
    """Options of every role."""

    network: Annotated[Path, RoleFlag("Network file (TOML).")]
    keys: Annotated[Path | None, RoleFlag("Folder of this role's keys (`airpool keys`); needed beyond loopback.")] = (
        None
    )
    metrics: Annotated[str | None, RoleFlag("Loopback address of Prometheus metrics and /healthz over HTTP.")] = None
    drain_seconds: Annotated[
        float, RoleFlag("How long running inferences may take to end when the role is stopped.")
    ] = 1.0


@dataclass(frozen=True, kw_only=True)
class AirOptions(RoleOptions):
    listen: _Listen = ANYWHERE
    quorum: Annotated[int | None, RoleFlag("Devices that must be ready for a slot (default: all).")] = None
    slot_seconds: Annotated[float | None, RoleFlag(SLOT_HELP)] = None
    patience: Annotated[float, RoleFlag("How long a slot waits for devices to be ready.")] = 1.0
    simulate: _Seed = None
    medium: Annotated[str | None, RoleFlag(_MEDIUM)] = None
    frame_window: Annotated[float, RoleFlag(FRAME_HELP)] = FRAME_WINDOW


@dataclass(frozen=True, kw_only=True)
class RankingOptions(RoleOptions):
    listen: _Listen = ANYWHERE
    seconds: Annotated[float, RoleFlag("How long it waits for scores; less than a slot.")] = 2.0


@dataclass(frozen=True, kw_only=True)
class ServerOptions(RoleOptions):
    """token: required of HTTP clients; it comes from the environment, or from a file."""

    air: Annotated[str, RoleFlag("Address of the air.")]
    listen: _Listen = ANYWHERE
    http: Annotated[str | None, RoleFlag("Address of the HTTP API, HOST:PORT; left out: none.")] = None
    model: Annotated[str, RoleFlag("A shipped model by name, or the file of your own.")] = "modelnet40"
    codec: Annotated[str | None, RoleFlag("One of the model's (default: its first).")] = None
    slot_seconds: Annotated[float | None, RoleFlag(SLOT_HELP)] = None
    deadline: Annotated[
        float | None, RoleFlag("Longest time of one inference, in seconds (default: of four slots).")
    ] = None
    simulate: _Seed = None
    fleet: Annotated[
        str | None,
        RoleFlag("View of the devices' ledgers: sqlite:///FILE or postgresql://USER@HOST/BASE.", env="AIRPOOL_FLEET"),
    ] = None
    token_file: Annotated[Path | None, RoleFlag("File with the token of HTTP clients; needed beyond loopback.")] = None
    token: Annotated[str | None, RoleFlag("", env="AIRPOOL_TOKEN", secret=True)] = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class DeviceOptions(RoleOptions):
    air: Annotated[str, RoleFlag("Address of the air.")]
    device: Annotated[str, RoleFlag("Which device: its index; or several in one process, as in 0-49.")]
    source: Annotated[str, RoleFlag(_SOURCE)] = "latents:modelnet40/test"
    bundle: Annotated[Path | None, RoleFlag("What makes latents of views; `airpool bundle` writes it.")] = None
    threads: Annotated[int | None, RoleFlag("Threads of the trunk (default: one per core).")] = None
    codec: Annotated[str | None, RoleFlag("Codec of shipped latents (default: the model's first).")] = None
    ranking: Annotated[str | None, RoleFlag("Address of the ranking server, for Scheme 2.2.")] = None
    quorum: Annotated[int | None, RoleFlag("Secure access: fewest devices in a sum (default: all).")] = None
    medium: Annotated[str | None, RoleFlag(_MEDIUM)] = None
    simulate: _Seed = None
    ledger: Annotated[Path | None, _ledger("The ledger's file, or a folder of one for each device.")] = None
    key: Annotated[Path | None, _ledger("The device's identity key (default: identity.key of --keys).")] = None
    head: Annotated[Path | None, _ledger("File with the hash of the newest row (default: beside the key).")] = None
    budget_epsilon: Annotated[float | None, _ledger("ε that all inferences together may reach.")] = None
    window_epsilon: Annotated[float | None, _ledger("ε that the inferences of any --window-seconds may reach.")] = None
    window_seconds: Annotated[float | None, _ledger("A window's length, in time that the ledger is used.")] = None
    day_epsilon: Annotated[float | None, _ledger("ε that the inferences of any 24 hours may reach.")] = None
    event_epsilon: Annotated[float | None, _ledger("ε that one event may reach, a stay before the camera.")] = None
    event_inferences: Annotated[int | None, _ledger("An event's length, in inferences in a row.")] = None
    scene_epsilon: Annotated[float | None, _ledger("ε that the inferences of one scene may reach.")] = None
    scene: Annotated[str, _ledger("The scene that the device looks at from now on.")] = ""
    accept_plugin: Annotated[
        tuple[str, ...], _ledger("SHA-256 of a plug-in's new source, to charge with it from now on; repeatable.")
    ] = ()
    fleet: Annotated[str | None, _ledger("Address of the server that keeps a view of the fleet.")] = None


ROLES: dict[str, type[RoleOptions]] = {
    "air": AirOptions,
    "ranking": RankingOptions,
    "server": ServerOptions,
    "device": DeviceOptions,
}
Role = TypeVar("Role", bound=RoleOptions)


def flags_of(kind: type[RoleOptions]) -> dict[str, RoleFlag]:
    """The flag of every option, by its name."""
    hints = get_type_hints(kind, include_extras=True)
    return {f.name: get_args(hints[f.name])[1] for f in fields(kind)}


def role_of(kind: type[RoleOptions]) -> str:
    return next(name for name, each in ROLES.items() if each is kind)


def read(path: Path) -> RoleOptions:
    """The options in a file, which names its role: `role = "air"`."""
    data = tables(path)
    role = data.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise ValueError(f"{path}: role = {role!r} must be one of {', '.join(ROLES)}")
    return made(ROLES[role], data, where=f"{path}: ", folder=path.parent)


def tables(path: Path) -> dict[str, Any]:
    """The options that a file names, in TOML or JSON, unchecked."""
    try:
        text = path.read_text("utf-8")
        data = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not valid {'JSON' if path.suffix == '.json' else 'TOML'}: {error}") from None
    if not isinstance(data, dict):
        raise ValueError(f"{path}: must be a table of options")
    return {name.replace("-", "_"): value for name, value in data.items()}


def made(kind: type[Role], *layers: Mapping[str, Any], where: str = "", folder: Path | None = None) -> Role:
    """Options of a role from several layers, of which a later one wins; then the environment, then the defaults.

    where: begins messages. folder: that relative paths of the first layer are in.
    """
    known, values = flags_of(kind), dict[str, Any]()
    hints = get_type_hints(kind)
    for layer in layers:
        for name, value in layer.items():
            if name == "role" and value == role_of(kind):
                continue
            if name not in known or known[name].secret:
                shown = ", ".join(each for each, flag in known.items() if not flag.secret)
                raise ValueError(f"{where}unknown option {name!r} of {role_of(kind)}; known are {shown}")
            values[name] = _value(f"{where}{name}", value, hints[name])
            if folder is not None and layer is layers[0] and isinstance(values[name], Path):
                values[name] = folder / values[name]
    for f in fields(kind):
        if f.name not in values and (text := os.environ.get(known[f.name].env)):
            values[f.name] = text
        if f.name not in values and f.default is MISSING:
            flag = f.name.replace("_", "-")
            raise ValueError(f"{where}--{flag} is missing: give it as an option, or {f.name} in the file of --config")
    if not 0 <= values.get("drain_seconds", 0.0) < math.inf:
        raise ValueError(f"{where}drain_seconds={values['drain_seconds']:g} must be >= 0 and finite")
    return kind(**values)


def _value(name: str, value: Any, hint: Any) -> Any:
    """A value of the type that a field has."""
    choices = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    kind = next(each for each in choices if each is not type(None))
    if value is None and type(None) in choices:
        return None
    if get_origin(kind) is tuple:
        if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
            return tuple(value)
    elif kind is Path and isinstance(value, str | Path):
        return Path(value)
    elif kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    elif isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    words = {Path: "a path", float: "a number", int: "a whole number", str: "text"}.get(kind, "a list of texts")
    raise ValueError(f"{name}={value!r} must be {words}")


def data_of(options: RoleOptions) -> dict[str, Any]:
    """Options as JSON can hold them, without secrets; `made` reads them back."""
    given, known = {"role": role_of(type(options))}, flags_of(type(options))
    for f in fields(options):
        value = getattr(options, f.name)
        if value != f.default and not known[f.name].secret:
            given[f.name] = str(value.absolute()) if isinstance(value, Path) else value
    return given
