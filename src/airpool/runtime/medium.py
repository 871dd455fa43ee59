"""Ports of a medium, one for a device and one for the server. Roles are written against these two alone."""

from dataclasses import dataclass
from typing import Protocol

from airpool._support.arrays import Floats


@dataclass(frozen=True)
class Announcement:
    """One inference, as a device learns of it.

    id: of the inference, never used twice. number: its place in the run. gain: this device's own channel, as far as the
    device knows it. asked: the network file that the server goes by. devices: how many were announced to.
    group: secure access, the first message of the round. epoch: names the draw of the channel, as long as no gain or
    error of any device changes; "" where the medium does not vouch for that.
    """

    id: str
    number: int
    gain: float
    asked: str
    devices: int
    group: bytes = b""
    epoch: str = ""


@dataclass(frozen=True, eq=False)
class Sum:
    """y, (coordinates,), and nothing else of the devices.

    devices: how many were in the slot to its end, silent ones included. carrier: whether any device transmitted.
    """

    y: Floats
    devices: int
    carrier: bool
    simulated: bool = False


@dataclass(frozen=True)
class Withheld:
    """No sum. spent: whether the inference was announced, and so counts as spent."""

    reason: str
    spent: bool


class DisconnectedError(Exception):
    """The medium is gone for now; the port may be opened again."""


class RejectedError(Exception):
    """A connection, signal or score that is not accepted; the text names no value of it."""


class DevicePort(Protocol):
    async def ready(self) -> None:
        """Declares readiness for one inference: before coin, score and feature exist."""
        ...

    async def announcement(self) -> Announcement: ...

    async def transmit(self, id: str, samples: Floats, scale: float) -> None:
        """Sends x in the slot; zeros where the device is silent. scale: α/p, for its power; 0 if silent."""
        ...

    async def withdraw(self, id: str) -> None:
        """Leaves the slot without noise: counts as missing."""
        ...


class ServerPort(Protocol):
    async def ready(self) -> int:
        """Number of devices that are connected and ready."""
        ...

    async def hold(self, id: str, number: int, asked: str) -> Sum | Withheld:
        """Announces an inference, if enough devices are ready, and waits for the end of its slot."""
        ...


class RankingPort(Protocol):
    async def selected(self, id: str, device: int, devices: int, noisy_score: float) -> bool:
        """The ranking server's answer to a noisy score; devices: how many scores it may expect."""
        ...
