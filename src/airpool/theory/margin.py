"""How far an estimate may be off before the server errs: the margin Δ of each object, from below and from above.

    Δ(x) = sup {B : every x′ with ‖x′ − x‖ ≤ B gets the label of x}

`linear` is exact up to rounding; `margin` bounds it from below for networks, `attack` from above, by an example that is
misnamed. The paper's bound, by Frobenius norms and probabilities, is paper.margin.

A gap of scores counts only beyond what rounding may have made of it (server.bounded_scores).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..wireless.arrays import Floats, finite
from .lipschitz import spectral_constants
from .server import Integers, Server, bounded_scores, class_labels, gaps, scores

# Of the attack: steps towards the border, halvings of the way back, and how far behind the border it aims.
_STEPS, _HALVINGS, _BEYOND = 30, 30, 1e-6


def linear(server: Server, x: ArrayLike, labels: ArrayLike) -> Floats:
    """Exact margins (n,) of a linear server: min_j (s_l − s_j)/‖a_l − a_j‖; below 0 where it errs.

    >>> linear(Server(((np.array([[1.0, 0.0], [-1.0, 0.0]]), np.zeros(2)),)), [[0.5, 9.0]], [0])
    array([0.5])
    """
    if len(server.layers) != 1:
        raise ValueError(f"the server has {len(server.layers)} layers, must be linear; use margin")
    return margin(server, x, labels)


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
    """
    points, own = _checked(server, x, labels)
    L = spectral_constants(server) if constants is None else constants
    computed, error = bounded_scores(server, points, x_error=x_error)
    away = gaps(computed, own, error)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        each = away / L[own]
    # Equal rows: who wins is settled, and a tie counts as lost.
    each = np.where(L[own] > 0, each, np.where(away > 0, np.inf, -np.inf))
    return np.min(np.where(np.isnan(each), -np.inf, each), axis=1)


def attack(server: Server, x: ArrayLike, labels: ArrayLike, *, competitors: int = 5) -> Floats:
    """Upper bounds (n,) on the margins: the distance to a point that the server misnames, 0 where it errs at x.

    For each of the nearest competitors: steps to the border of the two classes as the slope at hand has it, until it is
    crossed; then back along the straight line as far as it stays crossed. inf where nothing was found.
    Exact for a linear server, up to 1e-6 of the way.
    """
    points, own = _checked(server, x, labels)
    if competitors < 1:
        raise ValueError(f"competitors={competitors} must be ≥ 1")
    first = gaps(scores(server, points), own)
    nearest = np.argsort(_distance(server, points, own, first), axis=1)[:, : min(competitors, server.num_classes - 1)]
    best = np.where(np.min(first, axis=1) <= 0, 0.0, np.inf)
    for j in nearest.T:
        moved = points.copy()
        for _ in range(_STEPS):
            gap, slope = _slope(server, moved, own, j)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                step = -slope * ((gap + _BEYOND * np.abs(gap) + 1e-12) / np.sum(slope**2, axis=1))[:, None]
            moved = moved + np.where((gap > 0)[:, None] & np.isfinite(step), step, 0.0)
        near, far = np.zeros(len(points)), np.ones(len(points))
        crossed = _wrong(server, moved, own)
        for _ in range(_HALVINGS):
            middle = (near + far) / 2
            wrong = _wrong(server, points + middle[:, None] * (moved - points), own)
            near, far = np.where(wrong, near, middle), np.where(wrong, middle, far)
        reach = far * np.linalg.norm(moved - points, axis=1)
        best = np.minimum(best, np.where(crossed, reach, np.inf))
    return best


def _wrong(server: Server, x: Floats, labels: Integers) -> NDArray[np.bool_]:
    return np.min(gaps(scores(server, x), labels), axis=1) <= 0


def _distance(server: Server, x: Floats, labels: Integers, away: Floats) -> Floats:
    """How far each border is by the slope at x: where to try first."""
    out = np.empty_like(away)
    for j in range(server.num_classes):
        slope = _slope(server, x, labels, np.full(len(x), j))[1]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            out[:, j] = away[:, j] / np.linalg.norm(slope, axis=1)
    out[np.arange(len(x)), labels] = np.inf
    return out


def _slope(server: Server, x: Floats, labels: Integers, others: Integers) -> tuple[Floats, Floats]:
    """s_l − s_j at x (n,), and its gradient (n, r)."""
    on: list[NDArray[np.bool_]] = []
    h = x
    for A, b in server.layers[:-1]:
        before = h @ A.T + b
        on.append(before > 0)
        h = np.where(on[-1], before, 0.0)
    A, b = server.layers[-1]
    back = A[labels] - A[others]
    gap = np.sum(back * h, axis=1) + b[labels] - b[others]
    for (A, _), active in zip(reversed(server.layers[:-1]), reversed(on), strict=True):
        back = np.where(active, back, 0.0) @ A
    return gap, back


def _checked(server: Server, x: ArrayLike, labels: ArrayLike) -> tuple[Floats, Integers]:
    points = finite("x", x)
    if points.ndim != 2:
        raise ValueError(f"x has shape {points.shape}, must be (n, {server.dimension})")
    return points, class_labels(labels, count=len(points), num_classes=server.num_classes)
