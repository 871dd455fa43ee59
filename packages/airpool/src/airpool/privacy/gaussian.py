"""The Gaussian mechanism, exactly: δ as a function of ε, its inverses, and the classical formula for comparison.

Everything here depends on one number, μ = Δ/σ: how far the two outputs lie apart, in standard deviations.
Balle & Wang (2018), Theorem 8; docs/theory/guarantee.md §3.
"""

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats, checked, failure_probability
from airpool._support.search import smallest
from airpool._support.special import erfcx

# Below this μ the two terms of δ_G nearly cancel, and a Taylor series of three terms gives their difference instead.
_NEAR = 0.02
# From this a on Φ(a) is 1, and e^ε Φ(b) is 0 beside it.
_SURE = 8.5
# Beyond this ε/μ no δ is left that a float could hold, and the square of ε/μ soon overflows.
_FARTHEST = 1e150
_HALF_ROOT, _ROOT = np.sqrt(np.pi / 2), np.sqrt(0.5)


def delta(epsilon: ArrayLike, mu: ArrayLike) -> Floats:
    """δ_G(ε; μ), elementwise.

        δ_G(ε; μ) = Φ(a) − e^ε Φ(b) = φ(a)·(R(a) − R(b)),    a = μ/2 − ε/μ,  b = a − μ,  R = Φ/φ

    since φ(a) = e^ε φ(b). R(x) = √(π/2) erfcx(−x/√2) neither underflows nor loses digits.
    Holds for: any ε, negative ones too (composition needs the whole curve), and any μ ≥ 0.
    Edge cases: μ = 0 → δ = (1 − e^ε)₊; μ = inf → δ = 1; ε = inf → δ = 0.

    >>> float(delta(1.0, 1 / 3.730631634816).round(15))
    1e-05
    """
    epsilon, mu = np.asarray(epsilon, dtype=np.float64), np.asarray(mu, dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        if np.all((epsilon >= 0) & (epsilon <= _FARTHEST * mu) & (mu > 0) & (mu < np.inf)):
            return _delta(epsilon, mu)
    epsilon, mu = np.broadcast_arrays(epsilon, checked("mu", mu, allowed="must be >= 0", ok=lambda x: x >= 0))
    magnitude = np.abs(epsilon)
    out = np.where(np.isinf(mu) & np.isfinite(epsilon), 1.0, 0.0)
    within = (mu > 0) & np.isfinite(mu) & (magnitude / _FARTHEST <= mu)
    out[within] = _delta(magnitude[within], mu[within])
    # Swapping the two Gaussians changes nothing, so δ(−ε) = 1 − e^−ε + e^−ε δ(ε).
    return np.where(epsilon >= 0, out, -np.expm1(-magnitude) + np.exp(-magnitude) * out)


def log_delta(epsilon: ArrayLike, mu: ArrayLike) -> Floats:
    """ln δ_G(ε; μ), elementwise; −inf where δ underflows."""
    with np.errstate(divide="ignore"):
        return np.log(delta(epsilon, mu))


def _delta(epsilon: Floats, mu: Floats) -> Floats:
    """δ_G for ε ≥ 0 and 0 < μ < inf."""
    x = np.asarray((epsilon / mu - mu / 2) * _ROOT)
    y = x + _ROOT * mu
    x = np.maximum(x, -_SURE * _ROOT)
    near = np.broadcast_to(mu < _NEAR, x.shape)
    if not near.any():
        # R falls with x; rounding must not turn the difference negative.
        gap = np.maximum(erfcx(x) - erfcx(y), 0.0)
    else:
        gap, far, mu = np.empty(x.shape), ~near, np.broadcast_to(mu, x.shape)
        gap[far] = np.maximum(erfcx(x[far]) - erfcx(y[far]), 0.0)
        gap[near] = _difference(-x[near] / _ROOT - mu[near] / 2, mu[near]) / _HALF_ROOT
    return 0.5 * np.exp(-(x**2)) * gap


def _difference(t: Floats, mu: Floats) -> Floats:
    """R(t + μ/2) − R(t − μ/2) = μR′ + μ³R‴/24 + μ⁵R⁗′/1920 + …, with R′ = 1 + tR and R⁽ⁿ⁺²⁾ = tR⁽ⁿ⁺¹⁾ + (n+1)R⁽ⁿ⁾."""
    close = np.maximum(t, -30.0)
    r0 = _HALF_ROOT * erfcx(-_ROOT * close)
    r1 = 1 + close * r0
    r2 = close * r1 + r0
    r3 = close * r2 + 2 * r1
    if np.any(far := t < -30.0):
        # Far out the terms cancel: an asymptotic series.
        x = (1 / t[far]) ** 2
        r1[far] = x * (1 - x * (3 - x * (15 - x * (105 - x * (945 - x * 10395)))))
        r3[far] = x**2 * (6 - x * (60 - x * 630))
    r4 = close * r3 + 3 * r2
    r5 = np.where(t < -30.0, 0.0, close * r4 + 4 * r3)
    square = mu**2
    return mu * np.maximum(r1 + square / 24 * (r3 + square / 80 * r5), 0.0)


def epsilon(mu: ArrayLike, delta: ArrayLike) -> Floats:
    """The smallest ε ≥ 0 with δ_G(ε; μ) ≤ δ, rounded up.

    Edge cases: 0 where δ_G(0; μ) ≤ δ already (μ = 0 above all); inf where μ = inf.

    >>> float(epsilon(1.0, 1e-5).round(6))
    4.377178
    """
    mu, delta = np.broadcast_arrays(
        checked("mu", mu, allowed="must be >= 0", ok=lambda x: x >= 0), failure_probability(delta)
    )
    log_target = np.log(delta)
    # Φ(μ/2 − ε/μ) ≤ δ suffices, and Φ(−x) ≤ e^(−x²/2): this end of the bracket always meets the target.
    high = mu**2 / 2 + mu * np.sqrt(-2 * log_target)

    def excess(epsilon: Floats, mu: Floats, log_target: Floats) -> Floats:
        return log_delta(epsilon, mu) - log_target

    return smallest(excess, 0.0, high, mu, log_target)


def noise_multiplier(epsilon: ArrayLike, delta: ArrayLike) -> Floats:
    """The smallest σ/Δ that gives (ε, δ), rounded up.

    Edge cases: ε = inf → 0.

    >>> float(noise_multiplier(1.0, 1e-5).round(9))
    3.730631635
    """
    epsilon, delta = np.broadcast_arrays(
        checked("epsilon", epsilon, allowed="must be >= 0", ok=lambda x: x >= 0), failure_probability(delta)
    )
    log_target = np.log(delta)
    # Two ends for μ: below, δ_G(0; μ) ≈ μ/√(2π) is under δ whatever ε is; above, the mean of the loss is past ε.
    low = delta * np.sqrt(2 * np.pi) * 0.5
    high = np.where(np.isinf(epsilon), np.inf, 2 * (np.sqrt(2 * np.minimum(epsilon, 1e300)) + 10))

    def excess(multiplier: Floats, epsilon: Floats, log_target: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return log_delta(epsilon, 1 / multiplier) - log_target

    return smallest(excess, 1 / high, 1 / low, epsilon, log_target)
