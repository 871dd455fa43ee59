"""The adversary's observation of a network: the few numbers per device that determine its ε."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats, not_negative, probability
from airpool.network.claim import Neighbours
from airpool.privacy.law import Arrivals, Strength

_COLUMNS: dict[str, Callable[[str, ArrayLike], Floats]] = {
    "shift": not_negative,
    "variance": not_negative,
    "participation": probability,
    "presence": probability,
    "failure": probability,
}


@dataclass(frozen=True)
class Aggregate:
    """The adversary's observation, in arrays of one value per device.

    shift: how far the sum moves when the feature is zeroed, g·w·C.
    variance: of the device's noise in the sum, per coordinate, g²σ².
    participation: probability that it takes part, given that it is on the air.
    presence: probability that it is on the air at all (no outage); it depends on the channel, never on the data.
    extra: variance of credited noise that is always there (the receiver's).
    dimension: r; it matters for removal alone.
    absent: how many of the others do not count, whichever they are (colluders who know their own noise, dropouts).
    colluders: how many of the absent ones collude; they see their own views.
    colluding: devices that are known to collude; their noise protects only themselves.
    weakened: a device that is not present is still received, but weaker: it leaks as if it were present, and its noise
        does not count for the others.
    alone: every device is received by itself (orthogonal access), so no device's noise protects another.
    strength: laws of the random factor on each device's received power, or of its direction, where gains are not known
        exactly; `shift` and `variance` are those at strength 1.
    failure: probability, in one inference, that a device's signal does not follow the law described here, whatever the
        data. It costs δ: see `compose.nearby`.
    excess: probability that others' noise arrives more strongly than live noise is proven for; no matter where alone.
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
    strength: Strength | Arrivals | None = None
    presence: Floats = field(default_factory=lambda: np.ones(0))
    failure: Floats = field(default_factory=lambda: np.zeros(0))
    excess: float = 0.0

    def __post_init__(self) -> None:
        missing = {"presence": np.ones_like(self.shift), "failure": np.zeros_like(self.shift)}
        shapes: set[tuple[int, ...]] = set()
        for name, rule in _COLUMNS.items():
            given = getattr(self, name)
            column = rule(name, given if name not in missing or np.size(given) else missing[name])
            object.__setattr__(self, name, column)
            shapes.add(column.shape)
        not_negative("extra", self.extra)
        if len(shapes) > 1 or self.shift.ndim != 1:
            raise ValueError(f"{', '.join(_COLUMNS)} need one value per device, not {shapes}")
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
    def kind_of_strength(self) -> Floats:
        """A number for each device, the same where strengths have the same law."""
        return np.zeros(self.num_devices) if self.strength is None else self.strength.of_device.astype(np.float64)

    @property
    def lent(self) -> Floats:
        """The noise variance that each device lends to the others."""
        lent = np.zeros_like(self.variance) if self.alone else self.variance.copy()
        lent[list(self.colluding)] = 0.0
        return lent

    @property
    def received(self) -> Floats:
        """The probability that each device's noise is received: on the air, and taking part."""
        return self.participation * self.presence

    @property
    def varies(self) -> bool:
        """Whether what is received depends on a draw of the channel."""
        return self.strength is not None or bool(np.any(self.presence < 1))

    @property
    def exposed(self) -> Floats:
        """The probability that each device's feature is in what the adversary receives."""
        return self.participation if self.weakened else self.received

    @property
    def misses(self) -> Floats:
        """The probability that what is seen of each device does not follow the law, in one inference.

        One failed signal invalidates the sum, so all devices' failures count unless devices are received alone.
        """
        if self.alone:
            return self.failure
        return np.full(self.num_devices, min(float(np.sum(self.failure)) + self.excess, 1.0))

    def distance(self, neighbours: Neighbours | str) -> Floats:
        """The sensitivity: how far the two sums lie apart."""
        return self.shift * Neighbours(neighbours).sensitivity

    def fixed_variance(self) -> Floats:
        """Noise around each device's feature when all noise is always there, less that of the absent devices."""
        counted = self.num_devices - 1 - min(self.absent, self.num_devices - 1)
        return least_of_others(self.lent, counted) + self.variance + self.extra

    def least_variance(self, *, by_score: bool = False) -> Floats:
        """Noise around each device's feature in the worst outcome, however rare, of coins, outages, strengths.

        by_score: others take part by their scores, so that `participation` says nothing.
        """
        if self.strength is not None:
            return self.variance
        chance = self.presence if self.cover_noise else self.received * (not by_score)
        counted = self.num_devices - 1 - min(self.absent, self.num_devices - 1)
        return least_of_others(np.where(chance == 1, self.lent, 0.0), counted) + self.variance + self.extra


def least_of_others(lent: Floats, number: int) -> Floats:
    """Sum of the `number` smallest of the others' values, for each device; number < K."""
    ascending = np.sort(lent)
    least, following = np.sum(ascending[:number]), ascending[number]
    # A device that is among the smallest itself is replaced by the next one.
    return np.where(lent < following, least - lent + following, least)


def ratio(shift: ArrayLike, std: ArrayLike) -> Floats:
    """shift/std, where nothing over nothing is 0 and something over nothing is inf."""
    shift, std = np.broadcast_arrays(np.asarray(shift, dtype=np.float64), np.asarray(std, dtype=np.float64))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(shift == 0, 0.0, shift / std)
