"""The transmission path as an auditor hears it: what every device sends, and what arrives of it.

`path` runs protocol.simulation.receive on the full path (protocol.device, protocol.medium), with fading, power and the
receiver's noise. Adversaries see parts of it (audit.adversary, audit.directions); audit.claims sees all of it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airpool._support.arrays import Floats
from airpool.network import Network, scored
from airpool.protocol.simulation import Drawn, receive
from airpool.radio.link import Link, link_of


@dataclass(frozen=True, eq=False)
class World:
    """Inputs of all devices: features (K, r), and bounded scores (K,); None in Scheme 1, which has no scores."""

    features: Floats
    scores: Floats | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.features.shape

    @property
    def size(self) -> int:
        return self.features.size


@dataclass(frozen=True, eq=False)
class Overheard:
    """n runs, with everything that only a simulator knows.

    signals: z̃ = τ w z + n of each device, (n, K, coordinates), whether or not it is sent. taking_part: the coins' or
    the scores' decision, (n, K). alignment, quadrature: the factor with which z̃ arrives, 0 where silent; None where
    phases are known. estimate: ẑ, with the receiver's noise. drawn: coins, scores and
    channel, for a slot that keeps them.
    """

    signals: Floats
    taking_part: NDArray[np.bool_]
    alignment: Floats
    quadrature: Floats | None
    estimate: Floats
    noisy_scores: Floats | None
    drawn: Drawn

    @property
    def on_the_air(self) -> NDArray[np.bool_]:
        return self.alignment != 0


Path = Callable[[World, int, np.random.Generator], Overheard]


def path(network: Network, *, link: Link | None = None) -> Path:
    """`runs` inferences on the same world; scores are bounded already, and bounded again over the same range.

    drawn: of each run, (runs, 1, K), from an earlier slot.
    """
    link, scheme = link_of(network) if link is None else link, network.scheme
    if not scheme.independent:
        scheme = scored(scheme)
        # Worlds have scores within the range already, and the rule `clip` over that range leaves them as they are.
        scheme = replace(scheme, score_rule="clip", score_bound=scheme.score_range().high)
    observed = replace(network, scheme=scheme)

    def run(world: World, runs: int, rng: np.random.Generator, *, drawn: Drawn | None = None) -> Overheard:
        objects, trials = (1, runs) if drawn is None else (runs, 1)
        features = np.broadcast_to(world.features, (objects, *world.shape))
        scores = None if world.scores is None else np.broadcast_to(world.scores, (objects, len(world.scores)))
        got = receive(features, observed, rng=rng, trials=trials, path="full", link=link, scores=scores, drawn=drawn)

        def first(values: Any) -> Any:
            return None if values is None else values.reshape(runs, *values.shape[2:])

        return Overheard(
            first(got.signals),
            first(got.taking_part),
            first(got.alignment),
            first(got.sent.quadrature),
            first(got.estimate),
            first(got.noisy_scores),
            got.drawn,
        )

    return run
