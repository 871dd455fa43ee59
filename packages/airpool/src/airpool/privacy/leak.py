"""Leaks: what an adversary sees with a device's data and without, as expressions (docs/theory/leaks.md).

A leak is a pair of laws. Its leaves say what one signal shows where the noise of the others is known:

    Gaussian(shift, own)     N(0, v) against N(shift, v)
    Removed(shift, own)      the device goes, and takes its noise along
    Hidden(p, leak)          the signal is there with probability p, and nobody sees whether
    HiddenBoth(p, leak)      the same where a feature is compared with its opposite
    Either(p, one, other)    a bound: the adversary is told which of two it is

and the nodes above them what the adversary sees besides:

    Seen(noise, leak, p)     whose noise is there, and whether the device itself is
    Decided(on, off, leak)   whether the device transmits, which depends on its data (Scheme 2.1)

Arrays have one value for each case: a kind of device, and a set of others that are absent. `PerDevice` takes the worst
case of each device, and above it stand

    Times(n, leak)           many inferences, each drawn anew
    Draws(n, draws, leak)    many inferences over one draw of the channel, or a few
    Mixed(mass, leaks)       one of several leaks, by a draw that is seen and stays
    Near(failure, leak)      a law that is missed now and then
    Least(a, b)  Worst(a, b) several bounds on one leak; any of several leaks
    Unbounded(count)         nothing is proven

`delta` is the curve δ(ε) of a leak in one slot and `ends` its inverse; epsilon.py and odds.py are functions of all
nodes. A new leaf is a frozen dataclass with a `given`. What stands above it asks for nothing else, except HiddenBoth
and Draws, which are of Gaussians.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial, singledispatch
from math import sqrt
from typing import Any, Literal, NamedTuple, final, get_args

import numpy as np

from airpool._support.arrays import Floats, Integers, failure_probability
from airpool._support.search import smallest
from airpool.privacy import cover, gaussian, removal
from airpool.privacy.aggregate import ratio
from airpool.privacy.floor import Floor
from airpool.privacy.law import Law

Direction = Literal["forward", "backward"]

# Cells evaluated at a time, to keep memory flat.
_CHUNK = 2**21
# Cells of a law of noise where a whole curve is composed; rounded to the safe side, it costs about 0.05 % of ε.
COMPOSED_CELLS = 512
# Long laws are looked at in blocks of cells first, and by cell only in blocks that decide: where the bounds on
# all others are together within this share of δ. Laws up to a length have small blocks, short ones none.
_BLOCKS, _NEGLIGIBLE = ((2**11, 64), (2**8, 16)), 1e-12
# Steps, of a factor of 16 each, in which the end of a search for a lower end is looked for.
_STEPS = 250
# The likelihood ratio of removal needs noncentral χ² tails, 100 times dearer than Gaussian ones.
_REMOVAL_CELLS = 1024
# e^ε overflows beyond this: a larger ε of a removal or a decision is reported as inf.
_CEILING = 700.0
# Relative errors of δ as computed, where it matters (composition): assumptions, with a margin over what was measured.
# Tails nearly agree where a shift or a variance is small, or where silence is nearly as likely under both features.
_COVER_ERROR, _REMOVAL_ERROR, _DECISION_ERROR = 1e-10, 1e-8, 1e-8


class Signal:
    """What one signal shows where the noise of the others is known: a frozen dataclass, with a `given`.

    Its `given` holds at every ε, below 0 too, where no δ is less than 1 − e^ε.
    """

    @property
    def symmetric(self) -> bool:
        """Whether the leak looks alike from both sides."""
        return False

    @property
    def error(self) -> float:
        """The relative error of δ as computed, at most."""
        return 1e-11


@final
@dataclass(frozen=True, eq=False)
class Gaussian(Signal):
    """N(0, v) against N(shift, v), v = own + the noise of the others."""

    shift: Floats
    own: Floats

    @property
    def symmetric(self) -> bool:
        return True

    def mu(self, case: Any, noise: Floats | float) -> Floats:
        """The distance in standard deviations."""
        return ratio(self.shift[case], np.sqrt(noise + self.own[case]))


@dataclass(frozen=True, eq=False)
class Removed(Signal):
    """N(shift, (v + own) I_r) against N(0, v I_r), v the noise of the others: a device that takes its noise along."""

    shift: Floats
    own: Floats
    dimension: int

    @property
    def error(self) -> float:
        return _REMOVAL_ERROR


@dataclass(frozen=True, eq=False)
class Hidden(Signal):
    """(1 − p)Q + pP against Q, of a leak (P, Q): nobody sees whether the signal is there."""

    probability: Floats
    leak: Signal

    @property
    def error(self) -> float:
        return max(_COVER_ERROR, self.leak.error)


@dataclass(frozen=True, eq=False)
class HiddenBoth(Signal):
    """(1 − p)N(0) + pN(+μ/2) against (1 − p)N(0) + pN(−μ/2), of a Gaussian at distance μ: opposite features."""

    probability: Floats
    leak: Gaussian

    @property
    def symmetric(self) -> bool:
        return True

    @property
    def error(self) -> float:
        return _COVER_ERROR


@dataclass(frozen=True, eq=False)
class Either(Signal):
    """The first leak with probability p, else the other: a bound, where the adversary is told which."""

    probability: Floats
    leak: Signal
    other: Signal

    @property
    def error(self) -> float:
        return max(self.leak.error, self.other.error)


class _Lasting:
    """Pickled as its fields alone, without what was computed of them."""

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True, eq=False)
class Seen(_Lasting):
    """What a signal shows over the noise of the others, which the adversary sees; unless exposed, nothing.

        δ(ε) = (1−p)[1 − e^ε]₊ + p·E[δ(ε; V)],   V of the law `noise.row[case]`

    The curve takes the noise rounded down, so its δ is the proven one; `high` rounds it up.
    """

    noise: Floor
    leak: Signal
    exposed: Floats

    @cached_property
    def _mu(self) -> dict[bool, Floats]:
        return {}

    def mu(self, case: Integers, *, high: bool = False) -> Floats:
        """μ of given cases in every cell of the law, of a leak that is Gaussian where the noise is known."""
        law, leak = self.law(high=high), _gaussian_in(self.leak)
        assert leak is not None
        if len(self.noise.row) * law.variance.shape[1] > _CHUNK:
            return leak.mu(np.asarray(case)[:, None], law.variance[self.noise.row[case]])
        if high not in self._mu:  # once, where that is not too much
            self._mu[high] = leak.mu((slice(None), None), law.variance[self.noise.row])
        return self._mu[high][case]

    def mass(self, case: Integers) -> Floats:
        """The probabilities of the cells of given cases."""
        return self.noise.low.mass[self.noise.row[case]]

    def law(self, *, high: bool = False) -> Law:
        return self.noise.high if high else self.noise.low

    @cached_property
    def blocks(self) -> dict[bool, tuple[int, Floats | None]]:
        """Cells of a block, and the probability of every block; of each of both laws."""
        return {high: _blocks(self.law(high=high)) for high in (False, True)}


@dataclass(frozen=True, eq=False)
class Decided:
    """Whether there is a signal depends on the data, and is seen.

        δ(ε) = π·δ(ε − ln(π/π′)) + [(1−π) − e^ε(1−π′)]₊

    on, off: ln π and ln π′, ln(1−π) and ln(1−π′), the probabilities with the data and without, (2, cases).
    choice: which of several laws each case is, where the data chooses in every inference; the last one has no other
        side, the one before is the other side of the one before that. None: both sides are asked for.
    """

    on: Floats
    off: Floats
    leak: Seen
    choice: Integers | None = None


Leak = Signal | Seen | Decided


@singledispatch
def given(leak: Any, epsilon: Floats, case: Any, noise: Floats, *, backward: bool) -> Floats:
    """δ at ε of given cases where the noise of the others is known; elementwise, what is given is broadcast."""
    raise TypeError(f"{type(leak).__name__} is no signal: register its δ with airpool.privacy.leak.given")


@given.register
def _(leak: Gaussian, epsilon: Floats, case: Any, noise: Floats, *, backward: bool) -> Floats:
    return gaussian.delta(epsilon, leak.mu(case, noise))


@given.register
def _(leak: Removed, epsilon: Floats, case: Any, noise: Floats, *, backward: bool) -> Floats:
    shift, own = leak.shift[case], leak.own[case]
    return removal.divergence(epsilon, shift=shift, rest=noise, own=own, dimension=leak.dimension, backward=backward)


@given.register
def _(leak: Hidden, epsilon: Floats, case: Any, noise: Floats, *, backward: bool) -> Floats:
    epsilon, case, noise = np.broadcast_arrays(epsilon, case, noise)

    def inner(inner_epsilon: Floats, at: Any) -> Floats:
        return given(leak.leak, inner_epsilon, case[at], noise[at], backward=backward)

    return cover.hidden(epsilon, leak.probability[case], inner, backward=backward)


@given.register
def _(leak: HiddenBoth, epsilon: Floats, case: Any, noise: Floats, *, backward: bool) -> Floats:
    return cover.delta_replace(epsilon, leak.leak.mu(case, noise) / 2, leak.probability[case])


@given.register
def _(leak: Either, epsilon: Floats, case: Any, noise: Floats, *, backward: bool) -> Floats:
    p = leak.probability[case]
    one, other = (given(each, epsilon, case, noise, backward=backward) for each in (leak.leak, leak.other))
    return p * one + (1 - p) * other


@singledispatch
def delta(leak: Any, epsilon: Floats, case: Integers, *, backward: bool = False, high: bool = False) -> Floats:
    """δ at ε of given cases, (n,), elementwise: never too small, or with `high` never too large."""
    return np.clip(given(leak, epsilon, case, np.zeros(1), backward=backward), _least(epsilon), 1.0)


@delta.register
def _(leak: Seen, epsilon: Floats, case: Integers, *, backward: bool = False, high: bool = False) -> Floats:
    law = leak.law(high=high)
    size = max(1, _CHUNK // law.variance.shape[1])
    if len(case) > size:
        parts = (slice(i, i + size) for i in range(0, len(case), size))
        return np.concatenate([delta(leak, epsilon[at], case[at], backward=backward, high=high) for at in parts])
    row, column = leak.noise.row[case], epsilon[:, None]
    block, blocks = leak.blocks[high] if isinstance(leak.leak, Gaussian) else (0, None)
    if blocks is not None:
        seen = _by_blocks(column, leak.mu(case, high=high), law.mass[row], blocks[row], block, up=not high)
    elif isinstance(leak.leak, Gaussian):
        seen = np.einsum("ij,ij->i", law.mass[row], gaussian.delta(column, leak.mu(case, high=high)))
    else:
        each = np.maximum(given(leak.leak, column, case[:, None], law.variance[row], backward=backward), _least(column))
        seen = np.einsum("ij,ij->i", law.mass[row], each)
    seen += -leak.noise.slack if high else leak.noise.slack
    p = leak.exposed[case]
    return np.clip(p * seen + (1 - p) * -np.expm1(np.minimum(epsilon, 0.0)), 0.0, 1.0)


@delta.register
def _(leak: Decided, epsilon: Floats, case: Integers, *, backward: bool = False, high: bool = False) -> Floats:
    here, there = (1, 0) if backward else (0, 1)
    speaking, silence = (_log_ratio(each[here, case], each[there, case]) for each in (leak.on, leak.off))
    received = delta(leak.leak, epsilon - speaking, case, backward=backward, high=high)
    unseen = np.exp(leak.off[here, case]) * -np.expm1(np.minimum(epsilon - silence, 0.0))
    return np.clip(np.exp(leak.on[here, case]) * received + unseen, 0.0, 1.0)


def _least(epsilon: Floats) -> Floats:
    """δ at ε of any leak, at least: below 0 it is that of laws that do not differ."""
    return np.maximum(-np.expm1(np.minimum(epsilon, 0.0)), 0.0)


class Distances(NamedTuple):
    """The law of μ of every case, rounded up, where the adversary sees what decides it: 0 unless exposed, else drawn.

    mu, mass: of given cases, μ in every cell and its probability.
    E f ≤ (1−exposed)·f(0) + exposed·(Σ mass·f(μ) + slack) for every rising f with values in [0, 1].
    """

    mu: Callable[[Integers], Floats]
    mass: Callable[[Integers], Floats]
    exposed: Floats
    slack: float


@dataclass(frozen=True, eq=False)
class PerDevice(_Lasting):
    """The leak of each device: the worst of the cases of its kind.

    cells: of a law of noise where it is composed. among: how many devices there are, where these are some of them.
    """

    leak: Leak
    kind: Integers
    of_device: Integers
    cells: int | None = COMPOSED_CELLS
    among: int | None = None

    @cached_property
    def kept(self) -> dict[Any, Any]:
        """What was computed of it."""
        return {}

    @property
    def num_kinds(self) -> int:
        return int(self.of_device.max()) + 1

    @property
    def num_devices(self) -> int:
        return self.among or len(self.of_device)

    def of(self, device: int) -> "PerDevice":
        """The leak of one device by itself; of the noise's law its lower end alone, so ε has no lower end."""
        at = np.flatnonzero(self.kind == self.of_device[device])
        return PerDevice(_some(self.leak, at), 0 * at, np.zeros(1, np.int64), self.cells, self.num_devices)

    @property
    def cases(self) -> Integers:
        return np.arange(len(self.kind))

    def worst(self, values: Floats) -> Floats:
        """The largest value over the cases of each kind of device."""
        out = np.full(self.num_kinds, -np.inf)
        np.maximum.at(out, self.kind, values)
        return out

    def delta(self, epsilon: Floats, case: Integers, *, high: bool = False) -> Floats:
        """δ of given cases, the larger one of both directions."""
        leak = self._affordable.leak
        return np.maximum.reduce(
            [delta(leak, epsilon, case, backward=each == "backward", high=high) for each in self.directions]
        )

    def curve(self, kind: int, epsilon: Floats, direction: Direction) -> Floats:
        """δ of one kind of device along many ε: the upper envelope over its cases."""
        cases, backward = np.flatnonzero(self.kind == kind), direction == "backward"
        return np.maximum.reduce(
            [delta(self.leak, epsilon, np.full(epsilon.shape, case), backward=backward) for case in cases]
        )

    @property
    def seen(self) -> Seen | None:
        """What is seen of the others; None where there are none."""
        leak = self.leak.leak if isinstance(self.leak, Decided) else self.leak
        return leak if isinstance(leak, Seen) else None

    @property
    def signal(self) -> Signal:
        """What the signal itself shows."""
        leak = self.seen or self.leak
        return leak.leak if isinstance(leak, Seen | Decided) else leak  # pyright: ignore[reportReturnType]

    @property
    def shifts(self) -> bool:
        """Whether the feature moves the sum and nothing else (not for removal)."""
        return _gaussian_in(self.signal) is not None

    @cached_property
    def directions(self) -> tuple[Direction, ...]:
        """Both, unless the leak looks alike from both sides, or its cases are each other's other side."""
        alike, leak = self.signal.symmetric, self.leak
        if isinstance(leak, Decided):
            alike &= leak.choice is not None or all(np.array_equal(*each) for each in (leak.on, leak.off))
        return ("forward",) if alike else get_args(Direction)

    @property
    def exact(self) -> bool:
        """Whether the law of the noise is exact, so that both ends agree."""
        seen = self._affordable.seen
        return seen is None or seen.noise.exact

    @property
    def slack(self) -> float:
        """The probability that the law of the noise leaves open."""
        return 0.0 if self.seen is None else self.seen.noise.slack

    @cached_property
    def _affordable(self) -> "PerDevice":
        """With fewer cells where one of them is dear."""
        removed = isinstance(self.signal, Hidden) and not self.shifts
        return self._with_noise(lambda noise, own: noise.rounded(_REMOVAL_CELLS)) if removed else self

    @cached_property
    def gaussian(self) -> Floats | None:
        """μ of each case, where there is nothing but one Gaussian against another."""
        if isinstance(self.leak, Gaussian):
            return self.leak.mu(self.cases, 0.0)
        if not isinstance(self.leak, Seen) or not isinstance(self.leak.leak, Gaussian):
            return None
        noise = self.leak.noise
        sure = noise.exact and not noise.slack and noise.low.variance.shape[1] == 1
        certain = sure and bool(np.all(self.leak.exposed == 1))
        return self.leak.mu(self.cases)[:, 0] if certain else None

    @cached_property
    def distances(self) -> Distances:
        """The law of μ, where the feature moves the sum and nothing else."""
        present = _present(self.signal) * (np.exp(self.leak.on[0]) if isinstance(self.leak, Decided) else 1.0)
        if self.seen is None:
            inner, ones = _gaussian_in(self.signal), np.ones((len(self.kind), 1))
            assert inner is not None
            mu = inner.mu(self.cases, 0.0)[:, None]
            return Distances(mu.__getitem__, ones.__getitem__, ones[:, 0] * present, 0.0)
        return Distances(self.seen.mu, self.seen.mass, self.seen.exposed * present, self.seen.noise.slack)

    @property
    def error(self) -> float:
        """A bound on the relative error of δ as computed."""
        return _DECISION_ERROR if isinstance(self.leak, Decided) else self.signal.error

    def coarse(self, cells: int) -> "PerDevice":
        """With at most so many cells a law, rounded to the safe side, where a whole curve is wanted (composition)."""
        if ("coarse", cells) not in self.kept:
            self.kept["coarse", cells] = self._with_noise(lambda noise, own: noise.settled(cells, own))
        return self.kept["coarse", cells]

    def _with_noise(self, changed: Callable[[Floor, Floats | None], Floor]) -> "PerDevice":
        leak, seen = self.leak, self.seen
        if seen is None or (noise := changed(seen.noise, _own(seen.leak))) is seen.noise:
            return self
        seen = replace(seen, noise=noise)
        return replace(self, leak=replace(leak, leak=seen) if isinstance(leak, Decided) else seen)

    @property
    def chooses(self) -> bool:
        """Whether the data chooses among several laws in every inference."""
        return isinstance(self.leak, Decided) and self.leak.choice is not None

    def chosen(self) -> Iterator["PerDevice"]:
        """Each of the laws among which the data chooses, with its other side."""
        leak = self.leak
        assert isinstance(leak, Decided)
        assert leak.choice is not None
        for choice in (0, leak.choice.max()):
            at = np.flatnonzero(leak.choice == choice)
            seen = replace(
                leak.leak,
                noise=replace(leak.leak.noise, device=leak.leak.noise.device[at], row=leak.leak.noise.row[at]),
                leak=_some(leak.leak.leak, at),
                exposed=leak.leak.exposed[at],
            )
            yield replace(self, leak=Decided(leak.on[:, at], leak.off[:, at], seen), kind=self.kind[at])


def _some(leak: Any, at: Integers) -> Any:
    """Given cases of a leak."""

    def part(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value[..., at]  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, Floor):
            return value.of_rows(at)
        return _some(value, at) if isinstance(value, Leak) else value

    return replace(leak, **{each.name: part(getattr(leak, each.name)) for each in fields(leak)})


def _own(leak: Signal) -> Floats | None:
    """The noise of the device itself, of each case, where the signal says it."""
    return getattr(leak, "own", None) if not isinstance(leak, Hidden | HiddenBoth | Either) else _own(leak.leak)


def _present(leak: Signal) -> Floats | float:
    """The probability that the signal is there."""
    return leak.probability if isinstance(leak, Hidden | HiddenBoth) else 1.0


def _gaussian_in(leak: Signal) -> Gaussian | None:
    inner = leak.leak if isinstance(leak, Hidden | HiddenBoth) else leak
    return inner if isinstance(inner, Gaussian) else None


@dataclass(frozen=True, eq=False)
class Times:
    """`number` inferences of one leak, each with coins, noise and channel of its own."""

    number: int
    leak: PerDevice

    def __post_init__(self) -> None:
        if self.number < 1:
            raise ValueError(f"inferences={self.number} must be >= 1")


@dataclass(frozen=True, eq=False)
class Draws(_Lasting):
    """`number` inferences over at most `draws` draws of what the adversary sees; given it, one Gaussian each."""

    number: int
    draws: int
    leak: PerDevice

    @cached_property
    def in_one(self) -> PerDevice:
        """The leak of all of them over a single draw: given it, μ² adds up."""
        leak, factor = self.leak.leak, sqrt(self.number)
        if isinstance(leak, Gaussian):
            return replace(self.leak, leak=replace(leak, shift=leak.shift * factor))
        assert isinstance(leak, Seen)
        assert isinstance(leak.leak, Gaussian)
        return replace(self.leak, leak=replace(leak, leak=replace(leak.leak, shift=leak.leak.shift * factor)))

    @cached_property
    def worst(self) -> dict[int, PerDevice]:
        """Of each kind of device that was asked for, a bound: every inference has the worst of its draws."""
        return {}


@dataclass(frozen=True, eq=False)
class Mixed:
    """One of several leaks, by a draw that is seen and stays.

        δ(ε) = Σ mass_i·δ_i(ε)

    mass: the probability of each, (leaks, kinds); with what it lacks nothing of the device is seen. All leaks are of as
    many inferences and have the same kinds.
    """

    mass: Floats
    leaks: tuple[Times, ...]


@dataclass(frozen=True, eq=False)
class Near:
    """Within total variation `failure` of a leak, of each device: a law that may be missed."""

    failure: Floats
    leak: "OverTime"


@dataclass(frozen=True, eq=False)
class Least:
    """The smallest of several bounds on one leak."""

    leaks: "tuple[OverTime, ...]"


@dataclass(frozen=True, eq=False)
class Worst:
    """Any of several leaks, nobody knows which."""

    leaks: "tuple[OverTime, ...]"


@dataclass(frozen=True, eq=False)
class Unbounded:
    """A leak of which nothing is proven, of each of so many devices."""

    count: int
    because: str = ""


OverTime = PerDevice | Times | Draws | Mixed | Near | Least | Worst | Unbounded


def why_unbounded(leak: OverTime) -> str:
    """The reason why nothing is proven of a leak; "" where something is, or no node says why."""
    match leak:
        case Unbounded():
            return leak.because
        case Near():
            return why_unbounded(leak.leak)
        case Least():
            found = [why_unbounded(each) for each in leak.leaks]
            return found[0] if all(found) else ""
        case Worst():
            return next((why for each in leak.leaks if (why := why_unbounded(each))), "")
        case _:
            return ""


def near(failure: Floats, leak: OverTime) -> OverTime:
    """The leak within a total variation that may be 0."""
    return Near(failure, leak) if np.any(failure) else leak


class Bounds(NamedTuple):
    """A result between two proven ends. `upper` is the proven ε; both agree where the law is exact."""

    lower: Floats
    upper: Floats


def ends(leak: PerDevice, delta: float) -> Bounds:
    """Both ends of ε of each device at δ; they are kept."""
    if ("ends", delta) not in leak.kept:
        leak.kept["ends", delta] = _ends(leak, delta)
    return leak.kept["ends", delta]


def _ends(leak: PerDevice, delta: float) -> Bounds:
    log_target = np.log(float(failure_probability(delta)))
    cases = leak.cases.astype(np.float64)

    def excess(epsilon: Floats, case: Floats, *, high: bool = False) -> Floats:
        with np.errstate(divide="ignore"):
            return np.log(leak.delta(epsilon, case.astype(np.int64), high=high)) - log_target

    def root(most: Floats, *, high: bool = False) -> Floats:
        found = smallest(partial(excess, high=high), np.zeros(len(cases)), most, cases)
        return leak.worst(found)[leak.of_device]

    ceiling = _ceiling(leak, delta)
    upper = root(ceiling)
    if leak.exact:
        return Bounds(upper, upper)
    # Where no ε is sure to meet δ, the upper law may still meet it: its own end is looked for, upwards.
    end = np.where(np.isfinite(ceiling), ceiling, 1.0)
    for _ in range(_STEPS):  # pragma: no branch: 16 to the power of _STEPS is more than any ε
        short = np.isinf(ceiling) & (excess(end, cases, high=True) > 0)
        if not short.any():
            break
        end[short] *= 16
    return Bounds(root(end, high=True), upper)


def gaussians(mu: Floats) -> PerDevice:
    """One Gaussian against another at distance μ of each device."""
    distinct, of_device = np.unique(mu, return_inverse=True)
    leak = Gaussian(distinct, np.ones(len(distinct)))
    return PerDevice(leak, np.arange(len(distinct)), of_device.reshape(-1))


def drawn(mu: Floats, mass: Floats, *, slack: float = 0.0) -> PerDevice:
    """A Gaussian at distance μ[i] with probability mass[i], which is seen; of one device, and composed as it is.

    slack: as in `Distances`.
    """
    order = np.argsort(-mu)
    with np.errstate(divide="ignore", over="ignore"):
        law = Law(mu[None, order] ** -2.0, mass[None, order])
    one, nobody = np.ones(1), np.zeros(1, dtype=np.int64)
    return PerDevice(
        Seen(Floor(law, law, slack, nobody, nobody), Gaussian(one, 0 * one), one), nobody, nobody, cells=None
    )


def _blocks(law: Law) -> tuple[int, Floats | None]:
    """Cells of a block, and the probability of every block; None for a short law, or where a mass is negative."""
    block = next((block for longer, block in _BLOCKS if law.variance.shape[1] > longer), 0)
    if not block or np.any(law.mass < 0):
        return block, None
    return block, np.add.reduceat(law.mass, np.arange(0, law.mass.shape[1], block, dtype=np.int64), axis=1)


def _by_blocks(eps: Floats, mu: Floats, mass: Floats, blocks: Floats, block: int, *, up: bool) -> Floats:
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


def _log_ratio(log_a: Floats, log_b: Floats) -> Floats:
    """ln(a/b), with 0/0 = 1: neither ever happens."""
    with np.errstate(invalid="ignore"):
        return np.where(log_a == log_b, 0.0, log_a - log_b)


def _ceiling(leak: PerDevice, delta: float) -> Floats:
    """An ε of each case that surely meets δ: the end of a search.

    Where the signals are no Gaussians of one variance (removal) it is looked for up to where e^ε overflows.
    """
    if not leak.shifts:
        return np.full(len(leak.kind), _CEILING)
    law = leak.distances
    found = _reached(law.mu(leak.cases), law.mass(leak.cases), law.exposed, delta, slack=law.slack)
    if isinstance(leak.leak, Decided):
        on, off = leak.leak.on, leak.leak.off
        found = np.maximum(found + _log_ratio(*on), _log_ratio(*off))
    # A margin, so that the search sees its upper end meet the target in spite of rounding.
    found = np.maximum(found, 0.0) * (1 + 1e-9) + 1e-9
    return np.minimum(found, _CEILING) if isinstance(leak.leak, Decided) else found


def _reached(mu: Floats, mass: Floats, exposed: Floats, delta: float, *, slack: float) -> Floats:
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
