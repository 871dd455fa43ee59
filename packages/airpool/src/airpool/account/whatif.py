"""ε if the channel stayed, if devices were absent, if the server picked its moments."""

from dataclasses import replace

import numpy as np

from airpool._support.arrays import Floats
from airpool._support.threads import single_thread
from airpool.account.views import Situation, at_server, beside, certain
from airpool.network import Network
from airpool.privacy import gaussian
from airpool.privacy.aggregate import Aggregate
from airpool.privacy.compose import nearby
from airpool.privacy.device import by_coin
from airpool.privacy.draws import ROUNDING, exceeded
from airpool.privacy.epsilon import epsilon
from airpool.privacy.floor import floor

# Up to this many devices it is said what colluders and dropouts would cost.
_ABSENT_UP_TO = 64
# A draw of the channel that is rarer than this is not waited for.
_RARE = 1e-3


def if_absent(situation: Situation, worst: float) -> tuple[float, ...]:
    """The worst device's ε if 0, 1 or 2 others collude or drop out; the first alone where the network says how many."""
    here = situation.here
    known = here.absent or here.colluding or here.alone
    if here.num_devices > _ABSENT_UP_TO or known or situation.uses > 1 or situation.network.slots.count > 1:
        return (worst,)
    more = (replace(here, absent=absent) for absent in range(1, min(3, here.num_devices)))
    return (worst, *(float(np.max(_epsilon(replace(situation, here=each, kept={})))) for each in more))


def if_static(situation: Situation) -> Floats | None:
    """ε of each device if one draw of the channel stays for all inferences; None where that is no other question."""
    network = situation.network
    if situation.uses == 1 or not network.channel.redrawn or not situation.here.varies:
        return None
    still = replace(network, channel=replace(network.channel, redrawn=False))
    return _epsilon(replace(situation, network=still))


def if_selected(situation: Situation, averaged: Floats) -> tuple[Floats | None, int | None]:
    """ε of each device if the server picks the draws of the channel, and the outages among others that it waits for.

    None where no draw enters ε. Never below ε itself, since the server need not pick. Outages: None where gains vary as
    well.
    """
    network, claim, here = situation.network, situation.claim, situation.here
    if not averages(network, here):
        return None, None
    given, mu = _in_rare_draws(situation)
    rare = replace(situation, here=given, kept={})
    if mu is None:
        outages = None if network.channel.power_rule == "paper" else given.absent - here.absent
        return np.maximum(averaged, _epsilon(rare)), outages
    mu = mu * np.sqrt(situation.uses)
    found = nearby(lambda delta: gaussian.epsilon(mu, delta), claim.delta, rare.missed(given))
    local = epsilon(beside(rare), claim.delta)
    return np.maximum(averaged, np.minimum(found, local)), None


def _epsilon(situation: Situation) -> Floats:
    with single_thread():
        return epsilon(at_server(situation), situation.claim.delta)


def averages(network: Network, received: Aggregate) -> bool:
    """Whether ε is an average over a draw of the channel, so that it matters when a device is asked."""
    limited = network.channel.power_rule == "paper" and bool(np.any(received.failure > 0))
    drawn = network.channel.fading != "none" or network.channel.csi_error_std > 0
    # Next to a device that is received however weak it is, the channel decides nothing.
    return (limited and drawn) or (received.varies and not (received.alone and received.weakened))


def most_outages(presence: Floats) -> int:
    """The smallest k such that more than k others of a device are in outage with probability below 1e-3; rounded up.

    >>> most_outages(np.full(12, 0.9)), most_outages(np.full(12, 0.99)), most_outages(np.ones(12))
    (5, 2, 0)
    """
    found = floor(np.ones_like(presence), 1 - presence)
    beyond = 1 - np.cumsum(found.high.mass, axis=1) + found.slack + ROUNDING
    first = np.argmax(beyond < _RARE, axis=1)
    number = np.floor(found.high.variance[np.arange(len(first)), first] + 0.5)
    return int(np.max(np.where(beyond.min(axis=1) < _RARE, number, len(presence) - 1)))


def _in_rare_draws(situation: Situation) -> tuple[Aggregate, Floats | None]:
    """What is received where the server picks the draw of the channel, and μ of each device if it is known then.

    Signals that arrive aligned or not at all: the device itself arrives, of the others the worst `most_outages` do not.
    Random strengths: μ is what one draw exceeds with probability below 1e-3; inf where that is not one number. A
    failure that depends on the channel (power_rule = paper) is, in all draws but 1e-3, a thousand times as likely as on
    average at most (Markov's inequality).
    """
    received, neighbours = situation.here, situation.claim.neighbours
    if situation.network.channel.power_rule == "paper":
        received = replace(received, failure=np.minimum(received.failure / _RARE, 1.0))
    if received.strength is None:
        number = 0 if received.alone else most_outages(received.presence)
        presence = np.ones_like(received.presence)
        return replace(received, presence=presence, absent=received.absent + number), None
    mu, leak = np.full(received.num_devices, np.inf), by_coin(received, neighbours)
    # Draws beyond live noise's proof are among the rare ones.
    level = np.array([(_RARE - received.excess) * (1 - ROUNDING)])
    if level[0] > 0 and certain(situation.network, situation.claim, received):
        for kind in range(leak.num_kinds):
            mu[leak.of_device == kind] = exceeded(leak, kind).at(level)[0]
    return replace(received, excess=0.0), mu
