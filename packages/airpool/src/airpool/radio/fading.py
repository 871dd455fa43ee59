"""Fading of the links: gains h = a·c, drawn independently for every inference (block fading).

    a = 10^(−path_loss_db/20);   c ≥ 0 of mean power 1 by the law that `channel.fading` names (laws.py)

The law of Sionna's models (sionna_models.py) and of a beam (beam.py) is that of a large reference sample. Derivations:
docs/proofs/wireless.md.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike

from airpool._support.arrays import Array, Floats, checked, finite, like, not_negative, positive
from airpool._support.draws import Generator, by_quantile, ones, standard_normal
from airpool._support.rules import NetworkError
from airpool.network.fading import RICE, FadingLaw, law_named, origin_of
from airpool.radio import beam
from airpool.radio.laws import Checked, Rice, mixture, rayleigh, require_law, rice_cdf, rician, steady

# Where a plug-in's law is asked again whether it is still the same.
_GAINS, _PROBABILITIES = np.geomspace(1e-3, 4.0, 32), np.array([1e-6, 1e-3, 0.01, 0.1, 0.5, 0.9, 0.999])


@dataclass(frozen=True)
class Fading:
    """The distribution of the gains h ≥ 0, with E[h²] = 10^(−path_loss_db/10).

    model: a law by its name, with its settings if it has any (`network.fading`).
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
        finite("k_factor_db", self.k_factor_db)
        law = self.law  # an error where there is no such law
        if self.antennas > 1 and not (isinstance(law, Rice) and law.variance):
            raise ValueError(f"antennas={self.antennas} needs fading rician or rayleigh, not {self.model!r}")
        if finite("path_loss_db", self.path_loss_db).ndim > 1:
            raise ValueError(f"path_loss_db={self.path_loss_db} must be one number or one per device")

    @property
    def law(self) -> FadingLaw:
        """The law of c, at one antenna."""
        return _law(self.model, self.k_factor_db)[0]

    @property
    def checked(self) -> Checked | None:
        """How far a plug-in's law was checked; None for airpool's own."""
        return _law(self.model, self.k_factor_db)[1]

    @property
    def path_gain(self) -> Floats:
        """a = √E[h²]: a scalar, or (K,)."""
        return np.asarray(10.0 ** (-np.asarray(self.path_loss_db, dtype=np.float64) / 20))

    def path_gains(self, count: int) -> Floats:
        """a_k of each of `count` devices, (count,)."""
        if self.path_gain.size not in (1, count):
            given = f"path_loss_db has {self.path_gain.size} values"
            raise ValueError(f"{given} for {count} devices; give one number or {count}")
        return np.broadcast_to(self.path_gain, (count,))


@lru_cache(maxsize=256)
def _law(model: str, k_factor_db: float) -> tuple[FadingLaw, Checked | None, bytes]:
    if model in RICE:
        return rician(k_factor_db) if model == "rician" else {"none": steady, "rayleigh": rayleigh}[model](), None, b""
    law = law_named(model)
    if origin_of(model) is None:
        return law, None, b""
    return law, require_law(model, law), _answers(law)


def _answers(law: FadingLaw) -> bytes:
    """The answers of a plug-in's law at a few gains and probabilities, to the last bit."""
    found = law.cdf(_GAINS.copy()), law.quantile(_PROBABILITIES.copy())
    return np.concatenate([np.asarray(each, dtype=np.float64) for each in found]).tobytes()


def require_unchanged(fading: Fading) -> None:
    """Raises NetworkError where a plug-in's law answers otherwise than when it was checked (a clock, a weather feed).

    Report, ledger and simulator make links of their own of networks that differ in other settings.
    """
    law, checked, before = _law(fading.model, fading.k_factor_db)
    if checked is not None and _answers(law) != before:
        raise NetworkError(
            f"fading {fading.model!r}: its cdf or quantile gives other values now than when it was checked. It must be "
            "a function of its arguments and settings alone (no clock, weather or random number)"
        )


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
    law = fading.law
    if fading.antennas > 1:
        if shape[-1:] != (fading.devices,):
            raise ValueError(f"shape={shape} must end with the {fading.devices} devices of the beam")
        h = beam.channels(*path(fading), shape, fading.antennas, rng, dtype=dtype)
        gain = beam.received(beam.beam(h), h, modulus=True)
    elif not isinstance(law, Rice):
        sample = getattr(law, "sample", None)
        gain = sample(shape, rng, dtype=dtype) if sample else by_quantile(rng, shape, law.quantile, dtype=dtype)
    elif law.variance == 0:
        gain = ones(rng, shape, dtype=dtype) * law.mean
    else:
        normals = standard_normal(rng, (2, *shape), dtype=dtype)
        scattered = normals * float(law.variance / 2) ** 0.5
        gain = array_namespace(normals).hypot(scattered[0, ...] + law.mean, scattered[1, ...])
    a = fading.path_gain
    if a.ndim and shape[-1:] != a.shape:
        raise ValueError(f"shape={shape} must end with the {a.size} devices of path_loss_db")
    return gain if np.all(a == 1) else gain * like(a, gain)


def components(fading: Fading) -> tuple[Floats, Floats]:
    """μ and v of c as an equally weighted mixture, of length 1 for Rice's laws.

    For all others and for beams, sorted values as μ, and v = 0.
    """
    if fading.antennas > 1:
        sample = beam.reference(*path(fading), fading.antennas, fading.devices)
    elif isinstance(fading.law, Rice):
        return np.array([fading.law.mean]), np.array([fading.law.variance])
    else:
        sample = mixture(fading.law)
    return sample, np.zeros_like(sample)


def path(fading: Fading) -> tuple[float, float]:
    """μ and v at one antenna, for Rice's laws."""
    if not isinstance(fading.law, Rice):
        raise ValueError(f"fading={fading.model!r} has no scattered part in closed form; rician and rayleigh have")
    return fading.law.mean, fading.law.variance


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
    if not csi_error_std and fading.antennas == 1 and not isinstance(fading.law, Rice):
        return a * fading.law.quantile(np.asarray(p))
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
    t, s = np.broadcast_arrays(t, s)
    if not np.any(s) and fading.antennas == 1 and not isinstance(fading.law, Rice):
        return np.asarray(fading.law.cdf(t))
    mean, variance = components(fading)
    if mean.size == 1:
        return rice_cdf(t, mean[0], variance[0] + s**2)
    if not np.any(s):
        return np.searchsorted(mean, t, side="left") / mean.size
    below = [rice_cdf(np.asarray(x), mean, variance + e**2).mean() for x, e in zip(t.flat, s.flat, strict=True)]
    return np.array(below).reshape(t.shape)
