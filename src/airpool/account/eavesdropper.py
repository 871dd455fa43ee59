"""ε against an eavesdropper with M antennas that is not at the server (docs/howto/radio.md).

It receives device j along a_j = e_j/ĥ_j in C^M: its own channel over what the device inverted. Two devices that are
aligned at the server are not aligned there, and with M antennas it can turn away from M − 1 of them.
"""

from dataclasses import replace

import numpy as np

from airpool._support.arrays import Floats
from airpool.account.errors import like_links, presence
from airpool.account.stream import spent_anew, spent_in_common
from airpool.network import Network, scheme_rules
from airpool.privacy.aggregate import Aggregate
from airpool.privacy.law import Arrivals
from airpool.radio.csi import misalign
from airpool.radio.fading import sample_gains
from airpool.radio.link import Link, link_of
from airpool.radio.power import transmit


def eavesdropped(network: Network, received: Aggregate, local: Floats, *, live: bool = False) -> Floats | None:
    """ε of each device against `network.adversary.antennas` antennas elsewhere; None where there are none.

        δ_T(ε) = E_a[δ_G(ε; √T·μ(a))],   μ² = (w C)²·a_k^H (Σ_j τ_jσ_j² a_j a_j^H)⁺ a_k

    if a is the same in all T inferences; T draws of a are composed. Neither bounds the other: rare outages of those who
    protect a device are no part of one draw, and some of a hundred.
    Holds for: channels e_j ~ CN(0, c·I), independent, with one c for all devices. Where the devices' gains or errors
    are redrawn, these channels are too or not: the larger ε of the two. Elsewhere they stay the same.
    Never above the local ε, which is all that is claimed for the cases of `why_local`.
    """
    if not network.adversary.antennas:
        return None
    if why_local(network, live=live) is not None:
        return local
    there = at_the_eavesdropper(network, received)
    spent = spent_in_common(network, there)(network.uses)
    if network.uses > 1 and redrawn(network):
        spent = np.maximum(spent, spent_anew(network, there)(network.uses))
    return np.minimum(spent, local)


def at_the_eavesdropper(network: Network, received: Aggregate) -> Aggregate:
    """Observation of an eavesdropper elsewhere, from that of the server."""
    arrivals = _arrivals(network, link_of(network))
    return replace(received, alone=False, extra=0.0, weakened=False, strength=arrivals, presence=arrivals.presence)


def redrawn(network: Network) -> bool:
    """Whether what devices invert is new in every inference."""
    return network.channel.redrawn and (network.channel.fading != "none" or not network.channel.known)


def why_local(network: Network, *, live: bool = False) -> str | None:
    """Reason why an eavesdropper elsewhere is granted the local ε, in words; None where others' noise counts."""
    channel = network.channel
    if channel.rules.separate:
        return "devices transmit one after the other"
    if channel.power_rule == "paper":
        return "under power_rule = paper the strength of a signal depends on its noise"
    if scheme_rules(network.scheme).scored or not network.neighbours.keeps_noise:
        return "scores and removal are accounted for at the server alone"
    if network.slots.count > 1:
        return "the number of slots depends on what the server received, and everyone hears it"
    if live:
        return "live noise that arrives unaligned needs a receiver noise, which an eavesdropper need not have"
    if network.uses > 1 and min(network.devices.column("participation")) < 1:
        return "participation below 1 is not accounted for where channels stay the same"
    return None


def _arrivals(network: Network, link: Link) -> Arrivals:
    """The law of a_j: of every antenna Rayleigh, over the gain that the device inverts."""
    channel, count, antennas = network.channel, network.devices.count, network.adversary.antennas
    errors = {"csi_error_std": channel.csi_error_std, "phase_error_std": channel.phase_error_std}

    def draw(number: int, rng: np.random.Generator) -> Floats:
        gain = sample_gains(link.fading, (number, count), rng)
        off = None if channel.known else misalign(gain, rng.standard_normal((3, *gain.shape)), **errors)
        sent = transmit(link.transmitters, gain, gamma=link.gamma, rule=channel.power_rule, misalignment=off)
        normals = rng.standard_normal((*gain.shape, 2 * antennas)) * (sent.scale / link.gamma)[..., None]
        return normals[..., :antennas] + 1j * normals[..., antennas:]

    distinct, of_device = like_links(network, link)
    steady = channel.fading == "none" and not channel.csi_error_std and len(distinct) == 1
    law = (antennas, link.fading.model, link.fading.k_factor_db, link.fading.antennas, channel.power_rule)
    return Arrivals(
        draw=draw,
        key=(*law, *distinct.ravel().tolist(), *of_device.tolist(), *link.fading.path_gain.ravel().tolist()),
        of_device=of_device,
        presence=presence(network, link),
        most=np.full(count, np.inf),
        beyond=np.zeros(count),
        rayleigh=antennas * int(steady and len(set(link.fading.path_gain.flat)) == 1),
    )
