"""Charging a device for an inference, before coin, score and feature exist. The ledger plugs in here."""

from collections import OrderedDict
from typing import Protocol, runtime_checkable


class NotSentError(Exception):
    """The device does not take part; the text says why."""


class Charge(Protocol):
    def charge(self, inference_id: str, epoch: str = "") -> None:
        """Books one inference, in an epoch of the channel; "": in one of its own. Raises NotSentError where nothing is
        left, and where this id was booked before: one charge pays for one transmission."""
        ...


@runtime_checkable
class Foreseen(Protocol):
    """A charge that can predict a refusal."""

    def refusal(self) -> str | None:
        """The reason why the next inference would be refused; None if it would not."""
        ...


_REMEMBERED = 4096


class Counted:
    """Counts in memory: a restart forgets. inferences: the budget; None: no limit.

    An id that is older than the last 4,096 is not remembered, and is charged again.
    """

    def __init__(self, inferences: int | None = None) -> None:
        if inferences is not None and inferences < 0:
            raise ValueError(f"inferences={inferences} must be >= 0")
        self.spent, self._budget = 0, inferences
        self._booked: OrderedDict[str, None] = OrderedDict()

    def charge(self, inference_id: str, epoch: str = "") -> None:
        if inference_id in self._booked:
            raise NotSentError("this inference was announced before")
        if self._budget is not None and self.spent >= self._budget:
            raise NotSentError(f"the budget of {self._budget} inferences is spent")
        self.spent += 1
        self._booked[inference_id] = None
        if len(self._booked) > _REMEMBERED:
            self._booked.popitem(last=False)
