"""Weights and clip norms for devices with different privacy targets (docs/theory/design.md).

Computed from calibration data and public numbers only. Weights that depended on a feature at inference would leak it.

weights, qp      weights of least error, and the quadratic program behind them
clipping         clip norms and noise
heterogeneous    four ways to serve devices of which some are sensitive
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from airpool.evaluation.design.qp import Normalise
    from airpool.evaluation.design.weights import Design
    from airpool.network import Network

_MODULES = {"weight": "weights", "clip": "clipping"}


class DesignOptions(TypedDict, total=False):
    """Arguments that `weights.design` and `clipping.design` share."""

    epsilon: "float | Sequence[float] | None"
    target: "ArrayLike | None"
    decoder: "ArrayLike | None"
    colluding: "Sequence[int]"
    live: bool


@overload
def design(
    network: "Network",
    latents: "ArrayLike",
    *,
    knob: Literal["weight"] = ...,
    normalise: "Normalise" = ...,
    **options: Unpack[DesignOptions],
) -> "Design": ...
@overload
def design(
    network: "Network", latents: "ArrayLike", *, knob: Literal["clip"], **options: Unpack[DesignOptions]
) -> "Design": ...
def design(
    network: "Network", latents: "ArrayLike", *, knob: Literal["weight", "clip"] = "weight", **options: Any
) -> "Design":
    """The weights, or with knob="clip" the clip norms and noise, of least error that meet every device's target ε.

    latents: of calibration objects, (n, K, r). knob: "weight" or "clip". epsilon: one target or one each; left out, the
    network's own. normalise: of weights alone: "sum", they add up to 1 (default); "free", only their ratios matter, for
    a server that scales the estimate by its public level. target: t (n, d), the estimate that is wished for; left out,
    the decoded mean of the latents. decoder: D (d, r), applied to the estimate before its error is taken; left out, the
    identity. colluding: devices that are taken to collude, by index. live: meet the targets with live noise, as in
    `guarantee`.

    >>> import numpy as np
    >>> from airpool import Network
    >>> net = Network.uniform(num_devices=4, dimension=3, noise_std=0.3)
    >>> made = design(net, np.random.default_rng(0).normal(size=(50, 4, 3)), epsilon=[0.5, 2, 2, 2], normalise="free")
    >>> bool(made.network.devices.weight[0] < made.network.devices.weight[1]), bool(made.epsilon[0] <= 0.5)
    (True, True)
    """
    if knob not in _MODULES:
        raise ValueError(f"knob={knob!r} must be weight or clip")
    return import_module(f"airpool.evaluation.design.{_MODULES[knob]}").design(network, latents, **options)
