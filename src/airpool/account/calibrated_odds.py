"""A network that meets target odds: the least noise at which a guess is right no more often than that."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from airpool._support.arrays import Floats
from airpool._support.threads import single_thread
from airpool.account.calibration import least_noise
from airpool.account.guesses import percent
from airpool.account.odds import device_odds, zeroed
from airpool.account.received import aggregate
from airpool.network import Network, require_network
from airpool.privacy.calibrate import UnreachableError
from airpool.privacy.odds import priors


def calibrate_odds(
    network: Network,
    *,
    odds: float,
    prior: float = 0.5,
    colluding: Sequence[int] = (),
    credit_channel_noise: bool = False,
    live: bool = False,
) -> Network:
    """The network with the least noise at which the odds of its worst device are at most `odds`; one factor for all.

    prior: as in `airpool.odds`; odds: above it. Over all inferences and slots of the network together.
    colluding, credit_channel_noise, live: as in `guarantee`.
    Edge cases: out of reach, or odds that are not above the prior → an error that says what can be reached.

    >>> from airpool import odds
    >>> net = calibrate_odds(Network.uniform(num_devices=12), odds=0.55)
    >>> round(net.devices.noise_std[0], 4), bool(0.5499 < odds(net).worst <= 0.55)
    (0.1914, True)
    """
    require_network(network)
    kappa = priors(prior)
    if np.ndim(prior) or not prior < odds < 1:
        raise ValueError(f"odds={odds} must be > prior={prior} and < 1: no noise makes a guess worse than its prior")
    how: Any = {"colluding": colluding, "credit_channel_noise": credit_channel_noise, "live": live}

    def gained(candidate: Network, *, rough: bool = False) -> Floats:
        """The worst guess's gain over the prior, as a share of what it may be."""
        plain = zeroed(candidate)
        found = device_odds(plain, aggregate(plain, **how, rough=rough), kappa)[0]
        return (found - prior) / (odds - prior)

    try:
        with single_thread():
            profile, one = np.array(network.devices.noise_std), np.ones(network.devices.count)
            return least_noise(network, profile, one, gained, live=live)
    except UnreachableError as error:
        least = prior + error.smallest * (odds - prior)
        asked = f"odds of {percent(odds)} at a prior of {percent(prior)}"
        raise ValueError(f"{asked} cannot be met by adding noise: the least that can is {percent(least)}") from None
