"""Budgets: a limit on ε for a relation of neighbours, in all, in each scene, or in any window; their assumptions."""

import math
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airpool._support.rounding import full, shown
from airpool.network import Neighbours
from airpool.runtime.ledger.booking import Booking
from airpool.runtime.ledger.chain import Row
from airpool.runtime.ledger.mechanism import Mechanism
from airpool.runtime.ledger.refused import SpendingError
from airpool.runtime.ledger.spending import Use, total


@dataclass(frozen=True)
class Budget:
    """(ε, δ) for all inferences of a ledger; or for those of each scene; or for those of any window of time.

    scene: counts each scene by itself. window_s: seconds that the ledger is in use (`clock`), not both.
    neighbours: what every inference is accounted for under, whatever its own network says.

    >>> Budget(4.0, window_s=86400).assumes
    'what a window of 86400 s shows is not linked to what earlier and later ones show; without that, windows add up'
    """

    epsilon: float
    delta: float = 1e-5
    scene: bool = False
    window_s: float | None = None
    neighbours: Neighbours = Neighbours.ZERO_OUT

    def __post_init__(self) -> None:
        for name, allowed, good in (
            ("epsilon", "must be > 0 and finite", 0 < self.epsilon < math.inf),
            ("delta", "must be > 0 and < 1", 0 < self.delta < 1),
            ("window_s", "must be > 0 and finite", self.window_s is None or 0 < self.window_s < math.inf),
            ("neighbours", "must be " + " or ".join(Neighbours), self.neighbours in tuple(Neighbours)),
        ):
            if not good:
                raise ValueError(f"budget {name}={getattr(self, name)} {allowed}")
        object.__setattr__(self, "neighbours", Neighbours(self.neighbours))
        if self.scene and self.window_s is not None:
            raise ValueError("a budget is for a scene or for a window, not for both: give two budgets")

    @property
    def covers(self) -> str:
        """The inferences that the budget covers, for a message."""
        if self.scene:
            return "this scene"
        return "all inferences" if self.window_s is None else f"any {self.window_s:g} s"

    @property
    def assumes(self) -> str:
        """The assumption under which this budget protects."""
        if self.scene:
            return (
                "whoever is to be protected is in one scene only, and scenes begin by a plan that does not depend on "
                "what is seen; anyone in several scenes has spent their sum"
            )
        if self.window_s is not None:
            return (
                f"what a window of {self.window_s:g} s shows is not linked to what earlier and later ones show; "
                "without that, windows add up"
            )
        return "nothing beyond the guarantee of one inference: it holds for everything that this ledger has charged"


class Allowance:
    """Tests whether a mixture of inferences fits (ε, δ), without composing it every time.

    A mixture that fits covers every smaller one. So a little more than what is asked for is tried first: the longer a
    mixture is, the rarer it is composed. One draw of the channel stays one: a second may cost much more.
    """

    _AHEAD = (1.0, 0.25, 0.0625)
    _KEPT = 32

    def __init__(self, epsilon: float, delta: float, neighbours: Neighbours = Neighbours.ZERO_OUT) -> None:
        self.epsilon, self.delta = epsilon, delta
        self.neighbours: Neighbours = neighbours
        self._fits: deque[Mapping[Mechanism, Use]] = deque(maxlen=self._KEPT)
        self._exceeds: deque[Mapping[Mechanism, Use]] = deque(maxlen=self._KEPT)

    def fits(self, counts: Mapping[Mechanism, Use]) -> bool:
        if any(_covers(known, counts) for known in self._fits):
            return True
        if any(_covers(counts, known) for known in self._exceeds):
            return False
        for share in self._AHEAD:
            more = {each: _ahead(use, share) for each, use in counts.items()}
            if self._composed(more):
                return True
        return self._composed(counts)

    def _composed(self, counts: Mapping[Mechanism, Use]) -> bool:
        good = total(counts, self.delta, self.neighbours) <= self.epsilon
        (self._fits if good else self._exceeds).appendleft(dict(counts))
        return good


def _ahead(use: Use, share: float) -> Use:
    inferences, epochs = (number + math.ceil(number * share) for number in use)
    return Use(inferences, epochs if use.epochs > 1 else use.epochs)


def _covers(larger: Mapping[Mechanism, Use], smaller: Mapping[Mechanism, Use]) -> bool:
    found = ((larger.get(each, Use(0, 0)), use) for each, use in smaller.items())
    return all(more.inferences >= use.inferences and more.epochs >= use.epochs for more, use in found)


class Tally:
    """Use of each mechanism, by its digest, for one budget: in all rows, in a scene, or in the window that ends now."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._scenes: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
        self._used: defaultdict[str, dict[str, Use]] = defaultdict(dict)
        self._recent: deque[tuple[int, str, str]] = deque()

    def add(self, row: Row) -> None:
        self._count(row.scene if self.budget.scene else "", row.mechanism, row.epoch, 1)
        if self.budget.window_s is not None:
            self._recent.append((row.elapsed, row.mechanism, row.epoch))

    def used(self, scene: str, elapsed: int, *, more: Sequence[tuple[str, str]] = ()) -> dict[str, Use]:
        """The use that counts against the budget at a moment. more: digest and epoch of each inference to add."""
        if self.budget.window_s is not None:
            # An inference counts until the whole window has passed, the last millisecond included.
            while self._recent and self._recent[0][0] < elapsed - self.budget.window_s * 1000 - 1:
                self._count("", *self._recent.popleft()[1:], -1)
        scene = scene if self.budget.scene else ""
        found = {digest: use for digest, use in self._used[scene].items() if use.inferences}
        for key, number in Counter(more).items():
            use = found.get(key[0], Use(0, 0))
            epochs = number if not key[1] else int(self._is_new(scene, key))
            found[key[0]] = Use(use.inferences + number, use.epochs + epochs)
        return found

    def _count(self, scene: str, digest: str, epoch: str, change: int) -> None:
        rows, used, key = self._scenes[scene], self._used[scene], (digest, epoch)
        before = self._is_new(scene, key)
        rows[key] += change
        use = used.get(digest, Use(0, 0))
        # A row without an epoch is one of its own; of a named one the first row counts.
        epochs = change if not epoch else before - self._is_new(scene, key)
        used[digest] = Use(use.inferences + change, use.epochs + epochs)
        if not rows[key]:
            del rows[key]

    def _is_new(self, scene: str, key: tuple[str, str]) -> bool:
        return not key[1] or not self._scenes[scene][key]


def require_budget(
    tally: Tally,
    allowance: Allowance,
    bookings: Sequence[Booking],
    mechanisms: Mapping[str, Mechanism],
    elapsed: int,
) -> None:
    """Raises SpendingError unless the budget of a tally covers these inferences too, at a moment."""
    budget = tally.budget
    for scene in dict.fromkeys(each.scene if budget.scene else "" for each in bookings):
        more = [(b.mechanism.digest, b.epoch) for b in bookings if not budget.scene or b.scene == scene]
        counts = {mechanisms[digest]: use for digest, use in tally.used(scene, elapsed, more=more).items()}
        if not allowance.fits(counts):
            spent = shown(total(counts, budget.delta, budget.neighbours), 4)
            raise SpendingError(
                "over budget",
                f"the budget for {budget.covers}, ε = {full(budget.epsilon)} at δ = {full(budget.delta)} for "
                f"{budget.neighbours} neighbours, is spent: with {sum(use.inferences for use in counts.values())} "
                f"inferences ε would be {spent}",
            )


def most_covered(
    tally: Tally,
    allowance: Allowance,
    booking: Booking,
    mechanisms: Mapping[str, Mechanism],
    elapsed: int,
    *,
    most: int,
) -> int:
    """The number of times that the budget of a tally covers this inference too, at a moment; at most `most`."""
    scene, one = booking.scene if tally.budget.scene else "", (booking.mechanism.digest, booking.epoch)

    def exceeds(number: int) -> bool:
        counts = tally.used(scene, elapsed, more=[one] * number)
        return not allowance.fits({mechanisms[digest]: use for digest, use in counts.items()})

    return most if not exceeds(most) else bisect_left(range(1, most), True, key=exceeds)
