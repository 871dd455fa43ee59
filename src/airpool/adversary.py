"""What an adversary hears of a network on the real transmission path, so that the path itself can be audited.

The game is played by privacy.audit, on airpool.air device by device, with fading, power and everything; the score is
the likelihood ratio of privacy.release, the reference that knows nothing of radio.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .air import receive
from .network import Network
from .privacy.arrays import Floats
from .privacy.release import Received, Release, release
from .radio import Radio, radio


def mechanism(network: Network) -> Callable[[Floats, int, np.random.Generator], Received]:
    """`runs` inferences on the same features (K, r), as the adversary hears them: a mechanism for privacy.audit.

    It sees the sum, and who is in it except under cover noise. The receiver's noise is left out: the promise does not
    count it either, since whoever listens may have a better receiver.

    >>> from airpool.network import Network
    >>> net = Network.uniform(num_devices=3, noise_std=0.1, dimension=4, participation=0.5)
    >>> seen = mechanism(net)(np.zeros((3, 4)), 5, np.random.default_rng(0))
    >>> seen.total.shape, seen.participation.sum(axis=1)
    ((5, 4), array([1, 2, 1, 2, 2]))
    """
    link = _aligned_radio(network)
    heard = replace(network, channel=replace(network.channel, noise_std=0.0))

    def run(features: Floats, runs: int, rng: np.random.Generator) -> Received:
        got = receive(features[None], heard, rng=rng, trials=runs, path="full", link=link)
        in_the_sum = None if network.cover_noise else got.alignment[0] != 0
        return Received(total=got.estimate[0], participation=in_the_sum, sent=None)

    return run


def released(network: Network) -> Release:
    """The law of what is heard, for the worst pair of worlds and the likelihood ratio that tells them apart.

    A device in outage is silent, so it takes part with p·(1 − outage). Under cover noise the law does not look at who
    is on the air: with outage the score is a little worse than the best one, and the bound from it as valid.
    """
    link, d = _aligned_radio(network), network.devices
    return release(
        d.count,
        weight=d.column("weight"),
        clip_norm=d.column("clip_norm"),
        noise_std=d.column("noise_std"),
        participation=np.array(d.column("participation")) * (1 - link.outage),
        cover_noise=network.cover_noise,
    )


def _aligned_radio(network: Network) -> Radio:
    """The network's radio, if every signal arrives aligned or not at all: the only case that is audited so far."""
    channel = network.channel
    if network.scheme.name != "1" or channel.access != "superposed":
        raise ValueError("this version audits Scheme 1 with superposed access")
    if channel.csi_error_std or channel.phase_error_std:
        raise ValueError("this version audits channels that are known: csi_error_std and phase_error_std must be 0")
    link = radio(network)
    if channel.power_rule != "truncate" and np.any(link.outage > 0):
        raise ValueError(
            f"this version audits power_rule={channel.power_rule!r} only where power never limits a device (here up to "
            f"{np.max(link.outage):.2g} of the time); truncate is audited everywhere"
        )
    return link
