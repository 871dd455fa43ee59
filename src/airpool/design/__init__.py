"""Weights and clip norms for devices with different privacy targets (spec §6).

Computed from calibration data and public numbers only. Weights that depended on a feature at inference would leak it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from airpool.design.clipping import ClipDesign
    from airpool.design.weights import WeightDesign
    from airpool.network import Network


def design(
    network: "Network",
    latents: "ArrayLike",
    *,
    knob: Literal["weight", "clip"] = "weight",
    epsilon: float | Sequence[float] | None = None,
    **options: Any,
) -> "WeightDesign | ClipDesign":
    """The weights, or the clip norms and noise, of least error that meet every device's target ε.

    latents: of calibration objects, (n, K, r). epsilon: one target or one each; left out, the network's own.
    options: further arguments of `weights.design` or `clipping.design`.
    """
    if knob not in ("weight", "clip"):
        raise ValueError(f"knob={knob!r} must be weight or clip")
    if knob == "weight":
        from airpool.design.weights import design as designed
    else:
        from airpool.design.clipping import design as designed
    return designed(network, latents, epsilon=epsilon, **options)
