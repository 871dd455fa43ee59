"""The network file: versioned TOML, read and written without loss.

A scalar stands for all devices, a list gives one value each; what is left out has its default; an unknown key is an
error.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from airpool import files
from airpool.network import SCHEME_SETTINGS, Channel, Devices, Network, NetworkError, named_scheme, require_network

VERSION = 1
_TABLES = {"devices": Devices, "channel": Channel, "scheme": named_scheme}


def read(path: str | Path) -> Network:
    """The network that a file describes."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NetworkError(f"cannot read the network file {path}: {error}") from None
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
    except tomllib.TOMLDecodeError as error:
        raise NetworkError(f"not valid TOML: {error}") from None
    return build(data)


def build(data: dict[str, Any]) -> Network:
    """The network that a file's tables describe."""
    data = dict(data)
    version = data.pop("version", None)
    if version is None:
        raise NetworkError(f"the key version is missing; write version = {VERSION}")
    if isinstance(version, bool) or version != VERSION:
        raise NetworkError(f"version={version!r} is not known here; this airpool reads version {VERSION}")
    if "devices" not in data:
        raise NetworkError("the table [devices] is missing; it needs at least count = ...")
    tables = {name: _table(name, kind, data.pop(name)) for name, kind in _TABLES.items() if name in data}
    _reject_unknown("", data, [f.name for f in fields(Network) if f.name not in _TABLES])
    return Network(**tables, **data)


def _table(name: str, kind: Any, data: Any) -> Any:
    if not isinstance(data, dict):
        raise NetworkError(f"{name} must be a table, [{name}]")
    known = ("name", *SCHEME_SETTINGS) if kind is named_scheme else tuple(f.name for f in fields(kind))
    _reject_unknown(f"{name}.", data, known)
    if kind is Devices and "count" not in data:
        raise NetworkError("devices.count is missing")
    return kind(**data)


def _reject_unknown(where: str, data: dict[str, Any], known: Sequence[str]) -> None:
    for key in data:
        if key not in known:
            raise NetworkError(f"unknown key {where}{key}; known are {', '.join(known)}")


def write(network: Network, path: str | Path) -> None:
    files.write(path, dump(network))


def dump(network: Network) -> str:
    """TOML that `parse` reads back to the same network, value for value."""
    require_network(network)
    lines = [f"version = {VERSION}"]
    lines += [f"{f.name} = {_toml(getattr(network, f.name))}" for f in fields(Network) if f.name not in _TABLES]
    for name in _TABLES:
        table = getattr(network, name)
        lines += ["", f"[{name}]"]
        lines += [f'name = "{table.name}"'] if name == "scheme" else []
        for f in fields(table):
            if (value := getattr(table, f.name)) is not None:
                lines.append(f"{f.name} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return repr(value[0]) if len(set(value)) == 1 else f"[{', '.join(map(repr, value))}]"
    return f'"{value}"' if isinstance(value, str) else repr(value)
