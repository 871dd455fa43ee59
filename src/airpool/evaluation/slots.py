"""Slots that inferences used until the server was sure, and what they would have cost: figures, not promises."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from airpool._support.arrays import Floats
from airpool._support.rounding import up
from airpool.account.lifetime import mean_epsilon, one_slot_mu
from airpool.evaluation.inferences import inferences_of
from airpool.evaluation.objects import EncodedObjects
from airpool.evaluation.trial import draws
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
    mu, paid = one_slot_mu(network), mean if network.slots.redrawn else cap
    at_least = [probability >= each for each in _CONFIDENCE]
    return SlotUse(
        cap=cap,
        mean=mean,
        counts=tuple(used.long().flatten().bincount(minlength=cap + 1)[1:].tolist()),
        of_class=tuple(float(used[targets == each].double().mean()) for each in targets.unique()),
        mean_epsilon=mean_epsilon(replace(network, inferences=1), mean),
        mean_mu_square=None if mu is None else paid * mu**2,
        confidence=_CONFIDENCE,
        coverage=tuple(float(each.double().mean()) for each in at_least),
        risk=tuple(float((~right)[each].double().mean()) if each.any() else 0.0 for each in at_least),
    )


@dataclass(frozen=True, eq=False)
class Traces:
    """Probability of the likeliest class, and whether it is right, after each of N slots of m inferences, (N, m).

    None of them stopped early, so that they tell what any threshold on the posterior would have used and given. Choose
    one on validation objects that the server was not fitted to (`held_out(..., split="validation", unseen=True)`).
    """

    probability: Floats
    right: Floats

    def used(self, sure: float) -> NDArray[np.intp]:
        """Slots of each inference with this threshold, (m,)."""
        # The first slot that reaches a threshold is that of the running maximum.
        return 1 + np.sum(np.maximum.accumulate(self.probability, axis=0)[:-1] < sure, axis=0)

    def accuracy(self, sure: float) -> float:
        used = self.used(sure)
        return float(np.mean(self.right[used - 1, np.arange(len(used))]))

    def smallest_sure(self, accuracy: float) -> float | None:
        """The smallest threshold of a grid that reaches this accuracy; None where not even the cap does."""
        reaching = (each for each in _SURE if self.accuracy(each) >= accuracy)
        return next(reaching, None)


# Thresholds by even steps of their odds' logarithm, up to 0.9999.
_SURE = tuple(float(each) for each in 1 / (1 + np.exp(-np.linspace(-3.0, 9.2, 123))))


def traces(objects: EncodedObjects, network: Network, *, trials: int = 4, seed: int = 0) -> Traces:
    """Of `trials` inferences of each object, over a network of N slots."""
    found = inferences_of(objects, network)
    logits = found.to_the_cap(trials, draws(found.latents.device, seed))
    best, answer = logits.softmax(-1).max(-1)
    right = answer == objects.labels.repeat_interleave(trials)
    return Traces(best.double().cpu().numpy(), right.double().cpu().numpy())


def largest_sure(probability: Sequence[Tensor] | Floats, most_slots: float) -> float:
    """The largest threshold on the posterior with which at most so many slots are used on average.

    probability: of the likeliest class after 1, 2, ..., N slots, (m,) each, of inferences that went to the cap
    (`Traces.probability`).
    """
    best = np.stack([np.asarray(each, dtype=np.float64) for each in probability])
    found = Traces(best, best)
    thresholds = np.unique(np.maximum.accumulate(best, axis=0)[:-1])

    def mean(threshold: float) -> float:
        return float(np.mean(found.used(threshold)))

    if mean(1.0) <= most_slots:
        return 1.0
    low, high = 0, len(thresholds)  # mean grows with the threshold
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if mean(float(thresholds[middle])) <= most_slots else (low, middle)
    if low == 0:
        raise ValueError(f"most_slots={most_slots:g} must be at least {up(mean(float(thresholds[0])))}")
    return float(thresholds[low - 1])
