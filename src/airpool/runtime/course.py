"""The course of a slot at the hub: when it was announced, charged, answered and summed, for whoever watches.

Times are the hub's own. Only the charge is told by devices, as a duration: it ends before coin, score and view, so it
depends on none of them.
"""

import time
from typing import NamedTuple


class Course(NamedTuple):
    """Seconds since the hub has the request; 0: it did not come to that.

    charged: when it was announced, and the longest charge that a device has told of. last: answer of a device, or
    message of a secure round; the first is not told, for it is the time of one device. summed:
    the sum is made, or withheld.
    """

    announced: float = 0.0
    charged: float = 0.0
    last: float = 0.0
    summed: float = 0.0


class SlotCourse(NamedTuple):
    """The course of a slot as its server has it. marks: seconds since the server asked, by name, in their order.

    asked, answered: by the server's clock. Those in between are the hub's, moved by half of what the way there and
    back took: no clocks need to agree.
    """

    id: str
    number: int
    slot: int
    marks: dict[str, float]

    @classmethod
    def of(cls, found: Course, what: tuple[str, int, int], *, waited: float, answered: float) -> "SlotCourse":
        """what: id and number of the inference, and its slot. waited: for the hub. answered: since the server asked."""
        way = max(0.0, (waited - found.summed) / 2)
        between = {name: round(way + seconds, 6) for name, seconds in found._asdict().items() if seconds}
        return cls(*what, {"asked": 0.0, **between, "answered": round(answered, 6)})


class Stopwatch:
    """Takes the times of one slot, from when it is made."""

    def __init__(self) -> None:
        self._zero, self._charge = time.perf_counter(), 0.0
        self._announced = self._last = 0.0

    @property
    def _now(self) -> float:
        return time.perf_counter() - self._zero

    def announced(self) -> None:
        self._announced = self._now

    def answered(self, charged: float = 0.0) -> None:
        """Notes an answer. charged: seconds that its device says; ignored where they cannot be true."""
        self._last = now = self._now
        if self._charge < charged <= now - self._announced:
            self._charge = charged

    def summed(self) -> Course:
        charged = self._announced + self._charge if self._charge else 0.0
        marks = (self._announced, charged, self._last, self._now)
        return Course(*(round(each, 6) for each in marks))
