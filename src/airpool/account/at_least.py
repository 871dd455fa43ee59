"""ε of a stream from below: how far the promise may be from the truth (proof: docs/proofs/privacy.md, "From below").

The same data in every inference is one choice of the adversary. Then the number n of transmissions and the sum of all
that was received, each weighted by its noise, say all there is to say: given n and the noise, one Gaussian.
"""

import numpy as np

from airpool.arrays import Floats
from airpool.network import Coin, Network, Threshold
from airpool.privacy import gaussian
from airpool.privacy.aggregate import Aggregate
from airpool.privacy.floor import Floor
from airpool.privacy.law import alike, binomial
from airpool.privacy.leakage import Decision
from airpool.privacy.unaligned import surroundings
from airpool.search import smallest_number
from airpool.selection.scores import score_range

# Chances to miss the sum of n draws of μ² that are tried; the best one counts.
_MISSED = (0.5, 0.1, 1e-3)
# What is cut off of binomial laws, and what their arithmetic may cost, as a share of δ.
_CUT, _SHARE = 1e-12, 1e-6


def at_least(network: Network, received: Aggregate) -> Floats | None:
    """A lower end of ε of each device over the network's inferences; None where none is known.

        δ_T(ε) ≥ (1 − q)·Σ_n Bin(n; T, π)·δ_G(ε − ln[Bin(n; T, π)/Bin(n; T, π′)]; Δ√s_n)

    s_n: what the sum of n draws of 1/(V + a) stays above but for a chance q (Bernstein).
    Holds for: Scheme 1, and 2.1 without outages; zero-out and replace; visible participation; channels that are redrawn.
    """
    steady = bool(np.all(received.presence == 1)) and received.strength is None
    known = isinstance(network.scheme, Coin) or (isinstance(network.scheme, Threshold) and steady)
    plain = not (network.cover_noise or received.weakened or np.any(received.misses)) and network.neighbours != "remove"
    if not (known and plain and (network.channel.redrawn or steady)):
        return None
    chances, rarest = _chances(network, received)
    found = surroundings(received, rarest)
    distance, out = received.distance(network.neighbours), np.zeros(received.num_devices)
    _, of_device, _ = alike(distance, received.variance, received.kind_of_strength, received.lent, *chances[0])
    for kind in np.unique(of_device):
        k = int(np.argmax(of_device == kind))
        rows = found.row[found.device == k]
        sums = [_moments(found, int(row), float(received.variance[k])) for row in np.unique(rows)]
        chance = [tuple(float(x[k]) for x in each) for each in chances]
        out[of_device == kind] = max(
            _epsilon(network.inferences, network.delta, distance[k], each, *moments)
            for each in chance
            for moments in sums
        )
    return out


def _chances(network: Network, received: Aggregate) -> tuple[list[tuple[Floats, ...]], Floats | float]:
    """ln π, ln π′, ln(1−π), ln(1−π′) of each device, for every choice of the data; how often others take part."""
    if not isinstance(network.scheme, Threshold):
        with np.errstate(divide="ignore"):
            on, off = np.log(received.exposed), np.log1p(-received.exposed)
        return [(on, on, off, off)], received.participation
    low, high = map(np.asarray, score_range(network.scheme))
    scheme = Decision(low, high, np.asarray(network.scheme.score_noise_std), network.scheme.threshold)
    shape = (received.num_devices,)
    rare, often = (tuple(np.broadcast_to(x, shape) for x in scheme.log_participation(score)) for score in (high, low))
    pairs = ((rare, often), (often, rare), (often, often))
    return [(a[0], b[0], a[1], b[1]) for a, b in pairs], np.exp(rare[0])


def _moments(floor: Floor, row: int, own: float) -> tuple[float, float, float]:
    """Of X = 1/(V + own): its mean from below and from above, and its variance from above."""
    with np.errstate(divide="ignore"):
        low, high = (1 / (law.variance[row] + own) for law in (floor.low, floor.high))
        largest = 1 / own if own > 0 and not (floor.exact and not floor.slack) else float(np.max(low))
    if not np.isfinite(largest) or not np.all(np.isfinite(low)):
        return 0.0, np.inf, 0.0
    if floor.exact and np.count_nonzero(floor.low.mass[row]) == 1:
        only = float(floor.low.mass[row] @ low)
        return only, only, 0.0
    mean = float(floor.high.mass[row] @ high) - floor.slack * largest
    most = float(floor.low.mass[row] @ low) + floor.slack * largest
    square = float(floor.low.mass[row] @ low**2) + floor.slack * largest**2
    return max(mean, 0.0), most, max(square - max(mean, 0.0) ** 2, 1e-12 * square)


def _epsilon(
    times: int, delta: float, distance: float, chance: tuple[float, ...], mean: float, most: float, variance: float
) -> float:
    on, on_there, off, off_there = chance
    if not np.isfinite(most) or on == -np.inf or on_there == -np.inf:
        return 0.0
    number, mass = binomial(times, float(np.exp(on)), tail=_CUT)
    n = number.astype(np.float64)
    with np.errstate(invalid="ignore"):
        silent = np.where(n < times, (times - n) * (off - off_there if off != off_there else 0.0), 0.0)
    ratio = n * (on - on_there) + silent
    found = 0.0
    for missed in (0.0,) if variance == 0 else _MISSED:
        t = -np.log(missed) if missed else 0.0
        least = n * mean - (most * t / 3 + np.sqrt((most * t / 3) ** 2 + 2 * n * variance * t))
        mu = distance * np.sqrt(np.maximum(least, 0.0))
        share = (1 - missed) * (1 - _SHARE)

        def excess(eps: float, mu: Floats = mu, share: float = share) -> float:
            return float(np.log(max(share * float(mass @ gaussian.delta(eps - ratio, mu)), 1e-320) / delta))

        high = float(np.max(ratio + mu**2 / 2 + mu * np.sqrt(-2 * np.log(delta)))) + 1
        reached = smallest_number(excess, 0.0, max(high, 1.0))
        found = max(found, reached * (1 - 1e-9) if np.isfinite(reached) else 0.0)
    return found
