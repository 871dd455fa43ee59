"""A linear score learnt from observations, for an audit whose likelihood ratio nobody has written down."""

from collections.abc import Iterable

import numpy as np

from airpool.arrays import Floats

# Keeps a direction without any noise solvable and lets it dominate: it is a leak, not an accident.
_RIDGE = 1e-9


def discriminant(present: Iterable[Floats], absent: Iterable[Floats]) -> Floats:
    """Fisher's direction a = (S + λ diag S)⁻¹ (mean of present − mean of absent), S the pooled covariance.

    Both arguments yield batches of shape (n, d), of which only sums are kept. ⟨a, y⟩ is larger where
    `present` is likelier.

    Holds for: any data; the best score there is for two Gaussians with one covariance.
    Edge cases: coordinates that never change get weight 0; a noiseless direction in which the means differ
    gets a huge weight; worlds that differ in variance only look alike to it.

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
