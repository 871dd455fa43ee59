"""The δ of every device once more, in plain loops: an independent answer to check the package's ε against.

Written from the specification alone (§2 to §4): scalar functions of mpmath, a loop over every participation pattern and
every set of absent devices. It shares no code with `airpool.privacy`; of the package it uses γ, a design choice.
δ falls as ε grows, so a claimed ε is large enough exactly where δ at that ε is at most the claim's own δ.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property
from itertools import combinations
from math import inf, log
from typing import Any

import mpmath as mp
import numpy as np
from scipy.special import gammainc, gammaincc
from scipy.stats import chi2

from airpool.network import Claim, Coin, Network, Ranking, Threshold, scored
from airpool.radio.link import link_of

DIGITS = 30
# A number of mpmath's, whose types have no stubs, or a plain one.
Real = Any


# Pairs of laws


@cache
def gaussian(epsilon: Real, mu: Real) -> Real:
    """§3.2: δ_G(ε; μ) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)."""
    if mu == inf:
        return mp.mpf(1)
    if epsilon == inf:
        return mp.mpf(0)
    if mu == 0:
        return max(mp.mpf(0), -mp.expm1(epsilon))
    epsilon, mu = mp.mpf(epsilon), mp.mpf(mu)
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def distance(shift: Real, variance: Real) -> Real:
    """Δ/√v: 0 without a shift, else infinite without noise."""
    if shift == 0:
        return mp.mpf(0)
    return shift / mp.sqrt(variance) if variance > 0 else mp.inf


def hidden(epsilon: Real, p: Real) -> list[tuple[Real, Real]]:
    """§3.5: (1−p)Q + pP against Q is a factor times P against Q at another ε; then the same for Q against (1−p)Q + pP.

    A factor and an ε for each.
    """
    p = mp.mpf(p)
    nothing = (mp.mpf(0), mp.mpf(0))
    if p == 0:
        return [nothing, nothing]
    if epsilon == inf:
        return [(p, mp.inf), (p if p == 1 else mp.mpf(0), mp.inf)]
    c = 1 - mp.exp(epsilon) * (1 - p)
    return [(p, mp.log(1 + mp.expm1(epsilon) / p)), (c, epsilon + mp.log(p / c)) if c > 0 else nothing]


def cover_zero_out(epsilon: Real, p: Real, mu: Real) -> list[Real]:
    """§3.4: with the feature over without it, and without over with."""
    return [factor * gaussian(moved, mu) for factor, moved in hidden(epsilon, p)]


def cover_replace(epsilon: Real, p: Real, mu: Real) -> list[Real]:
    """§3.4: (1−p)N(0) + pN(μ) against (1−p)N(0) + pN(−μ), beyond the y at which the likelihood ratio is e^ε."""
    p = mp.mpf(p)
    if mu == 0 or p == 0 or (epsilon == inf and mu < inf):
        return [mp.mpf(0)]
    if mu == inf:
        return [p]

    def excess(y: Real) -> Real:
        above, below = (p * mp.exp(sign * mu * y - mu**2 / 2) for sign in (1, -1))
        return mp.log((1 - p + above) / (1 - p + below)) - epsilon

    low, high = mp.mpf(0), mp.mpf(1)
    while excess(high) < 0:
        low, high = high, 2 * high
    for _ in range(90):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) < 0 else (low, middle)
    tails = [(1 - p) * mp.ncdf(-high) + p * mp.ncdf(mean - high) for mean in (mu, -mu)]
    return [tails[0] - mp.exp(epsilon) * tails[1]]


@cache
def noncentral(x: float, r: int, centre: float) -> tuple[float, float]:
    """Pr(χ²_r(centre) ≤ x) and Pr(> x), a Poisson mixture of central laws, term by term."""
    if x <= 0:
        return 0.0, 1.0
    rate = centre / 2
    width = 40 * np.sqrt(rate) + 400
    j = np.arange(max(0, int(rate - width)), int(max(rate, x / 2) + width) + 1)
    start = int(np.argmin(np.abs(j - rate)))
    # From the most likely term outwards, so that no large logarithms cancel.
    up, down = np.cumprod(rate / j[start + 1 :]), np.cumprod(j[start:0:-1] / rate) if rate else np.array([])
    weight = np.concatenate([down[::-1], [1.0], up])
    weight /= weight.sum()
    return float(weight @ gammainc(r / 2 + j, x / 2)), float(weight @ gammaincc(r / 2 + j, x / 2))


def removal(epsilon: Real, shift: float, a: float, b: float, r: int) -> tuple[Real, Real]:
    """§3.5: H_ε(P‖Q) and H_ε(Q‖P) of P = N(Δ, aI_r) and Q = N(0, bI_r), a ≥ b, ε ≥ 0.

    ln(p/q) = A‖y + m‖² − ..., A = (1/b − 1/a)/2, m = Δ/(2aA): beyond a radius for the one, within one for the other.
    """
    if a == b:
        same = gaussian(epsilon, distance(shift, a))
        return same, same
    if b == 0:
        return mp.mpf(1), mp.mpf(1)
    if epsilon == inf:
        return mp.mpf(0), mp.mpf(0)
    lean = (1 / b - 1 / a) / 2
    m = shift / (2 * a * lean)

    def radius2(level: float) -> float:
        return (level + r / 2 * log(a / b) + shift**2 / (2 * a) + lean * m**2) / lean

    far, near = radius2(float(epsilon)), radius2(-float(epsilon))
    e = mp.exp(epsilon)
    p_far, q_far = noncentral(far / a, r, (shift + m) ** 2 / a)[1], noncentral(far / b, r, m**2 / b)[1]
    p_near, q_near = noncentral(near / a, r, (shift + m) ** 2 / a)[0], noncentral(near / b, r, m**2 / b)[0]
    return p_far - e * q_far, q_near - e * p_near


# A network


class Oracle:
    """δ of each device of a network at any ε ≥ 0, one inference."""

    def __init__(self, network: Network, claim: Claim) -> None:
        d, channel = network.devices, network.channel
        self.network, self.claim = network, claim
        self.devices = range(d.count)
        self.shift = [w * c for w, c in zip(d.column("weight"), d.column("clip_norm"), strict=True)]
        self.variance = [mp.mpf(std) ** 2 for std in d.column("noise_std")]
        self.participation = d.column("participation")
        self.gamma = link_of(network).gamma
        # Errors of the gain leave a device its own noise (the others' counts in part, §9); so does orthogonal access
        # (§2, §3.1). Phases cost nothing.
        unsure = channel.csi_error_std > 0
        self.alone = unsure or channel.access == "orthogonal"
        self.extra = (
            mp.mpf(channel.noise_std / self.gamma) ** 2 if claim.credit_channel_noise and not unsure else mp.mpf(0)
        )
        outage = [self.outage(k) for k in self.devices]
        # Too weak: silent under truncate; under backoff its signal counts as aligned and its noise does not count.
        self.heard = [1 - q if channel.power_rule == "truncate" else mp.mpf(1) for q in outage]
        self.lends = [1 - q for q in outage]

    @property
    def coordinates(self) -> int:
        """§9: where complex symbols may be turned, an odd r is filled up, with noise."""
        channel, r = self.network.channel, self.network.dimension
        turned = channel.csi_error_std > 0 or channel.phase_error_std > 0
        return r + r % 2 if turned else r

    def outage(self, k: int) -> Real:
        """Pr(ĥ < t), t = γ√(w²C² + rσ²)(1+margin)/√P, ĥ = |μ + CN(0, V)|: a Poisson mixture of Gamma laws."""
        network, channel, r = self.network, self.network.channel, self.coordinates
        margin = np.sqrt(chi2.isf(1e-3, r) / r)
        power = 10 ** (network.devices.column("power_dbm")[k] / 10)
        t = self.gamma * np.sqrt(self.shift[k] ** 2 + r * float(self.variance[k])) * margin / np.sqrt(power)
        if t == 0:
            return mp.mpf(0)
        factor = 10 ** (channel.k_factor_db / 10)
        steady = {"none": 1.0, "rayleigh": 0.0, "rician": factor / (1 + factor)}[channel.fading]
        scattered = 1 - steady + channel.csi_error_std**2
        if scattered == 0:
            return mp.mpf(1 if t > 1 + 1e-12 else 0)
        return mp.mpf(noncentral(2 * t**2 / scattered, 2, 2 * steady / scattered)[0])

    def distance(self, k: int) -> float:
        return self.shift[k] * (2 if self.claim.neighbours == "replace" else 1)

    def honest(self, k: int) -> Iterator[list[int]]:
        """Whose noise counts for device k, for every set of others that collude or dropped out."""
        others = [i for i in self.devices if i != k and i not in self.claim.colluding]
        absent = min(self.network.colluders + self.network.dropouts, len(others))
        if self.alone:
            yield []
            return
        for gone in combinations(others, absent):
            yield [i for i in others if i not in gone]

    def patterns(self, chances: dict[int, Real]) -> Iterator[tuple[Real, list[int]]]:
        """Every set of these devices, with its probability."""
        for size in range(len(chances) + 1):
            for present in combinations(chances, size):
                probability = mp.mpf(1)
                for i, chance in chances.items():
                    probability *= chance if i in present else 1 - chance
                if probability > 0:
                    yield probability, list(present)

    def expected(self, chances: dict[int, Real], given: Callable[[Real], Sequence[Real]]) -> Real:
        """E[δ given the noise of the others], each direction by itself, then the larger."""
        total: list[Real] = []
        for probability, present in self.patterns(chances):
            found = [probability * x for x in given(self.extra + sum(self.variance[i] for i in present))]
            total = [x + y for x, y in zip(total, found, strict=True)] if total else found
        return max(total)

    def delta(self, k: int, epsilon: Real) -> Real:
        """δ of device k at ε, for the worst set of absent devices."""
        by_scheme = {"1": self.by_coin, "2.1": self.by_threshold, "2.2": self.by_rank}[self.network.scheme.name]
        return max(by_scheme(k, epsilon, honest) for honest in self.honest(k))

    def by_coin(self, k: int, epsilon: Real, honest: list[int]) -> Real:
        """Scheme 1, §3.3 to §3.5."""
        p, own, shift = self.participation[k], self.variance[k], self.shift[k]
        covered, neighbours = self.network.cover_noise, self.claim.neighbours
        chances = {i: self.lends[i] * (1 if covered else self.participation[i]) for i in honest}

        def known(noise: Real) -> Sequence[Real]:
            return [self.heard[k] * p * gaussian(epsilon, distance(self.distance(k), noise + own))]

        def hidden_coin(noise: Real) -> Sequence[Real]:
            law = cover_replace if neighbours == "replace" else cover_zero_out
            return [self.heard[k] * x for x in law(epsilon, p, distance(shift, noise + own))]

        def gone(noise: Real) -> Sequence[Real]:
            if own == 0 and shift == 0:
                return [mp.mpf(0)]
            a, b = float(noise + own), float(noise)
            pairs = enumerate(hidden(epsilon, p))
            return [
                self.heard[k] * factor * removal(moved, shift, a, b, self.coordinates)[way]
                for way, (factor, moved) in pairs
            ]

        def gone_covered(noise: Real) -> Sequence[Real]:
            if own == 0 and shift == 0:
                return [mp.mpf(0)]
            a, b = float(noise + own), float(noise)
            full, empty = (removal(epsilon, x, a, b, self.coordinates) if x or own else (0, 0) for x in (shift, 0.0))
            return [self.heard[k] * (p * x + (1 - p) * y) for x, y in zip(full, empty, strict=True)]

        if neighbours == "remove":
            return self.expected(chances, gone_covered if covered else gone)
        return self.expected(chances, hidden_coin if covered else known)

    @cached_property
    def score_range(self) -> float:
        """§4: the true range of a bounded score."""
        scheme = scored(self.network.scheme)
        return scheme.score_bound / (1 if scheme.score_rule == "clip" else 2)

    def by_threshold(self, k: int, epsilon: Real, honest: list[int]) -> Real:
        """Scheme 2.1, §4: the worst of the four corners, the others at their rarest."""
        scheme, own = self.network.scheme, self.variance[k]
        assert isinstance(scheme, Threshold)
        logs = [
            tuple(mp.log(mp.ncdf(sign * (scheme.threshold - u) / scheme.score_noise_std)) for sign in (1, -1))
            for u in (0.0, self.score_range)
        ]
        rarest = mp.exp(logs[1][0])
        chances = {i: self.lends[i] * (1 if self.network.cover_noise else rarest) for i in honest}

        def corners(noise: Real) -> Sequence[Real]:
            mu = distance(self.distance(k), noise + own)
            return [
                self.heard[k]
                * (
                    max(mp.mpf(0), mp.exp(silent) - mp.exp(epsilon + other_silent))
                    + mp.exp(speaks) * gaussian(epsilon - speaks + other_speaks, mu)
                )
                for speaks, silent in logs
                for other_speaks, other_silent in logs
            ]

        return self.expected(chances, corners)

    def by_rank(self, k: int, epsilon: Real, honest: list[int]) -> Real:
        """Scheme 2.2, §4: the scores are seen, and the others that are selected are those that lend the least noise.

        Under cover noise the others lend theirs, selected or not.
        """
        scheme, own = self.network.scheme, self.variance[k]
        assert isinstance(scheme, Ranking)
        others = [i for i in self.devices if i != k]
        seen = mp.mpf(self.score_range) / scheme.score_noise_std

        def both(noise: Real) -> Sequence[Real]:
            mu = distance(self.distance(k), noise + own)
            heard = gaussian(epsilon, mp.sqrt(seen**2 + mu**2) if mu < inf else mp.inf)
            return [self.heard[k] * heard + (1 - self.heard[k]) * gaussian(epsilon, seen)]

        lending = [others] if self.network.cover_noise else combinations(others, scheme.num_selected - 1)
        return max(self.expected({i: self.lends[i] for i in noisy if i in honest}, both) for noisy in lending)

    def local(self, k: int, epsilon: Real) -> Real:
        """§3.1: nobody else trusted; removal shows a device at once, and what a score tells comes on top."""
        if not isinstance(self.network.scheme, Coin):
            alone = replace(self.network, channel=replace(self.network.channel, access="orthogonal"))
            own = Oracle(alone, replace(self.claim, credit_channel_noise=False))
            return own.delta(k, epsilon)
        if self.claim.neighbours == "remove":
            return mp.mpf(self.shift[k] > 0 or self.variance[k] > 0)
        return gaussian(epsilon, distance(self.distance(k), self.variance[k]))

    def object(self, epsilon: Real) -> Real:
        """§3.1: all views change at once, participation known; nobody absent, zero-out or replace.

        Whose noise is there: that of all who are heard under truncate, of those who are not too weak under backoff;
        under cover noise that of the silent too.
        """
        net, everybody = self.network, set(self.devices)
        lent = {i: mp.mpf(1) if net.channel.power_rule == "truncate" else self.lends[i] for i in self.devices}
        total = mp.mpf(0)
        for chance, heard in self.patterns({i: self.heard[i] for i in everybody}):
            for often, speaking in self.patterns({i: self.participation[i] for i in heard}):
                if self.alone:
                    squares = (distance(self.distance(i), self.variance[i] + self.extra) ** 2 for i in speaking)
                    total += chance * often * gaussian(epsilon, mp.sqrt(sum(squares)))
                    continue
                shift = sum(self.distance(i) for i in speaking)
                noisy = {i: lent[i] for i in (heard if net.cover_noise else speaking)}
                given = self.expected(noisy, lambda noise, shift=shift: [gaussian(epsilon, distance(shift, noise))])
                total += chance * often * given
        return total
