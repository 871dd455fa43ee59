"""The Gaussian mechanism, exactly: δ as a function of ε, its inverses, and the classical formula for comparison.

Everything here depends on one number, μ = Δ/σ: how far the two outputs lie apart, in standard deviations.
Balle & Wang (2018), Theorem 8; spec §3.2.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from airpool.arrays import Floats, checked, failure_probability
from airpool.search import smallest

# SciPy's functions with the types that they have here.
log_ndtr: Callable[[Floats], Floats] = special.log_ndtr
erfcx: Callable[[Floats], Floats] = special.erfcx

# Below this μ the two terms of δ_G agree in so many digits that their difference is integrated instead. The integrand
# is analytic, so 4 nodes reach machine precision on so short an interval.
_NEAR = 0.02
_NODES, _WEIGHTS = (x / 2 for x in np.polynomial.legendre.leggauss(4))  # on [−½, ½]


def log_delta(epsilon: ArrayLike, mu: ArrayLike) -> Floats:
    """ln δ_G(ε; μ), elementwise.

        δ_G(ε; μ) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)

    Holds for: any ε, negative ones too (composition needs the whole curve), and any μ ≥ 0.
    Edge cases: μ = 0 → δ = (1 − e^ε)₊; μ = inf → δ = 1; ε = inf → δ = 0.

    >>> float(np.exp(log_delta(1.0, 1 / 3.730631634816)).round(15))
    1e-05
    """
    epsilon, mu = np.broadcast_arrays(
        np.asarray(epsilon, dtype=np.float64), checked("mu", mu, allowed="must be >= 0", ok=lambda x: x >= 0)
    )
    magnitude = np.abs(epsilon)
    positive = _log_delta_positive(magnitude, mu)
    # Swapping the two Gaussians changes nothing, so δ(−ε) = 1 − e^−ε + e^−ε δ(ε).
    with np.errstate(divide="ignore"):
        negative = np.logaddexp(np.log(-np.expm1(-magnitude)), positive - magnitude)
    return np.where(epsilon >= 0, positive, negative)


def _log_delta_positive(epsilon: Floats, mu: Floats) -> Floats:
    """ln δ_G for ε ≥ 0, in whichever of two forms does not cancel."""
    out = np.full(mu.shape, -np.inf)
    out[np.isinf(mu) & np.isfinite(epsilon)] = 0.0
    # Beyond this ε/μ no δ is left that a float could hold, and the square of ε/μ soon overflows.
    within = np.isfinite(epsilon) & (epsilon / 1e150 <= mu)
    near = (mu > 0) & (mu < _NEAR) & within
    far = (mu >= _NEAR) & np.isfinite(mu) & within
    out[near] = _log_delta_near(epsilon[near], mu[near])
    out[far] = _log_delta_far(epsilon[far], mu[far])
    return out


def _log_delta_far(epsilon: Floats, mu: Floats) -> Floats:
    a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    log_a = log_ndtr(a)
    # The second term is the smaller one; rounding must not turn the difference negative.
    ratio = np.minimum(epsilon + log_ndtr(b) - log_a, 0.0)
    with np.errstate(divide="ignore"):
        return log_a + np.log(-np.expm1(ratio))


def _log_delta_near(epsilon: Floats, mu: Floats) -> Floats:
    """The same for small μ, where Φ(a) and e^ε Φ(b) agree in most of their digits.

    With R = Φ/φ, and since φ(a) = e^ε φ(b):  δ = φ(a)·(R(a) − R(b)) = φ(a)·∫_b^a (1 + t R(t)) dt.
    """
    a = mu / 2 - epsilon / mu
    t = a[..., None] - mu[..., None] * (_NODES + 0.5)
    integrand = np.maximum(_one_plus_t_mills(t), 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        return -(a**2) / 2 - 0.5 * np.log(2 * np.pi) + np.log(mu * (integrand @ _WEIGHTS))


def _one_plus_t_mills(t: Floats) -> Floats:
    """1 + t·Φ(t)/φ(t), by its asymptotic series far out, where the two terms cancel."""
    close = np.maximum(t, -30.0)
    direct = 1 + close * np.sqrt(np.pi / 2) * erfcx(-close / np.sqrt(2))
    x = (1 / np.minimum(t, -30.0)) ** 2
    series = x * (1 - x * (3 - x * (15 - x * (105 - x * (945 - x * 10395)))))
    return np.where(t < -30, series, direct)


def delta(epsilon: ArrayLike, mu: ArrayLike) -> Floats:
    """δ_G(ε; μ), elementwise; see `log_delta`."""
    return np.exp(log_delta(epsilon, mu))


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
    return smallest(_excess_of_epsilon, np.zeros_like(mu), high, mu, log_target)


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
    return smallest(_excess_of_multiplier, reciprocal(high), 1 / low, epsilon, log_target)


def _excess_of_epsilon(epsilon: Floats, mu: Floats, log_target: Floats) -> Floats:
    return log_delta(epsilon, mu) - log_target


def _excess_of_multiplier(multiplier: Floats, epsilon: Floats, log_target: Floats) -> Floats:
    return log_delta(epsilon, reciprocal(multiplier)) - log_target


def reciprocal(x: ArrayLike) -> Floats:
    """1/x with 1/0 = inf, elementwise."""
    with np.errstate(divide="ignore"):
        return 1 / np.asarray(x, dtype=np.float64)
