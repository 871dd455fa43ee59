"""ε of each device: what the sum of all signals tells about one of them.

Three kinds of neighbours (spec §3.1): `zero-out`, the feature becomes 0; `replace`, it becomes any other one;
`remove`, the device vanishes and its noise with it. Two kinds of participation: visible to the adversary (the default),
or hidden by cover noise, where silent devices still send their noise.
"""

from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from airpool.arrays import Floats, Integers, checked, not_negative, probability
from airpool.privacy import cover, gaussian, removal
from airpool.privacy.floor import Floor, floor
from airpool.privacy.game import Bounds, Curve, Direction, Game, in_chunks, solve
from airpool.privacy.law import Law, alike, coarsened

Neighbours = Literal["zero-out", "replace", "remove"]

# The likelihood ratio of removal needs noncentral χ² tails, 100 times dearer than Gaussian ones.
_REMOVAL_BINS = 1024
# e^ε overflows beyond this; a removal that costs more is reported as inf.
_REMOVAL_CEILING = 700.0
# Relative errors of δ as computed, by differences of tails that nearly agree where a shift or a variance is small.
_COVER_ERROR, _REMOVAL_ERROR = 1e-10, 1e-8


@dataclass(frozen=True)
class Aggregate:
    """What the adversary hears, in arrays of one value per device.

    shift: how far the sum moves when the feature is zeroed, g·w·C.
    variance: of the device's noise in the sum, per coordinate, g²σ².
    participation: probability that it takes part, given that it is on the air.
    presence: probability that it is on the air at all (no outage); it depends on the channel, never on the data.
    extra: variance of credited noise that is always there (the receiver's).
    dimension: r; it matters for removal alone.
    absent: how many of the others do not count, whichever they are (colluders who know their own noise, dropouts).
    colluders: how many of the absent ones collude; they see their own views.
    colluding: devices that are known to collude; their noise protects nobody but themselves.
    weakened: a device that is not present is heard all the same, only weaker: it leaks as if it were there, but its
        noise does not count for the others.
    alone: every device is heard by itself (orthogonal access), so nobody's noise protects another.
    failure: probability, in one inference, that a device's signal does not follow the law described here, whatever the
        data. It costs δ: see `nearby`.
    """

    shift: Floats
    variance: Floats
    participation: Floats
    extra: float = 0.0
    dimension: int = 1
    cover_noise: bool = False
    absent: int = 0
    colluders: int = 0
    colluding: tuple[int, ...] = ()
    alone: bool = False
    weakened: bool = False
    presence: Floats = field(default_factory=lambda: np.ones(0))
    failure: Floats = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        for name in ("shift", "variance"):
            object.__setattr__(self, name, not_negative(name, getattr(self, name)))
        object.__setattr__(self, "participation", probability("participation", self.participation))
        presence = probability("presence", self.presence if np.size(self.presence) else np.ones_like(self.shift))
        object.__setattr__(self, "presence", presence)
        failure = probability("failure", self.failure if np.size(self.failure) else np.zeros_like(self.shift))
        object.__setattr__(self, "failure", failure)
        not_negative("extra", self.extra)
        columns = ("shift", "variance", "participation", "presence", "failure")
        shapes = {getattr(self, name).shape for name in columns}
        if len(shapes) > 1 or self.shift.ndim != 1:
            raise ValueError(f"{', '.join(columns)} need one value per device, not {shapes}")
        if self.num_devices == 0:
            raise ValueError("there must be at least one device")
        if self.absent < 0:
            raise ValueError(f"absent={self.absent} must be >= 0")
        if not 0 <= self.colluders <= self.absent:
            raise ValueError(f"colluders={self.colluders} must be from 0 to absent={self.absent}")
        if any(not 0 <= k < self.num_devices for k in self.colluding):
            raise ValueError(f"colluding={self.colluding} must name devices 0 to {self.num_devices - 1}")

    @property
    def num_devices(self) -> int:
        return len(self.shift)

    @property
    def lent(self) -> Floats:
        """The noise variance that each device lends to the others."""
        lent = np.zeros_like(self.variance) if self.alone else self.variance.copy()
        lent[list(self.colluding)] = 0.0
        return lent

    @property
    def heard(self) -> Floats:
        """The probability that each device's noise is heard: on the air, and taking part."""
        return self.participation * self.presence

    @property
    def exposed(self) -> Floats:
        """The probability that each device's feature is there to be found."""
        return self.participation if self.weakened else self.heard

    @property
    def misses(self) -> Floats:
        """The probability that what is seen of each device does not follow the law, in one inference.

        One signal that goes astray spoils the sum, so everybody's failures count unless devices are heard alone.
        """
        if self.alone:
            return self.failure
        return np.full(self.num_devices, min(float(np.sum(self.failure)), 1.0))

    def distance(self, neighbours: Neighbours) -> Floats:
        """How far the two sums lie apart: the sensitivity."""
        return self.shift * (2 if neighbours == "replace" else 1)

    def fixed_variance(self) -> Floats:
        """Noise around each device's feature when everybody's noise is always there, less that of the absent ones."""
        lent = self.lent
        others = np.sum(lent) - lent
        if absent := min(self.absent, self.num_devices - 1):
            # The worst to lose are those of the largest variance; a device that is one of them has the next one.
            largest = np.sort(lent)[::-1][: absent + 1]
            lost = np.where(lent >= largest[-1], float(largest.sum()) - lent, float(largest[:-1].sum()))
            others = np.maximum(others - lost, 0.0)
        return others + self.variance + self.extra


def epsilon(aggregate: Aggregate, delta: float, *, neighbours: Neighbours = "zero-out") -> Bounds:
    """ε of each device when all transmit together (spec §3.3 to §3.5; the paper's claim is paper.theorem1).

        δ_k(ε) = p_k E[δ_G(ε; Δ_k/√(V_k + a_k))]            participation visible; zero-out, replace

    Holds for: ‖z‖ ≤ C, one inference, and every device that is neither absent nor colluding adds its noise.
    Differs from the paper: exact law of the aggregate noise instead of its mean less a tail bound, so no δ′; exact
    Gaussian curve; removal costs what it costs.
    Edge cases: no noise at all → inf; weight or participation 0 → 0 (but not for removal, where noise shows).

    >>> twelve = Aggregate(np.full(12, 1 / 12), np.full(12, 0.05**2), np.full(12, 0.9))
    >>> float(epsilon(twelve, 1e-5).upper[0].round(6))
    2.063924
    """
    return solve(game(aggregate, neighbours), delta)


def delta(aggregate: Aggregate, epsilon: ArrayLike, *, neighbours: Neighbours = "zero-out") -> Floats:
    """δ of each device at ε (one value, or one per device), rounded up: the larger of both directions."""
    eps = checked("epsilon", epsilon, allowed="must be a number", ok=lambda x: ~np.isnan(x))
    eps = np.broadcast_to(eps, (aggregate.num_devices,))
    played = game(aggregate, neighbours, merge=False)
    pairs = np.arange(len(played.kind))
    found = [played.low(eps[played.kind], pairs, direction) for direction in played.directions]
    return played.worst(np.maximum.reduce(found))


def local_epsilon(
    aggregate: Aggregate, delta: float, *, neighbours: Neighbours = "zero-out", inferences: int = 1
) -> Floats:
    """ε of a device when nobody else is trusted: its own noise alone, given that it takes part, every time.

    Edge cases: removal next to the device's antenna is always seen → inf.
    """
    if neighbours == "remove":
        return np.full(aggregate.num_devices, np.inf)
    mu = ratio(aggregate.distance(neighbours), np.sqrt(aggregate.variance))
    return gaussian.epsilon(mu * np.sqrt(inferences), delta)


def ratio(shift: ArrayLike, std: ArrayLike) -> Floats:
    """shift/std, where nothing over nothing is 0 and something over nothing is inf."""
    shift, std = np.broadcast_arrays(np.asarray(shift, dtype=np.float64), np.asarray(std, dtype=np.float64))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(shift == 0, 0.0, shift / std)


def game(
    aggregate: Aggregate, neighbours: Neighbours, *, merge: bool | Integers = True, cells: int | None = None
) -> Game:
    """The game that the adversary plays against each kind of device (against each device, without `merge`).

    `merge` may also say which kind each device is of, 0, 1, ...; devices of a kind must be alike in every column.
    `cells` bounds the size of the noise laws, rounded to the safe side, where a whole curve is wanted (composition).
    """
    if neighbours not in get_args(Neighbours):
        raise ValueError(f"neighbours={neighbours!r} must be one of {', '.join(get_args(Neighbours))}")
    columns = (aggregate.shift, aggregate.variance, aggregate.participation, aggregate.presence, aggregate.lent)
    if isinstance(merge, bool):
        of_device = alike(*columns)[1] if merge else np.arange(aggregate.num_devices)
    else:
        of_device = merge
    if aggregate.cover_noise:
        return _cover_game(aggregate, neighbours, of_device, cells)
    around = floor(aggregate.lent, aggregate.heard, extra=aggregate.extra, absent=aggregate.absent)
    found = representatives(around, of_device, cells)
    return (
        _removal_game(aggregate, found, of_device)
        if neighbours == "remove"
        else _shift_game(aggregate, neighbours, found, of_device)
    )


def representatives(around: Floor, of_device: Integers, cells: int | None) -> Floor:
    """The floor's pairs for the first device of each kind only, with at most so many cells a law.

    With `cells`, the slack becomes the worst outcome, in which nobody else's noise is there: slack·f(0) bounds what the
    law misses of a falling f. As a bare addition to δ it would count as an infinite loss in every inference.
    """
    _, first = np.unique(of_device, return_index=True)
    kept = np.zeros(len(of_device), dtype=bool)
    kept[first] = True
    at = kept[around.device]
    found = replace(around, device=around.device[at], row=around.row[at])
    if cells is None or (found.low.variance.shape[1] <= cells and not found.slack):
        return found
    low, high = coarsened(found.low, cells, down=True), coarsened(found.high, cells, down=False)
    if found.slack:
        low, high = _with_outcome(low, 0.0, found.slack), _with_outcome(high, 0.0, -found.slack)
    return replace(found, low=low, high=high, slack=0.0)


def _with_outcome(law: Law, variance: float, mass: float) -> Law:
    """The law with one more cell in front of each row."""
    return Law(*(np.insert(x, 0, value, axis=1) for x, value in ((law.variance, variance), (law.mass, mass))))


def _shift_game(aggregate: Aggregate, neighbours: Neighbours, found: Floor, of_device: Integers) -> Game:
    """Two Gaussians of the same, visible variance. A Gaussian's curve is the same in both directions."""
    shift, own, p = (x[found.device] for x in (aggregate.distance(neighbours), aggregate.variance, aggregate.exposed))

    def curve(law: Law, sign: int) -> Curve:
        def delta_of(eps: Floats, pair: Integers, _: Direction) -> Floats:
            taking_part = expected_delta(law, eps, found.row[pair], shift[pair], own[pair]) + sign * found.slack
            silent = (1 - p[pair]) * -np.expm1(np.minimum(eps, 0.0))
            return np.clip(p[pair] * taking_part + silent, 0.0, 1.0)

        return in_chunks(delta_of, width=law.variance.shape[1])

    low = curve(found.low, +1)
    certain = found.exact and found.low.variance.shape[1] == 1 and bool(np.all(p == 1))
    return Game(
        kind=of_device[found.device],
        of_device=of_device,
        low=low,
        high=low if found.exact else curve(found.high, -1),
        ceiling=lambda target: ceiling(found, shift, own, p, target),
        directions=("forward",),
        gaussian=ratio(shift, np.sqrt(found.low.variance[found.row, 0] + own)) if certain else None,
    )


def expected_delta(law: Law, eps: Floats, row: Integers, shift: Floats, own: Floats) -> Floats:
    """E[δ_G(ε; Δ/√(V + a))] over rows of the law of V."""
    mu = ratio(shift[:, None], np.sqrt(law.variance[row] + own[:, None]))
    return (law.mass[row] * gaussian.delta(eps[:, None], mu)).sum(axis=1)


def ceiling(found: Floor, shift: Floats, own: Floats, p: Floats, target: float) -> Floats:
    """Gives up the outcomes of least noise while their probability is under δ, and spends the rest of δ on the next."""
    mass, variance = found.low.mass[found.row], found.low.variance[found.row]
    lost = p[:, None] * (np.cumsum(mass, axis=1) + found.slack)
    cell = np.argmax(lost >= target, axis=1)
    at = np.arange(len(cell))
    spent = np.where(cell > 0, lost[at, cell - 1], p * found.slack)
    mu = ratio(shift, np.sqrt(variance[at, cell] + own))
    with np.errstate(divide="ignore", invalid="ignore"):
        high = mu**2 / 2 + mu * np.sqrt(-2 * np.log(np.maximum(target - spent, 0.0)))
    # A whisker more: the search must see its upper end meet the target in spite of rounding.
    return np.where(lost[:, -1] < target, 0.0, np.where(mu == 0, 0.0, high * (1 + 1e-9) + 1e-9))


def _removal_game(aggregate: Aggregate, found: Floor, of_device: Integers) -> Game:
    """With and without the device: Gaussians of unlike variance, the device's participation hidden (spec §3.5)."""
    low = coarsened(found.low, _REMOVAL_BINS, down=True)
    high = low if found.exact and low is found.low else coarsened(found.high, _REMOVAL_BINS, down=False)
    on_air = np.ones_like(aggregate.presence) if aggregate.weakened else aggregate.presence
    shift, own, p, present = (
        x[found.device] for x in (aggregate.shift, aggregate.variance, aggregate.participation, on_air)
    )

    def curve(law: Law, sign: int) -> Curve:
        def delta_of(eps: Floats, pair: Integers, direction: Direction) -> Floats:
            row = found.row[pair]
            each = removal.delta(
                eps[:, None],
                shift=shift[pair, None],
                rest=law.variance[row],
                own=own[pair, None],
                dimension=aggregate.dimension,
                participation=p[pair, None],
                backward=direction == "backward",
            )
            heard = (law.mass[row] * each).sum(axis=1) + sign * found.slack
            # An outage may be seen, so it is no part of the hidden coin.
            absent = (1 - present[pair]) * -np.expm1(np.minimum(eps, 0.0))
            return np.clip(present[pair] * heard + absent, 0.0, 1.0)

        return in_chunks(delta_of, width=law.variance.shape[1])

    lowest = curve(low, +1)
    return Game(
        kind=of_device[found.device],
        of_device=of_device,
        low=lowest,
        high=lowest if low is high else curve(high, -1),
        ceiling=lambda _: np.full(len(found.device), _REMOVAL_CEILING),
        error=_REMOVAL_ERROR,
    )


def _cover_game(aggregate: Aggregate, neighbours: Neighbours, of_device: Integers, cells: int | None) -> Game:
    """Participation hidden under the noise of everybody who is on the air (spec §3.4).

    Who is on the air does not depend on the data and is known: an expectation over it, and one total where all are.
    """
    found = representatives(_on_air(aggregate), of_device, cells)
    on_air = np.ones_like(aggregate.presence) if aggregate.weakened else aggregate.presence
    shift, own, p, present = (
        x[found.device] for x in (aggregate.shift, aggregate.variance, aggregate.participation, on_air)
    )

    def curve(law: Law, sign: int) -> Curve:
        def delta_of(eps: Floats, pair: Integers, direction: Direction) -> Floats:
            row, e, q, backward = found.row[pair], eps[:, None], p[pair, None], direction == "backward"
            rest, mine = law.variance[row], own[pair, None]
            mu = ratio(shift[pair, None], np.sqrt(rest + mine))
            if neighbours == "replace":
                each = cover.delta_replace(e, mu, q)
            elif neighbours == "zero-out":
                each = cover.delta_zero_out(e, mu, q, backward=backward)
            else:
                each = removal.delta_covered(
                    e,
                    shift=shift[pair, None],
                    rest=rest,
                    own=mine,
                    dimension=aggregate.dimension,
                    participation=q,
                    backward=backward,
                )
            heard = (law.mass[row] * each).sum(axis=1) + sign * found.slack
            absent = (1 - present[pair]) * -np.expm1(np.minimum(eps, 0.0))
            return np.clip(present[pair] * heard + absent, 0.0, 1.0)

        return in_chunks(delta_of, width=law.variance.shape[1])

    distance = aggregate.distance(neighbours)[found.device]
    certain = found.exact and found.low.variance.shape[1] == 1 and bool(np.all(p * present == 1))
    low = curve(found.low, +1)
    return Game(
        kind=of_device[found.device],
        of_device=of_device,
        low=low,
        high=low if found.exact else curve(found.high, -1),
        ceiling=lambda target: (
            np.full(len(found.device), _REMOVAL_CEILING)
            if neighbours == "remove"
            else ceiling(found, distance, own, p * present, target)
        ),
        gaussian=ratio(distance, np.sqrt(found.low.variance[found.row, 0] + own))
        if certain and neighbours != "remove"
        else None,
        error=_REMOVAL_ERROR if neighbours == "remove" else _COVER_ERROR,
    )


def _on_air(aggregate: Aggregate) -> Floor:
    """Law of the others' noise under cover: of all who are on the air, whether they take part or not."""
    if np.any(aggregate.presence < 1):
        return floor(aggregate.lent, aggregate.presence, extra=aggregate.extra, absent=aggregate.absent)
    rest = aggregate.fixed_variance() - aggregate.variance
    everyone = np.arange(aggregate.num_devices)
    law = Law(rest[:, None], np.ones((len(rest), 1)))
    return Floor(law, law, slack=0.0, device=everyone, row=everyone)
