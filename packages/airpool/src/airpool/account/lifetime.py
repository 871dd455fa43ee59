"""Slots over a device's life: how many a budget allows, and the ε that a stated mean would spend.

A budget of slots that is fixed in advance is a promise, however they are spread over inferences
(docs/proofs/privacy.md, "Slots of one inference"). What a mean number of slots spends is a figure after the fact.
"""

from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from airpool._support.arrays import Floats
from airpool.account.guarantee import device_epsilon
from airpool.account.received import supports_live
from airpool.account.views import Question, Situation, at_server
from airpool.network import Claim, Network, require_claim
from airpool.privacy import compose
from airpool.privacy.epsilon import epsilon as epsilon_at

_MOST_GAUSSIAN = 2**40


@dataclass(frozen=True)
class Lifetime:
    """A total budget ε of each device, in slots of one network whose inferences have at most `cap` of them.

    slots: that the budget allows. at_least: inferences if every one goes to the cap; this is certain. on_average: if
    they use `mean` slots; a figure, and None where no mean is known.
    """

    epsilon: float
    slots: int
    cap: int
    mean: float | None = None

    @property
    def at_least(self) -> int:
        return self.slots // self.cap

    @property
    def on_average(self) -> float | None:
        """An inference starts only if its cap is left. The last one that does leaves less than a cap behind."""
        if self.mean is None or self.slots < self.cap:
            return None if self.mean is None else 0.0
        return 1 + (self.slots - self.cap) / self.mean


def lifetime(network: Network, claim: Claim = Claim(), *, epsilon: float, mean_slots: float | None = None) -> Lifetime:
    """The slots of this network that a total budget ε of the worst device allows, whatever inferences are claimed.

    Ledgers count with `live`.
    Holds for: coins, scores and channel drawn anew in each slot.
    Edge cases: not even one slot fits → 0 slots; at most 2^24 are counted, or 2^40 where all noise is Gaussian.

    >>> from airpool import Network, calibrate
    >>> from airpool.network import Slots
    >>> net = calibrate(Network.uniform(num_devices=12, slots=Slots(16)), epsilon=2.0)
    >>> life = lifetime(net, epsilon=8.0, mean_slots=7.4)
    >>> life.slots, life.at_least, round(life.on_average)
    (176, 11, 23)
    """
    require_claim(claim)
    if not network.slots.redrawn:
        raise ValueError("slots.redrawn=false must be true here: a budget counts slots that are drawn anew")
    check_mean(network, mean_slots)
    if not 0 < epsilon < np.inf:
        raise ValueError(f"budget ε={epsilon:g} must be > 0 and finite")
    slot = _one_slot(network, claim)
    limit = compose.MOST_INFERENCES if slot.once.gaussian is None else _MOST_GAUSSIAN
    return Lifetime(epsilon, most_inferences(slot, epsilon, limit=limit), network.slots.count, mean_slots)


def most_inferences(one: Situation, budget: Floats | float, *, limit: int = 2**20) -> int:
    """The most inferences, each as this one, over which every device keeps within its budget ε; 0 where none does."""

    def fits(number: int) -> bool:
        drawn = not one.claim.live or supports_live(one.network, replace(one.claim, inferences=number))
        leak = at_server(one.over(number * one.uses))
        return drawn and bool(np.all(epsilon_at(leak, one.claim.delta) <= budget))

    return compose.most_inferences(fits, limit=limit)


def mean_epsilon(network: Network, claim: Claim, mean_slots: float) -> float:
    """The ε that the claim's inferences would spend at this mean number of slots: a figure, promised to no inference.

    Rounded up to whole slots in all. Where one draw serves all slots the first one pays for all (ledger): the cap.
    """
    check_mean(network, mean_slots)
    if not network.slots.redrawn:
        return float(np.max(device_epsilon(network, claim)))
    return stream_epsilon(network, claim, ceil(claim.inferences * mean_slots))


def check_mean(network: Network, mean_slots: float | None) -> None:
    """Raises a ValueError where a mean number of slots is not one of this network."""
    if mean_slots is not None and not 1 <= mean_slots <= network.slots.count:
        raise ValueError(f"mean_slots={mean_slots:g} must be from 1 to {network.slots.count}, the most of an inference")


def one_slot_mu(network: Network, claim: Claim = Claim()) -> float | None:
    """μ of the worst device in one slot; None where a slot is not one Gaussian against another."""
    once = _one_slot(network, claim).once
    return None if once.gaussian is None else float(np.max(once.gaussian))


def stream_epsilon(network: Network, claim: Claim, slots: int) -> float:
    """ε of the worst device over this number of slots, each with a draw of its own."""
    leak = at_server(_one_slot(network, claim).over(max(slots, 1)))
    return float(np.max(epsilon_at(leak, claim.delta)))


def _one_slot(network: Network, claim: Claim) -> Situation:
    return Question(network.one_slot, replace(claim, inferences=1)).situation
