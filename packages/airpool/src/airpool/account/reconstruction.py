"""Closeness of a reconstruction: the least mean squared error with which a feature can be estimated from the signals.

Odds say how often a guess is right; this says how far the best estimate of the whole feature is off. A signal that
shows r coordinates at distance μ shows each of them at μ/√r: at ε = 1 next to nothing of 64 (theory/guarantee.md §11).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from airpool._support.arrays import Floats, checked
from airpool.account.views import Question
from airpool.network import Claim, Neighbours, Network, require_claim, require_network
from airpool.privacy import odds
from airpool.privacy.aggregate import ratio

# Fisher information of a coordinate, times its variance, of a prior: Gaussian, and cos² on an interval.
GAUSSIAN, COSINE = 1.0, float(np.pi**2 / 3 - 2)


@dataclass(frozen=True)
class Reconstruction:
    """Least mean squared error of any estimate of z, as a share of its variance under the prior: 1 is a blind guess.

    device: per device, from the sum, everything else known. local: from its own signal.
    information, share: of the prior, as given.
    """

    device: Floats
    local: Floats
    information: float
    share: float

    def to_json(self) -> dict[str, Any]:
        return {
            "device": self.device.tolist(),
            "local": self.local.tolist(),
            "information": self.information,
            "share": self.share,
        }


def reconstruction(
    network: Network, claim: Claim = Claim(), *, information: float = GAUSSIAN, share: float = 1.0
) -> Reconstruction:
    """The error of the best estimate of each device's feature, over all inferences of the claim; rounded down.

        MSE/variance ≥ E[1/(i + s·μ²/r)],    μ = √T·w C/√v given who takes part and gains; 1 in silence

    information: i, the Fisher information of a coordinate under the prior times its variance, at least 1.
    share: s, the mean of ‖z‖² under the prior over C². Coordinates have one variance.
    Live: what the grid of the noise may show beyond the law is given up in full.
    Holds for: Scheme 1 (van Trees; clipping only takes information away). For a Gaussian prior, i = 1, and features
    that are never clipped it is attained, by the posterior mean.
    Edge cases: no noise → 0; scores say more about a feature than its signal: an error.

    >>> net = Network.uniform(num_devices=12, noise_std=0.08975, dimension=64)
    >>> found = reconstruction(net)
    >>> round(float(found.device[0]), 4), round(float(found.local[0]), 4)
    (0.9989, 0.9867)
    """
    require_network(network)
    require_claim(claim)
    if not network.scheme.independent:
        raise ValueError(f"scheme {network.scheme.name} also shows scores: no least error is known for it")
    checked("information", information, allowed="must be >= 1", ok=lambda x: x >= 1)
    checked("share", share, allowed="must be > 0 and finite", ok=lambda x: (x > 0) & np.isfinite(x))
    claim = replace(claim, neighbours=Neighbours.ZERO_OUT, credit_channel_noise=False)
    situation = Question(network, claim).situation
    received, uses = situation.here, situation.uses

    def gained(mu: Floats) -> Floats:
        """Share of the variance that is known; it rises with μ."""
        with np.errstate(over="ignore"):
            known = 1 - 1 / (information + share * mu**2 / network.dimension)
        return np.where(mu > 0, known, 0.0)  # of silence: the prior's own variance

    local = ratio(received.shift, np.sqrt(received.variance)) * np.sqrt(uses)
    alone = gained(local) + uses * situation.without_others.misses
    # The mean over draws of coins and channel, rounded up; all where one draw serves a stream.
    mean = 1.0 if situation.static else odds.means_of(situation.once, [gained], uses)[0]
    found = mean + uses * received.misses
    return Reconstruction(np.maximum(1 - np.minimum(found, alone), 0.0), np.maximum(1 - alone, 0.0), information, share)
