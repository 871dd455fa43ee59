"""Messages between devices, hub and server, as values: announcements, signals, sums, balances, refusals.

The functions at the end, and service.py, turn them into messages of gRPC, and back.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import NamedTuple

from airpool._support.arrays import Floats
from airpool._support.errors import AirpoolError
from airpool_runtime import wire_pb2 as wire

LONGEST_ID = 64  # characters of an inference's id


@dataclass(frozen=True)
class Announcement:
    """One slot of an inference, as a device learns of it.

    id: of the slot, never used twice. number: place of the inference in the run. gain: this device's own channel, as
    far as it knows it. digest: of the terms that the server goes by (terms.py). devices: number announced to. epoch:
    names the draw of the channel, as long as no gain or error of any device changes; "" where the medium does not vouch
    for that. inference, slot:
    of which id is made (under_way.py); "": id is that of the inference. ended: inferences that are over.
    moment: that views are of, in seconds since 1970 by the hub's clock. window: seconds by which a
    frame may be before or after it; 0: any.
    """

    id: str
    number: int
    gain: float
    digest: str
    devices: int
    epoch: str = ""
    inference: str = ""
    slot: int = 1
    ended: tuple[str, ...] = ()
    moment: float = 0.0
    window: float = 0.0


@dataclass(frozen=True, eq=False)
class SlotSignal:
    """A device's answer to an announcement: x, zeros where it is silent. scale: α/p, for its power; 0 if silent.

    charged: seconds from the announcement to the end of the charge; 0: not said.
    """

    id: str
    samples: Floats
    scale: float
    charged: float = 0.0


class WithdrawalReason(StrEnum):
    """Public reasons why a device leaves a slot; none depends on what it sees. As `Reason` in wire.proto."""

    UNSPECIFIED = "unspecified"
    TERMS = "terms"
    BUDGET = "budget"
    DISK = "disk"
    REPEATED = "repeated"
    RANKING = "ranking"
    ROUND = "round"
    INTERNAL = "internal"


@dataclass(frozen=True)
class Balance:
    """A device's own account. spent: ε that its ledger has charged; None: it keeps none. budget: ε that all inferences
    may reach; None: no such limit. delta, neighbours: of both. waits: why the device is not ready."""

    spent: float | None = None
    budget: float | None = None
    delta: float = 0.0
    neighbours: str = ""
    waits: WithdrawalReason = WithdrawalReason.UNSPECIFIED


@dataclass(frozen=True)
class RoundMessage:
    """A message of a secure round, in either direction."""

    id: str
    content: bytes


@dataclass(frozen=True)
class RoundOver:
    """The end of a round for a device: no message follows."""

    id: str


Turn = tuple[Announcement, ...]  # announced together, to be answered in this order
Deliver = Callable[[Turn | RoundMessage | RoundOver], None]  # hands a device what the hub says; must not block


class Course(NamedTuple):
    """The course of a slot at the hub: seconds since it has the request, by its own clock; 0: it did not come to that.

    charged: when it was announced, and the longest charge that a device has told of, which ends before coin, score and
    view. last: answer of a device, or message of a secure round; the first is not told, for it is the time of one
    device. summed: the sum is made, or withheld.
    """

    announced: float = 0.0
    charged: float = 0.0
    last: float = 0.0
    summed: float = 0.0


@dataclass(frozen=True, eq=False)
class Sum:
    """y, (coordinates,). devices: number in the slot to its end, silent ones included. carrier: any transmitted."""

    y: Floats
    devices: int
    carrier: bool
    simulated: bool = False
    course: Course | None = None


@dataclass(frozen=True)
class Withheld:
    """No sum. spent: whether the inference was announced. rejected: the request is not one for this hub."""

    reason: str
    spent: bool
    rejected: bool = False
    course: Course | None = None


@dataclass(frozen=True)
class DeviceFault:
    """A device that is not counted on, and why. seconds: until it is announced to again; 0: once it is ready."""

    device: int
    reason: str
    seconds: float = 0.0


@dataclass(frozen=True)
class AirStatus:
    """able: devices that are connected, and neither stalled nor set aside. ready: of these, ready at this moment.

    version: of the air. versions: of the connected devices, by index. balances: of those that have told it.
    """

    devices: int
    quorum: int
    connected: int
    able: int
    ready: int
    faults: tuple[DeviceFault, ...] = ()
    version: str = ""
    versions: Mapping[int, str] = field(default_factory=dict)
    balances: Mapping[int, Balance] = field(default_factory=dict)


@dataclass(frozen=True)
class StatedTerms:
    """A peer's terms (terms.py). digest: SHA-256, hexadecimal. text: its network file; "": not sent."""

    digest: str
    text: str = ""


class DisconnectedError(AirpoolError):
    """The medium is gone for now; the port may be opened again."""


class UnreachedError(DisconnectedError):
    """The other end was never reached: nothing was announced."""


class RejectedError(AirpoolError):
    """A connection, signal or score that is not accepted; the text names no value of it."""


_NEIGHBOURS = 16  # characters of a relation's name


def announced(told: wire.Announcement) -> Announcement:
    given = {each.name: getattr(told, each.name) for each in fields(Announcement)}
    return Announcement(**given | {"slot": told.slot or 1, "ended": tuple(told.ended)})


def balance_message(told: Balance) -> wire.Balance:
    return wire.Balance(
        spent=told.spent, budget=told.budget, delta=told.delta, neighbours=told.neighbours, waits=told.waits.name
    )


def balance_of(told: wire.Balance) -> Balance:
    """A balance of the wire; a reason that this version does not know is unspecified."""
    spent, budget = (getattr(told, name) if told.HasField(name) else None for name in ("spent", "budget"))
    return Balance(spent, budget, told.delta, told.neighbours[:_NEIGHBOURS], reason_of(told.waits))


def reason_of(sent: int) -> WithdrawalReason:
    """A reason of the wire; one that this version does not know is unspecified."""
    known = wire.Reason.keys()[sent] if 0 <= sent < len(wire.Reason.keys()) else "UNSPECIFIED"
    return WithdrawalReason[known]
