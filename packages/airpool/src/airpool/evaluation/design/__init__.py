"""Weights and clip norms for devices with different privacy targets (docs/theory/design.md).

Computed from calibration data and public numbers only. Weights that depended on a feature at inference would leak it.

weights, qp      weights of least error, and the quadratic program behind them
clipping         clip norms and noise
"""

from collections.abc import Sequence
from typing import Literal

from numpy.typing import ArrayLike

from airpool.evaluation.design import clipping, weights
from airpool.evaluation.design.qp import Normalise
from airpool.evaluation.design.weights import Design
from airpool.network import Claim, Network


def design(
    network: Network,
    latents: ArrayLike,
    claim: Claim | None = None,
    *,
    knob: Literal["weight", "clip"] = "weight",
    epsilon: float | Sequence[float] | None = None,
    target: ArrayLike | None = None,
    decoder: ArrayLike | None = None,
    normalise: Normalise | None = None,
) -> Design:
    """The weights, or with knob="clip" the clip norms and noise, of least error that meet every device's target ε.

    latents: of calibration objects, (n, K, r). claim: what the targets are about; left out, `Claim()`. knob: "weight"
    or "clip". epsilon: one target or one each; left out, the network's own. normalise: of weights alone: "sum", they
    add up to 1 (default); "free", only their ratios matter, for a server that scales the estimate by its public level.
    target: t (n, d), the estimate that is wished for; left out, the decoded mean of the latents. decoder: D (d, r),
    applied to the estimate before its error is taken; left out, the identity.

    >>> import numpy as np
    >>> from airpool import Network
    >>> net = Network.uniform(num_devices=4, dimension=3, noise_std=0.3)
    >>> made = design(net, np.random.default_rng(0).normal(size=(50, 4, 3)), epsilon=[0.5, 2, 2, 2], normalise="free")
    >>> bool(made.network.devices.weight[0] < made.network.devices.weight[1]), bool(made.epsilon[0] <= 0.5)
    (True, True)
    """
    claim = claim or Claim()
    if knob not in ("weight", "clip"):
        raise ValueError(f"knob={knob!r} must be weight or clip")
    if knob == "weight":
        how = normalise or "sum"
        return weights.design(network, latents, claim, epsilon=epsilon, target=target, decoder=decoder, normalise=how)
    if normalise is not None:
        raise TypeError(f"normalise={normalise!r} is of weights alone: leave it out with knob='clip'")
    return clipping.design(network, latents, claim, epsilon=epsilon, target=target, decoder=decoder)
