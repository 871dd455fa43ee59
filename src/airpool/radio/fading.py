"""Fading: the distribution of a link's gain, drawn independently for every inference (block fading).

    h = a·|c|,   a = 10^(−path_loss_db/20),   c = μ + CN(0, v)

    none      μ = 1, v = 0
    rician    μ² = κ/(κ+1), v = 1/(κ+1), κ the K-factor
    rayleigh  μ = 0, v = 1

The law of Sionna's models (sionna_models.py) is that of a large reference sample. Derivations: docs/proofs/wireless.md.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike

from airpool._support.arrays import Array, Floats, checked, finite, like, not_negative, positive
from airpool._support.draws import Generator, ones, standard_normal
from airpool.network import FADING
from airpool.network.units import db_to_linear
from airpool.radio import beam, sionna_models

MODELS = (*FADING, *(f"sionna:{name}" for name in sionna_models.MODELS))

# Noncentrality (twice the K-factor) above which Rice's law is replaced by its Gaussian limit. The error is below the
# inverse of this number; SciPy's noncentral χ² fails a few orders of magnitude above it.
_GAUSSIAN_LIMIT = 1e9


@dataclass(frozen=True)
class Fading:
    """The distribution of the gains h ≥ 0, with E[h²] = 10^(−path_loss_db/10).

    model: none | rician | rayleigh | sionna:tdl-a to tdl-e | sionna:cdl-a to cdl-e | sionna:umi
    k_factor_db: power of the line-of-sight path over the scattered power, in dB; rician only.
    path_loss_db: one value, or one per device (the last axis of the gains).
    antennas, devices: of a server that receives them by one beam; rician and rayleigh only.

    >>> Fading("rician", path_loss_db=(0.0, 20.0)).path_gain
    array([1. , 0.1])
    """

    model: str = "none"
    k_factor_db: float = 4.8
    path_loss_db: float | tuple[float, ...] = 0.0
    antennas: int = 1
    devices: int = 1

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise ValueError(f"fading={self.model!r} must be one of {', '.join(MODELS)}")
        if self.antennas > 1 and self.model not in ("rician", "rayleigh"):
            raise ValueError(f"antennas={self.antennas} needs fading rician or rayleigh, not {self.model!r}")
        finite("k_factor_db", self.k_factor_db)
        if finite("path_loss_db", self.path_loss_db).ndim > 1:
            raise ValueError(f"path_loss_db={self.path_loss_db} must be one number or one per device")

    @property
    def path_gain(self) -> Floats:
        """a = √E[h²]: a scalar, or (K,)."""
        return np.asarray(10.0 ** (-np.asarray(self.path_loss_db, dtype=np.float64) / 20))


def log_distance_loss_db(
    distance: ArrayLike, *, exponent: float, reference_distance: float = 1.0, reference_loss_db: float = 0.0
) -> Floats:
    """Path loss in dB by the log-distance model, L = L₀ + 10·n·log₁₀(d/d₀), d ≥ d₀: values for `path_loss_db`.

    Typical exponents n: 2 in free space, 2.7 to 3.5 in cities, 1.6 to 1.8 in corridors.
    """
    d0 = float(positive("reference_distance", reference_distance))
    d = checked("distance", distance, f"must be >= {d0:g} and finite", ok=lambda x: (x >= d0) & (x < np.inf))
    return reference_loss_db + 10 * float(not_negative("exponent", exponent)) * np.log10(d / d0)


def sample_gains(fading: Fading, shape: tuple[int, ...], rng: Generator, *, dtype: Any = None) -> Array:
    """Independent gains: a NumPy array, or a tensor on the generator's device.

    shape: its last axis is the devices where path loss differs between them.
    """
    if fading.model == "none":
        gain = ones(rng, shape, dtype=dtype)
    elif fading.model.startswith("sionna:"):
        gain = sionna_models.sample(fading.model.removeprefix("sionna:"), shape, rng, dtype=dtype)
    elif fading.antennas > 1:
        if shape[-1:] != (fading.devices,):
            raise ValueError(f"shape={shape} must end with the {fading.devices} devices of the beam")
        h = beam.channels(*path(fading), shape, fading.antennas, rng, dtype=dtype)
        gain = beam.received(beam.beam(h), h, modulus=True)
    else:
        (mean,), (variance,) = components(fading)
        normals = standard_normal(rng, (2, *shape), dtype=dtype)
        scattered = normals * float(variance / 2) ** 0.5
        gain = array_namespace(normals).hypot(scattered[0, ...] + float(mean), scattered[1, ...])
    a = fading.path_gain
    if a.ndim and shape[-1:] != a.shape:
        raise ValueError(f"shape={shape} must end with the {a.size} devices of path_loss_db")
    return gain if np.all(a == 1) else gain * like(a, gain)


def components(fading: Fading) -> tuple[Floats, Floats]:
    """μ and v of c as an equally weighted mixture, of length 1 for the models in closed form.

    For Sionna's models and for beams, the sorted reference sample as μ, and v = 0.
    """
    if fading.antennas > 1:
        sample = beam.reference(*path(fading), fading.antennas, fading.devices)
        return sample, np.zeros_like(sample)
    if fading.model.startswith("sionna:"):
        sample = sionna_models.reference(fading.model.removeprefix("sionna:"))
        return sample, np.zeros_like(sample)
    mean, variance = path(fading)
    return np.array([mean]), np.array([variance])


def path(fading: Fading) -> tuple[float, float]:
    """μ and v at one antenna, for the models in closed form."""
    if fading.model == "rician":
        k = db_to_linear(fading.k_factor_db)
        return float(np.sqrt(k / (k + 1))), 1 / (k + 1)
    return (1.0, 0.0) if fading.model == "none" else (0.0, 1.0)


def cdf(fading: Fading, gain: ArrayLike, *, csi_error_std: float = 0.0) -> Floats:
    """Pr(ĥ < gain), elementwise, of the estimated gain ĥ = |a·c + CN(0, csi_error_std²)|; of h without CSI error.

    gain: its last axis is the devices where path loss differs between them. csi_error_std: in the unit of the gain.
    Edge cases: strict, so a device exactly at its threshold is not in outage: none → 0 up to and including 1.

    >>> cdf(Fading("rayleigh"), 1.0).round(6), cdf(Fading("none"), [1.0, 1.1])
    (np.float64(0.632121), array([0., 1.]))
    """
    a = fading.path_gain
    return _below(fading, not_negative("gain", gain) / a, not_negative("csi_error_std", csi_error_std) / a)


@lru_cache(maxsize=64)
def quantile(fading: Fading, probability: float, *, csi_error_std: float = 0.0) -> Floats:
    """The largest t with Pr(ĥ < t) ≤ probability, ĥ as in `cdf`: a scalar, or (K,) where path loss differs."""
    p = float(checked("probability", probability, "must be > 0 and < 1", ok=lambda x: (x > 0) & (x < 1)))
    a = fading.path_gain
    s = not_negative("csi_error_std", csi_error_std) / a
    mean, variance = components(fading)
    if not np.any(variance) and not csi_error_std:
        return a * mean[int(p * mean.size)]
    from airpool._support.search import smallest

    # In x = −ln(t/a), so that the search rounds t down.
    largest = mean[-1] + 10 * np.sqrt(variance[-1] + s**2)
    x = smallest(lambda x, s: _below(fading, np.exp(-x), s) - p, -np.log(largest), 700.0, s)
    return a * np.exp(-x)


def _below(fading: Fading, t: Floats, s: Floats) -> Floats:
    """Pr(|c + CN(0, s²)| < t), elementwise."""
    mean, variance = components(fading)
    t, s = np.broadcast_arrays(t, s)
    if mean.size == 1:
        return _rice(t, mean[0], variance[0] + s**2)
    if not np.any(s):
        return np.searchsorted(mean, t, side="left") / mean.size
    below = [_rice(np.asarray(x), mean, variance + e**2).mean() for x, e in zip(t.flat, s.flat, strict=True)]
    return np.array(below).reshape(t.shape)


def _rice(t: Floats, mean: Floats, total: Floats) -> Floats:
    """Pr(|μ + CN(0, V)| < t), elementwise: the noncentral χ² law F(2t²/V; 2, 2μ²/V), or its Gaussian limit."""
    from scipy.special import chndtr, ndtr

    v = np.where(total > 0, total, 1.0)
    noncentrality = np.where(total > 0, 2 * mean**2 / v, np.inf)
    far = noncentrality > _GAUSSIAN_LIMIT
    with np.errstate(divide="ignore", invalid="ignore"):
        limit = np.where(total > 0, ndtr((t - np.sqrt(mean**2 + total / 2)) / np.sqrt(total / 2)), mean < t)
    return np.where(far, limit, chndtr(2 * t**2 / v, 2, np.where(far, 0.0, noncentrality)))
