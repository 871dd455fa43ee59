"""The margin of a server from above: the distance to an example that it misnames (from below: theory.prediction)."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airpool._support.arrays import Floats
from airpool_lab.theory.server import Integers, LayeredServer, checked_points, gaps, scores

# Steps towards the border, halvings of the way back, and how far behind the border it aims.
_STEPS, _HALVINGS, _BEYOND = 30, 30, 1e-6


def attack(server: LayeredServer, x: ArrayLike, labels: ArrayLike, *, competitors: int = 5) -> Floats:
    """Upper bounds (n,) on the margins: the distance to a point that the server misnames, 0 where it errs at x.

    For each of the nearest competitors: steps to the border of the two classes as the slope at hand has it, until it is
    crossed; then back along the straight line as far as it stays crossed. inf where nothing was found.
    Exact for a linear server, up to 1e-6 of the way.
    """
    points, own = checked_points(server, x, labels)
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


def _wrong(server: LayeredServer, x: Floats, labels: Integers) -> NDArray[np.bool_]:
    return np.min(gaps(scores(server, x), labels), axis=1) <= 0


def _distance(server: LayeredServer, x: Floats, labels: Integers, away: Floats) -> Floats:
    """How far each border is by the slope at x: where to try first."""
    out = np.empty_like(away)
    for j in range(server.num_classes):
        slope = _slope(server, x, labels, np.full(len(x), j))[1]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            out[:, j] = away[:, j] / np.linalg.norm(slope, axis=1)
    out[np.arange(len(x)), labels] = np.inf
    return out


def _slope(server: LayeredServer, x: Floats, labels: Integers, others: Integers) -> tuple[Floats, Floats]:
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
