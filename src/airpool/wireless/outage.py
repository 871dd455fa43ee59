"""Over the fading: how often a device is too weak, the γ that keeps this rare, and the moments of what arrives.

Everything is an expectation over what a device believes its gain to be, R = ĥ = |ĉ|, ĉ = c + e. Since c and e are
complex Gaussians (a mixture of them for Sionna's models), so is c given ĉ, and one integral over R is left:

    c | ĉ ~ CN(κĉ + (1−κ)μ, κs²),  κ = v/(v+s²);   the angle of ĉ given R has E cos(mθ) = I_m(x)/I_0(x), x = 2μR/(v+s²)
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtri, chndtrix, i0e, i1e

from .arrays import Floats, floats, not_negative, positive, probability
from .fading import Fading, cdf, components, quantile
from .power import PowerRule, Transmitters, check_rule, threshold

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(256)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2
# Nodes over the law of a norm, for the rules that look at one.
_NORM_NODES, _NORM_WEIGHTS = np.polynomial.legendre.leggauss(64)
_NORM_NODES, _NORM_WEIGHTS = (_NORM_NODES + 1) / 2, _NORM_WEIGHTS / 2
# exp(−6.5²) is 4e-19: beyond so many scales a Gaussian adds nothing.
_SCALES = 6.5
# Fluctuations of one part in 10¹⁰ of the amplitude drown in rounding and count as none.
_STEADY = 1e-20
# No larger γ is of use: devices that send next to nothing could do with any, and its square would overflow.
_LOUDEST = 1e60


def outage_probability(
    fading: Fading, transmitters: Transmitters, *, gamma: float, csi_error_std: float = 0.0
) -> Floats:
    """Of each device, Pr(ĥ < t) with t = γ√(w²C² + rσ²)(1+margin)/√P: it is silent under the rule truncate.

    Under backoff it is the probability of being power-limited; under paper and exact about that, without the margin.
    Holds for: devices that decide by their estimate ĥ. p_eff = p·(1 − outage).
    Edge cases: a device that sends nothing → 0; fading none → 0 or 1.

    >>> devices = Transmitters.of(weight=1, clip_norm=1.0, noise_std=0.0, power_dbm=[0.0, 20.0], dimension=4, margin=0)
    >>> outage_probability(Fading("rayleigh"), devices, gamma=1.0).round(5)
    array([0.63212, 0.00995])
    """
    _path_gain(fading, transmitters)
    return cdf(fading, threshold(transmitters, gamma=gamma), csi_error_std=csi_error_std)


def auto_gamma(
    fading: Fading, transmitters: Transmitters, *, outage: float = 0.01, csi_error_std: float = 0.0
) -> float:
    """The largest γ, up to 1e60, with an outage of at most `outage` for every device: min_k reach_k·F_k⁻¹(outage).

    Holds: outage_probability at the result is never above `outage`, and equal to it, up to rounding, for the weakest
        device (fading none: 0, the weakest device exactly at its limit).

    >>> devices = Transmitters.of(weight=1, clip_norm=1.0, noise_std=0.0, power_dbm=[0.0, 20.0], dimension=4, margin=0)
    >>> round(auto_gamma(Fading("rayleigh"), devices), 6)
    0.100251
    """
    floats("outage", outage, "must be > 0 and < 1", ok=lambda x: (x > 0) & (x < 1))
    _path_gain(fading, transmitters)
    gamma = float(np.min(transmitters.reach * quantile(fading, outage, csi_error_std=csi_error_std)))
    if gamma == np.inf:
        raise ValueError('gamma="auto" must have a device that sends something: weight or noise_std > 0')
    gamma = min(gamma, _LOUDEST)
    # The inverse is as exact as rounding: steps of one, two, four, ... last bits down, until no device is above.
    step = np.finfo(np.float64).epsneg
    while np.max(outage_probability(fading, transmitters, gamma=gamma, csi_error_std=csi_error_std)) > outage:
        gamma, step = gamma * (1 - step), 2 * step
    return float(gamma)


@dataclass(frozen=True, eq=False)
class Moments:
    """E[g] and E[g²] of each device's alignment over the fading, given that it takes part. Silence counts as g = 0."""

    mean: Floats
    mean_square: Floats


def alignment_moments(
    fading: Fading,
    transmitters: Transmitters,
    *,
    gamma: float,
    rule: PowerRule = "truncate",
    csi_error_std: float = 0.0,
    phase_error_std: float = 0.0,
) -> Moments:
    """E[g], E[g²] at the server; truncate with known gains: both are 1 − outage.

    Holds for: γ that does not depend on the gains. Under paper and exact, of a full feature, averaged over its noise;
        there g depends on the noise, so that E[g²‖n‖²] is not E[g²]·rσ².
    Edge cases: a device that sends nothing → 1, 1.

    >>> devices = Transmitters.of(weight=1, clip_norm=1.0, noise_std=0.0, power_dbm=0.0, dimension=4, margin=0)
    >>> alignment_moments(Fading("rayleigh"), devices, gamma=0.5).mean.round(6)     # exp(−1/4)
    array([0.778801])
    """
    first, size, real, _ = _expectations(fading, transmitters, gamma=gamma, rule=rule, csi_error_std=csi_error_std)
    # E cos φ = exp(−s²/2), E cos 2φ = exp(−2s²).
    s = float(not_negative("phase_error_std", phase_error_std))
    return Moments(first * np.exp(-(s**2) / 2), (size + np.exp(-2 * s**2) * real) / 2)


def energy(
    fading: Fading,
    transmitters: Transmitters,
    *,
    gamma: float,
    rule: PowerRule = "truncate",
    participation: ArrayLike = 1.0,
    cover_noise: bool = False,
    csi_error_std: float = 0.0,
) -> Floats:
    """E‖x‖² of each device in one inference, in mW·channel uses, for full features; units.mw_to_dbm makes it dBm.

        truncate, backoff: p·γ²·E[q²/ĥ²]·(w²C² + rσ²);  paper, exact: p·E[min(γ²N²/ĥ², P)], N² the power they look at

    q is the alignment that the device aims at. Under cover noise silent devices send n, at the same scale.
    Edge cases: a device that sends nothing → 0.

    >>> devices = Transmitters.of(weight=1, clip_norm=1.0, noise_std=0.0, power_dbm=0.0, dimension=4, margin=0)
    >>> energy(Fading("none"), devices, gamma=0.5)
    array([0.25])
    """
    p = probability("participation", participation)
    f, noise = transmitters.feature_norm**2, transmitters.dimension * transmitters.noise_std**2
    if rule in ("truncate", "backoff"):
        sent = p * (f + noise) + (1 - p) * noise * cover_noise
    elif cover_noise:
        raise ValueError(f"cover_noise=True must go with truncate or backoff, not with rule={rule!r}")
    else:
        sent = p
    *_, inverse = _expectations(fading, transmitters, gamma=gamma, rule=rule, csi_error_std=csi_error_std)
    return np.where(transmitters.amplitude > 0, gamma**2 * inverse * sent, 0.0)


def _expectations(
    fading: Fading, transmitters: Transmitters, *, gamma: float, rule: PowerRule, csi_error_std: float
) -> Floats:
    """E[q Re ρ], E[q²|ρ|²], E[q² Re ρ²] and E[q²/ĥ²] (times N² where a norm N decides) of each device, (4, K)."""
    check_rule(rule)
    gamma = float(positive("gamma", gamma))
    s = float(not_negative("csi_error_std", csi_error_std))
    count = transmitters.num_devices
    path_gain = _path_gain(fading, transmitters)
    t, share, square = _thresholds(transmitters, gamma, rule)
    out = np.zeros((4, count))
    known: dict[tuple[float, float], Floats] = {}
    for k in range(count):
        for i, weight in enumerate(share):
            # In units of the path gain; like devices share their integrals.
            point = float(t[i, k] / path_gain[k]), s / float(path_gain[k])
            if point not in known:
                known[point] = _integrals(fading, *point, silent=rule == "truncate")
            out[:, k] += weight * known[point] * np.array([1, 1, 1, square[i, k] / path_gain[k] ** 2])
    return out


def _path_gain(fading: Fading, transmitters: Transmitters) -> Floats:
    """√E[h²] of each device."""
    gain, count = fading.path_gain, transmitters.num_devices
    if gain.size not in (1, count):
        raise ValueError(f"path_loss_db has {gain.size} values for {count} devices; give one number or {count}")
    return np.broadcast_to(gain, (count,))


def _thresholds(transmitters: Transmitters, gamma: float, rule: PowerRule) -> tuple[Floats, Floats, Floats]:
    """The law of t as (n, K) values and their n probabilities; and N², by which the energy is weighted."""
    if rule in ("truncate", "backoff"):
        t = threshold(transmitters, gamma=gamma)[None, :]
        return t, np.ones(1), np.ones_like(t)
    f, std, r = transmitters.feature_norm, transmitters.noise_std, transmitters.dimension
    noisy = np.where(std > 0, std, 1.0)
    u = _NORM_NODES[:, None]
    if rule == "paper":
        square = f**2 + std**2 * chdtri(r, 1 - u)
    else:
        square = np.where(std > 0, std**2 * chndtrix(u, r, (f / noisy) ** 2), f**2)
    return gamma * np.sqrt(square / transmitters.power_max), _NORM_WEIGHTS, square


def _integrals(fading: Fading, t: float, s: float, *, silent: bool) -> Floats:
    """The four expectations for one threshold, in units of the path gain."""
    if t == 0:
        return np.array([1.0, 1.0, 1.0, 0.0])
    mean, variance = components(fading)
    if np.all(variance + s**2 <= _STEADY * mean**2):
        q = np.where(mean >= t, 1.0, 0.0 if silent else mean / t)
        return np.array([q.mean(), (q**2).mean(), (q**2).mean(), ((q / mean) ** 2).mean()])
    mean, variance = mean[:, None], variance[:, None]
    total = variance + s**2
    low = np.maximum(mean - _SCALES * np.sqrt(total), 0.0)
    high = mean + _SCALES * np.sqrt(total)
    # Above t in ln R, since q²|ρ|² falls as 1/R² there; below, where q = R/t, as it is.
    start = np.minimum(np.maximum(low, t), high)
    spread = np.log(high / start)
    r = start * np.exp(spread * _NODES)
    out = _weighted(r, r * spread * _WEIGHTS, np.ones_like(r), mean, variance, s)
    if not silent:
        end = np.minimum(high, t)
        width = np.maximum(end - low, 0.0)
        r = low + width * _NODES
        out += _weighted(r, width * _WEIGHTS, r / t, mean, variance, s)
    return out


def _weighted(r: Floats, dr: Floats, q: Floats, mean: Floats, variance: Floats, s: float) -> Floats:
    """Σ over the nodes r, and the mean over the mixture, of the four integrands with Rice's density."""
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
