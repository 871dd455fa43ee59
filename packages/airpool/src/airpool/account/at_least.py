"""ε from below: how far the promise may be from the truth (proof: docs/proofs/privacy.md, "From below").

The same data in every inference of a stream is one choice of the adversary. Then the number n of transmissions and the
sum of all that was received, each weighted by its noise, say all there is to say: given n and the noise, one Gaussian.
"""

from itertools import accumulate

import numpy as np

from airpool._support.arrays import Floats
from airpool._support.search import smallest_number
from airpool.account.views import Situation
from airpool.privacy import gaussian
from airpool.privacy.floor import Floor
from airpool.privacy.law import binomial
from airpool.privacy.leak import Decided, Gaussian, PerDevice
from airpool.privacy.sums import RoundedSum, law_of

# What is cut off of binomial laws.
_CUT = 1e-13
# Blocks of n, and cells of a sum given n, where n says something too.
_BLOCKS, _CELLS = 2**7, 2**8
# Kinds of devices of Scheme 2.1 for which it is computed: seconds each, for a million inferences.
_KINDS = 4
# Removal and scores: e^ε beyond this is out of floating point's reach, and ε reported as inf may be finite.
_RESOLVED = 700.0
# What arithmetic may cost, as a share of δ.
_SHARE = 1e-6
# ln π, ln π′, ln(1−π), ln(1−π′): how often a device transmits and stays silent, with its feature and without it.
Chance = tuple[float, float, float, float]


def at_least(situation: Situation, lower: Floats | None) -> Floats | None:
    """A lower end of ε of each device over all uses; None where none is known. lower: that of a single use.

        δ_T(ε) ≥ Σ_n Bin(n; T, π)·E[δ_G(ε − ln[Bin(n; T, π)/Bin(n; T, π′)]; Δ√S_n)]

    S_n: the sum of n draws of 1/(V + a), rounded down.
    Holds for: one use; of a stream Scheme 1, and 2.1 of few kinds of devices without outages; zero-out and replace;
    visible participation; a channel that is redrawn, and whose law is what ε is computed from, not a bound on it.
    """
    if _bounded(situation):
        return None
    network, here, scheme = situation.network, situation.here, situation.network.scheme
    keeps_noise = situation.claim.neighbours.keeps_noise
    if situation.uses == 1:
        return None if lower is None else np.minimum(lower, np.inf if scheme.independent and keeps_noise else _RESOLVED)
    if network.cover_noise or not keeps_noise or np.any(here.misses) or situation.static:
        return None
    if not scheme.independent and here.varies:
        return None
    leak = situation.once
    seen, signal = leak.seen, leak.signal
    assert seen is not None
    assert isinstance(signal, Gaussian)
    if here.strength is not None and not np.any(seen.noise.high.variance > 0):  # the others were not counted
        return None
    if not scheme.independent and leak.num_kinds > _KINDS:
        return None
    found = np.zeros(len(leak.kind))
    for case in leak.cases:
        if law := _ratios(seen.noise, int(seen.noise.row[case]), float(signal.own[case])):
            distance, chance = float(signal.shift[case]), _chance(leak, case)
            found[case] = _epsilon(situation.uses, situation.claim.delta, distance, law, chance)
    return leak.worst(found)[leak.of_device]


def _chance(leak: PerDevice, case: int) -> Chance:
    """How often the device transmits and stays silent, in one case."""
    if isinstance(leak.leak, Decided):
        (on, on_there), (off, off_there) = leak.leak.on[:, case], leak.leak.off[:, case]
        return float(on), float(on_there), float(off), float(off_there)
    assert leak.seen is not None
    with np.errstate(divide="ignore"):
        on, off = (float(f(x * leak.seen.exposed[case])) for f, x in ((np.log, 1), (np.log1p, -1)))
    return on, on, off, off


def _bounded(situation: Situation) -> bool:
    """Whether ε counts less noise, or more of a device, than there is, so that its own law is no lower end."""
    network, here = situation.network, situation.here
    alone = here.alone and not network.channel.rules.separate
    beam = network.channel.antennas > 1 and network.channel.fading != "none"  # whose outages are not counted on
    # Scheme 2.2 is granted the worst selection. Scheme 2.1 is heard in spite of outages, and seen to decide under cover
    # noise. Under cover noise the cost of removal is a mean of two.
    scheme = network.scheme
    decided = not (scheme.independent or scheme.needs_ranking_server)
    covered = network.cover_noise and (not situation.claim.neighbours.keeps_noise or decided)
    unheard = decided and bool(np.any(here.presence < 1))
    chosen = scheme.needs_ranking_server or unheard
    return here.weakened or alone or beam or covered or chosen


def _ratios(around: Floor, row: int, own: float) -> tuple[Floats, Floats] | None:
    """The law of 1/(V + own), rounded down; None without any noise. The slack is taken from its largest values."""
    variance, mass = around.high.variance[row] + own, around.high.mass[row]
    if not np.all(variance > 0):
        return None
    before = np.cumsum(mass) - mass
    return 1 / variance, np.clip(before + mass - around.slack, 0.0, mass)


def _epsilon(times: int, delta: float, distance: float, law: tuple[Floats, Floats], chance: Chance) -> float:
    """The largest ε at which δ is exceeded for sure, for one choice of the data."""
    on, on_there, off, off_there = chance
    if not np.isfinite(on) or not np.isfinite(on_there):
        return 0.0
    one = law_of(*law)
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
        return float(np.log(max(float(mass @ gaussian.delta(eps - moved, mu)), 1e-320) / delta))

    high = float(np.max(moved + mu**2 / 2 + mu * np.sqrt(-2 * np.log(delta)))) + 1.0
    found = smallest_number(excess, 0.0, max(high, 1.0))
    return found * (1 - 1e-9) if np.isfinite(found) else 0.0


def _small(law: RoundedSum) -> RoundedSum:
    while len(law.mass) > _CELLS:
        law = law.coarser()
    return law
