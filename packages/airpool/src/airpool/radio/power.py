"""Power control: how a device scales its signal, and how much of it arrives. The three rules of docs/theory/air.md §3.

To arrive aligned, a device transmits x = (γ/h)·z̃, z̃ = w z + n, which needs ‖x‖² ≤ P: the gain h has to reach a
threshold t. The resulting alignment is g = hα/(pγ):

    truncate  g = 1 if h ≥ t else 0     t = γ√(w²C² + rσ²)(1+margin)/√P      silent below t (outage)
    backoff   g = min(1, h/t)           the same t                           transmits at the limit below t
    paper     g = min(1, h/t)           t = γ√(w²C² + ‖n‖²)/√P               omits 2w zᵀn: ‖x‖² can exceed P

Truncate and backoff depend on neither the noise nor the feature. The paper's p cancels: α = p·(...), x = (α/p)·z̃.
Powers are in mW. P limits the sum over the r real channel uses of one inference.

A device knows its gain only as ĉ = h + e, e ~ CN(0, s²), and divides by it, so that its signal arrives multiplied by
ρ = (h/ĉ)·e^{jφ}, φ ~ N(0, s_φ²). With one real coordinate per use the server takes Re ρ; with two in a complex symbol,
Im ρ mixes them. An adversary that observes both components receives |ρ| in either case.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self, get_args

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike

from airpool._support.arrays import (
    Array,
    Floats,
    finite,
    like,
    not_negative,
    not_negative_array,
    positive,
    require_shape,
)
from airpool.network import PowerRule


@dataclass(frozen=True)
class Misalignment:
    """Effect of the errors on each link, all of the shape of the gains: ĥ = |ĉ|, Re ρ, Im ρ and |ρ|."""

    estimate: Array
    in_phase: Array
    quadrature: Array
    magnitude: Array


def misalign(gain: Array, normals: Array, *, csi_error_std: float = 0.0, phase_error_std: float = 0.0) -> Misalignment:
    """ĥ, ρ and |ρ| from gains and three standard normal numbers each, (3, *gain.shape).

    csi_error_std: √E|e|² of the complex error, in the unit of the gains. phase_error_std: in radians.
    Edge cases: both 0 → ĥ = h and ρ = 1 exactly; h = 0 → ρ = 0; ĉ = 0 → ρ = 0, and the device is silent.
    """
    s, s_phase = float(not_negative("csi_error_std", csi_error_std)), not_negative("phase_error_std", phase_error_std)
    not_negative_array("gain", gain)
    require_shape("normals", normals, (3, *gain.shape))
    xp = array_namespace(gain, normals)
    a = gain + (s / 2**0.5) * normals[0, ...]
    b = (s / 2**0.5) * normals[1, ...]
    phase = float(s_phase) * normals[2, ...]
    estimate = xp.hypot(a, b)
    divisor = xp.where(estimate > 0, estimate, xp.ones_like(estimate))
    magnitude = xp.where(estimate > 0, gain / divisor, xp.zeros_like(gain))
    a, b, cos, sin = a / divisor, b / divisor, xp.cos(phase), xp.sin(phase)
    return Misalignment(estimate, magnitude * (a * cos + b * sin), magnitude * (a * sin - b * cos), magnitude)


# Probability that a device at its power limit exceeds it, where no margin is given.
PEAK_EXCEEDANCE = 1e-3


@dataclass(frozen=True, eq=False)
class Transmitters:
    """Signal sizes and power limits of K devices; made by `Transmitters.of`.

    feature_norm: w C. power_max: P, in mW. margin: headroom on the amplitude.
    """

    feature_norm: Floats
    noise_std: Floats
    power_max: Floats
    dimension: int
    margin: float

    @classmethod
    def of(
        cls,
        *,
        weight: ArrayLike,
        clip_norm: ArrayLike,
        noise_std: ArrayLike,
        power_dbm: ArrayLike,
        dimension: int,
        margin: float | None = None,
    ) -> Self:
        """A single value stands for all devices. margin: by default `peak_margin(dimension)`."""
        if isinstance(dimension, bool) or not isinstance(dimension, int) or dimension < 1:
            raise ValueError(f"dimension={dimension!r} must be a whole number >= 1")
        given = {
            "weight": not_negative("weight", weight),
            "clip_norm": positive("clip_norm", clip_norm),
            "noise_std": not_negative("noise_std", noise_std),
            "power_dbm": finite("power_dbm", power_dbm),
        }
        count = max(x.size for x in given.values())
        for name, x in given.items():
            if x.ndim > 1 or x.size not in (1, count):
                raise ValueError(f"{name} has shape {x.shape}, must be one number, or one for each of {count} devices")
        w, c, std, dbm = (np.broadcast_to(x, (count,)) for x in given.values())
        power_max = np.array([10.0 ** (x / 10) for x in dbm.tolist()])  # 30 dBm is 1000 mW
        headroom = peak_margin(dimension) if margin is None else float(not_negative("margin", margin))
        return cls(w * c, std, power_max, dimension, headroom)

    @property
    def num_devices(self) -> int:
        return self.noise_std.size

    def alone(self, device: int) -> Self:
        """One of the devices by itself."""
        one = slice(device, device + 1)
        limits = {name: getattr(self, name)[one] for name in ("feature_norm", "noise_std", "power_max")}
        return replace(self, **limits)

    @cached_property
    def amplitude(self) -> Floats:
        """√E‖z̃‖² = √(w²C² + rσ²) of a feature of norm C."""
        return np.sqrt(self.feature_norm**2 + self.dimension * self.noise_std**2)

    @cached_property
    def reach(self) -> Floats:
        """The largest γ that each device's power allows at gain 1; inf for a device that sends nothing."""
        with np.errstate(divide="ignore"):
            return np.sqrt(self.power_max) / (self.amplitude * (1 + self.margin))


def peak_margin(dimension: int, exceedance: float = PEAK_EXCEEDANCE) -> float:
    """The headroom m with Pr(χ²_r > r(1+m)²) = exceedance: a device at its limit exceeds P no more often than that.

    Pure noise is the worst case: docs/proofs/wireless.md.
    """
    from airpool._support.special import chdtri

    return float(np.sqrt(chdtri(dimension, exceedance) / dimension)) - 1


@dataclass(frozen=True)
class Transmission:
    """Power control of each device in each inference; all of the shape of the gains, and 0 where silent.

    aim: the alignment that the device intends. known: its estimate of the gain. alignment, quadrature: g = aim·Re ρ at
    the server, and aim·Im ρ, which an adversary with both components receives as well; None where phases are known.
    """

    aim: Array
    known: Array
    gamma: float
    alignment: Array
    quadrature: Array | None = None

    @property
    def scale(self) -> Array:
        """α/p: the device transmits x = scale·z̃ (divided by the phase of its estimate)."""
        xp = array_namespace(self.known)
        return self.gamma * self.aim / xp.where(self.known > 0, self.known, xp.ones_like(self.known))


def transmit(
    transmitters: Transmitters,
    gain: Array,
    *,
    gamma: float,
    rule: PowerRule = "truncate",
    taking_part: Array | None = None,
    misalignment: Misalignment | None = None,
    noise_norm: Array | None = None,
) -> Transmission:
    """Power control for gains (batch, K) or (K,).

    taking_part: mask of the gains' shape; by default all devices, as under cover noise.
    misalignment: from csi.misalign; by default devices know their gains exactly.
    noise_norm: ‖n‖ for the rule `paper`, of the gains' shape.
    Edge cases: a gain of 0, or too small to invert → silent, g = 0, under every rule.

    >>> devices = Transmitters.of(weight=0.5, clip_norm=1.0, noise_std=0.0, power_dbm=[0.0, 0.0], dimension=4, margin=0)
    >>> transmit(devices, np.array([[1.0, 0.25]]), gamma=1.0, rule="backoff").alignment
    array([[1. , 0.5]])
    """
    xp = array_namespace(gain)
    not_negative_array("gain", gain)
    if gain.ndim == 0 or gain.shape[-1] != transmitters.num_devices:
        raise ValueError(f"gain has shape {tuple(gain.shape)}, must end with the {transmitters.num_devices} devices")
    known = gain if misalignment is None else require_shape("misalignment", misalignment.estimate, gain.shape)
    norm = noise_norm if rule == "paper" else None
    if norm is not None:
        require_shape("noise_norm", norm, tuple(gain.shape))
    if rule == "truncate":
        sends = reached(transmitters, known, gamma=gamma)
        aim = xp.astype(sends if taking_part is None else sends & _mask(taking_part, gain), gain.dtype)
    else:
        t = threshold(transmitters, gamma=gamma, rule=rule, norm=norm)
        t = like(t, gain) if norm is None else t
        limited = xp.minimum(known, t) / xp.where(t > 0, t, xp.ones_like(t))
        sends = known >= smallest_gain(gain)
        if taking_part is not None:
            sends &= _mask(taking_part, gain)
        aim = xp.where(sends, xp.where(known >= t, xp.ones_like(gain), limited), xp.zeros_like(gain))
    if misalignment is None:
        return Transmission(aim, known, gamma, aim)
    return Transmission(aim, known, gamma, aim * misalignment.in_phase, aim * misalignment.quadrature)


def reached(transmitters: Transmitters, known: Array, *, gamma: float) -> Array:
    """Whether each device can be aligned at its gain, (..., K): what `truncate` goes by."""
    least = np.maximum(threshold(transmitters, gamma=gamma), smallest_gain(known))
    return known >= (float(least[0]) if np.all(least == least[0]) else like(least, known))


def smallest_gain(gain: Array) -> float:
    """The smallest gain that can be inverted in this precision; what is below counts as 0."""
    kind = array_namespace(gain).finfo(gain.dtype)
    return float(kind.smallest_normal) ** 0.5 * (1 + 2 * float(kind.eps))


def _mask(taking_part: Array, gain: Array) -> Array:
    xp = array_namespace(gain)
    return xp.astype(require_shape("taking_part", taking_part, gain.shape), xp.bool)


def threshold(
    transmitters: Transmitters, *, gamma: float, rule: PowerRule = "truncate", norm: Array | None = None
) -> Array:
    """t, the smallest gain at which a device can be aligned: (K,), or of the norms' shape; 0 if it sends nothing.

    norm: ‖n‖, for paper.
    """
    gamma = float(positive("gamma", gamma))
    if rule not in get_args(PowerRule):
        raise ValueError(f"rule={rule!r} must be one of {', '.join(get_args(PowerRule))}")
    if rule in ("truncate", "backoff"):
        return gamma / transmitters.reach
    if norm is None:
        raise ValueError(f"noise_norm=None must be given for rule={rule!r}, of the gains' shape")
    not_negative_array("norm", norm)
    xp = array_namespace(norm)
    limit = like(np.sqrt(transmitters.power_max), norm)
    return gamma * xp.hypot(norm, like(transmitters.feature_norm, norm)) / limit
