"""Mechanism of one slot of a device: the network at its noise floor, as canonical text with a digest.

An inference of one slot is that slot. Where one draw serves all slots of an inference, they are one row together.

A row of a ledger names its mechanism by the digest. The text is all that is needed to compute ε again, years later.
"""

import hashlib
import json
import tomllib
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from airpool.network import Neighbours, Network, NetworkError, Slots, require_network
from airpool.network import file as network_file
from airpool.network.network import with_its_coins
from airpool.runtime.ledger.plugins import UsedPlugin, used_plugins
from airpool.runtime.ledger.refused import SpendingError

VERSION = 1
_PLUGIN_KEYS = {"scheme": "plugin", "fading": "fading"}
# What a report chooses, and a mechanism does not depend on. Not the adversary: an eavesdropper makes devices fill up
# their last symbol, which removal shows.
_CHOSEN: dict[str, Any] = {"delta": 1e-5, "inferences": 1}


@dataclass(frozen=True)
class Mechanism:
    """One inference of one device. `network` has its noise floor: its dropouts are all devices that may be missing.

    neighbours: as in the network; a total is that of one relation (`under`). live: noise as the device really draws it,
    with what its grid costs. plugins: those that the network depends on. The coins of a plug-in's scheme are those of
    Scheme 1 in `network`, so that ε can be computed without it; that of a plug-in's fading law needs the law.
    stored: the text that it was read from, where this version would write another one.
    """

    network: Network
    device: int
    live: bool = True
    plugins: tuple[UsedPlugin, ...] = ()
    stored: str = ""

    @cached_property
    def text(self) -> str:
        """The text that a row's digest stands for."""
        if self.stored:
            return self.stored
        tables = tomllib.loads(network_file.dump(self.network))
        for name in ("delta", "inferences"):
            del tables[name]
        body: dict[str, Any] = {"version": VERSION, "device": self.device, "live": self.live, "network": tables}
        body |= {_PLUGIN_KEYS[what]: rest for what, *rest in self.plugins}
        return _json(body)

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    def under(self, neighbours: Neighbours | str) -> "Mechanism":
        """The same inference for a relation of neighbours; equal ones are equal, however they were stored."""
        if neighbours == self.network.neighbours and not self.stored and not self.plugins:
            return self
        return replace(self, network=replace(self.network, neighbours=neighbours), plugins=(), stored="")


def mechanism(network: Network, *, device: int, quorum: int | None = None, live: bool = True) -> Mechanism:
    """Mechanism of one inference of `device` if at least `quorum` devices are ready at its announcement (default: all).

    The devices beyond the quorum may be missing, the network's dropouts may crash after that, and its colluders know
    their own noise: none of these protects the device.

    >>> net = Network.uniform(num_devices=12, dropouts=1)
    >>> mechanism(net, device=3, quorum=10).network.dropouts
    3
    """
    require_network(network)
    count = network.devices.count
    if isinstance(device, bool) or not isinstance(device, int) or not 0 <= device < count:
        raise NetworkError(f"device={device!r} must be from 0 to {count - 1}")
    quorum = count if quorum is None else quorum
    if isinstance(quorum, bool) or not isinstance(quorum, int) or not 1 <= quorum <= count:
        raise NetworkError(f"quorum={quorum!r} must be from 1 to the {count} devices")
    missing = min(network.dropouts + count - quorum, count - 1)
    network = _of_row(replace(network, dropouts=missing, devices=replace(network.devices, epsilon=None), **_CHOSEN))
    plugins = used_plugins(network)
    return Mechanism(with_its_coins(network), device, live, plugins)


def _of_row(network: Network) -> Network:
    """The network of what one row pays for: a slot; all slots of an inference where one draw serves them."""
    slots = network.slots
    return replace(network, slots=Slots() if slots.redrawn or slots.count == 1 else Slots(slots.count, redrawn=False))


def parse(text: str) -> Mechanism:
    """The mechanism that a text describes, in the words of whichever version wrote it; its digest is the text's.

    A NetworkError where it is none, or where a newer airpool wrote it that has settings this one does not know.
    """
    try:
        body = json.loads(text)
        version = body["version"]
        if version != VERSION:
            raise NetworkError(f"version={version!r} is not known here, only {VERSION}: update airpool")
        device, live = body["device"], body["live"]
        network = _of_row(replace(network_file.build(_read(body["network"])), **_CHOSEN))
        named = ((what, body[key]) for what, key in _PLUGIN_KEYS.items() if key in body)
        found = Mechanism(network, device, live, tuple(UsedPlugin(what, *map(str, rest)) for what, rest in named))
        good = type(device) is int and type(live) is bool and _json(body) == text
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NetworkError(f"not a mechanism of this airpool or an older one: {error}") from None
    if not good or not 0 <= found.device < found.network.devices.count:
        raise NetworkError("not a mechanism in its canonical form")
    return found if found.text == text else replace(found, stored=text)


def _read(tables: dict[str, Any]) -> dict[str, Any]:
    """A row's network without a K factor that played no part: older versions took one with every fading."""
    channel = tables.get("channel", {})
    plain = channel if channel.get("fading") == "rician" else {x: v for x, v in channel.items() if x != "k_factor_db"}
    return tables | {"channel": plain}


def _json(body: dict[str, Any]) -> str:
    """Canonical JSON: sorted keys, no spaces, numbers that read back to the same value."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)


def parse_all(texts: dict[str, str], path: Path) -> dict[str, Mechanism]:
    """The mechanisms of a ledger's file, by digest; SpendingError where one was changed or is not readable here."""
    found: dict[str, Mechanism] = {}
    for digest, text in texts.items():
        if hashlib.sha256(text.encode()).hexdigest() != digest:
            raise SpendingError("corrupt", f"{path}: mechanism {digest[:12]} was changed")
        try:
            found[digest] = parse(text)
        except NetworkError as error:
            raise SpendingError(
                "failed",
                f"{path}: mechanism {digest[:12]} is not readable (if a newer airpool wrote it, update): {error}",
            ) from None
    return found
