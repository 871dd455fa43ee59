"""The network file: versioned TOML, read and written without loss.

A scalar stands for all devices, a list gives one value each; what is left out has its default; an unknown key is an
error.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from airpool._support import files
from airpool.network import (
    Adversary,
    Channel,
    Devices,
    Network,
    NetworkError,
    Slots,
    named_scheme,
    require_network,
)
from airpool.network.scheme import scheme_origin

VERSION = 2
_SINCE_2 = ("redrawn", "antennas")
# Written whatever their values are. This list is closed: a setting that is new is written where it is not the default,
# which never changes. So no stored text is affected by it (docs/howto/upgrades.md).
_ALWAYS = {
    "": ("dimension", "delta", "neighbours", "cover_noise", "colluders", "dropouts", "inferences"),
    "devices": ("count", "weight", "clip_norm", "noise_std", "participation", "power_dbm"),
    "channel": (
        *("fading", "k_factor_db", "noise_std", "access", "power_rule", "gamma", "outage"),
        *("csi_error_std", "phase_error_std", "redrawn", "antennas"),
    ),
    "scheme": ("score", "score_rule", "score_bound", "score_noise_std", "threshold", "num_selected"),
}
_TABLES = {"devices": Devices, "channel": Channel, "scheme": named_scheme, "adversary": Adversary, "slots": Slots}


def read(path: str | Path) -> Network:
    """The network that a file describes (docs/reference/network-file.md).

    path: of a TOML file.
    Edge cases: what cannot be read, and a value out of range → NetworkError, with the file's name.

    >>> read("no such.toml")
    Traceback (most recent call last):
    airpool.network.rules.NetworkError: cannot read the network file no such.toml: No such file or directory
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise NetworkError(f"cannot read the network file {path}: {why}") from None
    try:
        return parse(text)
    except NetworkError as error:
        raise NetworkError(f"{path}: {error}") from None


def parse(text: str) -> Network:
    """
    >>> parse("version = 1\\n[devices]\\ncount = 2\\nnoise_std = [0.1, 0.2]").devices.noise_std
    (0.1, 0.2)
    """
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a bare ValueError
        raise NetworkError(f"not valid TOML: {error}") from None
    return build(data)


def build(data: dict[str, Any]) -> Network:
    """The network that a file's tables describe."""
    data = upgraded(data)
    del data["version"]
    if "devices" not in data:
        raise NetworkError("the table [devices] is missing; it needs at least count = ...")
    stated = isinstance(data["devices"], dict) and "participation" in data["devices"]
    tables = {name: _table(name, kind, data.pop(name)) for name, kind in _TABLES.items() if name in data}
    _reject_unknown("", data, [f.name for f in fields(Network) if f.name not in _TABLES])
    network = Network(**tables, **data)
    given, here = tables["devices"].column("participation"), network.devices.column("participation")
    if stated and given != here:
        k = next(k for k in range(len(given)) if given[k] != here[k])
        raise NetworkError(
            f"devices.participation is not what the scheme {network.scheme.name} gives (device {k}: {given[k]} in the "
            f"file, {here[k]} here): leave it out, or load the plug-in that wrote it; it gives the same everywhere"
        )
    return network


def upgraded(data: dict[str, Any]) -> dict[str, Any]:
    """The tables of a file of any version as those of the newest.

    Version 1 sent one number in each use of the channel, which differs where channels are not known exactly.
    """
    version, channel = data.get("version"), data.get("channel", {})
    if version is None:
        raise NetworkError(f"the key version is missing; write version = {VERSION}")
    if isinstance(version, bool) or version not in range(1, VERSION + 1):
        raise NetworkError(f"version={version!r} is not known here; this airpool reads versions 1 to {VERSION}")
    if version == 1 and "adversary" in data:
        raise NetworkError("unknown key adversary in version 1; write version = 2")
    if version == 1 and isinstance(channel, dict):
        _reject_unknown("channel.", channel, [f.name for f in fields(Channel) if f.name not in _SINCE_2])
        if channel.get("csi_error_std") or channel.get("phase_error_std"):
            raise NetworkError(
                "version 1 sent one number in each use of the channel, now it is two, and with errors of the channel ε "
                "is another: write version = 2"
            )
    return data | {"version": VERSION}


def _table(name: str, kind: Any, data: Any) -> Any:
    if not isinstance(data, dict):
        raise NetworkError(f"{name} must be a table, [{name}]")
    if kind is not named_scheme:  # which knows its own settings
        _reject_unknown(f"{name}.", data, tuple(f.name for f in fields(kind)))
    if kind is Devices and "count" not in data:
        raise NetworkError("devices.count is missing")
    return kind(**data)


def _reject_unknown(where: str, data: dict[str, Any], known: Sequence[str]) -> None:
    for key in data:
        if key not in known:
            raise NetworkError(f"unknown key {where}{key}; known are {', '.join(known)}")


def write(network: Network, path: str | Path) -> None:
    """Writes a network as a file that `read_network` reads back to the same network, value for value.

    >>> from tempfile import TemporaryDirectory
    >>> from airpool import read_network
    >>> with TemporaryDirectory() as folder:
    ...     write(Network.uniform(num_devices=12), f"{folder}/net.toml")
    ...     read_network(f"{folder}/net.toml") == Network.uniform(num_devices=12)
    True
    """
    files.write(path, dump(network))


def dump(network: Network) -> str:
    """TOML that `parse` reads back to the same network, value for value.

    One network has one text, which stays the same in later versions: a setting that is not among `_ALWAYS` is left out
    where it has its default. Ledgers, servers and secure groups compare what is made of this text.
    """
    require_network(network)
    lines = [f"version = {VERSION}", *_settings("", network)]
    for name in _TABLES:
        table = getattr(network, name)
        found = _settings(name, table, network.devices.count)
        if name == "scheme":
            found = [f'name = "{table.name}"', *found]
        if found or name in _ALWAYS:
            lines += ["", f"[{name}]", *found]
    return "\n".join(lines) + "\n"


def _settings(name: str, table: Any, count: int = 0) -> list[str]:
    """Lines of one table. A plug-in's scheme shows all its settings: what it leaves out is not airpool's to know."""
    whole = name == "scheme" and scheme_origin(table) is not None
    lines = list[str]()
    for f in fields(table):
        value = getattr(table, f.name)
        default = value is None or value in (f.default, (f.default,) * count)
        if f.name not in _TABLES and value is not None and (whole or f.name in _ALWAYS.get(name, ()) or not default):
            lines.append(f"{f.name} = {_toml(value)}")
    return lines


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return repr(value[0]) if len(set(value)) == 1 else f"[{', '.join(map(repr, value))}]"
    return f'"{value}"' if isinstance(value, str) else repr(value)
