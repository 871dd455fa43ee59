"""An empirical lower bound on ε from a distinguishing game (docs/theory/guarantee.md §8).

The mechanism runs n times with the features and n times with a neighbour. A score measures the evidence of an
observation for the features; above a threshold the auditor answers "features". One half of the runs
picks the threshold, the other half counts the auditor's mistakes; too few of them refute small values of ε.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from airpool._support.arrays import Floats
from airpool._support.brief import Brief
from airpool._support.rounding import full, shown, shown_below
from airpool.privacy.evidence import ceiling, discriminant, epsilon_bounds, fewest_runs, mistakes, mu_bound, thresholds

Sided = Literal["one", "two"]
World = TypeVar("World")  # what the mechanism is given: an array of features, as a rule
Observation = TypeVar("Observation")  # an array (n, ...) or a dataclass of such arrays
Mechanism = Callable[[World, int, np.random.Generator], Observation]
Score = Callable[[Observation], Floats]


@dataclass(frozen=True, eq=False, repr=False)
class AuditReport(Brief):
    """Result of one game: the true ε is at least `epsilon_lower`, with the stated confidence.

    Where a μ is claimed, the true one is at least `mu_lower`, with the same confidence, by a threshold of its own.
    """

    epsilon_lower: float
    delta: float
    confidence: float
    runs: int  # a side
    ceiling: float  # the largest epsilon_lower that this number of runs can give
    sided: Sided
    direction: Literal["features over neighbour", "neighbour over features"]  # the inequality that was used
    threshold: float
    evaluated: int  # runs a side in which mistakes were counted
    false_alarms: int  # runs of the neighbour taken for the features
    misses: int  # runs of the features taken for the neighbour
    false_alarm_rates: Floats  # the trade-off curve over many thresholds, in the evaluated runs
    miss_rates: Floats
    claimed_epsilon: float | None
    note: str
    claimed_mu: float | None = None
    mu_lower: float | None = None
    mu_ceiling: float | None = None

    @property
    def violated(self) -> bool:
        """Whether the game refutes a claim: a lower bound lies above it."""
        pairs = (self.epsilon_lower, self.claimed_epsilon), (self.mu_lower, self.claimed_mu)
        return any(lower is not None and claimed is not None and lower > claimed for lower, claimed in pairs)

    def to_json(self) -> dict[str, Any]:
        """A plain dict for `json.dumps`; an infinite number becomes the string "inf" or "-inf"."""
        plain = {name: x.tolist() if isinstance(x, np.ndarray) else x for name, x in vars(self).items()}
        infinite = {name: str(x) for name, x in plain.items() if isinstance(x, float) and math.isinf(x)}
        return plain | infinite | {"violated": self.violated}

    @property
    def _rounded(self) -> tuple[Callable[[float], str], Callable[[float], str]]:
        """Of a violated claim all digits are shown: rounded to the safe sides, the two might contradict the verdict."""
        return (str, str) if self.violated else (shown_below, shown)

    @property
    def verdict(self) -> tuple[str, str, str]:
        """The claimed ε ("" for none), the lower bound, and whether it refutes the claim, as words."""
        least, most = self._rounded
        claimed = "" if self.claimed_epsilon is None else most(self.claimed_epsilon)
        return claimed, least(self.epsilon_lower), ("VIOLATED" if self.violated else "not refuted") if claimed else ""

    def _repr_html_(self) -> str:
        from airpool._support import notebook

        table = notebook.rows_of(("claimed ε", "shown: at least", ""), [self.verdict])
        rates = self.false_alarm_rates.tolist(), self.miss_rates.tolist()
        drawn = notebook.curve(*rates, "false alarms", "misses")
        return notebook.shown("A distinguishing game", table, drawn, notebook.sentences([str(self)]))

    def __str__(self) -> str:
        least, most = self._rounded
        claimed, shown_at_least, verdict = self.verdict
        text = f"ε ≥ {shown_at_least} with {self.confidence:g} confidence at δ = {full(self.delta)}"
        if claimed:
            text += f"; claimed {claimed}"
        if self.claimed_mu is not None and self.mu_lower is not None:
            text += f"; μ ≥ {least(self.mu_lower)}; claimed {most(self.claimed_mu)}"
        if claimed:
            text += f": {verdict}"
        return f"{text}; {self.runs} runs a side can show at most {shown(self.ceiling, 2)}; {self.note}"


def audit(
    mechanism: Mechanism[World, Observation],
    features: World,
    neighbour: World,
    *,
    runs: int,
    rng: np.random.Generator,
    delta: float,
    confidence: float = 0.95,
    score: Score[Observation] | None = None,
    sided: Sided = "two",
    claimed_epsilon: float | None = None,
    claimed_mu: float | None = None,
    batch: int | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> AuditReport:
    """Plays the game with `runs` runs a side and reports the largest ε that it refutes.

    `mechanism(features, n, rng)` gives n independent observations. `score` maps them to n numbers, larger
    where `features` is likelier (for a sum over the air: `release.log_likelihood_ratio`); where it is left
    out, a linear one is learnt from the first quarter of the runs. `sided="two"` tests both inequalities of
    (ε, δ), "one" only Pr[features] ≤ e^ε Pr[neighbour] + δ. With `claimed_mu` there is also a lower bound on μ. At
    most `batch` runs are in memory at a time; `on_batch` is called with the number of runs done, 2·`runs` in all.

    Holds for: any mechanism whose runs are independent, and any score. Score and threshold may depend on the
    first half in any way: the second half is drawn afterwards and counts the mistakes of that one test.
    Edge cases: equal worlds → 0 with the stated confidence; worlds never confused → the ceiling; a poor
    (or reversed) score weakens the bound and never makes it wrong.

    >>> def noisy(x: float, n: int, rng: np.random.Generator) -> Floats:
    ...     return x + rng.standard_normal(n)
    >>> print(audit(noisy, 1.0, 0.0, runs=10_000, rng=np.random.default_rng(1), delta=1e-5))
    ε ≥ 2.152 with 0.95 confidence at δ = 1e-05; 10000 runs a side can show at most 7.22; ...seed 1
    """
    shape, other = (getattr(world, "shape", None) for world in (features, neighbour))
    if shape != other:
        raise ValueError(f"neighbour has shape {other}: it must be that of features, {shape}")
    if sided not in ("one", "two"):
        raise ValueError(f'sided={sided!r} must be "one" or "two"')
    needed = fewest_runs(delta=delta, confidence=confidence)
    if runs < needed:
        raise ValueError(f"runs={runs} must be at least {needed}: with fewer no audit can show anything")
    if batch is not None and batch < 1:
        raise ValueError(f"batch={batch} must be at least 1")
    # About 32 MiB of float64 when an observation is as large as the features, and mostly it is smaller.
    size = batch or max(1, 2**22 // max(getattr(features, "size", 1), 1024))
    seed = rng.bit_generator.seed_seq

    def play(world: World, n: int) -> Iterator[Observation]:
        for start in range(0, n, size):
            now = min(size, n - start)
            yield _valid(mechanism(world, now, rng), now)
            if on_batch is not None:
                on_batch(now)

    picking, evaluated = runs - runs // 2, runs // 2
    if score is None:
        learning = picking // 2
        picking -= learning
        direction = discriminant(*(map(_rows, play(world, learning)) for world in (features, neighbour)))

        def linear(seen: Observation) -> Floats:
            return _rows(seen) @ direction

        score = linear

    def scores(world: World, n: int) -> Floats:
        return np.sort(np.concatenate([_scored(score, seen) for seen in play(world, n)]))

    first = scores(features, picking), scores(neighbour, picking)
    candidates = thresholds(*first)
    expected = epsilon_bounds(*mistakes(*first, candidates), picking, delta=delta, confidence=confidence)
    best = int(np.argmax(expected[0] if sided == "one" else np.maximum(*expected)))

    second = scores(features, evaluated), scores(neighbour, evaluated)
    false_alarms, misses = mistakes(*second, candidates)
    forward, backward = epsilon_bounds(false_alarms[best], misses[best], evaluated, delta=delta, confidence=confidence)
    sharpest = int(np.argmax(mu_bound(*mistakes(*first, candidates), picking, confidence=confidence)))
    mu_lower = max(0.0, float(mu_bound(false_alarms[sharpest], misses[sharpest], evaluated, confidence=confidence)))
    reverse = sided == "two" and bool(backward > forward)
    return AuditReport(
        epsilon_lower=max(0.0, float(backward if reverse else forward)),
        delta=delta,
        confidence=confidence,
        runs=runs,
        ceiling=ceiling(runs, delta=delta, confidence=confidence),
        sided=sided,
        direction="neighbour over features" if reverse else "features over neighbour",
        threshold=float(candidates[best]),
        evaluated=evaluated,
        false_alarms=int(false_alarms[best]),
        misses=int(misses[best]),
        false_alarm_rates=false_alarms / evaluated,
        miss_rates=misses / evaluated,
        claimed_epsilon=claimed_epsilon,
        # A seeded game can be repeated, and the note says so: seeded noise gives no privacy (theory/guarantee.md §9).
        note=f"simulated from seed {seed.entropy}" if isinstance(seed, np.random.SeedSequence) else "simulated",
        claimed_mu=claimed_mu,
        mu_lower=None if claimed_mu is None else mu_lower,
        mu_ceiling=None if claimed_mu is None else float(mu_bound(0, 0, evaluated, confidence=confidence)),
    )


def _arrays(seen: object) -> list[NDArray[Any]]:
    """The arrays of an observation: itself, or the fields of a dataclass that are not None."""
    if dataclasses.is_dataclass(seen):
        values = [getattr(seen, f.name) for f in dataclasses.fields(seen)]
        return [np.asarray(x) for x in values if x is not None]
    return [np.asarray(seen)]


def _rows(seen: object) -> Floats:
    """An observation of n runs as a matrix (n, d)."""
    return np.hstack([x.reshape(len(x), -1).astype(np.float64) for x in _arrays(seen)])


def _valid(seen: Observation, size: int) -> Observation:
    for x in _arrays(seen):
        if x.shape[:1] != (size,):
            raise ValueError(f"mechanism returned shape {x.shape}: its first axis must be the {size} runs asked for")
        if x.dtype.kind == "f" and bool(np.isnan(x).any()):
            raise ValueError("mechanism returned nan: every observation must be a number")
    return seen


def _scored(score: Callable[[Observation], Floats], seen: Observation) -> Floats:
    values = np.asarray(score(seen), dtype=np.float64)
    size = len(_arrays(seen)[0])
    if values.shape != (size,):
        raise ValueError(f"score returned shape {values.shape}: it must be ({size},), one number a run")
    if bool(np.isnan(values).any()):
        raise ValueError("score returned nan: every score must be a number; inf is allowed")
    return values
