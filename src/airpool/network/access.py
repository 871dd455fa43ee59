"""Access: the ways in which signals reach the server, and the rules of each.

A closed set: what the server observes decides whose noise counts in ε, and each case has its proof (howto/plugins.md).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from airpool.network.rules import NetworkError

Access = Literal["superposed", "orthogonal", "secure"]
Medium = Literal["air", "secure sum"]


@dataclass(frozen=True, kw_only=True)
class AccessRules:
    """The rules of one access.

    separate: the server observes every device by itself, and only own noise counts in ε; else it observes the sum.
    radio: signals travel by radio: power, fading, outage, receiver noise, energy and channel uses play a part.
    cover_noise: implied: silent devices transmit their noise.
    senders_seen: the server sees which devices send, so that removal has no finite ε.
    majority: the survivors must be more than half of devices and colluders, else the server could have two sums opened.
    medium: that runs it as processes (runtime/); None: none does.
    title, assumption: words of a report's title, and a sentence of its assumptions; "": none.
    check: network → raises NetworkError where its settings do not fit.
    """

    separate: bool = False
    radio: bool = True
    cover_noise: bool = False
    senders_seen: bool = False
    majority: bool = False
    medium: Medium | None = None
    title: str = ""
    assumption: str = ""
    check: Callable[[Any], None] = lambda network: None

    @property
    def superposes(self) -> bool:
        """Whether the radio adds up the signals."""
        return self.radio and not self.separate


def outnumbered(network: Any, colluders: int) -> bool:
    """Whether enough devices collude that a lying server could have two lists of survivors signed."""
    return network.channel.rules.majority and 2 * network.survivors <= network.devices.count + colluders


def _secure(network: Any) -> None:
    count, colluders = network.devices.count, network.colluders
    if count < 2:
        raise NetworkError("access = secure needs at least 2 devices: a sum of one is its own value")
    if outnumbered(network, colluders):
        most = (count - colluders - 1) // 2
        raise NetworkError(
            f"dropouts={network.dropouts} must be at most {most} with access = secure, {count} devices and colluders="
            f"{colluders}: the {network.survivors} survivors must be more than half of devices and colluders"
        )
    if network.adversary.antennas:
        raise NetworkError(f"adversary.antennas={network.adversary.antennas} must be 0: access = secure has no radio")


ACCESSES: dict[Access, AccessRules] = {
    "superposed": AccessRules(medium="air"),
    "orthogonal": AccessRules(
        separate=True, assumption="Every device is received by itself, so only its own noise protects it."
    ),
    "secure": AccessRules(
        radio=False,
        cover_noise=True,
        senders_seen=True,
        majority=True,
        medium="secure sum",
        title="secure sum",
        check=_secure,
    ),
}
