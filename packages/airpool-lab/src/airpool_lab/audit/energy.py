"""The attack on the paper's claim about removal: how much energy arrives (docs/theory/guarantee.md §5.1).

The paper's neighbours are a device that is there and one that is not; a device that is away takes its noise with it.
The adversary sees the sum alone, not who takes part, and adds up its squares: it needs no likelihood and no model.

Games are watched: one after another, each with twice the runs, while the lower bound rises. Whoever looks several times
and keeps the best look errs more often than at one look. So the probability of an error is shared equally, before the
first, by all looks that are planned (union bound): at every moment the best bound so far holds with the stated
confidence, whenever one stops. Every look draws runs of its own.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from airpool._support.arrays import Floats
from airpool.account import theorem1
from airpool.evaluation.audit.adversary import mechanism
from airpool.evaluation.audit.bound import AuditReport, audit
from airpool.network import Channel, Devices, Network

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


_BATCH = 2**21  # numbers of all devices in memory


def claimed_by_the_paper(epsilon: float) -> Network:
    """The paper's network on an ideal channel, with the noise at which its Theorem 1 (quadratic slack) claims ε."""
    return theorem1.calibrate(replace(Network.paper(), channel=Channel()), epsilon=epsilon)


def removed(
    network: Network,
    *,
    claimed_epsilon: float,
    delta: float,
    runs: int,
    seed: int,
    confidence: float = 0.95,
    on_batch: Callable[[int], None] | None = None,
) -> AuditReport:
    """The game between the network and what is left of it without device 0, `runs` runs a side, by received energy.

    Holds for: Scheme 1, equal devices, known channels. delta: that of the claim.
    """
    d = network.devices
    if d.count < 2 or any(len(set(d.column(name))) > 1 for name in ("weight", "clip_norm", "noise_std")):
        raise ValueError("removal is played here between equal devices, two or more")
    features = np.zeros((d.count, network.dimension))
    features[0] = d.column("clip_norm")[0] / network.dimension**0.5
    names = ("weight", "clip_norm", "noise_std", "participation", "power_dbm", "path_loss_db")
    fewer = Devices(d.count - 1, **{name: d.column(name)[1:] for name in names})
    played = {True: (mechanism(network), features), False: (mechanism(replace(network, devices=fewer)), features[1:])}

    def energy(present: bool, n: int, rng: np.random.Generator) -> Floats:
        run, given = played[present]
        return np.sum(run(given, n, rng).total ** 2, axis=1)

    return audit(
        energy,
        True,
        False,
        runs=runs,
        rng=np.random.default_rng(seed),
        delta=delta,
        confidence=confidence,
        score=lambda seen: seen,
        claimed_epsilon=claimed_epsilon,
        batch=max(1, _BATCH // features.size),
        on_batch=on_batch,
    )
