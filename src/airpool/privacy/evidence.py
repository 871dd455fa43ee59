"""Lower bounds on ε from the counted errors of a distinguisher: the statistics of an audit (theory/guarantee.md §8).

A false alarm takes a run without the feature for one with it, a miss the other way round. With FPR and FNR
their rates, (ε, δ) demands of every test

    1 − FNR ≤ e^ε FPR + δ      and      1 − FPR ≤ e^ε FNR + δ
"""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, ndtri

from airpool._support.arrays import Floats, Integers, failure_probability

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
