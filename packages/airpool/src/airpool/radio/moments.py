"""Moments of the alignment over the fading: integrals over the device's estimate of its gain, R = ĥ.

Derived in docs/proofs/wireless.md.
"""

from dataclasses import dataclass

import numpy as np

from airpool._support.arrays import Floats, not_negative
from airpool.network import PowerRule
from airpool.radio.fading import Fading, components
from airpool.radio.power import Transmitters, threshold


def _quadrature(count: int) -> tuple[Floats, Floats]:
    """Gauss-Legendre nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1) / 2, weights / 2


_NODES, _WEIGHTS = _quadrature(256)
# Over the distribution of a norm, for the rules that depend on one.
_NORM_NODES, _NORM_WEIGHTS = _quadrature(64)
# Integration range in Gaussian scales: exp(−6.5²) is 4e-19.
_SCALES = 6.5
# Fading of relative variance below this counts as none.
_NO_FADING = 1e-20


@dataclass(frozen=True, eq=False)
class Moments:
    """Expectations of each device that takes part, (K,), over its fading and errors; an outage counts as g = 0.

    mean, mean_square: E[g] and E[g²], g = q·Re ρ with the intended alignment q. power: E[q²|ρ|²], of both components.
    inverse_square: E[q²/ĥ²]; a device transmits at scale γq/ĥ, so under truncate and backoff
    E‖x‖² = γ²·inverse_square·(w²C² + rσ²).
    """

    mean: Floats
    mean_square: Floats
    power: Floats
    inverse_square: Floats


def alignment_moments(
    fading: Fading,
    transmitters: Transmitters,
    *,
    gamma: float,
    rule: PowerRule = "truncate",
    csi_error_std: float = 0.0,
    phase_error_std: float = 0.0,
) -> Moments:
    """E[g], E[g²] and E[q²/ĥ²]; under truncate with known gains E[g] = E[g²] = 1 − outage.

    Under paper, for a feature of norm C, averaged over its noise; there E[g²‖n‖²] is not E[g²]·rσ².
    Edge cases: a device that sends nothing → 1, 1, 0.

    >>> devices = Transmitters.of(weight=1, clip_norm=1.0, noise_std=0.0, power_dbm=0.0, dimension=4, margin=0)
    >>> alignment_moments(Fading("rayleigh"), devices, gamma=0.5).mean.round(6)     # exp(−1/4)
    array([0.778801])
    """
    s, s_phase = (
        float(not_negative(name, value))
        for name, value in (("csi_error_std", csi_error_std), ("phase_error_std", phase_error_std))
    )
    path_gain = fading.path_gains(transmitters.num_devices)
    norm, share = _norms(transmitters, rule)
    t = np.atleast_2d(threshold(transmitters, gamma=gamma, rule=rule, norm=norm))
    # Devices with equal arguments share their integrals.
    arguments = np.stack([(t / path_gain).ravel(), np.broadcast_to(s / path_gain, t.shape).ravel()], axis=1)
    distinct, which = np.unique(arguments, axis=0, return_inverse=True)
    integrals = np.array([_integrals(fading, *point, silent=rule == "truncate") for point in distinct.tolist()])
    first, size, real, inverse = np.einsum("nki,n->ik", integrals[which].reshape(*t.shape, 4), share)
    # E cos φ = exp(−s²/2), E cos 2φ = exp(−2s²).
    mean, square = first * np.exp(-(s_phase**2) / 2), (size + np.exp(-2 * s_phase**2) * real) / 2
    return Moments(mean, square, size, inverse / path_gain**2)


def _norms(transmitters: Transmitters, rule: PowerRule) -> tuple[Floats | None, Floats]:
    """Quadrature over the norm that the rule depends on: values (n, K), if any, and their n weights."""
    from airpool._support.special import chdtri

    if rule == "paper":
        chi = np.sqrt(chdtri(transmitters.dimension, 1 - _NORM_NODES[:, None]))
        return transmitters.noise_std * chi, _NORM_WEIGHTS
    return None, np.ones(1)


def _integrals(fading: Fading, t: float, s: float, *, silent: bool) -> Floats:
    """E[q Re ρ], E[q²|ρ|²], E[q² Re ρ²] and E[q²/R²] for one threshold, at unit mean power. silent: below t."""
    if t == 0:
        return np.array([1.0, 1.0, 1.0, 0.0])
    mean, variance = components(fading)
    if np.all(variance + s**2 <= _NO_FADING * mean**2):
        q = np.where(mean >= t, 1.0, 0.0 if silent else mean / t)
        return np.array([q.mean(), (q**2).mean(), (q**2).mean(), ((q / mean) ** 2).mean()])
    mean, variance = mean[:, None], variance[:, None]
    spread = _SCALES * np.sqrt(variance + s**2)
    low, high = np.maximum(mean - spread, 0.0), mean + spread
    # Above t in ln R, since q²|ρ|² falls as 1/R² there; below t, where q = R/t, in R.
    start = np.minimum(np.maximum(low, t), high)
    r = start * (high / start) ** _NODES
    out = _weighted(r, r * np.log(high / start) * _WEIGHTS, np.ones_like(r), mean, variance, s)
    if not silent:
        width = np.maximum(np.minimum(high, t) - low, 0.0)
        r = low + width * _NODES
        out += _weighted(r, width * _WEIGHTS, r / t, mean, variance, s)
    return out


def _weighted(r: Floats, dr: Floats, q: Floats, mean: Floats, variance: Floats, s: float) -> Floats:
    """The four integrands under Rice's density, summed over the nodes r and averaged over the mixture."""
    from scipy.special import i0e, i1e

    total = variance + s**2
    x = 2 * mean * r / total
    bessel = i0e(x)
    f = 2 * r / total * np.exp(-((r - mean) ** 2) / total) * bessel * dr
    one = i1e(x) / bessel
    two = 1 - 2 * one / np.maximum(x, 1e-300)  # I₂ = I₀ − 2I₁/x
    kappa = variance / total
    steady = (1 - kappa) * mean / r
    rho = kappa + steady * one
    size = kappa**2 + 2 * kappa * steady * one + steady**2 + kappa * s**2 / r**2
    real = kappa**2 + 2 * kappa * steady * one + steady**2 * two
    return np.array([np.mean(np.sum(f * y, axis=-1)) for y in (q * rho, q**2 * size, q**2 * real, (q / r) ** 2)])
