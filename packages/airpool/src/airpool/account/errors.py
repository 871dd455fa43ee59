"""Errors of channel knowledge and ε: the laws of received strengths, or why only the local ε holds."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airpool._support.arrays import Floats, Integers
from airpool.network import Network
from airpool.network.fading import RICE
from airpool.privacy.law import Arrivals, Strength
from airpool.privacy.sampled import MOST_DEVICES
from airpool.radio import beam
from airpool.radio.fading import Fading, path, sample_gains
from airpool.radio.link import Link
from airpool.radio.power import misalign, threshold, transmit


def why_local(network: Network) -> str | None:
    """Reason why no other device's noise counts under the network's errors, in words; None where it does."""
    channel = network.channel
    several = channel.antennas > 1
    if channel.aligned:
        return None
    if channel.power_rule == "paper":
        return "under power_rule = paper the strength of a signal depends on its noise"
    if (channel.csi_error_std or several) and network.scheme.needs_ranking_server:
        return "scheme 2.2 may select the devices whose noise is received most weakly"
    if several and network.devices.count > MOST_DEVICES and not beta(network):
        return f"several antennas are accounted for with up to {MOST_DEVICES} devices"
    if (channel.csi_error_std or several) and channel.fading not in RICE:
        return "CSI errors and several antennas are accounted for with fading none, rician and rayleigh"
    return None


def strengths(network: Network, link: Link) -> Strength | Arrivals | None:
    """The laws of |ρ|²q² of all devices; None where every signal is received at strength 1 or not at all.

    Phase errors do not enter: a turned circular noise has the same law, and a turned feature the same length. Several
    antennas: the laws of ρq at all of them.
    """
    channel = network.channel
    if why_local(network) is not None:
        return None
    if channel.antennas > 1:
        return _directions(network, link)
    return _received_power(network, link) if channel.csi_error_std else None


def _received_power(network: Network, link: Link) -> Strength:
    distinct, of_device = like_links(network, link)
    unit = Fading(link.fading.model, k_factor_db=link.fading.k_factor_db)
    silent = network.channel.power_rule == "truncate"
    return _strength(unit, tuple(map(tuple, distinct.tolist())), tuple(of_device.tolist()), silent=silent)


@lru_cache(maxsize=32)
def _strength(
    unit: Fading, distinct: tuple[tuple[float, float], ...], of_device: tuple[int, ...], *, silent: bool
) -> Strength:
    """One object for one law: laws of noise that were computed from it are kept with it."""
    from airpool.radio.strength import survival

    laws = [survival(unit, t, s, silent=silent) for t, s in distinct]
    return Strength(
        edge=tuple(law.edge for law in laws),
        above=tuple(law.above for law in laws),
        present=tuple(law.present for law in laws),
        of_device=np.array(of_device, dtype=np.int64),
        error=max(law.error for law in laws),
    )


def beta(network: Network) -> bool:
    """Whether equal devices at a server with several antennas follow the Beta law: aligned at one, else Rayleigh."""
    channel = network.channel
    return channel.antennas > 1 and channel.fading == "none" and channel.known


def _directions(network: Network, link: Link) -> Arrivals:
    """The law of all that the server receives, ρq·h/(wᴴh): devices align to its beam w, and it keeps every antenna."""
    channel, count, antennas = network.channel, network.devices.count, network.channel.antennas

    def draw(number: int, rng: np.random.Generator) -> Any:
        return at_the_server(network, link, (number, count), rng)[0]

    distinct, of_device = like_links(network, link)
    law = (antennas, link.fading.model, link.fading.k_factor_db, channel.power_rule, channel.phase_error_std)
    return Arrivals(
        draw=draw,
        key=(*law, *distinct.ravel().tolist(), *of_device.tolist()),
        of_device=of_device,
        presence=presence(network, link),
        most=np.full(count, np.inf),
        beyond=np.zeros(count),
        rayleigh=antennas - 1 if beta(network) else 0,
        aligned=True,
        costly=link.fading.antennas > 1,  # a beam for each
    )


def presence(network: Network, link: Link) -> Floats:
    """Probability that a device on the air is received. A beam's gain has a sampled law: no outage is counted on."""
    silent = network.channel.power_rule == "truncate" and link.fading.antennas == 1
    return 1 - link.outage if silent else np.ones(network.devices.count)


def at_the_server(
    network: Network, link: Link, shape: tuple[int, int], rng: np.random.Generator
) -> tuple[NDArray[np.complex128], Floats]:
    """A draw of what all antennas of the server receive of a device's signal, (n, K, M): ρq·h/(wᴴh).

    In the same draw, what a device multiplies its signal by, q/ĥ, (n, K).
    """
    channel = network.channel
    gain, direction = antenna_gains(link, shape, channel.antennas, rng)
    normals, csi = rng.standard_normal((3, *gain.shape)), channel.csi_error_std
    off = misalign(gain, normals, csi_error_std=csi, phase_error_std=channel.phase_error_std)
    sent = transmit(link.transmitters, gain, gamma=link.gamma, rule=channel.power_rule, misalignment=off)
    assert sent.quadrature is not None
    return (sent.alignment + 1j * sent.quadrature)[..., None] * direction, sent.scale / link.gamma


def antenna_gains(
    link: Link, shape: tuple[int, int], antennas: int, rng: np.random.Generator
) -> tuple[Floats, NDArray[np.complex128]]:
    """Gains (n, K) at the beam, and what all antennas receive relative to it, (n, K, M)."""
    fading = link.fading
    if fading.antennas == 1:
        normals = rng.standard_normal((2, *shape, antennas))
        normals[:, ..., 0] = np.array([1.0, 0.0])[:, None, None]
        return sample_gains(fading, shape, rng), normals[0] + 1j * normals[1]
    h, w = beam.drawn(*path(fading), shape, antennas, rng)
    c = beam.received(w, h)
    return np.abs(c) * fading.path_gain, h / c[..., None]


def like_links(network: Network, link: Link) -> tuple[Floats, Integers]:
    """Distinct thresholds and CSI errors, in units of the path gain, and which of them each device has.

    Equal up to rounding is equal; twelve digits move probabilities by less than their stated error.
    """
    path_gain = link.fading.path_gains(network.devices.count)
    limit = threshold(link.transmitters, gamma=link.gamma)
    given = np.stack([limit / path_gain, network.channel.csi_error_std / path_gain], axis=1)
    rounded = np.array([[float(f"{x:.12g}") for x in row] for row in given])
    distinct, of_device = np.unique(rounded, axis=0, return_inverse=True)
    return distinct, np.asarray(of_device, dtype=np.int64).reshape(-1)
