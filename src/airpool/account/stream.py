"""A stream of inferences over one draw of the channel, a few, or a new one for each (docs/howto/radio.md)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import comb, log
from typing import NamedTuple

import numpy as np

from airpool._support.arrays import Floats, as_floats
from airpool._support.search import smallest_number
from airpool.network import Network, scheme_rules
from airpool.privacy import compose, device, gaussian
from airpool.privacy.aggregate import Aggregate, ratio
from airpool.privacy.floor import floor
from airpool.privacy.game import Game, gaussians, solve
from airpool.privacy.law import alike
from airpool.privacy.unaligned import surroundings

# Probabilities at which the worst of several draws is resolved, and what rounding may have cost each of them.
_LEVELS, _ROUNDING = np.append(0.0, np.geomspace(1e-18, 1.0, 2048)), 1e-9
# A draw of the channel that is rarer than this is not waited for.
_RARE = 1e-3
# Width of a cell of ln μ².
_WIDTH = 0.01

# Cells of a noise law where a whole curve is composed; rounded to the safe side, it costs about 0.05 % of ε.
COMPOSED_CELLS = 512


def varies(received: Aggregate) -> bool:
    """Whether what is received depends on a draw of the channel."""
    return received.strength is not None or bool(np.any(received.presence < 1))


def averages(network: Network, received: Aggregate) -> bool:
    """Whether ε is an average over a draw of the channel, so that it matters when a device is asked."""
    limited = network.channel.power_rule == "paper" and bool(np.any(received.failure > 0))
    drawn = network.channel.fading != "none" or network.channel.csi_error_std > 0
    # Next to a device that is received however weak it is, the channel decides nothing.
    return (limited and drawn) or (varies(received) and not (received.alone and received.weakened))


def most_outages(presence: Floats) -> int:
    """The smallest k such that more than k others of a device are in outage with probability below 1e-3; rounded up.

    >>> most_outages(np.full(12, 0.9)), most_outages(np.full(12, 0.99)), most_outages(np.ones(12))
    (5, 2, 0)
    """
    found = floor(np.ones_like(presence), 1 - presence)
    beyond = 1 - np.cumsum(found.high.mass, axis=1) + found.slack + _ROUNDING
    first = np.argmax(beyond < _RARE, axis=1)
    number = np.floor(found.high.variance[np.arange(len(first)), first] + 0.5)
    return int(np.max(np.where(beyond.min(axis=1) < _RARE, number, len(presence) - 1)))


def in_rare_draws(network: Network, received: Aggregate) -> tuple[Aggregate, Floats | None]:
    """What is received where the server picks the draw of the channel, and μ of each device if it is known then.

    Signals that arrive aligned or not at all: the device itself arrives, of the others the worst `most_outages` do not.
    Random strengths: μ is what one draw exceeds with probability below 1e-3; inf where that is not one number. A
    failure that depends on the channel (power_rule = paper) is, in all draws but 1e-3, a thousand times as likely as on
    average at most (Markov's inequality).
    """
    if network.channel.power_rule == "paper":
        received = replace(received, failure=np.minimum(received.failure / _RARE, 1.0))
    if received.strength is None:
        number = 0 if received.alone else most_outages(received.presence)
        presence = np.ones_like(received.presence)
        return replace(received, presence=presence, absent=received.absent + number), None
    columns = (received.shift, received.variance, received.participation, received.lent, received.kind_of_strength)
    mu, kinds = np.full(received.num_devices, np.inf), alike(*columns)[1]
    # Draws beyond live noise's proof are among the rare ones.
    level = np.array([(_RARE - received.excess) * (1 - _ROUNDING)])
    for kind in np.unique(kinds):
        law = exceeded(network, received, int(np.argmax(kinds == kind)))
        if law is not None and level[0] > 0:
            mu[kinds == kind] = law.at(level)[0]
    return replace(received, excess=0.0), mu


def in_common(network: Network, received: Aggregate) -> bool:
    """Whether something random of the channel stays the same over a stream of inferences."""
    return not network.channel.redrawn and varies(received)


def spent_in_common(network: Network, received: Aggregate) -> Callable[[int], Floats]:
    """ε by number of inferences over one draw of the channel: δ_T(ε) = E[δ_G(ε; √T·μ)] (docs/howto/radio.md).

    Holds for: Scheme 1, zero-out and replace, with all devices taking part if there is more than one inference;
    elsewhere inf, and the local ε takes over. Devices that drop out may be others in every inference, so that each set
    of them counts as a draw of its own.
    """
    certain, scored = _certain(network, received), scheme_rules(network.scheme).scored

    def after(inferences: int) -> Floats:
        if scored or (inferences > 1 and not certain) or not network.neighbours.keeps_noise:
            return np.full(received.num_devices, np.inf)
        if (draws := most_draws(network, inferences, 1)) > 1:
            return _over_draws(network, received, inferences, draws)
        together = replace(received, shift=received.shift * np.sqrt(inferences))
        played, missed = device.game(together, network.neighbours), np.minimum(inferences * received.misses, 1.0)
        return compose.nearby(lambda delta: solve(played, delta).upper, network.delta, missed)

    return after


def _over_draws(network: Network, received: Aggregate, inferences: int, draws: int) -> Floats:
    """ε of many inferences, each over one of several draws of the channel: the better of two bounds."""
    kinds, missed = device.game(received, network.neighbours).of_device, np.minimum(inferences * received.misses, 1.0)
    epsilon = np.full(received.num_devices, np.inf)
    for kind in np.unique(kinds):
        same = kinds == kind
        law = exceeded(network, received, int(np.argmax(same)))
        assert law is not None  # `spent_in_common` has seen to it
        stream = [StillStream(law, inferences, draws)]
        mu, mass = worst_of_draws(stream)
        worst = gaussians(mu[None], mass[None], np.zeros(1, dtype=np.int64))

        def at(delta: float, stream: list[StillStream] = stream, worst: Game = worst) -> Floats:
            return np.array([over_any_draws(stream, 0.0, delta, float(solve(worst, delta).upper[0]))])

        epsilon[same] = compose.nearby(at, network.delta, missed[same].max())[0]
    return epsilon


def spent_anew(network: Network, received: Aggregate) -> Callable[[int], Floats]:
    """ε by number of inferences over as many independent draws of the channel: their losses are composed.

    Holds for: Scheme 1.
    """
    played = device.game(received, network.neighbours, cells=COMPOSED_CELLS)
    return compose.spent(played, network.delta, missed=received.misses)


def _certain(network: Network, received: Aggregate) -> bool:
    """Whether all devices always take part, so that given the channel an inference is one Gaussian against another."""
    return not scheme_rules(network.scheme).scored and bool(np.all(received.participation == 1))


class Exceeded(NamedTuple):
    """μ of one device over the draw of the channel: a draw exceeds mu[i], which fall, with probability beyond[i]."""

    beyond: Floats
    mu: Floats

    def at(self, level: Floats) -> Floats:
        """The smallest known μ that a draw exceeds with at most this probability; the first is never exceeded."""
        return self.mu[np.searchsorted(self.beyond, level, side="right") - 1]


def exceeded(network: Network, received: Aggregate, k: int) -> Exceeded | None:
    """The law of device k's μ, rounded up; of any absent devices, the worst ones. None where it is not one number."""
    if not _certain(network, received) or not network.neighbours.keeps_noise:
        return None
    found = surroundings(received, 1.0)
    distance, own = received.distance(network.neighbours)[k], received.variance[k]
    here, sure = float(received.exposed[k]), np.array([ratio(distance, np.sqrt(own))])
    laws: list[Exceeded] = []
    for row in found.row[found.device == k]:
        mass, mu = found.low.mass[row], ratio(distance, np.sqrt(found.low.variance[row] + own))
        beyond = here * (np.append(0.0, np.cumsum(mass)[:-1]) + found.slack) * (1 + _ROUNDING)
        # No draw has less noise than the device's own, and none shows a device that is silent.
        laws.append(Exceeded(as_floats(np.concatenate(([0.0], beyond, [here]))), np.concatenate((sure, mu, [0.0]))))
    laws = [Exceeded(np.maximum.accumulate(law.beyond), law.mu) for law in laws]
    if len(laws) == 1:
        return laws[0]
    return Exceeded(_LEVELS, np.maximum.reduce([law.at(_LEVELS) for law in laws]))


def most_draws(network: Network, inferences: int, epochs: int) -> int:
    """Largest number of different surroundings of the inferences, over the draws of the channel.

    Devices that drop out need not be the same every time: each set of them has a law of its own.
    """
    others = network.devices.count - 1 - min(network.colluders, network.devices.count - 1)
    sets = 1 if network.channel.rules.separate else comb(others, min(network.dropouts, others))
    return min(inferences, epochs * sets)


class StillStream(NamedTuple):
    """Inferences over several draws of the channel, each draw with a μ of this law."""

    law: Exceeded
    inferences: int
    draws: int


def _levels(streams: Sequence[StillStream]) -> Floats:
    """Probabilities, from 0 on, at which the laws step; at most as many as _LEVELS."""
    level = np.unique(np.concatenate([each.law.beyond for each in streams]))
    return level if len(level) <= len(_LEVELS) else np.unique(level[np.searchsorted(level, _LEVELS, side="right") - 1])


def worst_of_draws(streams: Sequence[StillStream]) -> tuple[Floats, Floats]:
    """The law of √(Σ T·μ²) if every inference has the worst of its draws, rounded up: values, and probabilities.

    With probability 1 − u·Σ draws none of them exceeds the μ that one exceeds with probability u, whatever draws have
    to do with each other. So the curve of all inferences is at most that of a Gaussian whose distance has this law
    (docs/proofs/privacy.md, "Several draws of a channel").
    """
    level = _levels(streams)
    squares = [each.inferences * each.law.at(level) ** 2 for each in streams]
    distance = np.sqrt(np.sum(squares, axis=0)) * (1 + 1e-12)
    mass = np.diff(np.append(np.minimum(level * sum(each.draws for each in streams), 1.0), 1.0))
    return distance[mass > 0], mass[mass > 0]


def over_any_draws(streams: Sequence[StillStream], distance: float, delta: float, most: float) -> float:
    """ε at δ of these streams and a Gaussian at `distance`, however often the channel is drawn; `most` at most.

        δ(ε) ≤ G(0) + Σ T·E[μ² sup_{y ≥ μ²} G(y)/y; μ > m],    G(y) = δ_G(ε; √(y + Σ T·m² + distance²))

    for any choice of m, one for each stream (docs/proofs/privacy.md, "Several draws of a channel"). Tried: those that a
    draw exceeds with one of a few probabilities. Better than `worst_of_draws` where most draws are good and many are
    made.
    """
    level = _levels(streams)
    mass, squares = np.diff(np.append(level, 1.0)), np.array([each.law.at(level) ** 2 for each in streams])
    times = np.array([each.inferences for each in streams], dtype=np.float64)
    highest = float(times @ squares[:, 0])
    if not 0 < highest < np.inf or not 0 < most < np.inf:
        return most
    lowest = max(float(np.min(squares[squares > 0])), highest * 1e-12)
    y = np.geomspace(lowest, highest, max(int(np.log(highest / lowest) / _WIDTH), 2))
    tried = np.unique(level[np.searchsorted(level, np.geomspace(1e-15, 1.0, 16), side="right") - 1])
    bounds = np.array([each.law.at(tried) ** 2 for each in streams])
    base = times @ bounds + distance**2
    raised = np.maximum(squares, lowest)
    cell = np.searchsorted(y, raised, side="right") - 1
    # Σ T·E[μ²; μ > m] by choice of m and cell of μ².
    exposed = [(times[:, None] * mass * raised * (squares > m[:, None])).ravel() for m in bounds.T]
    shares = np.array([np.bincount(cell.ravel(), weights=each, minlength=len(y)) for each in exposed])

    def found(epsilon: float) -> float:
        given = gaussian.delta(epsilon, np.sqrt(np.append(0.0, y)[:, None] + base))
        steep = np.append(given[2:] / y[:-1, None], np.full((1, len(base)), 1 / y[-1]), axis=0)
        steep = np.maximum.accumulate(steep[::-1])[::-1]
        return float(np.min(given[0] + np.einsum("cy,yc->c", shares, steep))) * (1 + _ROUNDING)

    return min(most, smallest_number(lambda epsilon: log(max(found(epsilon), 1e-320) / delta), 0.0, most))
