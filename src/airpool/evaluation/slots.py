"""Slots that inferences used until the server was sure, and what they would have cost: figures, not promises."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from airpool.account.games import game
from airpool.account.guarantee import epsilon_after
from airpool.account.received import aggregate
from airpool.network import Network


@dataclass(frozen=True)
class SlotUse:
    """Slots of inferences of at most `cap` slots. The guarantee is the cap; all of this is known after the fact.

    mean: slots of an inference on average. counts: inferences that used 1, 2, ..., cap slots. of_class: mean by class.
    mean_epsilon: ε that a stream of the mean number of slots has, rounded up to whole slots; no inference is promised
    it. mean_mu_square: Σμ² of the worst device on average, where all noise is Gaussian and fixed; else None.
    coverage, risk: fraction of inferences whose best answer has at least each `confidence`, and of these the wrong.
    """

    cap: int
    mean: float
    counts: tuple[int, ...]
    of_class: tuple[float, ...]
    mean_epsilon: float
    mean_mu_square: float | None
    confidence: tuple[float, ...]
    coverage: tuple[float, ...]
    risk: tuple[float, ...]

    def row(self) -> dict[str, Any]:
        """Its numbers, one per column."""
        names = ("mean", "mean_epsilon", "mean_mu_square")
        return {"slots_cap": self.cap, **{f"slots_{name}": getattr(self, name) for name in names}}


_CONFIDENCE = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)


def slot_use(network: Network, used: Tensor, probability: Tensor, right: Tensor, targets: Tensor) -> SlotUse:
    """From slots, the server's probability of its answer, and whether its best one is right, (N, trials)."""
    cap, mean = network.slots.count, float(used.double().mean())
    mu = one_slot_mu(network)
    at_least = [probability >= each for each in _CONFIDENCE]
    return SlotUse(
        cap=cap,
        mean=mean,
        counts=tuple(used.long().flatten().bincount(minlength=cap + 1)[1:].tolist()),
        of_class=tuple(float(used[targets == each].double().mean()) for each in targets.unique()),
        mean_epsilon=stream_epsilon(network, int(np.ceil(mean))),
        mean_mu_square=None if mu is None else mean * mu**2,
        confidence=_CONFIDENCE,
        coverage=tuple(float(each.double().mean()) for each in at_least),
        risk=tuple(float((~right)[each].double().mean()) if each.any() else 0.0 for each in at_least),
    )


def one_slot_mu(network: Network) -> float | None:
    """μ of the worst device in one slot; None where a slot is not one Gaussian against another."""
    one = replace(network.one_slot, inferences=2)
    played = game(one, aggregate(one))
    return None if played.gaussian is None else float(np.max(played.worst(played.gaussian)))


def stream_epsilon(network: Network, slots: int) -> float:
    """ε of the worst device over so many slots, each with a draw of its own."""
    one = replace(network.one_slot, inferences=max(slots, 1))
    return float(np.max(epsilon_after(one, aggregate(one))(max(slots, 1))))


def largest_sure(probability: Sequence[Tensor], most_slots: float) -> float:
    """The largest threshold on the posterior with which at most so many slots are used on average.

    probability: of the likeliest class after 1, 2, ..., N slots, (M,) each, of inferences that went to the cap. Choose
    it on validation objects that the server was not fitted to (`held_out(..., split="validation", unseen=True)`).
    """
    best = np.stack([np.asarray(each, dtype=np.float64) for each in probability])
    # The first slot that reaches a threshold is that of the running maximum.
    reached = np.maximum.accumulate(best, axis=0)[:-1]
    thresholds = np.unique(reached)

    def mean(threshold: float) -> float:
        return 1 + float(np.mean(np.sum(reached < threshold, axis=0)))

    if mean(1.0) <= most_slots:
        return 1.0
    low, high = 0, len(thresholds)  # mean grows with the threshold
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if mean(float(thresholds[middle])) <= most_slots else (low, middle)
    if low == 0:
        raise ValueError(f"most_slots={most_slots:g} must be at least {mean(float(thresholds[0])):.4g}")
    return float(thresholds[low - 1])
