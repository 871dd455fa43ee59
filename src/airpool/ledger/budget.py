"""How much may be spent: in all, in each scene, or in any window of time; and what that assumes."""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass

from airpool.ledger.chain import Row
from airpool.ledger.mechanism import Mechanism
from airpool.ledger.spending import total


@dataclass(frozen=True)
class Budget:
    """(ε, δ) for all inferences of a ledger; or for those of each scene; or for those of any window of time.

    scene: counts each scene by itself. window_s: seconds that the ledger is in use (`clock`), not both.

    >>> Budget(4.0, window_s=86400).assumes
    'what a window of 86400 s shows is not linked to what earlier and later ones show; without that, windows add up'
    """

    epsilon: float
    delta: float = 1e-5
    scene: bool = False
    window_s: float | None = None

    def __post_init__(self) -> None:
        for name, allowed, good in (
            ("epsilon", "must be > 0 and finite", 0 < self.epsilon < math.inf),
            ("delta", "must be > 0 and < 1", 0 < self.delta < 1),
            ("window_s", "must be > 0 and finite", self.window_s is None or 0 < self.window_s < math.inf),
        ):
            if not good:
                raise ValueError(f"budget {name}={getattr(self, name)} {allowed}")
        if self.scene and self.window_s is not None:
            raise ValueError("a budget is for a scene or for a window, not for both: give two budgets")

    @property
    def covers(self) -> str:
        """What it is a budget of, for a message."""
        if self.scene:
            return "this scene"
        return "all inferences" if self.window_s is None else f"any {self.window_s:g} s"

    @property
    def assumes(self) -> str:
        """What has to be true for this budget to protect anybody."""
        if self.scene:
            return (
                "whoever is to be protected is in one scene only, and scenes begin by a plan that does not depend on "
                "what is seen; somebody in several scenes has spent their sum"
            )
        if self.window_s is not None:
            return (
                f"what a window of {self.window_s:g} s shows is not linked to what earlier and later ones show; "
                "without that, windows add up"
            )
        return "nothing beyond the guarantee of one inference: it holds for everything that this ledger has charged"


class Allowance:
    """Whether a mixture of inferences fits (ε, δ), without composing it every time.

    A mixture that fits covers every smaller one. So a little more than what is asked for is tried first: the longer a
    mixture is, the rarer it is composed.
    """

    _AHEAD = (1.0, 0.25, 0.0625)
    _KEPT = 32

    def __init__(self, epsilon: float, delta: float) -> None:
        self.epsilon, self.delta = epsilon, delta
        self._fits: deque[Mapping[Mechanism, int]] = deque(maxlen=self._KEPT)
        self._exceeds: deque[Mapping[Mechanism, int]] = deque(maxlen=self._KEPT)

    def fits(self, counts: Mapping[Mechanism, int]) -> bool:
        if any(_covers(known, counts) for known in self._fits):
            return True
        if any(_covers(counts, known) for known in self._exceeds):
            return False
        for share in self._AHEAD:
            more = {each: number + math.ceil(number * share) for each, number in counts.items()}
            if self._composed(more):
                return True
        return self._composed(counts)

    def _composed(self, counts: Mapping[Mechanism, int]) -> bool:
        good = total(counts, self.delta) <= self.epsilon
        (self._fits if good else self._exceeds).appendleft(dict(counts))
        return good


def _covers(larger: Mapping[Mechanism, int], smaller: Mapping[Mechanism, int]) -> bool:
    return all(larger.get(each, 0) >= number for each, number in smaller.items())


class Tally:
    """Counts by digest of a mechanism, for one budget: of all rows, of each scene, or of the window that ends now."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._recent: deque[tuple[int, str]] = deque()

    def add(self, row: Row) -> None:
        self._counts[row.scene if self.budget.scene else ""][row.mechanism] += 1
        if self.budget.window_s is not None:
            self._recent.append((row.elapsed, row.mechanism))

    def counts(self, scene: str, elapsed: int) -> Counter[str]:
        """What counts against the budget at a moment."""
        counts = self._counts[scene if self.budget.scene else ""]
        if self.budget.window_s is not None:
            # An inference counts until the whole window has passed, the last millisecond included.
            while self._recent and self._recent[0][0] < elapsed - self.budget.window_s * 1000 - 1:
                counts[self._recent.popleft()[1]] -= 1
        return +counts
