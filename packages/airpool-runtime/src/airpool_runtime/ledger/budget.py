"""Budgets: a limit on ε for a relation of neighbours, in all, in each scene, in any window or event; assumptions.

A device goes by those of its own options. They are also signed and written into its ledger: a reader learns from there
which limits the spending has to be held against.
"""

import json
import math
import sqlite3
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain
from types import MappingProxyType

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from airpool._support.rounding import full, shown
from airpool.network import Neighbours
from airpool_runtime.ledger.chain import Origin, Row
from airpool_runtime.ledger.mechanism import Mechanism
from airpool_runtime.ledger.refused import SpendingError
from airpool_runtime.ledger.spending import Use, total
from airpool_runtime.ledger.store import Store

LONGEST = 200  # characters of a name


@dataclass(frozen=True)
class Booking:
    """One inference: its name, its mechanism, the scene that it shows, and the epoch of the channel."""

    inference: str
    mechanism: Mechanism
    scene: str = ""
    epoch: str = ""

    def check(self) -> None:
        for name in ("inference", "scene", "epoch"):
            value = getattr(self, name)
            if not isinstance(value, str) or len(value) > LONGEST or (name == "inference" and not value):
                raise ValueError(f"{name} must be a text of at most {LONGEST} characters")

    @property
    def what(self) -> tuple[str, str]:
        """Mechanism and scene, which an inference keeps however often it is charged."""
        return self.mechanism.digest, self.scene


@dataclass(frozen=True)
class Charged:
    """A row. new: false where this inference was charged before, so it may have been sent: do not transmit again."""

    row: Row
    new: bool


_NONE: Mapping[tuple[str, str], int] = MappingProxyType({})


@dataclass(frozen=True)
class Budget:
    """(ε, δ) for all inferences of a ledger; or for those of each scene, of any window of time, or of any event.

    scene: counts each scene by itself. window_s: seconds that the ledger is in use (`clock`). event: rows of the ledger
    that follow each other, each an inference or one of its slots. Only one of the three.
    neighbours: what every inference is accounted for under, whatever its own network says.

    >>> Budget(4.0, window_s=86400).assumes
    'what a window of 24 h shows is not linked to what earlier and later ones show; without that, windows add up'
    """

    epsilon: float
    delta: float = 1e-5
    scene: bool = False
    window_s: float | None = None
    neighbours: Neighbours = Neighbours.ZERO_OUT
    event: int | None = None

    def __post_init__(self) -> None:
        for name, allowed, good in (
            ("epsilon", "must be > 0 and finite", 0 < self.epsilon < math.inf),
            ("delta", "must be > 0 and < 1", 0 < self.delta < 1),
            ("window_s", "must be > 0 and finite", self.window_s is None or 0 < self.window_s < math.inf),
            ("event", "must be >= 1", self.event is None or self.event >= 1),
            ("neighbours", "must be " + " or ".join(Neighbours), self.neighbours in tuple(Neighbours)),
        ):
            if not good:
                raise ValueError(f"budget {name}={getattr(self, name)} {allowed}")
        object.__setattr__(self, "neighbours", Neighbours(self.neighbours))
        if self.scene + (self.window_s is not None) + (self.event is not None) > 1:
            raise ValueError("a budget is for a scene, a window or an event, only one of them: give several budgets")

    @property
    def text(self) -> str:
        """As JSON, which `Budget(**json.loads(text))` reads back."""
        return json.dumps(asdict(self))

    @property
    def covers_all(self) -> bool:
        """Whether it is for all inferences of a ledger."""
        return not self.scene and self.window_s is None and self.event is None

    @property
    def covers(self) -> str:
        """The inferences that the budget covers, for a message."""
        if self.scene:
            return "this scene"
        if self.event is not None:
            return f"any {self.event} in a row"
        return "all inferences" if self.window_s is None else f"any {_length(self.window_s)}"

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
                f"what a window of {_length(self.window_s)} shows is not linked to what earlier and later ones show; "
                "without that, windows add up"
            )
        if self.event is not None:
            return (
                f"whoever is to be protected is seen within {self.event} rows of this ledger that follow each other; a "
                "longer stay is not covered, and two stays add up"
            )
        return "nothing beyond the guarantee of one inference: it holds for everything that this ledger has charged"


def _length(seconds: float) -> str:
    return f"{seconds / 3600:g} h" if seconds % 3600 == 0 else f"{seconds:g} s"


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


Key = tuple[str, str]  # digest and epoch


class Tally:
    """Use of each mechanism, by its digest, for one budget: in all rows, a scene, a window that ends now, an event."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._scenes: defaultdict[str, Counter[Key]] = defaultdict(Counter)
        self._used: defaultdict[str, dict[str, Use]] = defaultdict(dict)
        self._recent: deque[tuple[int, str, str]] = deque()

    def add(self, row: Row) -> None:
        self._count(row.scene if self.budget.scene else "", (row.mechanism, row.epoch), 1)
        if self.budget.window_s is not None or self.budget.event is not None:
            self._recent.append((row.elapsed, row.mechanism, row.epoch))
        if self.budget.event is not None and len(self._recent) > self.budget.event:
            self._count("", self._recent.popleft()[1:], -1)

    def used(self, scene: str, elapsed: int, *, more: Mapping[Key, int] = _NONE) -> dict[str, Use]:
        """The use that counts against the budget at a moment. more: inferences to add."""
        if self.budget.window_s is not None:
            # An inference counts until the whole window has passed, the last millisecond included.
            while self._recent and self._recent[0][0] < elapsed - self.budget.window_s * 1000 - 1:
                self._count("", self._recent.popleft()[1:], -1)
        scene = scene if self.budget.scene else ""
        found = {digest: use for digest, use in self._used[scene].items() if use.inferences}
        for key, number in more.items():
            use = found.get(key[0], Use(0, 0))
            epochs = number if not key[1] else int(self._is_new(scene, key))
            found[key[0]] = Use(use.inferences + number, use.epochs + epochs)
        return found

    def ended_by(self, scene: str, elapsed: int, more: Sequence[Key]) -> Iterator[dict[str, Use]]:
        """The use that counts after each of some more inferences; where it only grows, after the last alone."""
        if self.budget.event is None:
            yield self.used(scene, elapsed, more=Counter(more))
            return
        then = Tally(self.budget)
        then._scenes[""], then._used[""] = Counter(self._scenes[""]), dict(self._used[""])
        leaving = chain(((digest, epoch) for _, digest, epoch in self._recent), more)
        for number, key in enumerate(more, start=len(self._recent) + 1):
            then._count("", key, 1)
            if number > self.budget.event:
                then._count("", next(leaving), -1)
            yield then.used("", elapsed)

    def _count(self, scene: str, key: Key, change: int) -> None:
        (digest, epoch), rows, used = key, self._scenes[scene], self._used[scene]
        before = self._is_new(scene, key)
        rows[key] += change
        use = used.get(digest, Use(0, 0))
        # A row without an epoch is one of its own; of a named one the first row counts.
        epochs = change if not epoch else before - self._is_new(scene, key)
        used[digest] = Use(use.inferences + change, use.epochs + epochs)
        if not rows[key]:
            del rows[key]

    def _is_new(self, scene: str, key: Key) -> bool:
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
        for used in tally.ended_by(scene, elapsed, more):
            counts = {mechanisms[digest]: use for digest, use in used.items()}
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

    def exceeds(used: Mapping[str, Use]) -> bool:
        return not allowance.fits({mechanisms[digest]: use for digest, use in used.items()})

    if tally.budget.event is not None:  # beyond its length, every event is of this inference alone
        windows = tally.ended_by(scene, elapsed, [one] * min(most, tally.budget.event))
        return next((number for number, used in enumerate(windows) if exceeds(used)), most)

    def too_many(number: int) -> bool:
        return exceeds(tally.used(scene, elapsed, more={one: number}))

    return most if not too_many(most) else bisect_left(range(1, most), True, key=too_many)


_CONTEXT = b"airpool ledger budgets 1\n"


def keep_budgets(store: Store, key: Ed25519PrivateKey, budgets: Sequence[Budget]) -> object:
    """The stamps of the store after budgets were written down, which hold whether or not the disk takes them."""
    text = f"[{', '.join(each.text for each in budgets)}]"
    with suppress(sqlite3.Error, OSError):
        if (kept := store.budgets()) is None or kept[0] != text:
            store.keep_budgets(text, key.sign(_said(store.origin(), text)).hex())
    return store.stamps()


def read_budgets(text: str) -> tuple[Budget, ...]:
    """The budgets of a text. Raises SpendingError if it is none of `keep_budgets`."""
    try:
        return tuple(Budget(**each) for each in json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise SpendingError("corrupt", f"the budgets that are written down are not readable: {error}") from None


def budgets_signed(origin: Origin, text: str, signature: str) -> bool:
    try:
        origin.public_key.verify(bytes.fromhex(signature), _said(origin, text))
    except (InvalidSignature, ValueError):
        return False
    return True


def _said(origin: Origin, text: str) -> bytes:
    return _CONTEXT + bytes.fromhex(origin.hash) + text.encode()
