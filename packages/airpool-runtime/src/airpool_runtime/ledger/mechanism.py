"""Mechanism of one slot of a device: what it leaks, and the network at its noise floor, as text with a digest.

An inference of one slot is that slot. Where one draw serves all slots of an inference, they are one row together.

A row of a ledger names its mechanism by the digest. The leak is all that is needed to compute ε again, years later; the
network is there for whoever reads it.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from airpool.account.use import use
from airpool.network import Claim, Neighbours, Network, NetworkError, Slots, network_plugins, require_network
from airpool.network import file as network_file
from airpool.network.network import with_its_coins
from airpool.privacy import stored
from airpool.privacy.together import Use
from airpool_runtime.ledger.refused import SpendingError


class UsedPlugin(NamedTuple):
    """A plug-in of a network, without the place it was loaded from. what: scheme or fading."""

    what: str
    name: str
    settings: str
    version: str
    sha256: str

    @property
    def words(self) -> str:
        return f"{self.what} {self.name} {self.version} (source {self.sha256 or 'unknown'})".replace("  ", " ")


def require_accepted(loaded: Iterable[UsedPlugin], known: Sequence[UsedPlugin], accepted: Sequence[str]) -> None:
    """Raises SpendingError where a plug-in is loaded whose source is neither in a row nor accepted.

    known: those of all rows; one that no row names is new here, and is taken. accepted: hashes of sources.
    """
    for each in loaded:
        before = [other for other in known if (other.what, other.name) == (each.what, each.name)]
        if before and each.sha256 not in (*accepted, *(other.sha256 for other in before)):
            raise SpendingError(
                "failed",
                f"the plug-in {each.words} is not the one that rows were charged with, {before[-1].words}: load that "
                f"one, or read what has changed and start the device once with --accept-plugin {each.sha256}",
            )


# Rises where a mechanism leaks more than it was held to: then rows name the new leak, and old ones keep theirs.
VERSION = 2
_PLUGIN_KEYS = {"scheme": "plugin", "fading": "fading"}


@dataclass(frozen=True, eq=False)
class Mechanism:
    """One inference of one device, and what it leaks under each relation of neighbours; equal where the text is.

    described: all but the leak, as text; an inference keeps it however often it is charged. stored: the text that was
    read, whose leak counts. What is charged for the first time leaks what this airpool computes.
    """

    described: str
    stored: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mechanism) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    @cached_property
    def text(self) -> str:
        """The text that a row's digest stands for."""
        return self.stored or _with_leaks(self.described)

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    def under(self, neighbours: Neighbours | str) -> Use:
        """What one inference leaks for a relation of neighbours; a ValueError where that is not accounted for."""
        if isinstance(found := _uses(self.text)[Neighbours(neighbours)], str):
            raise ValueError(found)
        return found

    @cached_property
    def _body(self) -> dict[str, Any]:
        return json.loads(self.described)

    @property
    def device(self) -> int:
        return self._body["device"]

    @property
    def live(self) -> bool:
        """Whether noise is as the device really draws it, with what its grid costs."""
        return self._body["live"]

    @cached_property
    def plugins(self) -> tuple[UsedPlugin, ...]:
        """The plug-ins that the network depends on; the leak needs none of them."""
        named = ((what, self._body[key]) for what, key in _PLUGIN_KEYS.items() if key in self._body)
        return tuple(UsedPlugin(what, *rest) for what, rest in named)

    @cached_property
    def network(self) -> Network:
        """The network at its noise floor: its dropouts are all devices that may be missing.

        The coins of a plug-in's scheme are those of Scheme 1; a plug-in's fading law must be loaded.
        """
        return _of_row(network_file.build(self._body["network"]))


@lru_cache(maxsize=64)
def _with_leaks(described: str) -> str:
    """The text of a mechanism, with its leak as this airpool computes it."""
    one, leaks, refused = Mechanism(described), dict[str, Use](), dict[str, ValueError]()
    for relation in Neighbours:
        try:
            leaks[relation.value] = use(one.network, Claim(neighbours=relation, live=one.live), one.device)
        except ValueError as error:
            refused[relation.value] = error
    if not leaks:
        raise refused[Neighbours.ZERO_OUT.value]
    why = {relation: str(error) for relation, error in refused.items()}
    return stored.canonical(json.loads(described) | {"leak": stored.written(leaks), "refused": why})


@lru_cache(maxsize=64)
def _uses(text: str) -> dict[Neighbours, Use | str]:
    """What a mechanism leaks, or the reason why that is not known, by relation of neighbours."""
    body = json.loads(text)
    found: dict[str, Any] = stored.read(body["leak"]) | body["refused"]
    return {relation: found[relation.value] for relation in Neighbours}


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
    network = _of_row(replace(network, dropouts=missing, devices=replace(network.devices, epsilon=None)))
    tables = tomllib.loads(network_file.dump(with_its_coins(network)))
    body: dict[str, Any] = {"version": VERSION, "device": device, "live": live, "network": tables}
    body |= {_PLUGIN_KEYS[x.what]: [x.name, x.settings, x.version, x.sha256] for x in network_plugins(network)}
    return Mechanism(stored.canonical(body))


def _of_row(network: Network) -> Network:
    """The network of what one row pays for: a slot; all slots of an inference where one draw serves them.

    The adversary stays: an eavesdropper makes devices fill up their last symbol, which
    removal shows.
    """
    slots = network.slots
    slots = Slots() if slots.redrawn or slots.count == 1 else Slots(slots.count, redrawn=False)
    return replace(network, slots=slots)


@lru_cache(maxsize=64)
def parse(text: str) -> Mechanism:
    """The mechanism that a text describes; its digest is the text's.

    A NetworkError where it is none, or where a newer airpool wrote it that has leaks this one does not know.
    """
    try:
        body = json.loads(text)
        version = body["version"]
        if version != VERSION:
            raise NetworkError(f"version={version!r} is not known here, only {VERSION}: update airpool")
        good = stored.canonical(body) == text
        found = Mechanism(stored.canonical({x: body[x] for x in body if x not in ("leak", "refused")}), text)
        good &= type(found.device) is int and found.device >= 0 and type(found.live) is bool
        told = [text for plugin in found.plugins for text in plugin] + list(body["refused"].values())
        good &= all(isinstance(each, str) for each in told)
        good &= all(isinstance(each, Use | str) for each in _uses(text).values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NetworkError(f"not a mechanism of this airpool: {error}") from None
    if not good:
        raise NetworkError("not a mechanism in its canonical form")
    return found


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
