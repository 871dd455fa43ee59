"""An empirical lower bound on ε from a distinguishing game (docs/theory/guarantee.md §8).

The mechanism runs n times with the features and n times with a neighbour. A score measures the evidence of an
observation for the features; above a threshold the auditor answers "features". One half of the runs
picks the threshold, the other half counts the auditor's mistakes; too few of them refute small values of ε.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, ndtri

from airpool._support.arrays import Floats, Integers, failure_probability
from airpool._support.brief import Brief
from airpool._support.figures import BLUE, RED, canvas
from airpool._support.rounding import full, shown, shown_below
from airpool.account.report import shown as rounded_up

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


_CUTS = 64  # candidate thresholds from each end of each side's scores: a few hundred in all
# Keeps a direction without any noise solvable and lets it dominate: it is a leak.
_RIDGE = 1e-9


def clopper_pearson(count: ArrayLike, trials: int, *, error: float) -> tuple[Floats, Floats]:
    """Lower and upper limit of a rate seen `count` times in `trials`, each wrong with probability ≤ `error`.

    >>> [limit.round(4).tolist() for limit in clopper_pearson([0, 1, 10], 10, error=0.025)]
    [[0.0, 0.0025, 0.6915], [0.3085, 0.445, 1.0]]
    """
    k = np.asarray(count, dtype=np.float64)
    lower = np.where(k > 0, betaincinv(np.maximum(k, 1), trials - k + 1, error), 0.0)
    upper = np.where(k < trials, betaincinv(k + 1, np.maximum(trials - k, 1), 1 - error), 1.0)
    return lower, upper


def epsilon_bounds(
    false_alarms: ArrayLike, misses: ArrayLike, trials: int, *, delta: float, confidence: float
) -> tuple[Floats, Floats]:
    """Lower bounds on ε, ln((1 − FNR⁺ − δ)/FPR⁺) and ln((1 − FPR⁺ − δ)/FNR⁺), elementwise; −inf where they say nothing.

    Holds for: a test fixed before its `trials` independent runs a side. Each rate lies below its upper limit ⁺ except
    with probability (1 − confidence)/2, so both bounds hold together with the full confidence.
    """
    alarms, missed = (clopper_pearson(count, trials, error=(1 - confidence) / 2)[1] for count in (false_alarms, misses))

    def bound(miss_limit: Floats, alarm_limit: Floats) -> Floats:
        caught = 1 - miss_limit - delta
        return np.where(caught > 0, np.log(np.where(caught > 0, caught, 1.0) / alarm_limit), -np.inf)

    return bound(missed, alarms), bound(alarms, missed)


def ceiling(runs: int, *, delta: float, confidence: float = 0.95) -> float:
    """The largest bound that `runs` runs a side can give: half of them evaluated, without a single mistake.

        ln((1 − β − δ)/β),      β = 1 − ((1 − confidence)/2)^(1/m),      m = ⌊runs/2⌋

    >>> round(ceiling(1_000_000, delta=1e-5), 3)
    11.817
    """
    return float(epsilon_bounds(0, 0, runs // 2, delta=delta, confidence=confidence)[0])


def mu_bound(false_alarms: ArrayLike, misses: ArrayLike, trials: int, *, confidence: float) -> Floats:
    """Lower bound on μ, Φ⁻¹(1 − FNR⁺) − Φ⁻¹(FPR⁺), elementwise: the least with which a test errs so little.

    Holds for: a test fixed before its runs, as `epsilon_bounds`. It refutes the claim that what is seen is a function
    of N(0, 1) or N(μ, 1); unlike ε at a small δ it is sharp at rates which few runs can measure.

    >>> mu_bound([1587, 0], [1587, 0], 10_000, confidence=0.95).round(3)
    array([1.94, 6.75])
    """
    alarms, missed = (clopper_pearson(count, trials, error=(1 - confidence) / 2)[1] for count in (false_alarms, misses))
    return -ndtri(missed) - ndtri(alarms)


def fewest_runs(*, delta: float, confidence: float = 0.95) -> int:
    """The fewest runs a side with which an audit can show anything: the ceiling is positive.

    >>> fewest_runs(delta=1e-5), ceiling(12, delta=1e-5) > 0, ceiling(10, delta=1e-5) > 0
    (12, True, False)
    """
    failure_probability(delta)
    failure_probability(confidence, "confidence")
    return 2 * (math.floor(math.log((1 - confidence) / 2) / math.log((1 + delta) / 2)) + 1)


def thresholds(present: Floats, absent: Floats) -> Floats:
    """Candidate thresholds for two sorted arrays of scores, denser in the tails, where ratios are largest.

    Each lies halfway to the next score above it, so that a gap between the two is cut in its middle.

    >>> thresholds(np.array([7.0, 8.0]), np.array([1.0, 2.0]))
    array([1.5, 4.5, 7.5, 8. ])
    """
    ranks = np.unique(np.geomspace(1, min(len(present), len(absent)), _CUTS).astype(np.int64)) - 1
    cuts = np.unique(np.concatenate([s[r] for s in (present, absent) for r in (ranks, -1 - ranks)]))

    def next_above(scores: Floats) -> Floats:
        return np.append(scores, np.inf)[np.searchsorted(scores, cuts, side="right")]

    above = np.minimum(next_above(present), next_above(absent))
    between = np.isfinite(cuts) & np.isfinite(above)
    cuts[between] = cuts[between] / 2 + above[between] / 2
    return cuts


def mistakes(present: Floats, absent: Floats, threshold: Floats) -> tuple[Integers, Integers]:
    """False alarms and misses of "score > threshold" on two sorted arrays of scores.

    >>> mistakes(np.array([1.0, 3.0]), np.array([0.0, 2.0]), np.array([0.5, 2.5]))
    (array([1, 0]), array([0, 1]))
    """
    alarms = len(absent) - np.searchsorted(absent, threshold, side="right")
    return alarms, np.searchsorted(present, threshold, side="right")


def discriminant(present: Iterable[Floats], absent: Iterable[Floats]) -> Floats:
    """Fisher's direction a = (S + λ diag S)⁻¹ (mean of present − mean of absent), S the pooled covariance.

    Both arguments yield batches of shape (n, d), of which only sums are kept. ⟨a, y⟩ is larger where
    `present` is likelier.

    Holds for: any data; the best linear score for two Gaussians with one covariance. Blind to variances.

    >>> discriminant([np.array([[1.0, 0.0], [3.0, 0.0]])], [np.array([[-1.0, 0.0], [1.0, 0.0]])]).round(6)
    array([2., 0.])
    """
    n, mean, scatter = _moments(present)
    n_absent, mean_absent, scatter_absent = _moments(absent)
    covariance = (scatter + scatter_absent) / (n + n_absent)
    # Coordinates may come in different units (participation bits beside sums): measure each by its spread.
    spread = np.sqrt(np.diag(covariance))
    spread = np.where(spread > 0, spread, 1.0)
    correlation = covariance / np.outer(spread, spread)
    correlation[np.diag_indices_from(correlation)] += _RIDGE
    return np.linalg.solve(correlation, (mean - mean_absent) / spread) / spread


def _moments(batches: Iterable[Floats]) -> tuple[int, Floats, Floats]:
    """Count, mean and scatter matrix of all rows, merged batch by batch without cancellation."""
    n, mean, scatter = 0, np.zeros(1), np.zeros((1, 1))
    for rows in batches:
        step = rows.mean(axis=0) - mean
        centred = rows - rows.mean(axis=0)
        total = n + len(rows)
        scatter = scatter + centred.T @ centred + np.outer(step, step) * (n * len(rows) / total)
        mean = mean + step * (len(rows) / total)
        n = total
    return n, mean, scatter


# pyright: reportUnknownMemberType=false
# Matplotlib annotates its keyword arguments in part only.


def fewest_misses(false_alarm_rate: ArrayLike, *, epsilon: float, delta: float) -> Floats:
    """The smallest miss rate that (ε, δ) allows at a false alarm rate; symmetric in the two rates.

        max(0, 1 − δ − e^ε FPR, e^−ε (1 − δ − FPR))

    Edge cases: ε = inf allows no mistakes at all → 0.

    >>> fewest_misses([0.0, 0.5, 1.0], epsilon=0.0, delta=0.1)
    array([0.9, 0.4, 0. ])
    """
    fpr = np.asarray(false_alarm_rate, dtype=np.float64)
    if np.isinf(epsilon):
        return np.zeros(fpr.shape)
    # Beyond 700 the power overflows, and the first line is already below 0 at every rate a float can hold.
    steep = 1 - delta - np.exp(min(epsilon, 700.0)) * fpr
    return np.maximum(0.0, np.maximum(steep, np.exp(-epsilon) * (1 - delta - fpr)))


def plot(report: AuditReport, path: str | Path) -> None:
    """Draws the trade-off curve with its Clopper-Pearson band and, where there is a claim, what it rules out.

    On the left the whole curve. On the right the corner that decides, on logarithmic axes: how often the
    distinguisher is right about one world against how often it is wrong about the other. The band holds point
    by point: each of its limits holds with the confidence of the report.
    """
    mistakes = ["false alarms (neighbour taken for features)", "misses (features taken for neighbour)"]
    successes = ["neighbour recognised (1 − false alarms)", "features recognised (1 − misses)"]
    rates = [report.false_alarm_rates, report.miss_rates]
    counts = [report.false_alarms, report.misses]
    if report.direction == "neighbour over features":
        for pair in (mistakes, successes, rates, counts):
            pair.reverse()
    # From here on x is the rate that the bound divides by and 1 − y the one that is divided.
    order = np.lexsort((-rates[1], rates[0]))
    x, y = rates[0][order], rates[1][order]
    error = (1 - report.confidence) / 2
    n = report.evaluated
    (x_low, x_high), (y_low, y_high) = (clopper_pearson(np.rint(r * n), n, error=error) for r in (x, y))
    # Once around the band; its last corner belongs to the point without any mistake on the x axis.
    band_x = np.concatenate([x_low, x_high[::-1], x_low[:1]])
    band_y = np.concatenate([y_low, y_high[::-1], y_high[:1]])
    grid = np.geomspace(0.1 / n, 1, 1000)

    with canvas(path, width=8.4, height=4.8) as fig:
        whole, corner = fig.subplots(1, 2)
        whole.set(xlabel=mistakes[0], ylabel=mistakes[1], xlim=(0, 1), ylim=(0, 1), aspect="equal")
        corner.set(xlabel=mistakes[0], ylabel=successes[1], xscale="log", yscale="log")
        corner.set(xlim=(0.1 / n, 1), ylim=(0.1 / n, 1.5))
        fig.suptitle(f"{report.runs} runs a side, {n} evaluated; {report.confidence:g} confidence; {report.note}")

        for axes, shown in ((whole, np.asarray), (corner, _complement)):
            axes.fill(np.maximum(band_x, 0.01 / n), shown(band_y), color=BLUE, alpha=0.3, lw=0)
            axes.plot(np.maximum(x, 0.01 / n), shown(y), color=BLUE, label="measured, with its band")
            # A rate of 0 has no place on a logarithmic axis: its marker sits on the edge.
            at_x, at_y = (max(float(rate), 0.1 / n) for rate in (counts[0] / n, shown(counts[1] / n)))
            axes.plot(at_x, at_y, "o", color=BLUE, label="the threshold that was picked", clip_on=False)
            bound = fewest_misses(grid, epsilon=report.epsilon_lower, delta=report.delta)
            axes.plot(grid, shown(bound), "k:", label=f"shown: ε ≥ {shown_below(report.epsilon_lower)}")
            if report.claimed_epsilon is not None:
                claim = fewest_misses(grid, epsilon=report.claimed_epsilon, delta=report.delta)
                label = f"ruled out by the claim ({rounded_up(report.claimed_epsilon)}, {full(report.delta)})"
                axes.plot(grid, shown(claim), color=RED)
                axes.fill_between(grid, shown(claim), shown(np.zeros_like(grid)), color=RED, alpha=0.15, label=label)
        fig.legend(*whole.get_legend_handles_labels(), loc="outside lower center", ncols=2)


def _complement(rate: ArrayLike) -> Floats:
    """1 − rate, kept off 0, where a logarithmic axis ends."""
    return np.maximum(1 - np.asarray(rate, dtype=np.float64), 1e-12)
