"""Streams over a channel that stays in between: μ over its draws, and ε of inferences over one draw or several.

Given the draw, every inference is one Gaussian against another (docs/proofs/privacy.md, "Several draws of a channel").
"""

from collections.abc import Sequence
from math import log
from typing import NamedTuple

import numpy as np

from airpool._support.arrays import Floats, as_floats
from airpool._support.search import smallest_number
from airpool.privacy import gaussian
from airpool.privacy.aggregate import ratio
from airpool.privacy.leak import Gaussian, PerDevice, Seen

# Probabilities at which the worst of several draws is resolved, and what rounding may have cost each of them.
_LEVELS, ROUNDING = np.append(0.0, np.geomspace(1e-18, 1.0, 2048)), 1e-9
# Width of a cell of ln μ².
_WIDTH = 0.01


class Exceeded(NamedTuple):
    """μ of one device over the draw of the channel: a draw exceeds mu[i], which fall, with probability beyond[i]."""

    beyond: Floats
    mu: Floats

    def at(self, level: Floats) -> Floats:
        """The smallest known μ that a draw exceeds with at most this probability; the first is never exceeded."""
        return self.mu[np.searchsorted(self.beyond, level, side="right") - 1]


def exceeded(leak: PerDevice, kind: int) -> Exceeded:
    """The law of μ of one kind of device, rounded up; of any absent devices, the worst ones.

    Holds for: leaks of which a draw leaves one Gaussian against another.
    """
    cases = np.flatnonzero(leak.kind == kind)
    if isinstance(leak.leak, Gaussian):
        return Exceeded(np.zeros(1), np.array([np.max(leak.leak.mu(cases, 0.0))]))
    assert isinstance(leak.leak, Seen)
    assert isinstance(leak.leak.leak, Gaussian)
    seen, gauss = leak.leak, leak.leak.leak
    laws: list[Exceeded] = []
    for case in cases:
        mass, mu = seen.noise.low.mass[seen.noise.row[case]], seen.mu(np.array([case]))[0]
        here, sure = float(seen.exposed[case]), ratio(gauss.shift[case : case + 1], np.sqrt(gauss.own[case : case + 1]))
        beyond = here * (np.append(0.0, np.cumsum(mass)[:-1]) + seen.noise.slack) * (1 + ROUNDING)
        # No draw has less noise than the device's own, and none shows a device that is silent.
        beyond = np.maximum.accumulate(as_floats(np.concatenate(([0.0], beyond, [here]))))
        laws.append(Exceeded(beyond, np.concatenate((sure, mu, [0.0]))))
    if len(laws) == 1:
        return laws[0]
    return Exceeded(_LEVELS, np.maximum.reduce([law.at(_LEVELS) for law in laws]))


class StillStream(NamedTuple):
    """Inferences over several draws of the channel, each draw with a μ of this law."""

    law: Exceeded
    inferences: int
    draws: int


def _levels(streams: Sequence[StillStream]) -> Floats:
    """Probabilities, from 0 on, at which the laws step; at most as many as _LEVELS."""
    level = np.unique(np.concatenate([each.law.beyond for each in streams]))
    return level if len(level) <= len(_LEVELS) else np.unique(level[np.searchsorted(level, _LEVELS, side="right") - 1])


def worst_of_draws(streams: Sequence[StillStream]) -> tuple[Floats, Floats]:
    """The law of √(Σ T·μ²) if every inference has the worst of its draws, rounded up: values, and probabilities.

    With probability 1 − u·Σ draws none of them exceeds the μ that one exceeds with probability u, whatever draws have
    to do with each other. So the curve of all inferences is at most that of a Gaussian whose distance has this law
    (docs/proofs/privacy.md, "Several draws of a channel").
    """
    level = _levels(streams)
    squares = [each.inferences * each.law.at(level) ** 2 for each in streams]
    distance = np.sqrt(np.sum(squares, axis=0)) * (1 + 1e-12)
    mass = np.diff(np.append(np.minimum(level * sum(each.draws for each in streams), 1.0), 1.0))
    return distance[mass > 0], mass[mass > 0]


def over_any_draws(streams: Sequence[StillStream], distance: float, delta: float, most: float) -> float:
    """ε at δ of these streams and a Gaussian at `distance`, however often the channel is drawn; `most` at most.

        δ(ε) ≤ G(0) + Σ T·E[μ² sup_{y ≥ μ²} G(y)/y; μ > m],    G(y) = δ_G(ε; √(y + Σ T·m² + distance²))

    for any choice of m, one for each stream (docs/proofs/privacy.md, "Several draws of a channel"). Tried: those that a
    draw exceeds with one of a few probabilities. Better than `worst_of_draws` where most draws are good and many are
    made.
    """
    level = _levels(streams)
    mass, squares = np.diff(np.append(level, 1.0)), np.array([each.law.at(level) ** 2 for each in streams])
    times = np.array([each.inferences for each in streams], dtype=np.float64)
    highest = float(times @ squares[:, 0])
    if not 0 < highest < np.inf or not 0 < most < np.inf:
        return most
    lowest = max(float(np.min(squares[squares > 0])), highest * 1e-12)
    y = np.geomspace(lowest, highest, max(int(np.log(highest / lowest) / _WIDTH), 2))
    tried = np.unique(level[np.searchsorted(level, np.geomspace(1e-15, 1.0, 16), side="right") - 1])
    bounds = np.array([each.law.at(tried) ** 2 for each in streams])
    base = times @ bounds + distance**2
    raised = np.maximum(squares, lowest)
    cell = np.searchsorted(y, raised, side="right") - 1
    # Σ T·E[μ²; μ > m] by choice of m and cell of μ².
    exposed = [(times[:, None] * mass * raised * (squares > m[:, None])).ravel() for m in bounds.T]
    shares = np.array([np.bincount(cell.ravel(), weights=each, minlength=len(y)) for each in exposed])

    def found(epsilon: float) -> float:
        given = gaussian.delta(epsilon, np.sqrt(np.append(0.0, y)[:, None] + base))
        steep = np.append(given[2:] / y[:-1, None], np.full((1, len(base)), 1 / y[-1]), axis=0)
        steep = np.maximum.accumulate(steep[::-1])[::-1]
        return float(np.min(given[0] + np.einsum("cy,yc->c", shares, steep))) * (1 + ROUNDING)

    return min(most, smallest_number(lambda epsilon: log(max(found(epsilon), 1e-320) / delta), 0.0, most))
