"""Observation of the adversary, for the privacy core: power rules, errors, live noise (docs/theory/air.md)."""

from dataclasses import replace

import numpy as np

from airpool._support.arrays import Floats
from airpool._support.rounding import full, up
from airpool.account.errors import strengths, why_local
from airpool.network import Claim, Network, NetworkError
from airpool.privacy import noise
from airpool.privacy.aggregate import Aggregate
from airpool.privacy.law import Arrivals, Strength
from airpool.radio.link import Link, link_of


def aggregate(network: Network, claim: Claim = Claim(), *, rough: bool = False) -> Aggregate:
    """Observation of the adversary in this network, for the privacy core (docs/theory/air.md).

    truncate: g ∈ {0, 1}; a device in outage is silent, for itself and as noise for the others.
    backoff: g ≤ 1. A weak device leaks less than an aligned one, so it counts as aligned; its noise does not count.
    CSI errors: a random strength, drawn together with the outage. Where errors.why_local has a reason, only the
        device's own noise is sure to protect it.
    paper: all devices arrive aligned where power never limits. Where it does, a full feature exceeds the limit and a
        zero one never, for any receiver: a failure of that probability, in every inference.
    secure access: the devices that are left are aligned. Removal is visible, since the server knows who sends; so is
        the rest, if more collude than 2t > K + c allows: own noise alone counts then.
    live: signals that arrive unaligned, or removal, need the receiver noise of case (c) of the theorem in
        `privacy.noise`; without it own noise alone counts, and removal is not covered at all.
    slots: where one draw serves all slots of an inference, they count as one transmission (`all_slots`).
    rough: few draws where laws are drawn. Every ε still holds and is a few per cent larger: for a search's first steps.
    """
    d, channel, scheme = network.devices, network.channel, network.scheme
    colluding, credited, keeps_noise = claim.colluding, claim.credit_channel_noise, claim.neighbours.keeps_noise
    for k in colluding:
        if not (isinstance(k, int | np.integer) and 0 <= k < d.count):
            raise NetworkError(f"colluding device {k} must be from 0 to {d.count - 1}")
    link = link_of(network)
    unsure, strength = False, None
    if not channel.aligned:
        unsure, strength = why_local(network) is not None, strengths(network, link)
    unsure |= network.outnumbered(network.colluders + len(set(colluding)))
    failure, excess, std = np.zeros(d.count), 0.0, link.transmitters.noise_std
    if channel.power_rule == "paper":
        # How often power limits a device. Where scores choose, or under cover noise, `participation` says nothing.
        coin = scheme.independent and not network.cover_noise
        failure = link.outage * (np.array(d.column("participation")) if coin else 1.0)
    if claim.live:
        coordinates = drawn_live(network)
        # Refuses what the theorem does not cover.
        noise.delta_cost(d.column("noise_std"), dimension=coordinates, epsilon=0.0)
        # Distance of what is sent from what is accounted for: the grids of feature and score, and the coin.
        failure = failure + coordinates * noise.ERROR + scheme.coin_bias
        drawn = _drawn(std)
        smooth = channel.noise_std / link.gamma >= _least_receiver_noise(drawn, strength)
        unsure |= not smooth and _unaligned(network, link)
        if strength is not None and not unsure:
            excess = float(np.sum(strength.beyond))
        credited &= smooth
        if not keeps_noise:
            failure, std = failure if smooth else np.ones(d.count), drawn
    strength = None if unsure else strength
    if rough and isinstance(strength, Arrivals):
        strength = replace(strength, rough=True)
    if channel.rules.senders_seen and not keeps_noise:
        failure = np.ones(d.count)
    presence = np.ones(d.count) if channel.power_rule == "paper" else 1 - link.outage
    found = Aggregate(
        shift=link.transmitters.feature_norm,
        variance=std**2,
        participation=np.array(d.column("participation")),
        presence=presence if strength is None else strength.presence,
        weakened=channel.power_rule == "backoff" and strength is None,
        extra=(channel.noise_std / link.gamma) ** 2 if credited and not unsure else 0.0,
        dimension=network.coordinates,
        cover_noise=network.cover_noise,
        absent=min(network.colluders + network.dropouts, d.count - 1),
        colluders=network.colluders,
        colluding=colluding,
        alone=channel.rules.separate or unsure,
        strength=strength,
        failure=np.minimum(failure, 1.0),
        excess=excess,
    )
    return found if network.slots.redrawn else all_slots(network, found)


def drawn_live(network: Network) -> int:
    """Live noises of each device in one slot: one on every coordinate, and one on the score that is ranked (2.2).

    A score that the device itself compares with a threshold (2.1) gets none: its decision is a coin, whose bias is
    counted apart.
    """
    return network.coordinates + network.scheme.needs_ranking_server


def smallest_live_delta(network: Network, claim: Claim) -> float:
    """The smallest δ that live noise supports at any ε, over all inferences and slots."""
    slots = claim.inferences * network.slots.count
    any_noise = np.ones(network.devices.count)  # how much there is does not matter
    return noise.smallest_delta(any_noise, dimension=drawn_live(network), epsilon=0.0, inferences=slots)


def all_slots(network: Network, one: Aggregate) -> Aggregate:
    """The slots of an inference as one, where a single draw of coins and channel serves all of them.

    Given the draw each slot is a Gaussian of the same leverage, so that √N times the shift has the law of N slots
    (docs/proofs/privacy.md, "Slots of one inference"); removal shows in N times as many coordinates. Devices that drop
    out may be others in every slot: where the draw decides whose noise there is, own noise alone is sure to protect a
    device then.
    """
    count, scheme = network.slots.count, network.scheme
    # Under cover noise all noise is there, whoever takes part; of Scheme 2.2 the least that a selection leaves counts.
    decided = not (scheme.independent or scheme.needs_ranking_server)
    chosen = not one.cover_noise and (decided or bool(np.any(one.participation < 1)))
    random = chosen or bool(np.any(one.presence < 1)) or one.strength is not None
    return replace(
        one,
        shift=one.shift * np.sqrt(count),
        dimension=one.dimension * count,
        failure=np.minimum(one.failure * count, 1.0),
        excess=min(one.excess * count, 1.0),
        alone=one.alone or (count > 1 and network.dropouts > 0 and random),
    )


def covering_noise(network: Network, claim: Claim) -> float:
    """The least channel.noise_std that covers the grid of this network's live noise: case (c) of the theorem.

    0 where the signals arrive aligned, and removal is not asked about: no receiver noise is needed then.
    """
    link = link_of(network)
    if claim.neighbours.keeps_noise and not _unaligned(network, link):
        return 0.0
    return link.gamma * _least_receiver_noise(_drawn(link.transmitters.noise_std), strengths(network, link))


def supports_live(network: Network, claim: Claim) -> bool:
    """Whether the sampler of live noise supports the claim's δ, for its number of inferences."""
    return claim.delta >= smallest_live_delta(network, claim)


def require_supported(network: Network, claim: Claim) -> None:
    """Raises a ValueError where the claim is about live noise, whose sampler does not support its δ."""
    if claim.live and not supports_live(network, claim):
        smallest = up(smallest_live_delta(network, claim), 3)
        raise ValueError(f"delta={full(claim.delta)} must be >= {smallest}, what live noise supports")


def _drawn(std: Floats) -> Floats:
    """Standard deviations of live noise as it is really drawn."""
    return np.array([noise.grid_of(s).sampled_std for s in std])


def _least_receiver_noise(drawn: Floats, strength: Strength | Arrivals | None) -> float:
    """Case (c) of the theorem in `privacy.noise`: the least receiver noise, in units of the estimate."""
    loudest = drawn**2 * (1.0 if strength is None else strength.most)
    return noise.RECEIVER_NOISE_RATIO * float(np.sqrt(np.sum(loudest)))


def _unaligned(network: Network, link: Link) -> bool:
    """Whether signals may arrive at strengths that are no multiples of the grid."""
    channel = network.channel
    weak = channel.power_rule == "backoff" and bool(np.any(link.outage > 0))
    return not channel.aligned or weak
