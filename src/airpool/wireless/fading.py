"""Fading: the law of a link's amplitude, drawn afresh for every inference.

The complex coefficient of a link is c = μ + CN(0, v), a steady path and many scattered ones, with μ² + v = 1:

    none      μ = 1, v = 0
    rician    μ² = κ/(κ+1), v = 1/(κ+1), κ the K-factor
    rayleigh  μ = 0, v = 1

and the gain is h = |c|: devices rotate their signals back, so that only the amplitude is left. Sionna's models
(sionna_models.py) are drawn by Sionna, and their law is that of a large sample: steady paths, one for each draw.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike

from airpool.arrays import Array, Floats, checked, finite, like, not_negative, positive
from airpool.draws import Generator, ones, standard_normal
from airpool.units import db_to_linear
from airpool.wireless import sionna_models

MODELS = ("none", "rician", "rayleigh")

# Noncentrality (twice the K-factor) from which on Rice's law is taken as Gaussian: the error is below its inverse, and
# SciPy's noncentral χ² gives up some powers of ten further on.
_NEARLY_STEADY = 1e9


@dataclass(frozen=True)
class Fading:
    """The law of the gains h ≥ 0, constant over one inference and independent in the next (block fading).

    model: none | rician | rayleigh | sionna:tdl-a to tdl-e | sionna:cdl-a to cdl-e | sionna:umi
    k_factor_db: power of the steady path over that of the scattered ones, in dB; for rician alone.
    path_loss_db: one value, or one for each device (the last axis of the gains); see `path_loss_db` below.

    Holds: E[h²] = 10^(−path_loss_db/10), which is 1 without path loss.

    >>> Fading("rician", k_factor_db=4.8).model
    'rician'
    >>> Fading("nakagami")
    Traceback (most recent call last):
    ...
    ValueError: fading='nakagami' must be one of none, rician, rayleigh, sionna:tdl-a, ..., sionna:umi
    """

    model: str = "none"
    k_factor_db: float = 4.8
    path_loss_db: float | tuple[float, ...] = 0.0

    def __post_init__(self) -> None:
        known = (*MODELS, *(f"sionna:{name}" for name in sionna_models.MODELS))
        if self.model not in known:
            raise ValueError(f"fading={self.model!r} must be one of {', '.join(known)}")
        finite("k_factor_db", self.k_factor_db)
        if finite("path_loss_db", self.path_loss_db).ndim > 1:
            raise ValueError(f"path_loss_db={self.path_loss_db} must be one number, or one for each device")

    @property
    def path_gain(self) -> Floats:
        """√E[h²], the amplitude that is left on average: a number, or one for each device."""
        loss_db = np.asarray(self.path_loss_db, dtype=np.float64)
        return np.sqrt([1 / db_to_linear(x) for x in loss_db.flat]).reshape(loss_db.shape)


def path_loss_db(
    distance: ArrayLike, *, exponent: float, reference_distance: float = 1.0, reference_loss_db: float = 0.0
) -> Floats:
    """Log-distance path loss, in dB: L = L₀ + 10·n·log₁₀(d/d₀).

    Holds for: d ≥ d₀ (closer by, the antenna's near field decides). The exponent n is 2 in free space, 2.7 to 3.5 in
    cities, 1.6 to 1.8 along corridors.

    >>> path_loss_db([1.0, 10.0], exponent=3.0).tolist()
    [0.0, 30.0]
    """
    d0 = float(positive("reference_distance", reference_distance))
    d = checked("distance", distance, f"must be >= {d0:g} and finite", ok=lambda x: (x >= d0) & (x < np.inf))
    return reference_loss_db + 10 * float(not_negative("exponent", exponent)) * np.log10(d / d0)


def sample_gains(fading: Fading, shape: tuple[int, ...], rng: Generator, *, dtype: Any = None) -> Array:
    """Independent gains of this shape; its last axis is the devices where path loss differs among them.

    They live where the generator does: a NumPy array, or a tensor on the generator's device. What is done with them
    (power.py, channel.py) is deterministic.

    >>> sample_gains(Fading("none"), (1, 3), np.random.default_rng(0))
    array([[1., 1., 1.]])
    """
    if fading.model == "none":
        gain = ones(rng, shape, dtype=dtype)
    elif fading.model.startswith("sionna:"):
        gain = sionna_models.sample(fading.model.removeprefix("sionna:"), shape, rng, dtype=dtype)
    else:
        (mean,), (variance,) = components(fading)
        normals = standard_normal(rng, (2, *shape), dtype=dtype)
        scattered = normals * float(variance / 2) ** 0.5
        gain = array_namespace(normals).hypot(scattered[0, ...] + float(mean), scattered[1, ...])
    if fading.path_gain.ndim and shape[-1:] != fading.path_gain.shape:
        raise ValueError(f"shape={shape} must end with the {fading.path_gain.size} devices of path_loss_db")
    return gain if np.all(fading.path_gain == 1) else gain * like(fading.path_gain, gain)


def components(fading: Fading) -> tuple[Floats, Floats]:
    """μ and v of the coefficient without path loss, as a mixture of equally likely parts: two arrays of one length.

    One part for the models in closed form; one for each draw of a reference sample, sorted, with v = 0, for Sionna's.

    >>> components(Fading("rician", k_factor_db=0.0))
    (array([0.70710678]), array([0.5]))
    """
    if fading.model.startswith("sionna:"):
        sample = sionna_models.reference(fading.model.removeprefix("sionna:"))
        return sample, np.zeros_like(sample)
    if fading.model == "rician":
        k = db_to_linear(fading.k_factor_db)
        return np.sqrt([k / (k + 1)]), np.array([1 / (k + 1)])
    steady = fading.model == "none"
    return np.array([float(steady)]), np.array([float(not steady)])


def cdf(fading: Fading, gain: ArrayLike, *, csi_error_std: float = 0.0) -> Floats:
    """Pr(h < gain), elementwise; with a CSI error, of what a device believes: ĥ = |c + CN(0, csi_error_std²)|.

        Pr(ĥ < t) = F(2t²/V; 2, 2μ²/V),  V = v + csi_error_std²,  F the noncentral χ² law (one minus Marcum's Q₁);
        rayleigh: 1 − exp(−t²/V)

    Holds for: the last axis of `gain` being the devices where path loss differs among them.
    Edge cases: strict, so that a device exactly at its threshold is not below it: none → 0 up to and including 1.
        For Sionna's models it is the fraction of a reference sample, with a standard error of √(F(1−F)/n).

    >>> cdf(Fading("rayleigh"), 1.0).round(6), cdf(Fading("none"), [1.0, 1.1])
    (np.float64(0.632121), array([0., 1.]))
    """
    t, s = np.broadcast_arrays(
        not_negative("gain", gain) / fading.path_gain,
        not_negative("csi_error_std", csi_error_std) / fading.path_gain,
    )
    mean, variance = components(fading)
    if mean.size == 1:
        return _rice(t, mean[0], variance[0] + s**2)
    if not csi_error_std:
        return np.searchsorted(mean, t, side="left") / mean.size
    below = [_rice(x, mean, variance + e**2).mean() for x, e in zip(t.flat, s.flat, strict=True)]
    return np.array(below).reshape(t.shape)


def quantile(fading: Fading, probability: float, *, csi_error_std: float = 0.0) -> Floats:
    """The largest t with Pr(h < t) ≤ probability: a number, or one for each device where path loss differs.

    Edge cases: none → 1. With a CSI error, of ĥ, as in `cdf`.

    >>> quantile(Fading("rayleigh"), 0.01).round(6)
    np.float64(0.100251)
    """
    p = float(checked("probability", probability, "must be > 0 and < 1", ok=lambda x: (x > 0) & (x < 1)))
    s = not_negative("csi_error_std", csi_error_std) / fading.path_gain
    mean, variance = components(fading)
    if mean.size == 1:
        return fading.path_gain * _rice_quantile(p, mean, variance + s**2).reshape(s.shape)
    if not csi_error_std:
        return fading.path_gain * mean[int(p * mean.size)]
    # A mixture has no closed inverse; halving the interval keeps its lower end on the allowed side.
    low, high = np.zeros_like(fading.path_gain), fading.path_gain * (mean[-1] + 10 * np.max(s))
    for _ in range(60):
        middle = (low + high) / 2
        allowed = cdf(fading, middle, csi_error_std=csi_error_std) <= p
        low, high = np.where(allowed, middle, low), np.where(allowed, high, middle)
    return low


def _rice(t: Floats, mean: Floats, total: Floats) -> Floats:
    """Pr(|μ + CN(0, V)| < t), elementwise."""
    from scipy.special import chndtr, ndtr

    v, nc, centre, std = _rice_parts(mean, total)
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.where(total > 0, ndtr((t - centre) / std), mean < t)
    return np.where(nc > _NEARLY_STEADY, far, chndtr(2 * t**2 / v, 2, np.where(nc > _NEARLY_STEADY, 0.0, nc)))


def _rice_quantile(p: float, mean: Floats, total: Floats) -> Floats:
    from scipy.special import chndtrix, ndtri

    v, nc, centre, std = _rice_parts(mean, total)
    # Where it is not used it is taken at 0, which is quick: without fading this would be most of a radio's time.
    near = np.sqrt(v / 2 * chndtrix(p, 2, np.where(nc > _NEARLY_STEADY, 0.0, nc)))
    return np.where(nc > _NEARLY_STEADY, centre + std * ndtri(p), near)


def _rice_parts(mean: Floats, total: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """V with 1 for 0; 2μ²/V with inf for V = 0; and the centre and spread of the law of R where that is large."""
    v = np.where(total > 0, total, 1.0)
    return v, np.where(total > 0, 2 * mean**2 / v, np.inf), np.sqrt(mean**2 + total / 2), np.sqrt(total / 2)
