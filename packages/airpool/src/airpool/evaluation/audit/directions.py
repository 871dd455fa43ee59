"""The attack where signals arrive along different directions: CSI and phase errors, I and Q, several antennas.

It runs the code that transmits (protocol.simulation, full path) and lets the adversary know every gain and error: it
receives y = Σ_j v_j s_jᵀ in d components, and v. Scheme 1; Schemes 2.1 and 2.2 are audited where channels are known.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from airpool._support.arrays import Floats
from airpool.account.errors import at_the_server
from airpool.network import Adversary, Channel, Claim, Network
from airpool.network.network import with_its_coins
from airpool.protocol.device import clipped, padded
from airpool.protocol.medium import pack
from airpool.protocol.simulation import Received, receive
from airpool.radio.link import ALWAYS_STRONG, Link, link_of

Components = NDArray[np.float64] | NDArray[np.complex128]


@dataclass(frozen=True, eq=False)
class ObservedDirections:
    """The adversary's observations in n runs: y (n, coordinates, d), and v (n, K, d), 0 where a device is silent."""

    components: Components
    directions: Components


def mechanism(
    network: Network, claim: Claim, *, elsewhere: bool = False, known: Sequence[int] = ()
) -> Callable[[Floats, int, np.random.Generator], ObservedDirections]:
    """`runs` inferences on the same features (K, r), without the receiver's noise: a mechanism for audit.bound.

    elsewhere: as the eavesdropper with `network.adversary.antennas` antennas receives them, and the server too where it
    may learn the answer; else as the server does.
    known: devices of which the adversary also knows what they have sent, and has subtracted it.
    """
    network.scheme.require_coins(
        "this version audits errors and antennas in Scheme 1; Schemes 2.1 and 2.2 need known channels"
    )
    if not network.channel.rules.superposes:
        raise ValueError(f"this version audits superposed access, not access={network.channel.access!r}")
    if network.channel.power_rule == "paper":
        raise ValueError("this version does not audit power_rule='paper' under errors")
    link, antennas = link_of(network), network.adversary.antennas
    observed = replace(with_its_coins(network), channel=replace(network.channel, noise_std=0.0))
    answered = not elsewhere or claim.knows_answer
    several = network.channel.antennas > 1 and answered
    if several:  # signals of the devices; their channels to all antennas are drawn here
        observed = replace(observed, channel=Channel(gamma=ALWAYS_STRONG), adversary=Adversary(1))

    def run(features: Floats, runs: int, rng: np.random.Generator) -> ObservedDirections:
        got = receive(features[None], observed, rng=rng, trials=runs, path="full", link=None if several else link)
        assert got.signals is not None
        signals = got.signals[0]
        directions, sent = _at_the_server(network, link, got, rng) if answered else (None, got.scale[0] / link.gamma)
        if elsewhere:
            both = rng.standard_normal((2, *sent.shape, antennas)) * sent[..., None]
            there = both[0] + 1j * both[1]
            directions = there if directions is None else np.concatenate([directions, there], axis=-1)
        assert directions is not None
        directions[:, list(known)] = 0
        return ObservedDirections(np.einsum("nkd,nkc->ncd", directions, pack(signals)), directions)

    return run


def _at_the_server(
    network: Network, link: Link, got: Received, rng: np.random.Generator
) -> tuple[NDArray[np.complex128], Floats]:
    """v of all devices at the server, (n, K, antennas), and their amplitudes, (n, K); 0 where a device is silent."""
    channel, sent = network.channel, got.sent
    if channel.antennas == 1:
        quadrature = 0.0 if sent.quadrature is None else sent.quadrature[0]
        return (sent.alignment[0] + 1j * quadrature)[..., None], got.scale[0] / link.gamma
    v, amplitude = at_the_server(network, link, got.gain.shape[1:], rng)
    there = np.ones(amplitude.shape) if network.cover_noise else got.taking_part[0]
    return v * there[..., None], amplitude * there


def worst_pair(network: Network, claim: Claim, device: int) -> tuple[Floats, Floats]:
    """Features (K, r) and their neighbour, as far apart as clipping allows; all other devices hold zeros."""
    features = np.zeros((network.devices.count, network.dimension))
    features[device, 0] = network.devices.column("clip_norm")[device]
    return features, (1 - claim.neighbours.sensitivity) * features


def likelihood_ratio(network: Network, features: Floats, neighbour: Floats) -> Callable[[ObservedDirections], Floats]:
    """ln Pr[y | features] − ln Pr[y | neighbour] given v, which is public, if all devices on the air take part.

        ½ Σ_c [(y − m′)^H G⁻¹ (y − m′) − (y − m)^H G⁻¹ (y − m)],    G = Σ_j σ_j² v_j v_j^H

    Under cover noise the coin is hidden and the true ratio is a rising function of this one (zero-out).
    """
    d = network.devices
    weight, std = (np.array(d.column(name)) for name in ("weight", "noise_std"))

    def sent(world: Floats) -> Components:
        z = weight[:, None] * clipped(world, d.column("clip_norm"))
        return pack(padded(z, network.coordinates))

    here, there = sent(features), sent(neighbour)

    def score(seen: ObservedDirections) -> Floats:
        v = seen.directions
        noise = np.einsum("k,nkd,nke->nde", std**2, v, np.conj(v), optimize=True)
        inverse = np.linalg.pinv(noise, hermitian=True)

        def energy(world: Components) -> Floats:
            off = seen.components - np.einsum("nkd,kc->ncd", v, world)
            return np.einsum("ncd,nde,nce->n", np.conj(off), inverse, off, optimize=True).real / 2

        return energy(there) - energy(here)

    return score
