"""The quadratic program of the weights, with a bound on the distance of its solution from the optimum.

    sum    min f(w)                    s.t.  Σ w = 1,  0 ≤ w ≤ w_max
    free   min f(u) + β² N             s.t.  0 ≤ u ≤ β w_max;   w = u/β

f is the error without its noise. In "free" the server multiplies the estimate by β, including its noise of power N, so
that only the ratios of the weights matter.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, get_args

import numpy as np
from scipy import sparse

from airpool._support.arrays import Floats
from airpool._support.rounding import down
from airpool._support.search import smallest_number

Normalise = Literal["sum", "free"]

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
    """weight: w (K,). scale: β, 1 for "sum". value: the objective. residual: `kkt_residual`, value − optimum ≤ it."""

    weight: Floats
    scale: float
    value: float
    residual: float


def solve(objective: Quadratic, upper: Floats, *, normalise: Normalise = "sum", noise: float = 0.0) -> Solution:
    """The optimal weights, strictly within their limits.

    upper: w_max (K,), ≥ 0 (inf: no limit, "sum" only). noise: N > 0, for "free" only.
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
    """Violation of the KKT conditions in the unit of the objective: 0 at the optimum, and f(w) − f* is not above it.

    scale: β of "free"; None for "sum". Proof: docs/proofs/design.md.

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
        # The least ∇fᵀv of all feasible v, a fractional knapsack.
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
        raise ValueError(f"the largest weights add up to {down(total)}, must be >= 1")
    rows = sparse.vstack([sparse.csc_matrix(np.ones((1, count))), -sparse.eye(count), sparse.eye(count)])
    found = _minimum(objective, rows, np.concatenate([[1.0], np.zeros(count), limit]), equal=1)
    # An interior point only approaches Σ w = 1: the nearest weights within their limits that do add up to 1.
    low, high = -float(np.max(found)), float(np.max(limit - found))
    shift = smallest_number(lambda x: 1 - float(np.sum(np.clip(found + x, 0.0, limit))), low, high)
    weight = np.clip(found + shift, 0.0, limit)  # all at their limits where the shift is inf
    return Solution(weight, 1.0, objective.value(weight), kkt_residual(objective, upper, weight=weight))


def _with_scale(objective: Quadratic, upper: Floats, noise: float) -> Solution:
    count, largest = len(upper), float(np.max(upper))
    if not 0 < largest < np.inf:
        raise ValueError(f"upper: the largest weight is {largest:g}, must be > 0 and finite for free normalisation")
    if not noise > 0:
        raise ValueError(f"noise={noise:g} must be > 0 for free normalisation: without noise any scale will do")
    # β max w_max is one variable more, behind u.
    wider = Quadratic(
        np.pad(objective.factor, ((0, 0), (0, 1))),
        np.append(objective.diagonal, noise / largest**2),
        np.append(objective.linear, 0.0),
        objective.constant,
    )
    most = sparse.csc_matrix(-(upper / largest)[:, None])
    rows = sparse.bmat([[-sparse.eye(count), None], [sparse.eye(count), most]])
    found = _minimum(wider, rows, np.zeros(2 * count))
    scale = float(found[-1]) / largest
    if not scale > 0:
        raise ValueError("the calibration latents are uncorrelated with the target: no weights reduce the error")
    weight = np.clip(found[:-1] / scale, 0.0, upper)
    # The optimal β of these weights, where the objective is a parabola.
    straight = float(np.sum(objective.linear * weight))
    square = objective.value(weight) + 2 * straight - objective.constant
    scale = straight / (square + noise)
    value = objective.value(scale * weight) + scale**2 * noise
    return Solution(weight, scale, value, kkt_residual(objective, upper, weight=weight, scale=scale, noise=noise))


def _minimum(objective: Quadratic, rows: Any, sides: Floats, *, equal: int = 0) -> Floats:
    """argmin of f(x) where rows·x ≤ sides, the first `equal` of them equal.

    y = Fx are variables of their own, so that the solver sees a diagonal square and a thin sparse matrix for any K.
    """
    clarabel: Any = import_module("clarabel")  # without type annotations, and loaded only here
    m, count = objective.factor.shape
    # x in units of 1/count, the objective in units of its slope.
    size = max(float(np.max(np.abs(objective.linear))) * count, 1e-300)
    square = sparse.diags(np.concatenate([objective.diagonal, np.ones(m)]) * 2 / size, format="csc")
    slope = np.concatenate([-2 * objective.linear * count / size, np.zeros(m)])
    constraints = sparse.bmat([[objective.factor, -sparse.eye(m)], [rows, None]], format="csc")
    cones = [clarabel.ZeroConeT(m + equal), clarabel.NonnegativeConeT(len(sides) - equal)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = _TOLERANCE
    sides = np.concatenate([np.zeros(m), sides * count])
    found = clarabel.DefaultSolver(square, slope, constraints, sides, cones, settings).solve()
    # Rounding may stop it before the tolerance; kkt_residual says how far from the optimum.
    if str(found.status) not in ("Solved", "AlmostSolved", "InsufficientProgress"):
        raise ValueError(f"the solver gave up on the weights: {found.status}")
    return np.array(found.x)[:count] / count
