"""What an adversary has to tell apart, as a curve δ(ε) per device, and the ε that a curve gives at some δ.

Whoever builds a game (device.py for Scheme 1, leakage.py for Schemes 2.1 and 2.2) says what is known of the noise; here
it is only solved, and compose.py strings games together.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from airpool.arrays import Floats, Integers, failure_probability
from airpool.search import smallest

Direction = Literal["forward", "backward"]
# (ε, index of a pair, direction) → δ, elementwise.
Curve = Callable[[Floats, Integers, Direction], Floats]

# Cells evaluated at a time, to keep memory flat.
CHUNK = 2**21


@dataclass(frozen=True)
class Game:
    """δ as a function of ε for every pair of a kind of device and a set of absent others.

    `low` takes the noise rounded down, so its δ is the proven one; `high` rounds it up. `ceiling(δ)` is an ε that meets
    δ surely, the upper end of every search. Where the game is the same seen from both sides one direction is enough.
    `gaussian` is μ of each pair where the game is nothing but one Gaussian against another. `error` bounds the relative
    error of `low` as computed, where it matters (composition): an assumption, with a margin over what was measured.
    """

    kind: Integers
    of_device: Integers
    low: Curve
    high: Curve
    ceiling: Callable[[float], Floats]
    directions: tuple[Direction, ...] = get_args(Direction)
    gaussian: Floats | None = None
    error: float = 1e-11

    @property
    def exact(self) -> bool:
        return self.low is self.high

    @property
    def num_kinds(self) -> int:
        return int(self.of_device.max()) + 1

    def worst(self, values: Floats) -> Floats:
        """The largest value over the pairs of each kind of device."""
        out = np.full(self.num_kinds, -np.inf)
        np.maximum.at(out, self.kind, values)
        return out

    def larger(self, curve: Curve, epsilon: Floats, pair: Integers) -> Floats:
        """A curve's larger value of both directions."""
        return np.maximum.reduce([curve(epsilon, pair, direction) for direction in self.directions])

    def delta(self, kind: int, epsilon: Floats, direction: Direction) -> Floats:
        """The proven δ of one kind of device along many ε: the upper envelope over its pairs."""
        pairs = np.flatnonzero(self.kind == kind)
        return np.maximum.reduce([self.low(epsilon, np.full(epsilon.shape, pair), direction) for pair in pairs])


class Bounds(NamedTuple):
    """A result between two proven ends. `upper` is the promise; both agree where the law is exact."""

    lower: Floats
    upper: Floats


def solve(game: Game, delta: float) -> Bounds:
    """ε of each device at δ."""
    failure_probability(delta)
    upper = game.worst(_root(game, game.low, delta))[game.of_device]
    if game.exact:
        return Bounds(upper, upper)
    return Bounds(game.worst(_root(game, game.high, delta))[game.of_device], upper)


def _root(game: Game, curve: Curve, target: float) -> Floats:
    log_target = np.log(target)

    def excess(eps: Floats, pair: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.log(game.larger(curve, eps, pair.astype(np.int64))) - log_target

    pairs = np.arange(len(game.kind), dtype=np.float64)
    return smallest(excess, np.zeros(len(pairs)), game.ceiling(target), pairs)


def in_chunks(curve: Curve, *, width: int) -> Curve:
    """The same curve, evaluated a bounded number of cells at a time."""
    size = max(1, CHUNK // width)

    def chunked(eps: Floats, pair: Integers, direction: Direction) -> Floats:
        if len(pair) <= size:
            return curve(eps, pair, direction)
        starts = range(0, len(pair), size)
        return np.concatenate([curve(eps[i : i + size], pair[i : i + size], direction) for i in starts])

    return chunked
