"""The network file: versioned TOML, read and written without loss. Its table [claim] is what is asked by default.

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
    SCHEMES,
    Adversary,
    Channel,
    Claim,
    Devices,
    Network,
    NetworkError,
    Slots,
    named_scheme,
    require_network,
)

VERSION = 3
# Written whatever their values are. This list is closed: a setting that is new is written where it is not the default,
# which never changes. So no stored text is affected by it (docs/howto/upgrades.md).
_ALWAYS = {
    "": ("dimension", "cover_noise", "colluders", "dropouts"),
    "claim": ("delta", "neighbours", "inferences"),
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
    airpool._support.rules.NetworkError: cannot read the network file no such.toml: No such file or directory
    """
    return _read(path)[0]


def read_claim(path: str | Path) -> Claim:
    """What is asked of a file's network by default: its table [claim], checked with all the rest.

    >>> from tempfile import TemporaryDirectory
    >>> from airpool import Claim, Network
    >>> with TemporaryDirectory() as folder:
    ...     write(Network.uniform(num_devices=12), f"{folder}/net.toml", Claim(inferences=100))
    ...     read_claim(f"{folder}/net.toml").inferences
    100
    """
    return _read(path)[1]


def _read(path: str | Path) -> tuple[Network, Claim]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise NetworkError(f"cannot read the network file {path}: {why}") from None
    try:
        data = _tables(text)
        return build(data), build_claim(data)
    except NetworkError as error:
        raise NetworkError(f"{path}: {error}") from None


def parse(text: str) -> Network:
    """
    >>> parse("version = 3\\n[devices]\\ncount = 2\\nnoise_std = [0.1, 0.2]").devices.noise_std
    (0.1, 0.2)
    """
    return build(_tables(text))


def parse_claim(text: str) -> Claim:
    """
    >>> parse_claim("version = 3\\n[claim]\\ninferences = 5\\n[devices]\\ncount = 2").inferences
    5
    """
    return build_claim(_tables(text))


def _tables(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a bare ValueError
        raise NetworkError(f"not valid TOML: {error}") from None


def build_claim(data: dict[str, Any]) -> Claim:
    """What is asked of the network that a file's tables describe."""
    return _table("claim", Claim, data.get("claim", {}))


def build(data: dict[str, Any]) -> Network:
    """The network that a file's tables describe."""
    version = data.get("version")
    if version is None:
        raise NetworkError(f"the key version is missing; write version = {VERSION}")
    if type(version) is not int or version != VERSION:
        what = f"this airpool reads version {VERSION} (docs/howto/upgrades.md)"
        raise NetworkError(f"version={version!r} is not known here; {what}")
    build_claim(data)
    data = {name: each for name, each in data.items() if name not in ("version", "claim")}
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
            hint = "; it belongs to the table [claim]" if key in (each.name for each in fields(Claim)) else ""
            raise NetworkError(f"unknown key {where}{key}{hint}; known are {', '.join(known)}")


def write(network: Network, path: str | Path, claim: Claim | None = None) -> None:
    """Writes a network as a file that `read_network` reads back to the same network, value for value.

    claim: what is asked of it by default, for `read_claim`.

    >>> from tempfile import TemporaryDirectory
    >>> from airpool import read_network
    >>> with TemporaryDirectory() as folder:
    ...     write(Network.uniform(num_devices=12), f"{folder}/net.toml")
    ...     read_network(f"{folder}/net.toml") == Network.uniform(num_devices=12)
    True
    """
    files.write(path, dump(network, claim))


def dump(network: Network, claim: Claim | None = None) -> str:
    """TOML that `parse` and `parse_claim` read back to the same network and claim, value for value.

    One network has one text, which stays the same in later versions: a setting that is not among `_ALWAYS` is left out
    where it has its default. Ledgers, servers and secure groups compare what is made of this text.
    """
    require_network(network)
    lines = [f"version = {VERSION}", *_settings("", network)]
    if claim is not None:
        lines += ["", "[claim]", *_settings("claim", claim)]
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
    whole = name == "scheme" and SCHEMES.origin(table.name) is not None
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
        same = len(set(value)) == 1 and isinstance(value[0], float)
        return repr(value[0]) if same else f"[{', '.join(map(repr, value))}]"
    return f'"{value}"' if isinstance(value, str) else repr(value)
