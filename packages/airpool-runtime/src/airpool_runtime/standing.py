"""Standing of the devices at a hub: connected, ready, stalled, set aside.

A device that leaves slots again and again is set aside for a while, so that it does not spend the others' budgets.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Container
from dataclasses import dataclass, field

from airpool_runtime import logs
from airpool_runtime.messages import Balance, Deliver, DeviceFault, WithdrawalReason
from airpool_runtime.under_way import MOST_KEPT

MOST_FAILURES, FORGIVEN_AFTER = 2, 20
FIRST_SECONDS, LONGEST_SECONDS = 30.0, 3600.0
_FOR_GOOD = 1e9  # seconds
_NAMED = 5
OVER_BUDGET = "its budget does not cover another inference"
_WAITS = {
    WithdrawalReason.BUDGET: OVER_BUDGET,
    WithdrawalReason.DISK: "its ledger cannot be written or read",
    WithdrawalReason.RANKING: "it cannot reach the ranking server",
}


@dataclass(eq=False)
class Connection:
    """A connected device. inferences: the most of its next turn; 0: it is not ready. since: when it last answered.

    stalled: it is not waited for until it is ready again. left: slots that its budget covers, where an inference has
    several; None: not said. ended: inferences that are over, of which it has yet to hear. balance: None: not told.
    """

    deliver: Deliver
    since: float
    inferences: int = 0
    advert: bytes = b""
    stalled: bool = False
    version: str = ""
    left: int | None = None
    balance: Balance | None = None
    ended: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_KEPT))


@dataclass
class _Failures:
    count: int = 0
    served: int = 0  # inferences since the last one
    reason: str = ""
    seconds: float = FIRST_SECONDS
    until: float = 0.0


@dataclass
class Standing:
    """patience: time after which a device that is not ready counts as stalled.

    From its second failure on a device is set aside, each time twice as long; 20 inferences served in a row clear it.
    """

    devices: int
    patience: float
    clock: Callable[[], float] = time.monotonic
    connected: dict[int, Connection] = field(default_factory=dict)
    _failures: dict[int, _Failures] = field(default_factory=dict)
    _refused: dict[int, str] = field(default_factory=dict)  # by device, why it may not connect
    needed: int = 0  # slots that a budget must cover for another inference

    def connect(self, device: int, deliver: Deliver, version: str = "") -> None:
        self.connected[device] = Connection(deliver, self.clock(), version=version)
        self._refused.pop(device, None)

    def refused(self, device: int, reason: str) -> bool:
        """Notes why a device may not connect, until it does; returns whether that is new."""
        before, self._refused[device] = self._refused.get(device), reason
        return before != reason

    def answered(self, device: int, *, late: bool) -> None:
        """Notes the end of a turn that was announced to this device. late: it has not answered."""
        if (it := self.connected.get(device)) is not None:
            it.since, it.stalled = self.clock(), late and not it.inferences

    def served(self, device: int) -> None:
        if (its := self._failures.get(device)) is not None and self.aside(device) is None:
            its.served, its.reason = its.served + 1, ""
            if its.served >= FORGIVEN_AFTER or not its.count:
                del self._failures[device]

    def failed(self, device: int, reason: str, *, at_once: bool = False) -> None:
        """Notes a failure. at_once: the device is set aside for this one alone."""
        its = self._failures.setdefault(device, _Failures())
        its.count, its.served, its.reason = its.count + 1, 0, reason
        if (at_once or its.count >= MOST_FAILURES) and its.until <= self.clock():
            its.until = self.clock() + its.seconds
            logs.event("set aside", device=device, reason=reason, seconds=its.seconds)
            its.seconds = min(2 * its.seconds, LONGEST_SECONDS)

    def banned(self, device: int, reason: str) -> None:
        """Sets a device aside for good: it did not follow the protocol."""
        self._failures[device] = _Failures(reason=reason, until=math.inf)
        logs.event("set aside", device=device, reason=reason)

    def noted(self, device: int, reason: str) -> bool:
        """Notes why a device is not ready, for its fault; returns whether that is new."""
        its = self._failures.setdefault(device, _Failures())
        before, its.reason = its.reason, reason
        return before != reason

    def aside(self, device: int) -> DeviceFault | None:
        """The fault of a device that is set aside now; None where it is not."""
        its = self._failures.get(device)
        if its is None or (left := its.until - self.clock()) <= 0:
            return None
        return DeviceFault(device, f"set aside: {its.reason}", min(round(left, 1), _FOR_GOOD))

    def fault(self, device: int, busy: Container[int] = ()) -> DeviceFault | None:
        """The reason why a device is not counted on; None where it is. busy: those in a turn."""
        if (aside := self.aside(device)) is not None:
            return aside
        it = self.connected.get(device)
        if it is None and device in self._refused:
            return DeviceFault(device, f"not connected: {self._refused[device]}")
        if it is not None and it.left is not None and it.left < self.needed:
            return DeviceFault(device, OVER_BUDGET)
        if it is None or it.inferences:
            return None
        if it.balance is not None and (why := _WAITS.get(it.balance.waits)):
            return DeviceFault(device, f"not ready; {why}")
        if it.stalled or (device not in busy and self.clock() - it.since > self.patience):
            return DeviceFault(device, f"not ready; {last}" if (last := self._reason(device)) else "not ready")
        return None

    def faults(self, busy: Container[int] = ()) -> tuple[DeviceFault, ...]:
        found = (self.fault(k, busy) for k in range(self.devices))
        return tuple(fault for fault in found if fault is not None)

    def ready(self) -> dict[int, Connection]:
        return {k: it for k, it in self.connected.items() if it.inferences and self.aside(k) is None}

    def awaited(self) -> set[int]:
        """Devices that a turn waits for: connected, neither stalled nor set aside."""
        return {k for k, it in self.connected.items() if not it.stalled and self.aside(k) is None}

    def give_up(self) -> None:
        """Waits no longer for those that are not ready, until they are."""
        for it in self.connected.values():
            it.stalled = it.stalled or not it.inferences

    def named(self, but: Container[int] = ()) -> str:
        """The devices at fault, in words that follow a reason; "" where none is known."""
        known = {k: self.fault(k) for k in range(self.devices) if k not in but}
        reasons = {k: fault.reason if fault else self._reason(k) for k, fault in known.items()}
        named = [f"; device {k}: {reason}" for k, reason in reasons.items() if reason]
        return "".join(named[:_NAMED])

    def _reason(self, device: int) -> str:
        return self._failures[device].reason if device in self._failures else ""
