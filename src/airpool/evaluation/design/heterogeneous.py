"""Four ways to serve devices of which some are sensitive (fig-hetero), each with as little noise as it needs.

uniform    w = 1/K, C_k = C. The noise is common, so the strictest target sets it.
weights    C_k = C, weights by design.weights (free normalisation: noise and weights chosen together).
clipping   w = 1/K, clip norms and noise by design.clipping.
without    sensitive devices send noise only, w = 0; the others share the weight. Not in the paper: a baseline that
           the other ways must exceed to justify using the sensitive features.
"""

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from airpool._support.arrays import Floats
from airpool.account.calibration import calibrate, with_column
from airpool.evaluation.design import clipping, weights
from airpool.network import Network

Way = Literal["uniform", "weights", "clipping", "without"]
WAYS: tuple[Way, ...] = get_args(Way)
Booleans = NDArray[np.bool_]


def designed(
    way: Way, network: Network, calibration: Floats, *, targets: Floats, sensitive: Booleans, live: bool = False
) -> Network:
    """The network of one way, which meets every target. calibration: latents of objects that are not classified.

    live: as in `guarantee`, with which the targets are met.
    """
    if way not in WAYS:
        raise ValueError(f"way={way!r} must be one of {', '.join(WAYS)}")
    sharing = ~sensitive if way == "without" else np.ones_like(sensitive)
    weight = np.where(sharing, 1 / max(int(np.sum(sharing)), 1), 0.0)
    uniform = calibrate(with_column(network, "weight", weight), epsilon=targets.tolist(), live=live)
    if way == "weights":
        return weights.design(uniform, calibration, normalise="free", live=live).network
    return clipping.design(uniform, calibration, live=live).network if way == "clipping" else uniform
