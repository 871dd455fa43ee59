"""Ports of a medium: of a device, of the server, and the hub that adds up between them.

Roles are written against these protocols alone. Two media are airpool's own: the radio (radio_medium.py) and the secure
sum (secure_medium.py). Each runs in one process (loopback.py) and over gRPC (remote.py, service.py).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from airpool._support.arrays import Floats
from airpool._support.plugins import Registry
from airpool.network import ACCESSES, Network, NetworkError
from airpool_runtime.messages import (
    AirStatus,
    Announcement,
    Balance,
    RoundMessage,
    RoundOver,
    SlotSignal,
    StatedTerms,
    Sum,
    Turn,
    WithdrawalReason,
    Withheld,
)
from airpool_runtime.options import FRAME_WINDOW
from airpool_runtime.under_way import FIRST_SLOT, AskedSlot


class DevicePort(Protocol):
    """A device's end of the medium. Its order in every turn: ready, announcements, accept, then transmit or withdraw.

    >>> from airpool_runtime.loopback import LoopbackDevice
    >>> all(hasattr(LoopbackDevice, name) for name in ("ready", "announcements", "accept", "transmit", "withdraw"))
    True
    """

    async def ready(self, inferences: int = 1, left: int | None = None) -> None:
        """Declares readiness for one turn of at most this many: before coin, score and feature exist. left: slots that
        the budget covers, where an inference has several."""

    async def announcements(self) -> Turn:
        """The next turn; empty where the device was not accepted as ready."""
        ...

    async def accept(self, announced: Announcement) -> None:
        """Checks what the medium itself asks of this inference, before the charge. Raises NotSentError."""

    async def transmit(self, signals: Sequence[SlotSignal]) -> None:
        """Sends signals of a turn."""

    async def withdraw(self, id: str, reason: WithdrawalReason) -> None:
        """Leaves the slot without noise: counts as missing."""

    def close(self) -> None:
        """Ends the connection."""


class Line(DevicePort, Protocol):
    """A device's connection to a hub: a port, its balance, and the messages of a secure round."""

    async def tell(self, balance: Balance) -> None:
        """Tells the hub what the device has spent, and why it is not ready; nothing where the hub does not take it."""

    async def advertise(self, advert: bytes, left: int | None = None) -> None:
        """Declares readiness for one secure round; left: as of `ready`."""

    async def answer(self, message: RoundMessage) -> None: ...

    async def message(self, id: str) -> bytes | None:
        """The next message of this round; None where it is over."""
        ...


class ServerPort(Protocol):
    async def status(self) -> AirStatus: ...

    async def run_slot(self, id: str, number: int, asked: StatedTerms, of: AskedSlot = FIRST_SLOT) -> Sum | Withheld:
        """Announces a slot of an inference, if enough devices are ready, and waits for its end."""
        ...


class RankingPort(Protocol):
    async def selected(self, id: str, device: int, devices: int, noisy_score: float) -> bool:
        """The ranking server's answer to a noisy score; devices: number of scores it may expect."""
        ...

    async def reachable(self) -> bool:
        """Whether the ranking server can be reached now."""
        ...


class Round(Protocol):
    """One inference at the hub, from its announcement to its sum.

    carrier: whether any device transmitted. dropped: the reason why there is no sum; "": there is one.
    blamed: devices that did not follow the medium's protocol, with the reason; they are set aside for good.
    doubted: devices that others do not accept, for a reason that may pass; they are set aside for a while.

    >>> setup = HubSetup(Network.uniform(num_devices=2, dimension=3), quorum=2, seed=0, say=print)
    >>> hub = MEDIA.get("air").hub(setup)
    >>> this = hub.opened("a", 1, {0: b"", 1: b""})
    >>> import numpy as np
    >>> this.take(0, SlotSignal("a", np.array([1.0, 0.0, 2.0]), scale=1.0))
    >>> this.arrived, this.awaited
    ({0}, {1})
    """

    carrier: bool
    dropped: str
    blamed: Mapping[int, str]
    doubted: Mapping[int, str]

    @property
    def awaited(self) -> set[int]:
        """Devices that have yet to answer; after the end, those that were too late."""
        ...

    @property
    def arrived(self) -> set[int]:
        """Devices that are in the sum."""
        ...

    def gain(self, device: int) -> float:
        """The device's channel, as far as the device knows it."""
        ...

    def start(self) -> None:
        """Says what follows the announcement, if anything does."""

    def take(self, device: int, sent: SlotSignal | RoundMessage) -> None:
        """Takes a device's answer, or raises RejectedError."""

    def lose(self, device: int) -> None:
        """Stops waiting for this device."""

    async def ended(self, seconds: float) -> None:
        """Waits for the answers, not longer than this."""

    def received(self) -> Floats:
        """y: what the server gets."""
        ...

    def close(self) -> None:
        """Ends the round for every device that still waits."""


@dataclass(frozen=True)
class PortOptions:
    """Own settings of a device or hub. keys: its folder. quorum: of a device, fewest in a sum; None: all.

    window: of a hub, seconds by which a frame may be before or after the announced moment; 0: any.
    """

    keys: Path | None = None
    quorum: int | None = None
    window: float = FRAME_WINDOW


@dataclass(frozen=True)
class HubSetup:
    """quorum: devices that must be ready. say: hands a device a message of a round. options: the hub's own settings."""

    network: Network
    quorum: int
    seed: int | None
    say: Callable[[int, RoundMessage | RoundOver], None]
    options: PortOptions = PortOptions()


class Hub(Protocol):
    """A medium between the devices and the server: opens a round for every inference.

    inferences: the most in one turn. epoch: names the draw of a channel that stands still; "": drawn anew each time.

    >>> setup = HubSetup(Network.uniform(num_devices=2, dimension=3), quorum=2, seed=0, say=print)
    >>> hub = MEDIA.get("air").hub(setup)
    >>> hub.among(["a"], [0, 1])
    [0, 1]
    """

    inferences: int
    epoch: str

    def admit(self, device: int, advert: bytes | None, others: Sequence[bytes]) -> None:
        """Raises RejectedError unless a device is ready with this advert. others: adverts of those that are ready."""

    def among(self, ids: Sequence[str], ready: Sequence[int]) -> list[int]:
        """Those of the ready devices that slots of these ids are announced to."""
        ...

    def opened(self, id: str, number: int, adverts: Mapping[int, bytes]) -> Round:
        """The round of a slot. adverts: of all devices that it is announced to; b"" where there is none."""
        ...

    def end(self, inference: str) -> None:
        """Forgets an inference that has no further slot."""


class MediumRules(Protocol):
    """A medium: its hub, and the ports of devices on lines to it.

    >>> MEDIA.get("air").slot_seconds(Network.uniform(num_devices=12)) > 0, MEDIA.names()[:2]
    (True, ('air', 'secure sum'))
    """

    def hub(self, setup: HubSetup) -> Hub:
        """The hub of a run, between devices and server."""
        ...

    def slot_seconds(self, network: Network) -> float:
        """The time that a slot waits for the devices, unless it is set."""
        ...

    def ports(
        self, network: Network, devices: Sequence[int], options: PortOptions
    ) -> Callable[[Line, int], DevicePort]:
        """Makes the port of each of these devices out of its line."""
        ...


MEDIA: Registry[MediumRules] = Registry(
    "medium",
    "airpool.media",
    {"air": "airpool_runtime.radio_medium:RADIO", "secure sum": "airpool_runtime.secure_medium:SECURE"},
    needs=("hub", "ports", "slot_seconds"),
)


def medium_of(network: Network) -> str:
    """The name of the medium that runs a network. Raises NetworkError if the network cannot run as processes."""
    channel = network.channel
    if channel.rules.medium is None:
        runs = " or ".join(name for name, rules in ACCESSES.items() if rules.medium is not None)
        raise NetworkError(f"channel.access={channel.access!r} must be {runs}: the server gets the sum alone")
    if channel.power_rule not in ("truncate", "backoff"):
        raise NetworkError(
            f"channel.power_rule={channel.power_rule!r} must be truncate or backoff: else the scale tells of the noise"
        )
    return channel.rules.medium


def slot_seconds_of(network: Network) -> float:
    """The time that a slot waits for the devices of a network, unless it is set."""
    return MEDIA.get(medium_of(network)).slot_seconds(network)
