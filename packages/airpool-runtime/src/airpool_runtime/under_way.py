"""Inferences of several slots that are under way: names of their slots, and what is reserved for the slots to come.

Hub and devices keep one each. A device books the name that it makes itself of an inference and a slot from 1 to its own
N, so that no more than N slots of one inference can ever be booked, after restarts too. What is reserved decides which
inferences begin, and nothing else: every slot is booked against the budget before it is sent.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from airpool._support.arrays import Floats
from airpool.network import Slots

MOST_KEPT, KEPT_SECONDS = 64, 60.0  # inferences, and the time since the last slot of one
PLENTY = 2**31 - 1  # slots that a budget covers: more than a turn and all that is under way can use


@dataclass(frozen=True)
class AskedSlot:
    """The slot of an inference that a server asks for, from 1 to N. ended: inferences of which it asks no more."""

    slot: int = 1
    ended: tuple[str, ...] = ()


FIRST_SLOT = AskedSlot()


def slot_name(inference: str, slot: int, slots: Slots) -> str:
    """The id of a slot, and the name that it is booked by; that of an inference of one slot is its own.

    >>> slot_name("a1", 3, Slots(16)), slot_name("a1", 1, Slots())
    ('a1/3', 'a1')
    """
    return inference if slots.count == 1 else f"{inference}/{slot}"


def parts(id: str, slots: Slots) -> tuple[str, int]:
    """Inference and slot of the id of a slot.

    >>> parts("a1/3", Slots(16)), parts("a1", Slots())
    (('a1', 3), ('a1', 1))
    """
    inference, _, slot = id.rpartition("/")
    return (id, 1) if slots.count == 1 else (inference, int(slot))


def cap(slots: Slots) -> int:
    """Rows that an inference may cost: one a slot; one in all where one draw serves all slots (ledger/mechanism.py)."""
    return slots.count if slots.redrawn else 1


@dataclass(frozen=True, eq=False)
class Seen:
    """One view, encoded: the latent (r,), and the device's own posterior (L,) where scores choose.

    time: when it was taken, in seconds since 1970; None: it is of no moment, as a stored one.
    """

    latent: Floats
    posterior: Floats | None = None
    time: float | None = None


@dataclass(eq=False)
class Going:
    """An inference under way. slot: the last one announced. until: when it counts as over.

    At a device: seen, the view that all its slots send. drawn: whether it takes part, and its gain, where one draw
    serves all slots; None: not drawn yet, or anew in each slot.
    """

    slot: int
    until: float
    seen: Seen | None = None
    drawn: tuple[bool, float] | None = None


class Noted(NamedTuple):
    """A slot that was noted. before: the last slot and the end of its inference until then; None: it is the first."""

    inference: str
    going: Going
    before: tuple[int, float] | None


class UnderWay:
    """The last inferences whose slots are not all spent; each is over when it is said to be, or after a minute."""

    def __init__(self, slots: Slots, clock: Callable[[], float] = time.monotonic) -> None:
        self._slots, self._clock, self.cap = slots, clock, cap(slots)
        self._going: dict[str, Going] = {}

    def note(self, inference: str, slot: int) -> Noted:
        known = self.get(inference)
        before = None if known is None else (known.slot, known.until)
        self._going.pop(inference, None)  # the newest stands last
        it = known or Going(slot, 0.0)
        it.slot, it.until = max(it.slot, slot), self._clock() + KEPT_SECONDS
        self._going[inference] = it
        while len(self._going) > MOST_KEPT:
            self.end(next(iter(self._going)))
        return Noted(inference, it, before)

    def undo(self, noted: Noted) -> None:
        """Takes a note back: a slot that is refused reserves nothing."""
        if noted.before is None:
            self.end(noted.inference)
        else:
            noted.going.slot, noted.going.until = noted.before

    def end(self, inference: str) -> None:
        self._going.pop(inference, None)

    def get(self, inference: str) -> Going | None:
        for name in [name for name, it in self._going.items() if it.until < self._clock()]:
            self.end(name)
        return self._going.get(inference)

    @property
    def reserved(self) -> int:
        """Rows that the slots to come may cost, of all inferences under way."""
        if not self._slots.redrawn:
            return 0
        now = self._clock()
        return sum(max(self._slots.count - it.slot, 0) for it in self._going.values() if it.until >= now)

    def needed(self, slot: int = 1) -> int:
        """Rows that a budget must cover for another inference to begin with this slot."""
        return self.reserved + (self.cap - slot + 1 if self._slots.redrawn else self.cap)

    def __len__(self) -> int:
        return sum(1 for it in self._going.values() if it.until >= self._clock())
