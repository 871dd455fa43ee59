"""Values of the runtime as messages of the wire, and back."""

from airpool.runtime import wire_pb2 as wire
from airpool.runtime.course import Course
from airpool.runtime.messages import Announcement, Balance, WithdrawalReason

_NEIGHBOURS = 16  # characters of a relation's name


def announced(told: wire.Announcement) -> Announcement:
    """An announcement, as a device has it."""
    what = (told.id, told.number, told.gain, told.digest, told.devices, told.epoch)
    own = {"inference": told.inference, "slot": told.slot or 1, "ended": tuple(told.ended)}
    return Announcement(*what, **own, moment=told.moment, window=told.window)


def balance_message(told: Balance) -> wire.Balance:
    """A balance on the wire."""
    what = {"spent": told.spent, "budget": told.budget, "delta": told.delta, "neighbours": told.neighbours}
    return wire.Balance(**what, waits=told.waits.name)


def balance_of(told: wire.Balance) -> Balance:
    """A balance of the wire; a reason that this version does not know is unspecified."""
    spent, budget = (getattr(told, name) if told.HasField(name) else None for name in ("spent", "budget"))
    return Balance(spent, budget, told.delta, told.neighbours[:_NEIGHBOURS], reason_of(told.waits))


def reason_of(sent: int) -> WithdrawalReason:
    """A reason of the wire; one that this version does not know is unspecified."""
    known = wire.Reason.keys()[sent] if 0 <= sent < len(wire.Reason.keys()) else "UNSPECIFIED"
    return WithdrawalReason[known]


def course_of(told: wire.SlotOutcome) -> Course | None:
    """The course of a slot; None from an air that does not say."""
    return Course(*(getattr(told.course, name) for name in Course._fields)) if told.HasField("course") else None
