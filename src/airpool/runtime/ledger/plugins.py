"""The plug-ins that rows of a ledger depend on: named with the hash of their source, refused where that has changed."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from airpool.network import Network, network_plugins
from airpool.runtime.ledger.refused import SpendingError


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


def used_plugins(network: Network) -> tuple[UsedPlugin, ...]:
    """The plug-ins that a network depends on, as they are loaded now."""
    return tuple(UsedPlugin(x.what, x.name, x.settings, x.version, x.sha256) for x in network_plugins(network))


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
