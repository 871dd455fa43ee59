"""A question about a network: what is claimed of it, and over what carrier."""

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Protocol

from airpool.account.received import aggregate
from airpool.account.views import Situation
from airpool.network import Claim, Network


class Carrier(Protocol):
    """What carries the signals in the place of a network's own channel, such as a waveform."""

    @property
    def exact(self) -> bool:
        """Whether a lower end of ε is known."""
        ...

    def accounted(self, network: Network) -> Network:
        """The network whose ε holds for this one."""
        ...

    def assumptions(self, network: Network, lines: tuple[str, ...]) -> tuple[str, ...]:
        """The sentences of a report, from those of the accounted network."""
        ...


@dataclass(frozen=True)
class Question:
    """The network that transmits, and what is claimed of it; a report is its answer."""

    network: Network
    claim: Claim = field(default_factory=Claim)
    carrier: Carrier | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without the situation, which is found again where it is needed."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def about(self, network: Network | None = None, **changes: Any) -> "Question":
        """The question with these changes of its claim, or about another network."""
        return replace(self, network=network or self.network, claim=replace(self.claim, **changes))

    @property
    def accounted(self) -> Network:
        """The network that ε is computed from."""
        return self.network if self.carrier is None else self.carrier.accounted(self.network)

    @cached_property
    def situation(self) -> Situation:
        """What is received in one use, for the views."""
        network, claim = self.accounted, self.claim
        return Situation(network, claim, aggregate(network, claim), network.uses(claim))
