"""The end of a slot at a hub: its sum, or why it is withheld; and which devices it counts against."""

from dataclasses import dataclass, field

from airpool.network import Network
from airpool.runtime import logs
from airpool.runtime.medium import Round
from airpool.runtime.messages import Sum, WithdrawalReason, Withheld
from airpool.runtime.standing import Standing
from airpool.runtime.turns import Request

_HUNG_UP = "it hung up in a slot"


@dataclass(frozen=True, eq=False)
class Judge:
    """Keeps who left the rounds of a turn, and how, where only the end decides whose fault that is."""

    network: Network
    standing: Standing
    simulated: bool
    _left: dict[str, dict[int, str]] = field(init=False, default_factory=dict)  # by round, by device

    def hung_up(self, id: str, device: int) -> None:
        self._left.setdefault(id, {}).setdefault(device, _HUNG_UP)

    def withdrew(self, id: str, device: int, reason: WithdrawalReason) -> None:
        why = f"it withdrew ({reason.value})"
        if reason is WithdrawalReason.RANKING:
            self._left.setdefault(id, {})[device] = why
        elif reason is not WithdrawalReason.ROUND:  # another device may have broken the round
            self.standing.failed(device, why)

    def forget(self) -> None:
        """At the end of a turn."""
        self._left.clear()

    def outcome(self, request: Request, slot: Round, seconds: float) -> Sum | Withheld:
        """The sum, unless more devices are missing than the network's ε allows for."""
        count, arrived = self.network.devices.count, slot.arrived
        missing = count - len(arrived)
        enough = not slot.dropped and missing <= self.network.dropouts
        for k in arrived:
            self.standing.served(k)
        for k, why in slot.doubted.items():
            self.standing.failed(k, why, at_once=True)
        for k, why in slot.blamed.items():
            self.standing.banned(k, why)
        for k in slot.awaited & self.standing.connected.keys():
            logs.event("slow", id=request.id, device=k)
            if not enough:
                self.standing.failed(k, "it did not answer in time")
        self._count(self._left.get(request.id, {}), enough=enough)
        logs.event("slot", id=request.id, devices=len(arrived), missing=missing, seconds=round(seconds, 4))
        if not enough:
            few = f"{missing} of {count} devices are missing, {self.network.dropouts} may be"
            why = f"withheld: {slot.dropped or few}" + self.standing.named(arrived)
            return Withheld(why, spent=True, course=request.watch.summed())
        return Sum(slot.received(), len(arrived), slot.carrier, self.simulated, request.watch.summed())

    def _count(self, left: dict[int, str], *, enough: bool) -> None:
        """Counts who left a round: by hanging up, if the sum was withheld; for want of a ranking, unless most did."""
        without = sum(1 for why in left.values() if why != _HUNG_UP)
        for k, why in left.items():
            if (not enough) if why == _HUNG_UP else 2 * without <= self.network.devices.count:
                self.standing.failed(k, why)
            elif why != _HUNG_UP:
                self.standing.noted(k, why)
