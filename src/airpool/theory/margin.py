"""How far an estimate may be off before the server errs: the margin Δ of each object, from below.

    Δ(x) = sup {B : every x′ with ‖x′ − x‖ ≤ B gets the label of x}

The paper's bound, by Frobenius norms and probabilities, is paper.margin; a bound from above, by an example that is
misnamed, is studies.attack.

A gap of scores counts only beyond what rounding may have made of it (server.bounded_scores).
"""

import numpy as np
from numpy.typing import ArrayLike

from airpool.arrays import Floats, finite
from airpool.theory.lipschitz import spectral_constants
from airpool.theory.server import Integers, Server, bounded_scores, class_labels, gaps


def margin(
    server: Server, x: ArrayLike, labels: ArrayLike, *, constants: Floats | None = None, x_error: ArrayLike = 0.0
) -> Floats:
    """Lower bounds (n,) on the margins at points x (n, r): min_j (s_l − s_j)/L_lj; negative where the server errs.

    The gap s_l − s_j is taken at its lower end: as computed, less the rounding error that its scores may have.
    constants: L (C, C), how much s_l − s_j changes per unit of x at most; lipschitz.spectral_constants if left out,
        lipschitz.lipschitz_constants for a sharper bound of two layers.
    x_error: how far each coordinate of x may be from the point that is meant.
    Holds for: ReLU and any other activation of slope at most 1. Exact for a linear server, up to rounding.
    Differs from the paper: scores instead of probabilities and true norms; never below its bound (paper.margin).
    Edge cases: two classes with one row → inf or −inf, whichever its bias says; a tie, or a gap that rounding may have
        made, is not won. Scores that overflow → −inf.

    >>> margin(Server(((np.array([[1.0, 0.0], [-1.0, 0.0]]), np.zeros(2)),)), [[0.5, 9.0]], [0])
    array([0.5])
    """
    points, own = checked(server, x, labels)
    L = spectral_constants(server) if constants is None else constants
    computed, error = bounded_scores(server, points, x_error=x_error)
    away = gaps(computed, own, error)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        each = away / L[own]
    # Equal rows: who wins is settled, and a tie counts as lost.
    each = np.where(L[own] > 0, each, np.where(away > 0, np.inf, -np.inf))
    return np.min(np.where(np.isnan(each), -np.inf, each), axis=1)


def checked(server: Server, x: ArrayLike, labels: ArrayLike) -> tuple[Floats, Integers]:
    points = finite("x", x)
    if points.ndim != 2:
        raise ValueError(f"x has shape {points.shape}, must be (n, {server.dimension})")
    return points, class_labels(labels, count=len(points), num_classes=server.num_classes)
