"""Imperfect knowledge of the channel: what a device believes, and how far off it then arrives.

The link's coefficient is c; turned by its phase, c = h. The device estimates ĉ = h + e, e ~ CN(0, s²), and sends its
signal divided by ĉ, so that h/ĉ arrives instead of 1; a clock that has drifted turns it by e^{jφ}, φ ~ N(0, s_φ²):

    ρ = (h/ĉ)·e^{jφ}

The server takes the in-phase part, Re ρ. The rest of |ρ| lies in quadrature, where the server does not look but an
adversary with both components does.

Holds for: one real coordinate in each channel use. With two in one complex symbol, the quadrature part of each would
disturb the other (channel.py can superpose such symbols with complex gains).
"""

from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace

from airpool.arrays import Array, not_negative, not_negative_array, require_shape


@dataclass(frozen=True)
class Misalignment:
    """What estimation and clocks do to each link; all of the shape of the gains.

    estimate: ĥ = |ĉ|, by which the device sets its power.
    in_phase: Re ρ, the server's share: 1 if all is well; above 1 if the link was taken for weaker than it is.
    magnitude: |ρ| ≥ |Re ρ|, the share of an adversary that hears both components.
    """

    estimate: Array
    in_phase: Array
    magnitude: Array

    def only(self, index: Any) -> "Misalignment":
        """That of some of the links, by an index into the gains."""
        return Misalignment(self.estimate[index], self.in_phase[index], self.magnitude[index])


def misalign(gain: Array, normals: Array, *, csi_error_std: float = 0.0, phase_error_std: float = 0.0) -> Misalignment:
    """ĥ, Re ρ and |ρ| from the gains and three standard normal numbers for each of them.

    csi_error_std: √E|e|², of the complex error (each of its two components has 1/√2 of it), in the unit of the gains.
    phase_error_std: in radians.

    Edge cases: both 0 → (h, 1, 1) exactly; h = 0 → ρ = 0; ĉ = 0 → 0, 0, 0: the device hears nothing and is silent.

    >>> import numpy as np
    >>> misalign(np.array([0.5]), np.zeros((3, 1)), csi_error_std=0.1).in_phase
    array([1.])
    """
    s, s_phase = float(not_negative("csi_error_std", csi_error_std)), not_negative("phase_error_std", phase_error_std)
    not_negative_array("gain", gain)
    require_shape("normals", normals, (3, *gain.shape))
    xp = array_namespace(gain, normals)
    a = gain + (s / 2**0.5) * normals[0, ...]
    b = (s / 2**0.5) * normals[1, ...]
    phase = float(s_phase) * normals[2, ...]
    estimate = xp.hypot(a, b)
    heard = xp.where(estimate > 0, estimate, xp.ones_like(estimate))
    magnitude = xp.where(estimate > 0, gain / heard, xp.zeros_like(gain))
    return Misalignment(
        estimate=estimate,
        in_phase=magnitude * (a / heard * xp.cos(phase) + b / heard * xp.sin(phase)),
        magnitude=magnitude,
    )
