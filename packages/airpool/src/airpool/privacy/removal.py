"""Removing a device removes its noise too, and in r dimensions the change of variance shows (theory/guarantee.md §5.1).

With the device the sum is P = N(Δ, a I_r), without it Q = N(0, b I_r), a = b + own variance. The log-likelihood ratio
is a quadratic in y, so H_ε is a difference of two noncentral χ² tails (docs/proofs/privacy.md, "Removal").
"""

import numpy as np

from airpool._support.arrays import Floats, as_floats
from airpool._support.special import gammaln, ndtr, noncentral_tail
from airpool.privacy import gaussian

# From this noncentrality on SciPy's series gets slow and then fails; the quadrature below is exact there.
_FAR = 1e6
# Below this the survival function, which is nearly 1, may overflow in SciPy; the distribution function does not.
_LOW = 1e-6
_NOTHING = 1e-30
# Nodes over the length of the part of y that is orthogonal to Δ; it is concentrated, so they lie within ±12 deviations.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(160)


def divergence(epsilon: Floats, *, shift: Floats, rest: Floats, own: Floats, dimension: int, backward: bool) -> Floats:
    """H_ε(P‖Q) of P = N(Δ, (b + own) I_r) against Q = N(0, b I_r), or backward H_ε(Q‖P).

    Edge cases: own = 0 → the Gaussian curve; b = 0 < own → 1, a device that transmits alone is seen.
    """
    arrays = np.broadcast_arrays(epsilon, shift, rest, own)
    epsilon, shift, rest, own = (x.astype(np.float64) for x in arrays)
    out = np.ones(epsilon.shape)
    nothing = (own == 0) & (rest == 0)
    out[nothing] = np.where(shift[nothing] > 0, 1.0, np.maximum(-np.expm1(np.minimum(epsilon[nothing], 0.0)), 0.0))
    # Noise of one part in 10³⁰ is not detectable in any dimension that a network may have.
    plain = (own <= _NOTHING * rest) & (rest > 0)
    out[plain] = gaussian.delta(epsilon[plain], shift[plain] / np.sqrt(rest[plain]))
    both = (own > 0) & (rest > 0) & ~plain
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # In units of the rest, b = 1: only ratios count, and no product of theirs overflows.
        shift, own = shift / np.sqrt(rest), own / rest
        near = (shift / own) ** 2 <= _FAR
    for at, tails in ((both & near, by_tails), (both & ~near, by_quadrature)):
        if at.any():
            eps = epsilon[at]
            under_p, under_q = tails(-eps if backward else eps, shift[at], own[at], dimension, backward=backward)
            first, second = (under_q, under_p) if backward else (under_p, under_q)
            with np.errstate(over="ignore", divide="ignore"):
                out[at] = first - np.where(second > 0, np.exp(np.log(second) + eps), 0.0)
    return np.clip(out, 0.0, 1.0)


def by_tails(level: Floats, shift: Floats, own: Floats, r: int, *, backward: bool) -> tuple[Floats, Floats]:
    """Pr(ln dP/dQ > level) under P and under Q, in units of b; backward, Pr(ln dP/dQ < level)."""
    a, s = 1 + own, shift / own
    T = (level + r / 2 * np.log1p(own) + shift**2 / (2 * a)) * (2 * a / own) + s**2

    def tail(noncentrality: Floats, x: Floats) -> Floats:
        noncentrality, x = np.where(noncentrality < 1e-12, 0.0, noncentrality), np.maximum(x, 0.0)
        if backward:
            return as_floats(noncentral_tail(x, r, noncentrality, upper=False))
        above = as_floats(noncentral_tail(np.maximum(x, _LOW), r, noncentrality, upper=True))
        below = x < _LOW
        above[below] = 1 - as_floats(noncentral_tail(x[below], r, noncentrality[below], upper=False))
        return above

    return tail((shift + s) ** 2 / a, T / a), tail(s**2, T)


def by_quadrature(level: Floats, shift: Floats, own: Floats, r: int, *, backward: bool) -> tuple[Floats, Floats]:
    """The same where the device's own noise is small: a Gaussian tail along Δ, averaged over the length across it."""
    level, shift, own = level[:, None], shift[:, None], own[:, None]
    a = 1 + own
    A, half = own / (2 * a), shift / (2 * a)
    lengths, weight = _lengths(r - 1) if r > 1 else (np.zeros(1), np.ones(1))

    def expectation(mean: Floats, variance: Floats) -> Floats:
        kappa = level + r / 2 * np.log1p(own) + shift**2 / (2 * a) - A * variance * lengths**2
        inside = A * kappa + half**2
        # Negative inside: every y₁ passes the test.
        t = np.where(inside < 0, -np.inf, kappa / (np.sqrt(np.maximum(inside, 0.0)) + half))
        z = (mean - t) / np.sqrt(variance)
        return ndtr(-z if backward else z) @ weight

    return expectation(shift, a), expectation(np.zeros_like(shift), np.ones_like(shift))


def _lengths(n: int) -> tuple[Floats, Floats]:
    """Quadrature for the length of a standard normal vector in n dimensions: nodes and weights."""
    center = np.sqrt(max(n - 1.0, 0.0))
    low, high = max(0.0, center - 12.0), center + 12.0
    u = (high + low) / 2 + (high - low) / 2 * _NODES
    log_density = (1 - n / 2) * np.log(2) - gammaln(n / 2) + (n - 1) * np.log(u) - u**2 / 2
    weight = np.exp(log_density) * _WEIGHTS * (high - low) / 2
    return u, weight / weight.sum()
