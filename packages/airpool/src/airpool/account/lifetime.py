"""Slots over a device's life: how many a budget allows, and the ε that a stated mean would spend.

A budget of slots that is fixed in advance is a promise, however they are spread over inferences
(docs/proofs/privacy.md, "Slots of one inference"). What a mean number of slots spends is a figure after the fact.
"""

from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from airpool.account.games import game
from airpool.account.guarantee import epsilon, epsilon_after
from airpool.account.received import aggregate, supports_live
from airpool.network import Network
from airpool.privacy import compose

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


def lifetime(network: Network, *, epsilon: float, mean_slots: float | None = None, live: bool = False) -> Lifetime:
    """The slots of this network that a total budget ε of the worst device allows.

    live: as in `guarantee`: of noise as devices draw it, as their ledgers count.
    Holds for: coins, scores and channel drawn anew in each slot.
    Edge cases: not even one slot fits → 0 slots; at most 2^24 are counted, or 2^40 where all noise is Gaussian.

    >>> from airpool import Network, calibrate
    >>> from airpool.network import Slots
    >>> net = calibrate(Network.uniform(num_devices=12, slots=Slots(16)), epsilon=2.0)
    >>> life = lifetime(net, epsilon=8.0, mean_slots=7.4)
    >>> life.slots, life.at_least, round(life.on_average)
    (176, 11, 23)
    """
    _check_redrawn(network)
    check_mean(network, mean_slots)
    if not 0 < epsilon < np.inf:
        raise ValueError(f"budget ε={epsilon:g} must be > 0 and finite")
    one = replace(network.one_slot, inferences=2)
    received = aggregate(one, live=live)
    after = epsilon_after(one, received)
    limit = compose.MOST_INFERENCES if game(one, received).gaussian is None else _MOST_GAUSSIAN

    def fits(slots: int) -> bool:
        return (not live or supports_live(replace(one, inferences=slots))) and bool(np.all(after(slots) <= epsilon))

    most = compose.most_inferences(fits, limit=limit)
    return Lifetime(epsilon, most, network.slots.count, mean_slots)


def mean_epsilon(network: Network, mean_slots: float, *, live: bool = False) -> float:
    """The ε that the network's inferences would spend at this mean number of slots: a figure, promised to no inference.

    Rounded up to whole slots in all. Where one draw serves all slots the first one pays for all (ledger): the cap.
    live: of noise as devices draw it.
    """
    check_mean(network, mean_slots)
    if not network.slots.redrawn:
        return float(np.max(epsilon(network, aggregate(network, live=live))))
    return stream_epsilon(network, ceil(network.inferences * mean_slots), live=live)


def check_mean(network: Network, mean_slots: float | None) -> None:
    """Raises a ValueError where a mean number of slots is not one of this network."""
    if mean_slots is not None and not 1 <= mean_slots <= network.slots.count:
        raise ValueError(f"mean_slots={mean_slots:g} must be from 1 to {network.slots.count}, the most of an inference")


def one_slot_mu(network: Network) -> float | None:
    """μ of the worst device in one slot; None where a slot is not one Gaussian against another."""
    one = replace(network.one_slot, inferences=2)
    played = game(one, aggregate(one))
    return None if played.gaussian is None else float(np.max(played.worst(played.gaussian)))


def stream_epsilon(network: Network, slots: int, *, live: bool = False) -> float:
    """ε of the worst device over this number of slots, each with a draw of its own."""
    one = replace(network.one_slot, inferences=max(slots, 1))
    return float(np.max(epsilon_after(one, aggregate(one, live=live))(max(slots, 1))))


def _check_redrawn(network: Network) -> None:
    if not network.slots.redrawn:
        raise ValueError("slots.redrawn=false must be true here: a budget counts slots that are drawn anew")
