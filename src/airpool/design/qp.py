"""The quadratic program behind the weights: a small convex problem, its solution, and a proof of how good it is.

    sum    min f(w)                    s.t.  Σ w = 1,  0 ≤ w ≤ w_max
    free   min f(u) + β² N             s.t.  0 ≤ u ≤ β w_max,  β ≥ 0;   w = u/β

with f(w) = ‖Fw‖² + Σ d_k w_k² − 2cᵀw + f₀. In the second the server multiplies what it hears by β, noise of power N
included: what counts then is how the weights compare, not what they add up to.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, get_args

import numpy as np
from scipy import sparse
from scipy.optimize import brentq

from airpool.arrays import Floats

Normalise = Literal["sum", "free"]

# Far below what any error is known to, and within reach of an interior point in double precision.
_TOLERANCE = 1e-11


@dataclass(frozen=True, eq=False)
class Quadratic:
    """f(w) = ‖Fw‖² + Σ_k d_k w_k² − 2cᵀw + f₀, for factor F (m, K), diagonal d and linear c (K,), constant f₀.

    FᵀF + diag(d) is never formed: thousands of devices with few calibration objects have a thin F.
    """

    factor: Floats
    diagonal: Floats
    linear: Floats
    constant: float

    def value(self, w: Floats) -> float:
        square = np.sum((self.factor @ w) ** 2) + np.sum(self.diagonal * w**2)
        return float(square - 2 * np.sum(self.linear * w) + self.constant)

    def gradient(self, w: Floats) -> Floats:
        return 2 * (self.factor.T @ (self.factor @ w) + self.diagonal * w - self.linear)


@dataclass(frozen=True, eq=False)
class Solution:
    """weight: w (K,). scale: β, by which the server multiplies; 1 for "sum". value: the objective there.

    residual: how far it may be above the optimum, see `kkt_residual`.
    """

    weight: Floats
    scale: float
    value: float
    residual: float


def solve(objective: Quadratic, upper: Floats, *, normalise: Normalise = "sum", noise: float = 0.0) -> Solution:
    """The best weights, inside their limits to the last bit.

    upper: w_max (K,), ≥ 0 (inf: no limit, "sum" only). noise: N, which only "free" looks at; it must be > 0 there.
    Edge cases: Σ w_max < 1 → ValueError for "sum"; w_max = 0 everywhere → ValueError for "free".

    >>> flat = Quadratic(np.zeros((1, 3)), np.ones(3), np.zeros(3), 0.0)          # min Σ w², Σ w = 1
    >>> solve(flat, np.array([0.1, 1.0, 1.0])).weight.round(6)
    array([0.1 , 0.45, 0.45])
    """
    if normalise not in get_args(Normalise):
        raise ValueError(f"normalise={normalise!r} must be one of {', '.join(get_args(Normalise))}")
    upper = np.asarray(upper, dtype=np.float64)
    if upper.shape != objective.linear.shape or not np.all(upper >= 0):
        raise ValueError(f"upper must be {len(objective.linear)} numbers >= 0")
    return _with_sum(objective, upper) if normalise == "sum" else _with_scale(objective, upper, noise)


def kkt_residual(
    objective: Quadratic, upper: Floats, *, weight: Floats, scale: float | None = None, noise: float = 0.0
) -> float:
    """How far weights are from meeting the KKT conditions, in the unit of the objective; 0 at the optimum.

    With any ν, λ = (ν − ∇f)₊ and μ = (∇f − ν)₊ make the gradient of the Lagrangian vanish; what is left is
    complementarity,  Σ λ(w_max − w) + Σ μ w,  at the ν that makes it least. By convexity f(w) − f* is no larger.
    "free" (scale given): the same for u = βw and limits βw_max with ν = 0, and |2βN − λᵀw_max|·β for β itself.
    What lies outside the limits, or misses Σ w = 1, is added as it is.

    >>> flat = Quadratic(np.zeros((1, 2)), np.ones(2), np.zeros(2), 0.0)
    >>> kkt_residual(flat, np.ones(2), weight=np.array([0.5, 0.5]))
    0.0
    >>> kkt_residual(flat, np.ones(2), weight=np.array([0.75, 0.25]))                 # 5/8, where 1/2 is possible
    0.75
    """
    outside = float(np.sum(np.maximum(weight - upper, 0.0) + np.maximum(-weight, 0.0)))
    if scale is None:
        slope, limit = objective.gradient(weight), np.minimum(upper, 1.0)
        if np.sum(limit) < 1:
            return float("inf")
        # Σ λ(w_max − w) + Σ μ w at the best ν is ∇fᵀw less the least ∇fᵀv of all v that are allowed: a knapsack.
        order = np.argsort(slope)
        room = limit[order]
        least = np.clip(1 - (np.cumsum(room) - room), 0.0, room)
        gap = float(slope @ weight - slope[order] @ least)
        return max(gap, 0.0) + outside + abs(float(np.sum(weight)) - 1)
    u, limit = scale * weight, scale * upper
    slope = objective.gradient(u)
    pull, push = np.maximum(-slope, 0.0), np.maximum(slope, 0.0)
    gap = float(pull @ np.maximum(limit - u, 0.0) + push @ np.maximum(u, 0.0))
    return gap + scale * abs(2 * scale * noise - float(pull @ upper)) + scale * outside


def _with_sum(objective: Quadratic, upper: Floats) -> Solution:
    limit = np.minimum(upper, 1.0)
    count, total = len(limit), float(np.sum(limit))
    if total < 1:
        raise ValueError(f"the largest weights add up to {total:.4g}, must be >= 1")
    # Weights in units of 1/K, so that the solver sees numbers of about one.
    ones = sparse.csc_matrix(np.ones((1, count)))
    found = _minimum(
        objective, unit=1 / count, equal=(ones, np.array([count])), below=_box(limit * count), extra_square=None
    )
    weight = _onto_sum(found[:count] / count, limit)
    return Solution(weight, 1.0, objective.value(weight), kkt_residual(objective, upper, weight=weight))


def _with_scale(objective: Quadratic, upper: Floats, noise: float) -> Solution:
    count, largest = len(upper), float(np.max(upper))
    if not 0 < largest < np.inf:
        raise ValueError(f"upper: the largest weight is {largest:g}, must be > 0 and finite for free normalisation")
    if not noise > 0:
        raise ValueError(f"noise={noise:g} must be > 0 for free normalisation: without noise any scale will do")
    # u in units of 1/K and β in units of 1/(K max w_max).
    unit = 1 / (count * largest)
    most = sparse.csc_matrix(-(upper / largest)[:, None])
    rows = sparse.bmat([[-sparse.eye(count), None], [sparse.eye(count), most], [None, -sparse.eye(1)]], format="csc")
    none = sparse.csc_matrix((0, count + 1))
    found = _minimum(
        objective,
        unit=1 / count,
        equal=(none, np.zeros(0)),
        below=(rows, np.zeros(2 * count + 1)),
        extra_square=noise * unit**2,
    )
    scale = float(found[count]) * unit
    if not scale > 0:  # nothing that could be sent says anything about the target
        raise ValueError("the calibration latents tell nothing about the target: no weight is better than none")
    weight = np.clip(found[:count] / count / scale, 0.0, upper)
    # The best β for these very weights: the objective is a parabola in it.
    straight = float(np.sum(objective.linear * weight))
    square = objective.value(weight) + 2 * straight - objective.constant
    scale = straight / (square + noise)
    value = objective.value(scale * weight) + scale**2 * noise
    return Solution(weight, scale, value, kkt_residual(objective, upper, weight=weight, scale=scale, noise=noise))


def _box(limit: Floats) -> tuple[Any, Floats]:
    count = len(limit)
    rows = sparse.vstack([-sparse.eye(count), sparse.eye(count)], format="csc")
    return rows, np.concatenate([np.zeros(count), limit])


def _minimum(
    objective: Quadratic,
    *,
    unit: float,
    equal: tuple[Any, Floats],
    below: tuple[Any, Floats],
    extra_square: float | None,
) -> Floats:
    """argmin over x (and a last variable with this square, if given) of f(unit·x), equal and below as rows and sides.

    With y = Fx as variables of their own the solver sees a diagonal square and a thin sparse matrix, whatever K is.
    """
    clarabel: Any = import_module("clarabel")  # it has no annotations; and nobody else needs to load it
    m, count = objective.factor.shape
    extra = [] if extra_square is None else [extra_square]
    size = max(float(np.max(np.abs(objective.linear))) * unit, 1e-300)  # the objective in units of its own slope
    square = np.concatenate([objective.diagonal * unit**2, extra, np.full(m, unit**2)]) * 2 / size
    slope = np.concatenate([-2 * objective.linear * unit / size, np.zeros(len(extra) + m)])

    def wide(rows: Any) -> Any:
        return sparse.hstack([rows, sparse.csc_matrix((rows.shape[0], m))], format="csc")

    products = sparse.hstack(
        [sparse.csc_matrix(objective.factor), sparse.csc_matrix((m, len(extra))), -sparse.eye(m)], format="csc"
    )
    rows = sparse.vstack([wide(equal[0]), products, wide(below[0])], format="csc")
    sides = np.concatenate([equal[1], np.zeros(m), below[1]])
    cones = [clarabel.ZeroConeT(len(equal[1]) + m), clarabel.NonnegativeConeT(len(below[1]))]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = _TOLERANCE
    found = clarabel.DefaultSolver(sparse.diags(square, format="csc"), slope, rows, sides, cones, settings).solve()
    # "Almost" is as far as rounding lets it go; kkt_residual says how far that was.
    if str(found.status) not in ("Solved", "AlmostSolved", "InsufficientProgress"):
        raise ValueError(f"the solver gave up on the weights: {found.status}")
    return np.array(found.x)[: count + len(extra)]


def _onto_sum(w: Floats, limit: Floats) -> Floats:
    """The nearest weights within [0, limit] that add up to one: an interior point comes only so close."""

    def excess(shift: float) -> float:
        return float(np.sum(np.clip(w + shift, 0.0, limit))) - 1

    low, high = -float(np.max(w)), float(np.max(limit - w))
    if excess(high) <= 0:
        return limit.copy()
    return np.clip(w + brentq(excess, low, high, xtol=1e-18), 0.0, limit)
