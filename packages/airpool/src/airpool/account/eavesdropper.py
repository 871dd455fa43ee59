"""ε against an eavesdropper with M antennas that is not at the server (docs/howto/radio.md).

It receives device j along a_j = e_j/ĥ_j in C^M: its own channel over what the device inverted. Two devices that are
aligned at the server are not aligned there, and with M antennas it can turn away from M − 1 of them. The answer is a
function of what the server receives: an eavesdropper that may learn it has the server's antennas among its own.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from airpool.account import errors
from airpool.network import Claim, Network
from airpool.privacy.aggregate import Aggregate
from airpool.privacy.law import Arrivals, alike
from airpool.radio.link import Link, link_of


def at_the_eavesdropper(network: Network, claim: Claim, received: Aggregate) -> Aggregate:
    """Observation of an eavesdropper elsewhere, from that of the server."""
    arrivals = _arrivals(network, link_of(network), answered=claim.knows_answer)
    return replace(received, alone=False, extra=0.0, weakened=False, strength=arrivals, presence=arrivals.presence)


def why_local(network: Network, claim: Claim) -> str | None:
    """Reason why an eavesdropper elsewhere is granted the local ε, in words; None where others' noise counts."""
    channel = network.channel
    if channel.rules.separate:
        return "devices transmit one after the other"
    if channel.power_rule == "paper":
        return "under power_rule = paper the strength of a signal depends on its noise"
    if not network.scheme.independent or not claim.neighbours.keeps_noise:
        return "scores and removal are accounted for at the server alone"
    if claim.knows_answer and (why := errors.why_local(network)):
        return why  # as at the server, whose antennas count here
    if network.slots.count > 1 and not claim.knows_answer:
        return "the number of slots depends on what the server received, and everyone hears it"
    if network.slots.count > 1 and not network.slots.redrawn and network.dropouts:
        return "devices that drop out may be others in every slot of one draw"
    if claim.live:
        return "live noise that arrives unaligned needs a receiver noise, which an eavesdropper need not have"
    if network.uses(claim) > 1 and min(network.devices.column("participation")) < 1:
        return "participation below 1 is not accounted for where channels stay the same"
    return None


def _arrivals(network: Network, link: Link, *, answered: bool) -> Arrivals:
    """The law of a_j: of every antenna Rayleigh, over the gain that the device inverts; after the server's antennas."""
    channel, count, antennas = network.channel, network.devices.count, network.adversary.antennas

    def draw(number: int, rng: np.random.Generator) -> Any:
        v, sent = errors.at_the_server(network, link, (number, count), rng)
        normals = rng.standard_normal((*sent.shape, 2 * antennas)) * sent[..., None]
        a = normals[..., :antennas] + 1j * normals[..., antennas:]
        return np.concatenate([v, a], axis=-1) if answered else a

    distinct, kind = errors.like_links(network, link)
    path_gain = link.fading.path_gains(count)
    steady = channel.fading == "none" and not channel.csi_error_std and len(distinct) == 1 and len(set(path_gain)) == 1
    law = ("elsewhere", antennas, answered, channel.antennas, channel.phase_error_std, channel.power_rule)
    fading = (link.fading.model, link.fading.k_factor_db, link.fading.antennas)
    return Arrivals(
        draw=draw,
        key=(*law, *fading, *distinct.ravel().tolist(), *kind.tolist(), *path_gain.tolist()),
        of_device=alike(kind.astype(np.float64), path_gain)[1],
        presence=errors.presence(network, link),
        most=np.full(count, np.inf),
        beyond=np.zeros(count),
        rayleigh=(antennas + answered * (channel.antennas - 1)) * steady,
        aligned=answered,
        costly=link.fading.antennas > 1,
    )
