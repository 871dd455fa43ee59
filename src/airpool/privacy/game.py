"""The distinguishing game: a curve δ(ε) per device, and its inverse, ε at a given δ.

Every game is a mixture over the noise around a device. device.py builds it for Scheme 1, leakage.py for Schemes 2.1 and
2.2, object.py for the object; compose.py composes games.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from airpool._support.arrays import Floats, Integers, failure_probability
from airpool._support.search import smallest
from airpool.privacy import gaussian
from airpool.privacy.aggregate import ratio
from airpool.privacy.floor import Floor
from airpool.privacy.law import Law

Direction = Literal["forward", "backward"]
# (ε, index of a pair, direction) → δ, elementwise.
Curve = Callable[[Floats, Integers, Direction], Floats]
# (ε, index of a pair, the others' noise variance in every cell, direction) → δ given that noise.
Given = Callable[[Floats, Integers, Floats, Direction], Floats]

# Cells evaluated at a time, to keep memory flat.
_CHUNK = 2**21
# Long laws are looked at in blocks of cells first, and by cell only in blocks that decide: where the bounds on
# all others are together within this share of δ. Laws up to a length have small blocks, short ones none.
_BLOCKS, _NEGLIGIBLE = ((2**11, 64), (2**8, 16)), 1e-12
# Steps, of a factor of 16 each, in which the end of a search for a lower end is looked for.
_STEPS = 250


class Distances(NamedTuple):
    """The law of μ of every pair, rounded up, where the adversary sees what decides it: 0 unless exposed, else drawn.

    mu, mass: of given pairs, μ in every cell and its probability.
    E f ≤ (1−exposed)·f(0) + exposed·(Σ mass·f(μ) + slack) for every rising f with values in [0, 1].
    """

    mu: Callable[[Integers], Floats]
    mass: Callable[[Integers], Floats]
    exposed: Floats
    slack: float


@dataclass(frozen=True)
class Game:
    """δ as a function of ε for every pair of a kind of device and a set of absent others.

    `low` takes the noise rounded down, so its δ is the proven one; `high` rounds it up. `ceiling(δ)` is an ε that meets
    δ surely, the upper end of every search. A symmetric game needs one direction only.
    `gaussian` is μ of each pair where the game is nothing but one Gaussian against another. `error` bounds the relative
    error of `low` as computed, where it matters (composition): an assumption, with a margin over what was measured.
    `choices` says which of several laws each pair is, where the data chooses in every inference; the last one has no
    other side, the one before is the other side of the one before that. The curve of a kind covers all of them.
    `distances` is the law of μ where the feature moves the sum and nothing else (not for removal).
    `kept` holds what was composed of this game.
    """

    kind: Integers
    of_device: Integers
    low: Curve
    high: Curve
    ceiling: Callable[[float], Floats]
    directions: tuple[Direction, ...] = get_args(Direction)
    gaussian: Floats | None = None
    error: float = 1e-11
    choices: Integers | None = None
    distances: Distances | None = None
    kept: dict[Any, Any] = field(default_factory=dict[Any, Any], init=False, repr=False, compare=False)

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


def chosen(game: Game) -> tuple[Game, Game]:
    """The game of the first two choices, which are each other's other side, and that of the last one."""
    assert game.choices is not None
    one, other, last = (np.flatnonzero(game.choices == choice) for choice in range(3))

    def of(forward: Integers, backward: Integers, directions: tuple[Direction, ...]) -> Game:
        def low(eps: Floats, pair: Integers, direction: Direction) -> Floats:
            return game.low(eps, (forward if direction == "forward" else backward)[pair], "forward")

        return replace(game, kind=game.kind[forward], low=low, directions=directions, choices=None)

    return of(one, other, get_args(Direction)), of(last, last, ("forward",))


class Bounds(NamedTuple):
    """A result between two proven ends. `upper` is the proven ε; both agree where the law is exact."""

    lower: Floats
    upper: Floats


def solve(game: Game, delta: float) -> Bounds:
    """ε of each device at δ."""
    log_target = np.log(float(failure_probability(delta)))
    pairs = np.arange(len(game.kind), dtype=np.float64)

    def excess(curve: Curve, eps: Floats, pair: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.log(game.larger(curve, eps, pair.astype(np.int64))) - log_target

    def root(curve: Curve, most: Floats) -> Floats:
        found = smallest(partial(excess, curve), np.zeros(len(pairs)), most, pairs)
        return game.worst(found)[game.of_device]

    ceiling = game.ceiling(delta)
    upper = root(game.low, ceiling)
    if game.low is game.high:
        return Bounds(upper, upper)
    # Where no ε is sure to meet δ, the upper law may still meet it: its own end is looked for, upwards.
    end = np.where(np.isfinite(ceiling), ceiling, 1.0)
    for _ in range(_STEPS):  # pragma: no branch: 16 to the power of _STEPS is more than any ε
        short = np.isinf(ceiling) & (excess(game.high, end, pairs) > 0)
        if not short.any():
            break
        end[short] *= 16
    return Bounds(root(game.high, end), upper)


def mixture(
    found: Floor,
    of_device: Integers,
    *,
    distance: Floats,
    own: Floats,
    exposed: Floats,
    log_transmits: Floats,
    log_silent: Floats,
    given: Given | None = None,
    directions: tuple[Direction, ...] = ("forward",),
    most: float = np.inf,
    error: float = Game.error,
) -> Game:
    """The game over a random noise variance V, all columns one value per pair of the floor:

        δ(ε) = [(1−π) − e^ε(1−π′)]₊ + π·E[H(ε − ln(π/π′); V)]

    log_transmits, log_silent: ln π and ln π′, ln(1−π) and ln(1−π′), the probabilities with the feature and without it;
        equal where taking part does not depend on the data.
    given: H. Left out, δ_G(ε; Δ/√(V + own)) with Δ the `distance`.
    exposed, most: an ε meets δ surely where exposed·E[δ_G] does, and is not searched for beyond `most`.
    """
    transmits, silent = np.exp(log_transmits[0]), np.exp(log_silent[0])
    speaking, silence = _log_ratio(*log_transmits), _log_ratio(*log_silent)

    def ratios(law: Law) -> Callable[[Integers], Floats]:
        """μ of given pairs in every cell of the law; computed once where that is not too much."""

        def of(pair: Integers) -> Floats:
            return ratio(distance[pair, None], np.sqrt(law.variance[found.row[pair]] + own[pair, None]))

        if len(found.row) * law.variance.shape[1] > _CHUNK:
            return of
        every = of(np.arange(len(found.row)))
        return lambda pair: every[pair]

    def curve(law: Law, mu: Callable[[Integers], Floats], sign: int) -> Curve:
        size = max(1, _CHUNK // law.variance.shape[1])
        block = next((block for longer, block in _BLOCKS if law.variance.shape[1] > longer), 0)
        blocks = _blocks(law, block) if given is None and block else None

        def delta_of(eps: Floats, pair: Integers, direction: Direction) -> Floats:
            if len(pair) > size:
                starts = range(0, len(pair), size)
                return np.concatenate([delta_of(eps[i : i + size], pair[i : i + size], direction) for i in starts])
            moved, row = (eps - speaking[pair])[:, None], found.row[pair]
            if blocks is not None:
                received = _decided(moved, mu(pair), law.mass[row], blocks[row], block, up=sign > 0)
            else:
                each = given(moved, pair, law.variance[row], direction) if given else gaussian.delta(moved, mu(pair))
                received = np.einsum("ij,ij->i", law.mass[row], each)
            received = received + sign * found.slack
            unseen = silent[pair] * -np.expm1(np.minimum(eps - silence[pair], 0.0))
            return np.clip(transmits[pair] * received + unseen, 0.0, 1.0)

        return delta_of

    mu, every = ratios(found.low), np.arange(len(found.row))

    def ceiling(target: float) -> Floats:
        received = _ceiling(mu(every), found.low.mass[found.row], exposed, target, slack=found.slack)
        # A margin, so that the search sees its upper end meet the target in spite of rounding.
        return np.minimum(np.maximum(received + speaking, silence) * (1 + 1e-9) + 1e-9, most)

    def mass(pair: Integers) -> Floats:
        return found.low.mass[found.row[pair]]

    low = curve(found.low, mu, +1)
    certain = found.exact and found.low.variance.shape[1] == 1 and given is None and bool(np.all(log_silent == -np.inf))
    return Game(
        kind=of_device[found.device],
        of_device=of_device,
        low=low,
        high=low if found.exact else curve(found.high, ratios(found.high), -1),
        ceiling=ceiling,
        directions=directions,
        gaussian=mu(every)[:, 0] if certain else None,
        error=error,
        distances=Distances(mu, mass, exposed, found.slack),
    )


def _blocks(law: Law, block: int) -> Floats | None:
    """The probability of every block of cells; None where a mass is negative."""
    if np.any(law.mass < 0):
        return None
    return np.add.reduceat(law.mass, np.arange(0, law.mass.shape[1], block, dtype=np.int64), axis=1)


def _decided(eps: Floats, mu: Floats, mass: Floats, blocks: Floats, block: int, *, up: bool) -> Floats:
    """Σ mass·δ_G(ε; μ) of every row, rounded up or down by a share of _NEGLIGIBLE at most; μ falls along a row.

    δ_G rises with μ, so in each block it lies between its values at the block's first cell and at the next one's.
    """
    cells = mu.shape[1]
    ends = np.append(np.arange(0, cells, block, dtype=np.int64), cells - 1)
    at = gaussian.delta(eps, mu[:, ends])
    upper, lower = blocks * at[:, :-1], blocks * at[:, 1:]
    near = upper - lower <= _NEGLIGIBLE / blocks.shape[1] * lower.sum(axis=1, keepdims=True)
    out = np.sum(np.where(near, upper if up else lower, 0.0), axis=1)
    row, which = np.nonzero(~near)
    if not len(row):
        return out
    cell = which[:, None] * block + np.arange(block)
    inside, cell = cell < cells, np.minimum(cell, cells - 1)
    each = gaussian.delta(eps[row], mu[row[:, None], cell])
    return out + np.bincount(row, np.einsum("ij,ij->i", mass[row[:, None], cell] * inside, each), len(out))


def gaussians(mu: Floats, mass: Floats, of_device: Integers, *, slack: float = 0.0) -> Game:
    """The game of Gaussians at distance μ[kind, cell], each with probability mass[kind, cell]."""
    order = np.argsort(-mu, axis=1)
    with np.errstate(divide="ignore", over="ignore"):
        law = Law(np.take_along_axis(mu, order, 1) ** -2.0, np.take_along_axis(mass, order, 1))
    _, first = np.unique(of_device, return_index=True)
    found = Floor(law, law, slack, device=first, row=np.arange(len(mu)))
    ones, sure = np.ones(len(mu)), np.zeros((2, len(mu)))
    return mixture(
        found, of_device, distance=ones, own=0 * ones, exposed=ones, log_transmits=sure, log_silent=sure - np.inf
    )


def _log_ratio(log_a: Floats, log_b: Floats) -> Floats:
    """ln(a/b), with 0/0 = 1: neither ever happens."""
    with np.errstate(invalid="ignore"):
        return np.where(log_a == log_b, 0.0, log_a - log_b)


def _ceiling(mu: Floats, mass: Floats, exposed: Floats, delta: float, *, slack: float) -> Floats:
    """An ε that surely meets p·(Σ_i mass_i δ_G(ε; μ_i) + slack) ≤ δ, for each row; μ falls along a row.

    Gives up the first cells while their probability is under δ, and spends the rest of δ on the next one.
    """
    lost = exposed[:, None] * (np.cumsum(mass, axis=1) + slack)
    cell = np.argmax(lost >= delta, axis=1)
    at = np.arange(len(cell))
    spent = np.where(cell > 0, lost[at, cell - 1], exposed * slack)
    chosen = mu[at, cell]
    with np.errstate(divide="ignore", invalid="ignore"):
        high = chosen**2 / 2 + chosen * np.sqrt(-2 * np.log(np.maximum(delta - spent, 0.0)))
    return np.where((lost[:, -1] < delta) | (chosen == 0), 0.0, high)
