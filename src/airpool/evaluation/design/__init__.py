"""Weights and clip norms for devices with different privacy targets (docs/design.md).

Computed from calibration data and public numbers only. Weights that depended on a feature at inference would leak it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from airpool.evaluation.design.weights import Design
    from airpool.network import Network

_MODULES = {"weight": "weights", "clip": "clipping"}


def design(
    network: "Network", latents: "ArrayLike", *, knob: Literal["weight", "clip"] = "weight", **options: Any
) -> "Design":
    """The weights, or the clip norms and noise, of least error that meet every device's target ε.

    latents: of calibration objects, (n, K, r). options: arguments of `weights.design` or `clipping.design`, such as
    epsilon, one target or one each; left out, the network's own.
    """
    if knob not in _MODULES:
        raise ValueError(f"knob={knob!r} must be weight or clip")
    return import_module(f"airpool.evaluation.design.{_MODULES[knob]}").design(network, latents, **options)
