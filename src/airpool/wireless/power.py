"""Power: how loud a device may send, and how much of it arrives. The four rules of spec §2.

A device that wants to arrive aligned sends x = (γ/h)·z̃, z̃ = w z + n, as long as ‖x‖² ≤ P lets it: h has to reach a
threshold t, and the alignment g = hα/(pγ) that results is

    truncate  g = 1 if h ≥ t else 0     t = γ√(w²C² + rσ²)(1+margin)/√P      silent when too weak (outage)
    backoff   g = min(1, h/t)           the same t                           sends anyway, at the limit
    paper     g = min(1, h/t)           t = γ√(w²C² + ‖n‖²)/√P               leaves out 2w zᵀn: ‖x‖² can exceed P
    exact     g = min(1, h/t)           t = γ‖w z + n‖/√P                    never exceeds P

Only the first two do not look at the noise or the feature. The paper's p cancels: α = p·(...), x = (α/p)·z̃.
Powers are in mW, and P bounds the sum over the r real channel uses of one inference.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self, get_args

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike

from airpool.arrays import Array, Floats, finite, like, not_negative, not_negative_array, positive, require_shape
from airpool.units import dbm_to_mw
from airpool.wireless.csi import Misalignment

PowerRule = Literal["truncate", "backoff", "paper", "exact"]

# How often a device at its power limit may exceed it, where no margin is given.
PEAK_EXCEEDANCE = 1e-3


@dataclass(frozen=True, eq=False)
class Transmitters:
    """What K devices send at most, and the power they have for it; made by `Transmitters.of`.

    feature_norm: w C, the largest weighted feature. power_max: P, in mW. margin: headroom on the amplitude.
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
        """One value stands for all devices; the number of devices is that of the longest argument.

        margin: left out, the one that keeps exceedances of the peak to PEAK_EXCEEDANCE (see `peak_margin`).

        >>> devices = Transmitters.of(weight=1/12, clip_norm=[1.0] * 12, noise_std=0.05, power_dbm=30.0, dimension=64)
        >>> devices.reach[0].round(3)
        np.float64(60.506)
        """
        if isinstance(dimension, bool) or not isinstance(dimension, int) or dimension < 1:
            raise ValueError(f"dimension={dimension!r} must be a whole number >= 1")
        given = {
            "weight": not_negative("weight", weight),
            "clip_norm": positive("clip_norm", clip_norm),
            "noise_std": not_negative("noise_std", noise_std),
            "power_dbm": finite("power_dbm", power_dbm),
        }
        count = max((x.size for x in given.values()), default=1)
        for name, x in given.items():
            if x.ndim > 1 or x.size not in (1, count):
                raise ValueError(f"{name} has shape {x.shape}, must be one number, or one for each of {count} devices")
        w, c, std, dbm = (np.broadcast_to(x, (count,)) for x in given.values())
        return cls(
            feature_norm=w * c,
            noise_std=std,
            power_max=np.array([dbm_to_mw(x) for x in dbm]),
            dimension=dimension,
            margin=peak_margin(dimension) if margin is None else float(not_negative("margin", margin)),
        )

    @property
    def num_devices(self) -> int:
        return self.noise_std.size

    @cached_property
    def amplitude(self) -> Floats:
        """√E‖z̃‖² = √(w²C² + rσ²) of a full feature."""
        return np.sqrt(self.feature_norm**2 + self.dimension * self.noise_std**2)

    @cached_property
    def reach(self) -> Floats:
        """The largest γ that each device's power allows at gain 1. Edge case: inf for one that sends nothing."""
        with np.errstate(divide="ignore"):
            return np.sqrt(self.power_max) / (self.amplitude * (1 + self.margin))


def peak_margin(dimension: int, exceedance: float = PEAK_EXCEEDANCE) -> float:
    """The headroom m with Pr(χ²_r > r(1+m)²) = exceedance: for noise alone, as much above its mean as it may be.

    Holds for: ‖x‖² > P with at most this probability, given that the device is exactly at its limit, whatever the
        ratio of feature to noise (the norm of pure noise varies most, relative to its mean); less often elsewhere.
    At r = 64 a margin of 0.1 would be exceeded 12 times in 100.

    >>> [round(peak_margin(r), 3) for r in (16, 64, 784, 25088)]
    [0.566, 0.279, 0.079, 0.014]
    """
    from scipy.special import chdtri

    return float(np.sqrt(chdtri(dimension, exceedance) / dimension)) - 1


@dataclass(frozen=True)
class Transmission:
    """What each device does in each inference; all of the shape of the gains, and 0 where it is silent.

    aim: the alignment that the device means to have; known: the gain that it knows of.
    alignment: g: what arrives at the server of z̃, relative to γ.
    magnitude: the same for an adversary that hears both components; above |alignment| if phases are off.
    """

    aim: Array
    known: Array
    gamma: float
    alignment: Array
    magnitude: Array

    @property
    def scale(self) -> Array:
        """α/p: the device sends x = scale·z̃ (divided by the phase of its estimate)."""
        xp = array_namespace(self.known)
        return self.gamma * self.aim / xp.where(self.known > 0, self.known, xp.ones_like(self.known))

    @classmethod
    def joined(cls, each: Sequence["Transmission"]) -> "Transmission":
        """Those of single devices side by side, along the last axis."""
        xp = array_namespace(each[0].aim)
        aim, known, alignment, magnitude = (
            xp.concat([getattr(one, name) for one in each], axis=-1)
            for name in ("aim", "known", "alignment", "magnitude")
        )
        return cls(aim, known, each[0].gamma, alignment, magnitude)

    def power(self, signal_norm: Array) -> Array:
        """‖x‖² in mW, from ‖z̃‖."""
        return (self.scale * signal_norm) ** 2


def transmit(
    transmitters: Transmitters,
    gain: Array,
    *,
    gamma: float,
    rule: PowerRule = "truncate",
    taking_part: Array | None = None,
    misalignment: Misalignment | None = None,
    noise_norm: Array | None = None,
    signal_norm: Array | None = None,
) -> Transmission:
    """Power and alignment of each device, from the gains of a batch of inferences, (batch, K) or (K,).

    taking_part: who does, of the gains' shape; everybody if left out (under cover noise, nobody is silent).
    misalignment: from csi.misalign; without it devices know their gains exactly.
    noise_norm, signal_norm: ‖n‖ for the rule `paper`, ‖w z + n‖ for `exact`, of the gains' shape.

    Holds: g ∈ {0, 1} under truncate and 0 ≤ g ≤ 1 under the others, as long as gains are known; then the alignment is
        exactly 1 where the power suffices.
    Edge cases: gain 0, or too faint to be inverted → silent, g = 0, under every rule.

    >>> devices = Transmitters.of(weight=0.5, clip_norm=1.0, noise_std=0.0, power_dbm=[0.0, 0.0], dimension=4, margin=0)
    >>> transmit(devices, np.array([[1.0, 0.25]]), gamma=1.0).alignment
    array([[1., 0.]])
    >>> transmit(devices, np.array([[1.0, 0.25]]), gamma=1.0, rule="backoff").alignment
    array([[1. , 0.5]])
    """
    xp = array_namespace(gain)
    not_negative_array("gain", gain)
    _match("gain", gain, transmitters)
    known = gain if misalignment is None else require_shape("misalignment", misalignment.estimate, gain.shape)
    norm = _norm(rule, gain.shape, noise_norm=noise_norm, signal_norm=signal_norm)
    t = threshold(transmitters, gamma=gamma, rule=rule, norm=norm)
    t = t if norm is not None else like(t, gain)
    # A gain so faint that its inverse overflows counts as none.
    sends = known > float(xp.finfo(gain.dtype).smallest_normal) ** 0.5
    if taking_part is not None:
        sends &= xp.astype(require_shape("taking_part", taking_part, gain.shape), xp.bool)
    if rule == "truncate":
        aim = xp.astype(sends & (known >= t), gain.dtype)
    else:
        nothing = xp.zeros_like(gain)
        weak = xp.where(known < t, known, nothing) / xp.where(t > 0, t, xp.ones_like(t))
        aim = xp.where(sends, xp.where(known >= t, xp.ones_like(gain), weak), nothing)
    return Transmission(
        aim=aim,
        known=known,
        gamma=gamma,
        alignment=aim if misalignment is None else aim * misalignment.in_phase,
        magnitude=aim if misalignment is None else aim * misalignment.magnitude,
    )


def threshold(
    transmitters: Transmitters, *, gamma: float, rule: PowerRule = "truncate", norm: Array | None = None
) -> Array:
    """t, the smallest gain at which a device can be aligned: (K,) for truncate and backoff, else of the norms' shape.

    Edge cases: 0 for a device that sends nothing.
    """
    gamma = float(positive("gamma", gamma))
    check_rule(rule)
    if rule in ("truncate", "backoff"):
        return gamma / transmitters.reach
    if norm is None:
        raise ValueError(f"norm=None must be given for rule={rule!r}: ‖n‖ for paper, ‖w z + n‖ for exact")
    not_negative_array("norm", norm)
    xp = array_namespace(norm)
    limit = like(np.sqrt(transmitters.power_max), norm)
    amplitude = xp.hypot(norm, like(transmitters.feature_norm, norm)) if rule == "paper" else norm
    # A hair more, so that rounding never takes an exact device above its limit.
    return gamma * amplitude * (1 + 16 * float(xp.finfo(norm.dtype).eps)) / limit


def check_rule(rule: str) -> None:
    if rule not in get_args(PowerRule):
        raise ValueError(f"rule={rule!r} must be one of {', '.join(get_args(PowerRule))}")


def _norm(rule: str, shape: tuple[int, ...], *, noise_norm: Array | None, signal_norm: Array | None) -> Array | None:
    """The norm that a rule looks at, if it looks at any."""
    wanted = {"paper": ("noise_norm", noise_norm), "exact": ("signal_norm", signal_norm)}.get(rule)
    if wanted is None:
        return None
    name, norm = wanted
    if norm is None:
        raise ValueError(f"{name}=None must be given for rule={rule!r}, of the gains' shape {tuple(shape)}")
    return require_shape(name, norm, tuple(shape))


def _match(name: str, array: Array, transmitters: Transmitters) -> Array:
    if array.ndim == 0 or array.shape[-1] != transmitters.num_devices:
        raise ValueError(f"{name} has shape {tuple(array.shape)}, must end with the {transmitters.num_devices} devices")
    return array
