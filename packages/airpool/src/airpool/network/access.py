"""Access: the ways in which signals reach the server.

A closed set: what the server observes decides whose noise counts in ε, and each case has its proof (howto/plugins.md).
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, final

from array_api_compat import array_namespace

from airpool._support.arrays import Array
from airpool._support.rules import NetworkError

AccessName = Literal["superposed", "orthogonal", "secure"]
Medium = Literal["air", "secure sum"]


class Access(ABC):
    """A way in which signals reach the server."""

    # Whether the server observes every device by itself, so that only own noise counts in ε; else it observes the sum.
    separate: ClassVar[bool] = False
    # Whether signals travel by radio: power, fading, outage, receiver noise, energy and channel uses play a part.
    radio: ClassVar[bool] = True
    # Whether silent devices transmit their noise, whatever the network says.
    cover_noise: ClassVar[bool] = False
    # Whether the server sees which devices send, so that removal has no finite ε.
    senders_seen: ClassVar[bool] = False
    # Whether the survivors must be more than half of devices and colluders, else the server could have two sums opened.
    majority: ClassVar[bool] = False
    # What runs it as processes (runtime/); None: nothing does.
    medium: ClassVar[Medium | None] = None
    # Words: of a choice; of what a slot costs; of a report's title; a sentence of its assumptions; whom it does not
    # protect. "": none.
    label: ClassVar[str]
    about: ClassVar[str]
    turns: ClassVar[str] = "whatever the number of devices"
    title: ClassVar[str] = ""
    assumption: ClassVar[str] = ""
    unprotected: ClassVar[str] = ""

    @property
    def superposes(self) -> bool:
        """Whether the radio adds up the signals."""
        return self.radio and not self.separate

    def receptions(self, sending: Array) -> Any:
        """How often the receiver's noise counts: once for the sum, or once for each of those sending, (..., K)."""
        return array_namespace(sending).sum(sending, axis=-1) if self.separate else 1.0

    def check(self, network: Any) -> None:  # noqa: B027  (radio takes every network)
        """Raises a NetworkError where its settings do not fit."""

    @abstractmethod
    def received(self, network: Any, slots: str, noise: str) -> str:
        """A sentence: what the server receives. slots, noise: words that it weaves in."""


@final
class Superposed(Access):
    """The radio adds up the signals of all devices."""

    medium = "air"
    label = "all at once, on the air"
    about = "The server receives the sum: all noise protects each."
    unprotected = "a device whose signal somebody receives by itself"

    def received(self, network: Any, slots: str, noise: str) -> str:
        return (
            f"The server receives these {network.dimension} numbers, the noisy sum of all devices on the air, and "
            f"nothing else of what they see{slots}. No feature arrives by itself; {noise}."
        )


@final
class Orthogonal(Access):
    """Devices transmit one after the other."""

    separate = True
    label = "one after the other"
    about = "The server receives each device: only its own noise counts."
    turns = "one turn for each device"
    assumption = "Every device is received by itself, so only its own noise protects it."

    def received(self, network: Any, slots: str, noise: str) -> str:
        return (
            f"The server receives {network.dimension} numbers from each of {network.devices.count} devices by "
            f"itself{slots}: only a device's own noise protects it. Their sum is drawn; {noise} of its numbers."
        )


@final
class Secure(Access):
    """A secure sum over an ordinary network."""

    radio = False
    cover_noise = True
    senders_seen = True
    majority = True
    medium = "secure sum"
    label = "a secure sum, no radio"
    about = "Masked numbers over a network; the server opens the sum only."
    title = "secure sum"
    unprotected = "a device whose group is mostly in the adversary's hands"

    def check(self, network: Any) -> None:
        count, colluders = network.devices.count, network.colluders
        if count < 2:
            raise NetworkError("access = secure needs at least 2 devices: a sum of one is its own value")
        if network.outnumbered(colluders):
            most = (count - colluders - 1) // 2
            raise NetworkError(
                f"dropouts={network.dropouts} must be at most {most} with access = secure, {count} devices and "
                f"colluders={colluders}: the {network.survivors} survivors must be more than half of devices and "
                "colluders"
            )
        if antennas := network.adversary.antennas:
            raise NetworkError(f"adversary.antennas={antennas} must be 0: access = secure has no radio")

    def received(self, network: Any, slots: str, noise: str) -> str:
        return (
            f"The server opens these {network.dimension} numbers, the noisy sum of {network.devices.count} devices, "
            f"and nothing else{slots}: the masks of the secure sum hide every single feature; {noise}."
        )


ACCESSES: dict[AccessName, Access] = {"superposed": Superposed(), "orthogonal": Orthogonal(), "secure": Secure()}
