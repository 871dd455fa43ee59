"""Margins: lower bounds on how far an estimate may move before the server's label changes.

    Δ(x) = sup {B : every x′ with ‖x′ − x‖ ≤ B gets the label of x}

The paper's bound, by Frobenius norms and probabilities, is paper.formulas.theorem2. Upper bounds, by adversarial
examples, are studies.attack. A difference of scores counts only beyond its rounding error (server.bounded_scores).
"""

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats, finite
from airpool.evaluation.theory.lipschitz import spectral_constants
from airpool.evaluation.theory.server import Integers, LayeredServer, bounded_scores, class_labels, gaps


def margin(
    server: LayeredServer, x: ArrayLike, labels: ArrayLike, *, constants: Floats | None = None, x_error: ArrayLike = 0.0
) -> Floats:
    """Lower bounds (n,) on the margins at points x (n, r): min_j (s_l − s_j)/L_lj; negative for a wrong label.

    constants: L (C, C), Lipschitz constants of s_l − s_j; by default lipschitz.spectral_constants.
        lipschitz.lipschitz_constants is sharper for two layers.
    x_error: bound on the error of each coordinate of x.
    Holds for: ReLU and any other activation of slope at most 1. Exact for a linear server, up to rounding.
    Differs from the paper: scores instead of probabilities, operator norms; never below paper.formulas.theorem2.
    Edge cases: two classes with equal rows → inf or −inf, by their biases; a tie, also within rounding, counts as an
        error. Scores that overflow → −inf.

    >>> margin(LayeredServer(((np.array([[1.0, 0.0], [-1.0, 0.0]]), np.zeros(2)),)), [[0.5, 9.0]], [0])
    array([0.5])
    """
    points, own = checked(server, x, labels)
    L = spectral_constants(server) if constants is None else constants
    computed, error = bounded_scores(server, points, x_error=x_error)
    return np.min(quotient(gaps(computed, own, error), L[own]), axis=1)


def quotient(gap: Floats, unit: Floats, *, undecided: float = -np.inf) -> Floats:
    """gap/unit, with 0/0 and NaN as `undecided`."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        out = gap / unit
    return np.where(np.isnan(out), undecided, out)


def checked(server: LayeredServer, x: ArrayLike, labels: ArrayLike) -> tuple[Floats, Integers]:
    points = finite("x", x)
    if points.ndim != 2:
        raise ValueError(f"x has shape {points.shape}, must be (n, {server.dimension})")
    return points, class_labels(labels, count=len(points), num_classes=server.num_classes)
