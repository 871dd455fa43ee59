"""Moments of the privacy loss: ε of a stream, Rényi divergences of Gaussian mixtures, and ε of a curve of them.

Where the data chooses among several laws in every inference (Scheme 2.1), composing the upper envelope of their curves
grants every inference the worst of all of them at once. A moment is linear in the logarithm: of any sequence of laws,
chosen in advance or as answers come in, it is at most that of the worst law, T times. Tight to a few per cent for many
inferences, where the envelope is not; loose for few. Proof: docs/proofs/privacy.md, "Several laws in one stream".
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats, as_floats, checked, failure_probability
from airpool._support.special import xlog1py
from airpool.privacy.sums import OnGrid

# λ = α − 1 at which moments are taken: any of them gives a valid ε, the smallest is the answer.
_ORDERS = as_floats(np.geomspace(1e-4, 1e3, 141))
# Relative error of two roundings.
_ROUNDING = 2.0**-52


class LossMoments:
    """ln E[e^(λL)] of the worst of several losses, at every order λ, and how likely a loss is infinite at most."""

    def __init__(self, losses: Sequence[OnGrid]) -> None:
        self.infinite = max(loss.infinite for loss in losses)
        self.log = np.maximum.reduce([_log_moments(loss) for loss in losses])

    def epsilon(self, inferences: int, delta: float) -> float:
        """ε at δ of `inferences` inferences, rounded up; inf where an infinite loss alone is likelier than δ.

        δ(ε) ≤ T·Pr(L = ∞) + e^(T·ln M(λ) − λε)·(λ/(1+λ))^λ/(1+λ)      for every λ > 0
        """
        left = delta - inferences * self.infinite * (1 + 4 * _ROUNDING)
        if left <= 0:
            return np.inf
        return _epsilon(_ORDERS, inferences * self.log, left)


def epsilon(orders: ArrayLike, divergence: ArrayLike, delta: float) -> float:
    """ε at δ of a mechanism with these Rényi divergences, an RDP curve; the best order counts, rounded up.

        δ(ε) ≤ e^((α−1)(D_α − ε))·(1 − 1/α)^α/(α−1)      for every α > 1

    Canonne, Kamath & Steinke, "The discrete Gaussian for differential privacy", 2020, Proposition 12.

    >>> round(epsilon([2, 8, 32], [1.0, 4.0, 16.0], 1e-5), 3)
    5.214
    """
    alpha, found = orders_above_one(orders), checked("divergence", divergence, "must be >= 0", ok=lambda x: x >= 0)
    if alpha.shape != found.shape:
        raise ValueError(f"divergence has shape {found.shape}, must have one value for each of {alpha.shape} orders")
    return _epsilon(alpha - 1, (alpha - 1) * found, float(failure_probability(delta)))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """ε at δ of a ρ-zCDP mechanism (Bun & Steinke 2016): that of its curve D_α = αρ, rounded up.

    Larger than that of a Gaussian with the same ρ = μ²/2, which says more than ρ does: `gaussian.epsilon`.

    >>> from airpool.privacy import gaussian
    >>> round(zcdp_epsilon(0.5, 1e-5), 3), float(gaussian.epsilon(1.0, 1e-5).round(3))
    (4.728, 4.377)
    """
    rho, delta = float(checked("rho", rho, "must be >= 0", ok=lambda x: x >= 0)), float(failure_probability(delta))
    if rho in (0.0, np.inf):
        return rho
    order = np.sqrt(-np.log(delta) / rho) * np.geomspace(1e-2, 1e2, 2**11)
    return _epsilon(as_floats(order), as_floats(order * (1 + order) * rho), delta)


def of_gaussians(mu: Floats, mass: Floats, exposed: float, orders: Floats) -> Floats:
    """D_α at each order where a Gaussian at distance μ[cell] is seen with probability exposed·mass[cell]; rounded up.

        D_α = ln(1 − exposed + exposed·Σ mass·e^(α(α−1)μ²/2))/(α − 1)

    Holds for: an adversary who sees which cell it is. Edge cases: never exposed → 0; a μ that is infinite → inf.
    """
    mu, mass = mu[mass > 0], mass[mass > 0]
    if not exposed or not np.any(mu):
        return np.zeros_like(orders)
    with np.errstate(over="ignore", divide="ignore"):
        power = np.multiply.outer(orders * (orders - 1) / 2, mu**2) + np.log(mass)
        top = np.max(power, axis=1)
        finite = np.where(np.isfinite(top), top, 0.0)
        seen = np.where(np.isfinite(top), np.log(np.sum(np.exp(power - finite[:, None]), axis=1)) + finite, np.inf)
        found = np.logaddexp(np.log1p(-exposed), np.log(exposed) + seen)
    found = np.maximum(found, 0.0) + _ROUNDING * (len(mu) + 64 + 4 * np.abs(finite))
    return found / (orders - 1)


def orders_above_one(orders: ArrayLike) -> Floats:
    """Orders α of Rényi divergences, checked."""
    allowed = "must be above 1 and finite"
    return np.atleast_1d(checked("orders", orders, allowed, ok=lambda x: (x > 1) & np.isfinite(x)))


def _epsilon(order: Floats, log_moment: Floats, delta: float) -> float:
    """ε at δ by ln E[e^(λL)] at orders λ."""
    most = xlog1py(order, -1 / (1 + order)) - np.log1p(order)  # ln max_u (1 − e^−u)e^(−λu)
    return max(float(np.min((log_moment + most - np.log(delta)) / order)) * (1 + 1e-12), 0.0)


def _log_moments(loss: OnGrid) -> Floats:
    at = loss.values
    # No term overflows, and the last one alone keeps the sum far from what underflows.
    found = np.log(np.exp(_ORDERS[:, None] * (at - at[-1])) @ loss.mass) + _ORDERS * at[-1]
    # A sum of len(at) products, each with an exponent that is rounded.
    return as_floats(found + _ROUNDING * (len(at) + 64 + _ORDERS * np.abs(at).max()))
