"""Many inferences: privacy-loss distributions strung together with dp-accounting (spec §3.8).

Every inference draws participation and noise afresh. One game becomes two privacy-loss distributions, one for each
direction; each is composed by itself, and the larger ε of the two is the answer. The curves are discretised by
connect-the-dots, which is exact at the grid points and above the truth between them.

Where the game is one Gaussian against another (everybody always takes part), μ² adds up and no grid is needed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import calibrate, gaussian
from .arrays import Floats, failure_probability
from .game import Direction, Game, solve

# Loss beyond the ends of the grid counts as a failure of this probability in each inference.
_TAIL = 1e-16
# The convolutions are Fourier transforms in double precision: their error, about 1e-13, must stay far below δ.
SMALLEST_DELTA = 1e-10
# Grid: thousands of points for one inference, but no finer than need be, and at least a few hundred.
_POINTS, _FEWEST_POINTS, _FINE = 2**12, 2**8, 2.0**-13
_REACH = 700.0


@dataclass(frozen=True)
class Stream:
    """What a run of inferences has cost one device so far. `append` gives a new stream; nothing changes in place.

    `forward` and `backward` are dp-accounting's loss distributions of the two directions, one object where the game is
    the same seen from both sides.
    """

    forward: Any
    backward: Any
    inferences: int
    grid: float

    def append(self, later: "Stream", times: int = 1) -> "Stream":
        """This stream followed by another one, `times` over."""
        if self.grid != later.grid:
            raise ValueError(f"grid={later.grid} of the later inferences differs from this stream's {self.grid}")
        more = later.repeated(times)
        forward = self.forward.compose(more.forward, _TAIL)
        symmetric = self.forward is self.backward and more.forward is more.backward
        backward = forward if symmetric else self.backward.compose(more.backward, _TAIL)
        return Stream(forward, backward, self.inferences + more.inferences, self.grid)

    def repeated(self, times: int) -> "Stream":
        """This stream over and over."""
        if times < 1:
            raise ValueError(f"times={times} must be >= 1")
        if times == 1:
            return self
        forward = self.forward.self_compose(times, _TAIL)
        backward = forward if self.forward is self.backward else self.backward.self_compose(times, _TAIL)
        return Stream(forward, backward, self.inferences * times, self.grid)

    def epsilon(self, delta: float) -> float:
        check_delta(delta)
        return max(0.0, *(float(loss.get_epsilon_for_delta(delta)) for loss in self._losses()))

    def delta(self, epsilon: float) -> float:
        return max(float(loss.get_delta_for_epsilon(epsilon)) for loss in self._losses())

    def _losses(self) -> tuple[Any, ...]:
        return (self.forward,) if self.forward is self.backward else (self.forward, self.backward)


def check_delta(delta: float) -> None:
    failure_probability(delta)
    if delta < SMALLEST_DELTA:
        raise ValueError(f"delta={delta:g} must be >= {SMALLEST_DELTA:g} where inferences are composed")


def stream(game: Game, kind: int = 0, *, grid: float | None = None) -> Stream:
    """One inference as a stream of length one. Streams that shall be strung together need the same `grid`."""
    reach = {direction: _reach(game, kind, direction) for direction in game.directions}
    step = grid_for(max(reach.values())) if grid is None else grid

    def loss(direction: Direction) -> Any:
        from dp_accounting.pld import pld_pmf  # pyright: ignore[reportMissingTypeStubs]

        # Losses seen from one side are those seen from the other with the sign turned: its reach bounds them below.
        other = next((d for d in game.directions if d != direction), direction)
        low, high = -int(np.ceil(reach[other] / step)), int(np.ceil(reach[direction] / step))
        deltas = game.delta(kind, step * np.arange(low, high + 1, dtype=np.float64), direction)
        # Rounding must not make a falling curve rise.
        falling = np.clip(np.maximum.accumulate(deltas[::-1])[::-1], 0.0, 1.0)
        return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, low, high, falling).to_dense_pmf()

    losses = [loss(direction) for direction in game.directions]
    return Stream(losses[0], losses[-1], inferences=1, grid=step)


def grid_for(reach: float) -> float:
    """The step of the grid, a power of two so that streams of unlike networks often share it."""
    step = min(max(reach / _POINTS, _FINE), reach / _FEWEST_POINTS)
    return float(2.0 ** np.floor(np.log2(step)))


def _reach(game: Game, kind: int, direction: Direction) -> float:
    """The loss beyond which next to nothing happens that could still be told apart."""
    eps = np.append(np.geomspace(1e-3, _REACH, 400), _REACH)
    deltas = game.delta(kind, eps, direction)
    return float(eps[np.argmax(deltas <= deltas[-1] + _TAIL)])


def epsilon(game: Game, delta: float, inferences: int) -> Floats:
    """ε of each device after so many inferences of one game.

    Edge cases: an outcome that reveals all, of probability q a time, counts for the whole run: 1 − (1−q)^T.
    """
    if inferences < 1:
        raise ValueError(f"inferences={inferences} must be >= 1")
    if inferences == 1:
        return solve(game, delta).upper
    if game.gaussian is not None:
        return game.worst(gaussian.epsilon(game.gaussian * np.sqrt(inferences), delta))[game.of_device]
    check_delta(delta)
    each = [stream(game, kind).repeated(inferences).epsilon(delta) for kind in range(game.num_kinds)]
    return np.array(each)[game.of_device]


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
