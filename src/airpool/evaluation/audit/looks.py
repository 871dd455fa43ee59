"""One game after another, each with twice the runs: a lower bound that may be watched while it rises.

Whoever looks several times and keeps the best look errs more often than at one look. So the probability of an error is
shared equally, before the first, by all looks that are planned (union bound): at every moment the best bound so far
holds with the stated confidence, whenever one stops. Every look draws runs of its own.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from airpool.evaluation.audit.bound import AuditReport

FIRST = 1_000


class Play(Protocol):
    """A game against one claim."""

    def __call__(
        self, *, runs: int, seed: int, confidence: float, on_batch: Callable[[int], None] | None
    ) -> AuditReport: ...


@dataclass(frozen=True, eq=False)
class Look:
    """One game: its seed and report. best: the largest lower bound so far, which all looks have to answer for."""

    seed: int
    report: AuditReport
    best: float

    @property
    def refuted(self) -> bool:
        claimed = self.report.claimed_epsilon
        return claimed is not None and self.best > claimed


def sizes(numbers: int, *, most: int) -> tuple[int, ...]:
    """Runs a side of every look: doubled from the first, while one of them draws at most so many numbers.

    numbers: that one run draws.

    >>> sizes(480, most=2_000_000)
    (1000, 2000, 4000)
    """
    count = max(1, int(most // max(numbers, 1) // FIRST).bit_length())
    return tuple(FIRST * 2**step for step in range(count))


def watched(
    play: Play,
    runs: Sequence[int],
    *,
    seed: int,
    confidence: float = 0.95,
    on_batch: Callable[[int], None] | None = None,
) -> Iterator[Look]:
    """The looks, one by one; the last is the one that refutes the claim, or the largest.

    confidence: of all of them together.
    """
    best, each = 0.0, 1 - (1 - confidence) / len(runs)
    for number, size in enumerate(runs):
        own = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
        report = play(runs=size, seed=own, confidence=each, on_batch=on_batch)
        best = max(best, report.epsilon_lower)
        look = Look(own, report, best)
        yield look
        if look.refuted:
            return
