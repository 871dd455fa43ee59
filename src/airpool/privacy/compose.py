"""Many inferences: the privacy loss of one, convolved with itself on a grid, always on the safe side (spec §3.8).

Every inference draws participation and noise afresh. One game becomes two laws of the privacy loss, one for each
direction; each is composed by itself, and the larger ε of the two is the answer.

Why ε is never below the truth. A measure m of losses has the curve  h(ε) = m(∞) + Σ_x (1 − e^(ε−x))₊ m(x),  and that of
a convolution m∗r is Σ_y h(ε−y) r(y): whatever raises a curve or a mass raises the curve of every composition.

- Curve to measure: connect the dots (Doroshenko et al. 2022). δ is convex in e^ε, so a measure on grid points whose
  curve is at least δ at each of them is so everywhere. Losses below 0 come from the other direction's curve δ′,
  δ(−ε) = 1 − e^−ε + e^−ε δ′(ε), which loses no digits. Masses are differences of slopes of δ, with an error of a few
  u = 2^-53 of the slope each; slopes are sums of masses and δ a sum of slopes, so over n points the curve is off by a
  relative 64 n u at most. A factor makes up for that and for the error of δ as evaluated (an assumption: `Game.error`,
  and 1e-22 absolute). Masses that rounding made negative are raised to 0.
- Convolution: directly, without Fourier transforms. All terms are ≥ 0, so every sum of n products has a *relative*
  error of n u at most, far out in the tail too. A factor 1 + 2 n u makes up for it.
- Coarser grid: a mass between two points goes to both of them such that Σ m and Σ e^−x m stay; h only rises (Jensen).
- Ends: what is cut off at the top counts as infinite loss, what is cut off at the bottom moves up.

The price, in δ: a factor of 1 + (3e-11 + error) T in all, and 4e-22 T for what is cut off. For a million inferences of
Scheme 1 that is 4e-5 of any δ ≥ 1e-10, and it stays a small share within the limits below. In ε: the grid,
under 0.1 % where participation is visible; where it is hidden and ε small (below .01), up to 12 %, on the safe side.

Where the game is one Gaussian against another (everybody always takes part), μ² adds up and no grid is needed.
"""

from dataclasses import dataclass
from functools import cached_property
from math import log

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from airpool.arrays import Floats, as_floats, failure_probability
from airpool.privacy import calibrate, gaussian, nearby
from airpool.privacy.game import Direction, Game, solve
from airpool.search import smallest_number

# Within these limits all that is given away stays a small share of δ.
SMALLEST_DELTA, MOST_INFERENCES = 1e-10, 2**24
# Mass that is cut off at the top at a time; mass that is moved up at the bottom, which raises δ by a relative 1e-13.
_TOP, _BOTTOM = 1e-22, 1e-13
# Masses are raised to this at least, so that no product of two underflows.
_TINY = 1e-100
# Relative error of two roundings.
_ROUNDING = 2.0**-52
# Cells of a law; points on each side of 0 for one inference.
_CELLS, _POINTS = 2**12, 2**10
# Up to four times as many cells are kept where the next coarser grid would raise the mean loss by more than this share.
_CHEAP = 3e-5
# Losses of one inference that are told apart; larger ones count as infinite.
_LEAST, _REACH = 1e-15, 700.0


@dataclass(frozen=True, eq=False)
class Loss:
    """A measure of privacy losses: `mass[i]` at step·(lowest + i), the step a power of two, and `infinite`."""

    step: float
    lowest: int
    mass: Floats
    infinite: float

    def delta(self, epsilon: float) -> float:
        """The curve at ε, rounded up."""
        first = int(np.clip(np.floor(epsilon / self.step) - self.lowest, 0, len(self.mass)))
        losses = self.step * np.arange(self.lowest + first, self.lowest + len(self.mass), dtype=np.float64)
        gain = -np.expm1(np.minimum(epsilon - losses, 0.0))
        return (float(gain @ self.mass[first:]) + self.infinite) * (1 + (len(self.mass) + 32) * _ROUNDING)

    def epsilon(self, delta: float) -> float:
        """The smallest ε ≥ 0 at which the curve is at most δ, rounded up; inf where there is none."""
        high = max(0.0, self.step * (self.lowest + len(self.mass) - 1))
        return smallest_number(lambda eps: log(max(self.delta(eps), 1e-320) / delta), 0.0, high)

    def power(self, times: int) -> "Loss":
        """The loss of so many inferences, by repeated squaring."""
        square, found = self, self if times % 2 else None
        while times := times // 2:
            square = square._square
            if times % 2:
                found = square if found is None else composed(found, square)
        return found or square

    @cached_property
    def _square(self) -> "Loss":
        return composed(self, self)


def composed(a: Loss, b: Loss) -> Loss:
    """The loss of two inferences together, on the coarser of their grids."""
    while a.step < b.step:
        a = _coarser(a)
    while b.step < a.step:
        b = _coarser(b)
    infinite = a.infinite * (float(b.mass.sum()) + b.infinite) + float(a.mass.sum()) * b.infinite
    return _fitted(Loss(a.step, a.lowest + b.lowest, np.convolve(a.mass, b.mass), infinite))


def _coarser(loss: Loss) -> Loss:
    """The same on every other grid point."""
    odd = loss.lowest % 2
    mass = np.pad(loss.mass * (1 + 4 * _ROUNDING), (odd, 1 - (odd + len(loss.mass)) % 2))
    kept, between = mass[::2].copy(), mass[1::2]
    kept[:-1] += between * expit(-loss.step)
    kept[1:] += between * expit(loss.step)
    return Loss(2 * loss.step, (loss.lowest - odd) // 2, kept, loss.infinite)


def _fitted(loss: Loss, *, error: float = 0.0) -> Loss:
    """A law of bounded size above this one: ends cut, all raised by `error` and by what rounding may have cost."""
    mass, infinite = loss.mass, loss.infinite
    last = len(mass) - int(np.searchsorted(np.cumsum(mass[::-1]), _TOP, side="right"))
    first = max(0, min(int(np.searchsorted(np.cumsum(mass), _BOTTOM, side="right")), last - 1))
    kept = mass[first : max(last, 1)].copy()
    kept[0] += mass[:first].sum()
    factor = 1 + error + (len(mass) + 32) * _ROUNDING
    infinite = (infinite + float(mass[last:].sum())) * factor
    out = Loss(loss.step, loss.lowest + first, np.maximum(kept * factor, _TINY), infinite)
    while len(out.mass) > _CELLS and (len(out.mass) > 4 * _CELLS or _cost_of_coarser(out) < _CHEAP):
        out = _coarser(out)
    return out


def _cost_of_coarser(loss: Loss) -> float:
    """How far the next coarser grid raises the mean loss, as a share of it."""
    mean = loss.step * float(loss.mass @ np.arange(loss.lowest, loss.lowest + len(loss.mass), dtype=np.float64))
    rise = loss.step * np.tanh(loss.step / 2) * float(loss.mass[1 - loss.lowest % 2 :: 2].sum())
    return rise / mean if mean > 0 else np.inf


@dataclass(frozen=True, eq=False)
class Stream:
    """What a number of like inferences costs one device: the loss of one of them, forward and backward.

    Both directions are one object where the game is the same seen from both sides.
    """

    forward: Loss
    backward: Loss
    inferences: int = 1

    def repeated(self, times: int) -> "Stream":
        """This stream over and over."""
        if times < 1:
            raise ValueError(f"times={times} must be >= 1")
        return Stream(self.forward, self.backward, self.inferences * times)

    @cached_property
    def losses(self) -> tuple[Loss, ...]:
        """The loss of the whole stream, in each direction that differs."""
        if self.inferences > MOST_INFERENCES:
            raise ValueError(f"inferences={self.inferences} must be <= {MOST_INFERENCES} where they are composed")
        distinct = (self.forward,) if self.forward is self.backward else (self.forward, self.backward)
        return tuple(loss.power(self.inferences) for loss in distinct)

    def epsilon(self, delta: float) -> float:
        check_delta(delta)
        return self.epsilon_within(delta)

    def epsilon_within(self, delta: float) -> float:
        """The same where only a part of δ is left, which may be smaller than a whole δ may be."""
        return max(loss.epsilon(delta) for loss in self.losses)

    def delta(self, epsilon: float) -> float:
        return max(loss.delta(epsilon) for loss in self.losses)


def check_delta(delta: float) -> None:
    failure_probability(delta)
    if delta < SMALLEST_DELTA:
        raise ValueError(f"delta={delta:g} must be >= {SMALLEST_DELTA:g} where inferences are composed")


def stream(game: Game, kind: int = 0) -> Stream:
    """One inference as a stream of length one."""
    reach = {direction: _reach(game, kind, direction) for direction in game.directions}
    step = float(2.0 ** np.floor(np.log2(max(reach.values()) / _POINTS)))

    def curve(direction: Direction) -> Floats:
        points = step * np.arange(int(np.ceil(reach[direction] / step)) + 1, dtype=np.float64)
        # Rounding must not make a falling curve rise.
        return np.clip(np.maximum.accumulate(game.delta(kind, points, direction)[::-1])[::-1], 0.0, 1.0)

    curves = [curve(direction) for direction in game.directions]
    # Binomial laws of n devices come from ln Γ(n + 1), which is off by a few roundings of its size, n ln n.
    devices = len(game.of_device)
    error = game.error + 4 * _ROUNDING * devices * np.log(devices + 1)
    forward = _connected(curves[0], curves[-1], step, error)
    backward = forward if len(curves) == 1 else _connected(curves[1], curves[0], step, error)
    return Stream(forward, backward)


def _connected(above: Floats, below: Floats, step: float, error: float) -> Loss:
    """Connect the dots: δ at 0, step, 2·step, …, seen from this side and from the other, up to a relative error."""
    start, rate, decay = max(above[0], below[0]), -np.expm1(-step), np.exp(-step)

    def half(deltas: Floats) -> tuple[Floats, Floats]:
        slopes = -np.diff(np.append(start, deltas[1:])) / rate
        return slopes, np.maximum(slopes - decay * np.append(slopes[1:], 0.0), 0.0)

    (rising, up), (falling, down) = half(above), half(below)
    zero = max(0.0, 1 - start - decay * float(rising[0] + falling[0]))
    # A loss of −x has e^−x times the probability that the other side gives to x.
    down = down * np.exp(-step * np.arange(1, len(down) + 1))
    mass = np.concatenate((down[::-1], [zero], up))
    points = Loss(step, -len(down), mass, float(above[-1]) + _TOP)
    return _fitted(points, error=error + 16 * len(mass) * _ROUNDING)


def _reach(game: Game, kind: int, direction: Direction) -> float:
    """The loss beyond which next to nothing happens that could still be told apart.

    At least 1/16 of the probability that all is revealed: beside it a finer grid would resolve rounding errors only.
    """
    eps = as_floats(np.append(np.geomspace(_LEAST, _REACH, 400), _REACH))
    deltas = game.delta(kind, eps, direction)
    return max(float(eps[np.argmax(deltas <= deltas[-1] * (1 + 1e-12) + _TOP)]), float(deltas[-1]) / 16)


def epsilon(game: Game, delta: float, inferences: int, *, missed: ArrayLike = 0.0) -> Floats:
    """ε of each device after so many inferences of one game.

    missed: how likely it is, in one inference, that the game is not the one played (see `nearby`).
    Edge cases: an outcome that reveals all, of probability q a time, counts for the whole run: 1 − (1−q)^T.
    """
    if inferences < 1:
        raise ValueError(f"inferences={inferences} must be >= 1")
    distance = np.minimum(inferences * np.asarray(missed, dtype=np.float64), 1.0)
    if inferences == 1:
        return nearby.epsilon(lambda d: solve(game, d).upper, delta, distance)
    if game.gaussian is not None:
        mu = game.worst(game.gaussian * np.sqrt(inferences))[game.of_device]
        return nearby.epsilon(lambda d: gaussian.epsilon(mu, d), delta, distance)
    check_delta(delta)
    streams = [stream(game, kind).repeated(inferences) for kind in range(game.num_kinds)]

    def at(left: float) -> Floats:
        return np.array([one.epsilon_within(left) for one in streams])[game.of_device]

    return nearby.epsilon(at, delta, distance)


def most_inferences(game: Game, delta: float, budget: ArrayLike) -> int:
    """The largest number of inferences that keeps every device within its budget of ε; 0 if one is too many.

    Edge cases: a game that reveals nothing can go on for ever; the answer then stops at 2^20.
    """
    once = [stream(game, kind) for kind in range(game.num_kinds)] if game.gaussian is None else None

    def fits(inferences: int) -> bool:
        if once is None or inferences == 1:
            spent = epsilon(game, delta, inferences)
        else:
            spent = np.array([one.repeated(inferences).epsilon(delta) for one in once])[game.of_device]
        return bool(np.all(spent <= np.asarray(budget)))

    return calibrate.most_inferences(fits)
