"""The plug-ins that a network depends on."""

from typing import Literal, NamedTuple

from airpool.network.fading import origin_of
from airpool.network.network import Network
from airpool.network.scheme import scheme_origin


class NetworkPlugin(NamedTuple):
    """A plug-in that a network names, and its origin.

    settings: as the network gives them. source: its file or package. sha256: of its source; "": unknown.
    """

    what: Literal["scheme", "fading"]
    name: str
    settings: str
    source: str
    version: str
    sha256: str


def network_plugins(network: Network) -> tuple[NetworkPlugin, ...]:
    """Every plug-in that ε of this network rests on, for reports and ledger rows; none: all of it is airpool's own.

    A codec is none of them: ε does not depend on it.
    """
    scheme, fading = network.scheme, network.channel.fading
    found: list[NetworkPlugin] = []
    if (origin := scheme_origin(scheme)) is not None:
        found.append(NetworkPlugin("scheme", scheme.name, repr(scheme), origin.source, origin.version, origin.sha256))
    if (origin := origin_of(fading)) is not None:
        name = fading.partition(":")[0]
        found.append(NetworkPlugin("fading", name, fading, origin.source, origin.version, origin.sha256))
    return tuple(found)
