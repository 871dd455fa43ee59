"""Devices that fade together: a server's antennas receive all of them by one beam, so outages come in groups.

The joint law of the gains behind a beam has no formula. It is drawn, with a fixed seed, and a mean over the draws is
turned into a bound on the true mean by Chernoff's inequality (proof: docs/proofs/theory.md, "Devices that fade
together"). Such a bound fails with probability 1e-9 over the draws.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import rel_entr

from airpool._support.arrays import Floats
from airpool.network import Network
from airpool.protocol import device, medium
from airpool.radio.fading import Fading, sample_gains
from airpool.radio.link import Link, alignment
from airpool.radio.outage import Moments
from airpool.radio.power import Transmission

# How often a bound does not hold, over the draws; their seed is another than that of the link's own sample.
_LOG_FAILURE, _SEED = float(np.log(1e9)), 20_281
# Of the interval in which a bound is searched for.
_HALVINGS = 48
# Draws: as many as these coefficients of channels allow, a few thousand at a time.
_COEFFICIENTS, _FEWEST, _MOST, _CHUNK = 2**20, 2**12, 2**17, 2**10


def fade_together(link: Link) -> bool:
    """Whether one beam receives all devices, so that their gains depend on each other."""
    return link.fading.antennas > 1


def drawn(network: Network, link: Link) -> Transmission:
    """Transmission of all devices in every draw of the gains, (draws, K). All take part."""
    gain = _gains(replace(link.fading, path_loss_db=0.0)) * link.fading.path_gain
    off = medium.misalignment(gain, network.channel, np.random.default_rng(_SEED + 1))
    everyone = np.ones(gain.shape, dtype=np.bool_)
    return device.power(device.Senders(network, link), gain, takes_part=everyone, misalignment=off)


@dataclass(frozen=True, eq=False)
class Together:
    """Covariance of devices that fade together: Cov(g_j, g_k) (K, K), 0 for j = k, over `draws` draws."""

    covariance: Floats
    draws: int


def joint_alignment(network: Network, link: Link) -> tuple[Moments, Together | None, Link]:
    """Moments of each device's g, how they vary together (None: independently), and the link with these outages."""
    if not fade_together(link):
        return alignment(network, link), None, link
    sent = drawn(network, link)
    g = sent.alignment
    mean, square = np.mean(g, axis=0), np.mean(g**2, axis=0)
    power = square if sent.quadrature is None else square + np.mean(sent.quadrature**2, axis=0)
    off = g - mean
    covariance = off.T @ off / len(g)
    np.fill_diagonal(covariance, 0.0)
    inverse = np.mean((sent.scale / link.gamma) ** 2, axis=0)
    received = replace(link, outage=np.mean(sent.aim == 0, axis=0))
    return Moments(mean, square, power, inverse), Together(covariance, len(g)), received


@lru_cache(maxsize=8)
def _gains(fading: Fading) -> Floats:
    wanted = _COEFFICIENTS // (fading.devices * fading.antennas)
    chunks = min(max(wanted, _FEWEST), _MOST) // _CHUNK
    rng = np.random.default_rng(_SEED)
    out = np.concatenate([sample_gains(fading, (_CHUNK, fading.devices), rng) for _ in range(chunks)])
    out.setflags(write=False)  # shared
    return out


def at_most(mean: ArrayLike, draws: int) -> Floats:
    """An upper bound on E[f] from the mean of f over n draws, for 0 ≤ f ≤ 1: the largest q with n·KL(mean‖q) ≤ ln 1e9.

    >>> at_most([0.08, 0.95], 2**17).round(4)
    array([0.0849, 0.9538])
    """
    m = np.clip(np.asarray(mean, dtype=np.float64), 0.0, 1.0)
    low, high = m, np.ones_like(m)
    for _ in range(_HALVINGS):
        q = (low + high) / 2
        inside = rel_entr(m, q) + rel_entr(1 - m, 1 - q) <= _LOG_FAILURE / draws
        low, high = np.where(inside, q, low), np.where(inside, high, q)
    return high
