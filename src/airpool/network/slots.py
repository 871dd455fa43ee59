"""Slots of one inference: the same features sent up to N times with fresh noise, until the server is sure."""

from dataclasses import dataclass
from typing import Annotated, Any

from airpool.network.rules import NetworkError, Rule, check

MOST_SLOTS = 4096


@dataclass(frozen=True)
class Slots:
    """The slots of one inference: how many there may be, and when the server stops asking (howto/slots.md).

    count: N, the most slots of an inference; ε of an inference is that of all N, however early the server stops.
    sure: how probable the server's best class must be for it to stop before the last slot.
    redrawn: coins, scores and gains are drawn anew in each slot, else once for all slots of an inference.
    abstain: where the server is not sure after the last slot, it gives no answer instead of its best one.

    >>> Slots(count=4, sure=0.95, abstain=True).count
    4
    """

    count: Annotated[int, range(1, MOST_SLOTS + 1)] = 1
    sure: Annotated[float, Rule("must be > 0 and <= 1", lambda x: 0 < x <= 1)] = 0.99
    redrawn: bool = True
    abstain: bool = False

    def __post_init__(self) -> None:
        check(self, "slots.")


def require_one_slot(network: Any, what: str) -> None:
    """Raises a NetworkError if an inference may have several slots. what: the thing that is one slot."""
    if network.slots.count > 1:
        raise NetworkError(
            f"slots.count={network.slots.count} must be 1: {what}; take --slots 1 (network.one_slot), or `evaluate`, "
            "which asks slot after slot"
        )
