"""Imperfect channel knowledge: the device's estimate of its gain, and the resulting misalignment at the server.

    ĉ = h + e,  e ~ CN(0, s²)      ρ = (h/ĉ)·e^{jφ},  φ ~ N(0, s_φ²)

The device divides its signal by ĉ, so it arrives multiplied by ρ. With one real coordinate per use the server takes the
in-phase component, Re ρ; with two in a complex symbol, Im ρ mixes them. An adversary that observes both components
receives |ρ| in either case.
"""

from dataclasses import dataclass

from array_api_compat import array_namespace

from airpool._support.arrays import Array, not_negative, not_negative_array, require_shape


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
