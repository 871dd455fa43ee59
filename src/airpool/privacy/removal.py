"""What removing a device really reveals: its noise vanishes with it, and in r dimensions that shows (spec §3.5).

With the device the sum is N(Δ, a I_r), without it N(0, b I_r), a = b + own variance. The log-likelihood ratio is a
quadratic in y, so the hockey-stick divergence is a difference of two noncentral χ² tails. Completing the square, with
A = (1/b − 1/a)/2 and s = Δ/(2aA):

    ln dP/dQ (y) = A‖y + s‖² − A·T₀,    T₀ = [ (r/2) ln(a/b) + Δ²/(2a) ]/A + s²

and H_ε(P‖Q) = P(‖y + s‖² > T₀ + ε/A) − e^ε Q(same), H_ε(Q‖P) = Q(‖y + s‖² < T₀ − ε/A) − e^ε P(same).
"""

from typing import Any

import numpy as np
from scipy.special import gammaln, ndtr

from airpool.arrays import Floats, as_floats
from airpool.privacy import gaussian
from airpool.privacy.cover import hidden

# From this noncentrality on SciPy's series gets slow and then fails; the quadrature below is exact there.
_FAR = 1e6
# Below this the survival function, which is nearly 1, may overflow in SciPy; the distribution function does not.
_LOW = 1e-6
_NOTHING = 1e-30
# Nodes over the length of the part of y that is orthogonal to Δ; it is concentrated, so they lie within ±12 deviations.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(160)


def delta(
    epsilon: Floats,
    *,
    shift: Floats,
    rest: Floats,
    own: Floats,
    dimension: int,
    participation: Floats,
    backward: bool,
) -> Floats:
    """δ between (1−p)Q + pP and Q when nobody sees whether the device takes part; elementwise (see `cover.hidden`)."""
    epsilon, shift, rest, own, participation = np.broadcast_arrays(epsilon, shift, rest, own, participation)

    def of(e: Floats, at: Any) -> Floats:
        return divergence(e, shift=shift[at], rest=rest[at], own=own[at], dimension=dimension, backward=backward)

    return hidden(epsilon, participation, of, backward=backward)


def delta_covered(epsilon: Floats, *, shift: Floats, participation: Floats, **rest: Any) -> Floats:
    """The same under cover noise: present, the device sends its noise for sure and its feature with probability p.

    An upper bound: the divergence is convex, so it is at most the mean over the device's coin.
    """
    transmitting = divergence(epsilon, shift=shift, **rest)
    silent = divergence(epsilon, shift=np.zeros_like(shift), **rest)
    return participation * transmitting + (1 - participation) * silent


def divergence(epsilon: Floats, *, shift: Floats, rest: Floats, own: Floats, dimension: int, backward: bool) -> Floats:
    """H_ε(P‖Q) of P = N(Δ, (b + own) I_r) against Q = N(0, b I_r), or backward H_ε(Q‖P).

    Edge cases: own = 0 → the Gaussian curve; b = 0 < own → 1, a device that transmits alone is seen.
    """
    arrays = np.broadcast_arrays(epsilon, shift, rest, own)
    epsilon, shift, rest, own = (x.astype(np.float64) for x in arrays)
    out = np.ones(epsilon.shape)
    nothing = (own == 0) & (rest == 0)
    out[nothing] = np.where(shift[nothing] > 0, 1.0, np.maximum(-np.expm1(np.minimum(epsilon[nothing], 0.0)), 0.0))
    # Noise of one part in 10³⁰ shows in no dimension that a network may have.
    plain = (own <= _NOTHING * rest) & (rest > 0)
    out[plain] = gaussian.delta(epsilon[plain], shift[plain] / np.sqrt(rest[plain]))
    both = (own > 0) & (rest > 0) & ~plain
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # In units of the rest: only ratios count, and no product of theirs overflows.
        shift, own, rest = shift / np.sqrt(rest), own / rest, np.ones_like(rest)
        noncentrality = (shift / own) ** 2
    near = noncentrality <= _FAR
    for at, tails in ((both & near, _by_tails), (both & ~near, _by_quadrature)):
        if at.any():
            out[at] = tails(epsilon[at], shift[at], rest[at], own[at], dimension, backward)
    return np.clip(out, 0.0, 1.0)


def _by_tails(eps: Floats, shift: Floats, b: Floats, own: Floats, r: int, backward: bool) -> Floats:
    from scipy.stats import chi2, ncx2

    a = b + own
    A = own / (2 * a * b)
    s = shift * b / own
    sign = -1.0 if backward else 1.0
    T = (sign * eps + r / 2 * np.log1p(own / b) + shift**2 / (2 * a)) / A + s**2
    P, Q = ((shift + s) ** 2 / a, T / a), (s**2 / b, T / b)

    def tail(noncentrality: Floats, x: Floats) -> Floats:
        central, x = noncentrality < 1e-12, np.maximum(x, 0.0)
        noncentrality = np.where(central, 1.0, noncentrality)
        plain = as_floats(chi2.cdf(x, r) if backward else chi2.sf(x, r))
        below = x < _LOW
        if backward:
            moved = as_floats(ncx2.cdf(x, r, noncentrality))
        else:
            moved = as_floats(ncx2.sf(np.maximum(x, _LOW), r, noncentrality))
            moved[below] = 1 - as_floats(ncx2.cdf(x[below], r, noncentrality[below]))
        return np.where(central, plain, moved)

    first, second = (tail(*Q), tail(*P)) if backward else (tail(*P), tail(*Q))
    with np.errstate(over="ignore", invalid="ignore"):
        lost = np.where(second > 0, np.exp(np.log(np.where(second > 0, second, 1.0)) + eps), 0.0)
    return np.maximum(first - lost, 0.0)


def _by_quadrature(eps: Floats, shift: Floats, b: Floats, own: Floats, r: int, backward: bool) -> Floats:
    """The same where the device's own noise is small: a Gaussian tail along Δ, averaged over the length across it.

    Given ‖y⊥‖² = W the best test is y₁ > t(W) (the other branch of the quadratic lies beyond any reach), with
    t = κ/(√(Aκ + (Δ/2a)²) + Δ/2a),  κ = ±ε + (r/2)ln(a/b) + Δ²/(2a) − A W: no cancellation as own → 0.
    """
    a = b + own
    A = own / (2 * a * b)
    sign = -1.0 if backward else 1.0
    half = shift / (2 * a)

    def expectation(mean: Floats, variance: Floats) -> Floats:
        if r == 1:
            u2, weight = np.zeros((1, 1)), np.ones((1, 1))
        else:
            u, weight = _lengths(r - 1)
            u2, weight = u[None, :] ** 2, weight[None, :]
        W = variance[:, None] * u2
        kappa = (sign * eps + r / 2 * np.log1p(own / b) + shift**2 / (2 * a))[:, None] - A[:, None] * W
        inside = A[:, None] * kappa + half[:, None] ** 2
        # Negative inside: every y₁ passes the test.
        t = np.where(inside < 0, -np.inf, kappa / (np.sqrt(np.maximum(inside, 0.0)) + half[:, None]))
        z = (mean[:, None] - t) / np.sqrt(variance)[:, None]
        return (weight * ndtr(-z if backward else z)).sum(axis=1)

    under_p, under_q = expectation(shift, a), expectation(np.zeros_like(shift), b)
    first, second = (under_q, under_p) if backward else (under_p, under_q)
    with np.errstate(over="ignore", divide="ignore"):
        return np.maximum(first - np.where(second > 0, np.exp(np.log(second) + eps), 0.0), 0.0)


def _lengths(n: int) -> tuple[Floats, Floats]:
    """Quadrature for the length of a standard normal vector in n dimensions: nodes and weights."""
    center = np.sqrt(max(n - 1.0, 0.0))
    low, high = max(0.0, center - 12.0), center + 12.0
    u = (high + low) / 2 + (high - low) / 2 * _NODES
    log_density = (1 - n / 2) * np.log(2) - gammaln(n / 2) + (n - 1) * np.log(u) - u**2 / 2
    weight = np.exp(log_density) * _WEIGHTS * (high - low) / 2
    return u, weight / weight.sum()
