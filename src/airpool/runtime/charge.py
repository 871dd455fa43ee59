"""Charging a device for a slot, before coin, score and feature exist. The ledger plugs in here.

An inference of one slot is charged by its id, one of several slot by slot (under_way.py).
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from airpool._support.errors import AirpoolError
from airpool.runtime.messages import WithdrawalReason

NOT_ALL_SLOTS = "the budget does not cover all slots of another inference"


class NotSentError(AirpoolError):
    """The device does not take part; the text says why, in its own log. reason: the part of it that others learn."""

    def __init__(self, text: str, reason: WithdrawalReason = WithdrawalReason.INTERNAL) -> None:
        super().__init__(text)
        self.reason = reason


class Charge(Protocol):
    def charge(self, inference_id: str, epoch: str = "") -> None:
        """Books one slot, in an epoch of the channel; "": in one of its own. Raises NotSentError where nothing is left,
        and where this id was booked before: one charge pays for one transmission."""
        ...


@runtime_checkable
class Foreseen(Protocol):
    """A charge that can predict a refusal."""

    def refusal(self, *, probe: bool = False) -> str | None:
        """The reason why the next inference would be refused; None if it would not.

        probe: also writes where a charge writes, since the last one failed.
        """
        ...


@runtime_checkable
class Batched(Protocol):
    """A charge of several inferences together."""

    def covered(self, most: int) -> int:
        """The number of next inferences that the budget covers, up to `most`."""
        ...

    def charge_all(self, inferences: Sequence[tuple[str, str]]) -> None:
        """Books inferences, each with its epoch: all of them, or none and NotSentError."""
        ...


class Spent(NamedTuple):
    """ε that was spent, and the budget for all inferences, if there is one; at δ, for a relation of neighbours."""

    budget: float | None
    epsilon: float
    delta: float
    neighbours: str


@runtime_checkable
class Metered(Protocol):
    """A charge that knows what was spent."""

    def spending(self) -> Spent | None:
        """None where it cannot be read now."""
        ...


@dataclass
class Waits:
    """The reason why a device is not ready; unspecified: nothing keeps it."""

    reason: WithdrawalReason = WithdrawalReason.UNSPECIFIED


def not_covered(charge: Charge, *, probe: bool = False) -> NotSentError:
    """The refusal of an inference: the budget does not cover all of its slots, or the ledger fails."""
    why = charge.refusal(probe=probe) if isinstance(charge, Foreseen) else None
    if why is None or why.startswith("over budget"):
        return NotSentError(why or NOT_ALL_SLOTS, WithdrawalReason.BUDGET)
    return NotSentError(why, WithdrawalReason.DISK)


_REMEMBERED = 4096


class Counted:
    """Counts in memory, without a limit: a restart forgets.

    An id that is older than the last 4,096 is not remembered, and is charged again.
    """

    def __init__(self) -> None:
        self.spent = 0
        self._booked: OrderedDict[str, None] = OrderedDict()

    def covered(self, most: int) -> int:
        return most

    def charge(self, inference_id: str, epoch: str = "") -> None:
        self.charge_all([(inference_id, epoch)])

    def charge_all(self, inferences: Sequence[tuple[str, str]]) -> None:
        names = [id for id, _ in inferences]
        if len({*names} - self._booked.keys()) < len(names):
            raise NotSentError("this inference was announced before", WithdrawalReason.REPEATED)
        self.spent += len(names)
        self._booked.update(dict.fromkeys(names))
        while len(self._booked) > _REMEMBERED:
            self._booked.popitem(last=False)

    def close(self) -> None:
        """Nothing is open."""
