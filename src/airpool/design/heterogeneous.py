"""Half of the devices sensitive: what uniform, optimised weights and refined clip norms are worth (fig-hetero).

The paper's experiment, made precise. Some devices ask for a strict ε, the others for a loose one, and each way below
meets *every* device's own target, exactly, with as little noise as it can:

    uniform    w = 1/K, C_k = C. Everybody's noise protects everybody, so the strictest target sets one noise for all.
    weights    C_k = C, weights by design.weights (free normalisation: noise and weights chosen together).
    clipping   w = 1/K, clip norms and noise by design.clipping.
    without    the sensitive devices add their noise and nothing else, w = 0; the others share the weight. Not in the
               paper: what the other ways must beat to be worth their leakage.

Weights, clip norms and noise come from calibration objects. The objects that are classified decide nothing.
"""

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from airpool.account.calibration import calibrate, with_column
from airpool.arrays import Floats
from airpool.design import clipping, weights
from airpool.network import Network

Way = Literal["uniform", "weights", "clipping", "without"]
WAYS: tuple[Way, ...] = get_args(Way)
Booleans = NDArray[np.bool_]


def designed(way: Way, network: Network, calibration: Floats, *, targets: Floats, sensitive: Booleans) -> Network:
    """The network of one way: it meets every target."""
    wanted = targets.tolist()
    if way == "without":
        weight = np.where(sensitive, 0.0, 1 / max(int(np.sum(~sensitive)), 1))
        return calibrate(with_column(network, "weight", weight), epsilon=wanted)
    equal = with_column(network, "weight", np.full(network.devices.count, 1 / network.devices.count))
    uniform = calibrate(equal, epsilon=wanted)
    if way == "uniform":
        return uniform
    if way == "weights":
        return weights.design(uniform, calibration, normalise="free").network
    if way == "clipping":
        return clipping.design(uniform, calibration).network
    raise ValueError(f"way={way!r} must be one of {', '.join(WAYS)}")
