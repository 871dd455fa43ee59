"""A yes-or-no question about one view, asked of the code that transmits: how often the best guess is right.

Two opposite features at full norm (and the two ends of the range of scores) are equally likely, and the adversary
guesses by the likelihood ratio. That is the attack for which odds at a prior of ½ are tight (docs/proofs/odds.md): a
share above them refutes the account, or the code.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from airpool.account.odds import odds
from airpool.evaluation.audit.adversary import attack_on
from airpool.evaluation.audit.path import World
from airpool.network import Neighbours, Network
from airpool.privacy.evidence import clopper_pearson

# Runs that are in memory at a time.
_BATCH = 2**12
# Scores that are as good as infinite, which has no sum with its opposite.
_SURE = 1e9


@dataclass(frozen=True)
class Guesses:
    """Guesses that were right, of how many, and how often they may be right: `odds`."""

    right: int
    runs: int
    odds: float
    confidence: float

    @property
    def rate(self) -> float:
        return self.right / self.runs

    @property
    def at_least(self) -> float:
        """The true rate from below, with the stated confidence (Clopper and Pearson)."""
        return float(clopper_pearson(self.right, self.runs, error=1 - self.confidence)[0])

    @property
    def violated(self) -> bool:
        """Whether the guesses refute the odds."""
        return self.at_least > self.odds


def asked(
    network: Network,
    device: int,
    *,
    runs: int,
    seed: int,
    alone: bool = False,
    longer: float = 1.0,
    confidence: float = 0.999,
) -> Guesses:
    """The question about one device's view, asked `runs` times of all inferences of a network; a seed repeats it.

    alone: the adversary also knows what all others sent, and the device takes part: the local odds.
    longer: features are so many times as long as the clip norm; a device that clips is not harmed by it.
    Holds for: what `adversary.audited` covers (superposed and secure access), one slot an inference, and channels that
    are new in each.
    """
    found = odds(network, prior=0.5)
    bound = (found.local if alone else found.device)[device]
    attack = attack_on(replace(network, neighbours=Neighbours.REPLACE, inferences=1), device, alone=alone)
    rng, right = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(device, int(alone)))), 0
    for world, sign in ((attack.world, 1), (attack.neighbour, -1)):
        left = runs // 2
        while left > 0:
            now = min(left, _BATCH)
            scores = (
                attack.score(attack.played(_stretched(world, longer), now, rng)) for _ in range(network.inferences)
            )
            score = sign * np.sum([np.clip(each, -_SURE, _SURE) for each in scores], axis=0)
            # Where both are equally likely a coin decides.
            right += int(np.sum(score > 0) + rng.binomial(int(np.sum(score == 0)), 0.5))
            left -= now
    return Guesses(right, 2 * (runs // 2), float(bound), confidence)


def _stretched(world: Any, longer: float) -> Any:
    return replace(world, features=longer * world.features) if isinstance(world, World) else longer * world
