"""ε of a stream from below: how far the promise may be from the truth (proof: docs/proofs/privacy.md, "From below").

The same data in every inference is one choice of the adversary. Then the number n of transmissions and the sum of all
that was received, each weighted by its noise, say all there is to say: given n and the noise, one Gaussian.
"""

from itertools import accumulate

import numpy as np

from airpool._support.arrays import Floats
from airpool._support.search import smallest_number
from airpool.account.games import decision
from airpool.network import Network, scheme_rules
from airpool.privacy import gaussian
from airpool.privacy.aggregate import Aggregate
from airpool.privacy.floor import Floor
from airpool.privacy.law import alike, binomial
from airpool.privacy.sums import RoundedSum, law_of
from airpool.privacy.unaligned import surroundings

# What is cut off of binomial laws.
_CUT = 1e-13
# Blocks of n, and cells of a sum given n, where n says something too.
_BLOCKS, _CELLS = 2**7, 2**8
# Kinds of devices of Scheme 2.1 for which it is computed: seconds each, for a million inferences.
_KINDS = 4
# What arithmetic may cost, as a share of δ.
_SHARE = 1e-6
# ln π, ln π′, ln(1−π), ln(1−π′): how often a device transmits and stays silent, with its feature and without it.
Chance = tuple[float, float, float, float]


def at_least(network: Network, received: Aggregate) -> Floats | None:
    """A lower end of ε of each device over the network's inferences; None where none is known.

        δ_T(ε) ≥ Σ_n Bin(n; T, π)·E[δ_G(ε − ln[Bin(n; T, π)/Bin(n; T, π′)]; Δ√S_n)]

    S_n: the sum of n draws of 1/(V + a), rounded down.
    Holds for: Scheme 1, and 2.1 of few kinds of devices without outages; zero-out and replace; visible participation;
    a channel that is redrawn, and whose law is what ε is computed from, not a bound on it.
    """
    if (
        network.cover_noise
        or not network.neighbours.keeps_noise
        or np.any(received.misses)
        or bounded(network, received)
    ):
        return None
    steady = bool(np.all(received.presence == 1)) and received.strength is None
    rules = scheme_rules(network.scheme)
    if not (steady or network.channel.redrawn) or rules.ranked or (rules.scored and not steady):
        return None
    chances, rarest = _chances(network, received)
    around, distance = surroundings(received, rarest), received.distance(network.neighbours)
    if received.strength is not None and not np.any(around.high.variance > 0):  # the others were not counted
        return None
    out = np.zeros(received.num_devices)
    columns = (distance, received.variance, received.lent, received.presence, received.kind_of_strength)
    _, of_device, _ = alike(*columns, *chances[-1])
    if rules.scored and of_device.max() >= _KINDS:
        return None
    for kind in np.unique(of_device):
        k = int(np.argmax(of_device == kind))
        every: list[Chance] = [(float(a[k]), float(b[k]), float(c[k]), float(d[k])) for a, b, c, d in chances]
        laws = [
            _ratios(around, int(row), float(received.variance[k])) for row in np.unique(around.row[around.device == k])
        ]
        each = (_epsilon(network, float(distance[k]), law, chance) for law in laws if law for chance in every)
        out[of_device == kind] = max(each, default=0.0)
    return out


def bounded(network: Network, received: Aggregate) -> bool:
    """Whether ε counts less noise, or more of a device, than there is, so that its own law is no lower end."""
    alone = received.alone and not network.channel.rules.separate
    beam = network.channel.antennas > 1 and network.channel.fading != "none"  # whose outages are not counted on
    # Scheme 2.2 is granted the worst selection. Scheme 2.1 is heard in spite of outages, and seen to decide under cover
    # noise. Under cover noise the cost of removal is a mean of two.
    rules = scheme_rules(network.scheme)
    covered = network.cover_noise and (not network.neighbours.keeps_noise or (rules.scored and not rules.ranked))
    unheard = rules.scored and not rules.ranked and bool(np.any(received.presence < 1))
    chosen = rules.ranked or unheard
    return received.weakened or alone or beam or covered or chosen


def _chances(network: Network, received: Aggregate) -> tuple[list[tuple[Floats, ...]], Floats | float]:
    """The chances of every device for each choice of the data, and how often others take part."""
    chosen = decision(network.scheme)
    if chosen is None:
        with np.errstate(divide="ignore"):
            on, off = np.log(received.exposed), np.log1p(-received.exposed)
        return [(on, on, off, off)], received.participation
    shape, ends = (received.num_devices,), (chosen.score_high, chosen.score_low)
    rare, often = (tuple(np.broadcast_to(x, shape) for x in chosen.log_participation(score)) for score in ends)
    pairs = ((rare, often), (often, rare), (often, often))
    return [(a[0], b[0], a[1], b[1]) for a, b in pairs], np.exp(rare[0])


def _ratios(around: Floor, row: int, own: float) -> tuple[Floats, Floats] | None:
    """The law of 1/(V + own), rounded down; None without any noise. The slack is taken from its largest values."""
    variance, mass = around.high.variance[row] + own, around.high.mass[row]
    if not np.all(variance > 0):
        return None
    before = np.cumsum(mass) - mass
    return 1 / variance, np.clip(before + mass - around.slack, 0.0, mass)


def _epsilon(network: Network, distance: float, law: tuple[Floats, Floats], chance: Chance) -> float:
    """The largest ε at which δ is exceeded for sure, for one choice of the data."""
    on, on_there, off, off_there = chance
    if not np.isfinite(on) or not np.isfinite(on_there):
        return 0.0
    times, one = network.uses, law_of(*law)
    if on == on_there:
        sums, weights, ratio = [law_of(law[0], law[1] * np.exp(on)).times(times)], np.ones(1), np.zeros(1)
    else:
        number, weights = binomial(times, float(np.exp(on)), tail=_CUT)
        # A sum of more draws is larger: those of a block of numbers count as that of its first.
        width, first = -(-len(number) // _BLOCKS), int(number[0])
        start = one.times(first) if first else RoundedSum(one.step, 0, np.ones(1))
        blocks = accumulate([start, *[one.times(width)] * ((len(number) - 1) // width)], RoundedSum.plus)
        sums = [each for block in blocks for each in [_small(block)] * width][: len(number)]
        silent = np.where(number < times, times - number, 0) * (off - off_there if off_there > -np.inf else 0.0)
        ratio = number * (on - on_there) + silent
    mass = np.concatenate([w * each.mass for w, each in zip(weights, sums, strict=True)]) * (1 - _SHARE)
    mu = distance * np.sqrt(np.concatenate([each.values for each in sums]))
    moved = np.repeat(ratio, [len(each.mass) for each in sums])

    def excess(eps: float) -> float:
        return float(np.log(max(float(mass @ gaussian.delta(eps - moved, mu)), 1e-320) / network.delta))

    high = float(np.max(moved + mu**2 / 2 + mu * np.sqrt(-2 * np.log(network.delta)))) + 1.0
    found = smallest_number(excess, 0.0, max(high, 1.0))
    return found * (1 - 1e-9) if np.isfinite(found) else 0.0


def _small(law: RoundedSum) -> RoundedSum:
    while len(law.mass) > _CELLS:
        law = law.coarser()
    return law
