"""Tests of the claims that every ε rests on: noise, clip, participation and sum, by an auditor who hears everything.

A distinguishing game hears a device's own noise only beneath the others', and takes many runs to miss a part of it.
Here the auditor knows all other draws: own noise is seen alone, and its energy is σ²·χ² exactly. Two worlds are played,
one without features and one with features ten times as long as the clip norm allows (scores: ten times their range).
All limits are exact, and all tests share the probability of a false alarm equally (union bound).
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainccinv, gammaincinv, ndtr, stdtrit

from airpool._support.arrays import Floats
from airpool._support.rounding import down, full, up
from airpool.evaluation.audit.bound import clopper_pearson
from airpool.evaluation.audit.path import Overheard, Path, World, path
from airpool.network import Network, scored
from airpool.protocol.medium import turned
from airpool.radio.link import Link, link_of


@dataclass(frozen=True)
class Evidence:
    """One claim: what is claimed, what was measured, and the limits that hold with the confidence of the test.

    device: None where the claim is about the sum. affects: what would be false if the claim were. world:
    what devices held.
    """

    claim: str
    device: int | None
    quantity: str
    claimed: float
    measured: float
    low: float
    high: float
    affects: str
    world: str = "no feature"

    @property
    def contradicted(self) -> bool:
        return self.claimed < self.low or self.claimed > self.high

    def to_json(self) -> dict[str, Any]:
        plain = {name: str(x) if isinstance(x, float) and np.isinf(x) else x for name, x in asdict(self).items()}
        return plain | {"contradicted": self.contradicted}

    def __str__(self) -> str:
        whose = "the sum" if self.device is None else f"device {self.device}"
        beyond = f"at least {down(self.low)}" if self.claimed < self.low else f"at most {up(self.high)}"
        verdict = f"{beyond}: CONTRADICTED ({self.affects})" if self.contradicted else "not contradicted"
        found = f"{self.quantity} {self.measured:.4g}, claimed {full(self.claimed)}"
        return f"{whose}, {self.claim} ({self.world}): {found}; {verdict}"


# The error that a test may make → its outcome.
Test = Callable[[float], Evidence]


def _test(
    claim: str,
    k: int | None,
    quantity: str,
    claimed: float,
    measured: float,
    affects: str,
    limits: Callable[[float], tuple[float, float]],
) -> Test:
    return lambda error: Evidence(claim, k, quantity, claimed, measured, *limits(error), affects)


def least_noise(claim: str, k: int | None, energy: float, count: int, std: float, affects: str) -> Test:
    def limits(error: float) -> tuple[float, float]:
        return 0.0, std_limits(float(energy), count, error=error)[1]

    return _test(claim, k, "standard deviation", float(std), float(np.sqrt(energy / max(count, 1))), affects, limits)


def law(k: int, units: Floats) -> Test:
    away = distance_from_normal(units)

    def limits(error: float) -> tuple[float, float]:
        return max(0.0, away - chance_distance(len(units), error=error)), 1.0

    return _test("law of own noise", k, "distance from N(0, σ²)", 0.0, away, "every ε", limits)


def independent(name: str, k: int, product: float, left: float, right: float, *, count: int) -> Test:
    correlation = float(product / np.sqrt(left * right)) if left > 0 and right > 0 else 0.0

    def limits(error: float) -> tuple[float, float]:
        most = chance_correlation(count, error=error)
        return correlation - most, correlation + most

    return _test(f"own noise, {name}", k, "correlation", 0.0, correlation, "every ε", limits)


def most_mean(claim: str, quantity: str, k: int, values: Floats, most: float, affects: str) -> Test:
    def limits(error: float) -> tuple[float, float]:
        return least_mean(values, error=error), np.inf

    return _test(claim, k, quantity, float(most), float(np.mean(values)) if len(values) else 0.0, affects, limits)


def rate(claim: str, k: int | None, happened: Any, probability: float, *, claimed_from: int | None = None) -> Test:
    """claimed_from: draws that the claim itself was found by; its own limits then widen those of what was measured."""
    count, trials = int(np.sum(happened)), len(happened)

    def limits(error: float) -> tuple[float, float]:
        share = error / 2 if claimed_from is None else error / 4
        low, high = (float(x) for x in clopper_pearson(count, trials, error=share)) if trials else (0.0, 1.0)
        if claimed_from is not None:
            seen = round(probability * claimed_from)
            least, most = (float(x) for x in clopper_pearson(seen, claimed_from, error=share))
            low, high = low - (most - probability), high + (probability - least)
        return low, high

    return _test(claim, k, "frequency", probability, count / max(trials, 1), "every ε", limits)


def receiver(claimed: float, energy: float, count: int, rounding: float) -> Test:
    measured = float(np.sqrt(energy / max(count, 1)))

    def limits(error: float) -> tuple[float, float]:
        low, high = std_limits(energy, count, error=error / 2)
        return (max(0.0, low - rounding), high + rounding) if claimed else (max(0.0, measured - rounding), np.inf)

    claim, affects = "what it holds beside all signals (receiver noise)", "accuracy; every ε, if it is more"
    return _test(claim, None, "standard deviation", claimed, measured, affects, limits)


def std_limits(energy: float, count: int, *, error: float) -> tuple[float, float]:
    """Limits of σ from the sum of squares of `count` numbers of N(0, σ²), which is σ²·χ²; each may err by `error`.

    Edge cases: no numbers → 0 and inf.

    >>> [round(limit, 3) for limit in std_limits(100.0, 100, error=0.025)]
    [0.879, 1.161]
    """
    if count == 0:
        return 0.0, np.inf
    low, high = 2 * gammaincinv(count / 2, error), 2 * gammainccinv(count / 2, error)
    return float(np.sqrt(energy / high)), float(np.sqrt(energy / low)) if low > 0 else np.inf


def least_mean(values: ArrayLike, *, error: float) -> float:
    """A lower limit of the mean of Gaussian numbers of unknown variance (Student); −inf for fewer than two.

    >>> round(least_mean([1.0, 2.0, 3.0], error=0.05), 3)
    0.314
    """
    x = np.asarray(values, dtype=np.float64)
    if x.size < 2:
        return -np.inf
    return float(x.mean() + stdtrit(x.size - 1, error) * x.std(ddof=1) / np.sqrt(x.size))


def chance_correlation(count: int, *, error: float) -> float:
    """|Σxy|/√(Σx² Σy²) of `count` pairs stays below this: x centred Gaussian, y anything that is independent of x.

    The direction of x is uniform on the sphere, and √(m − 1)·c/√(1 − c²) has Student's law with m − 1 degrees.

    >>> round(chance_correlation(1_000, error=0.05), 3), chance_correlation(1, error=0.05)
    (0.062, 1.0)
    """
    if count < 2:
        return 1.0
    t = -float(stdtrit(count - 1, error / 2))
    return t / float(np.sqrt(t * t + count - 1)) if np.isfinite(t) else 1.0


def distance_from_normal(values: Floats) -> float:
    """The largest distance between the distribution of the values and that of N(0, 1) (Kolmogorov and Smirnov).

    >>> round(distance_from_normal(np.array([-1.0, 0.0, 1.0])), 4)
    0.1747
    """
    x, n = ndtr(np.sort(values)), len(values)
    steps = np.arange(n + 1) / n
    return float(max(np.max(steps[1:] - x), np.max(x - steps[:-1]))) if n else 0.0


def chance_distance(count: int, *, error: float) -> float:
    """Bound that `distance_from_normal` of `count` draws exceeds with probability `error` at most; 1 without draws.

        Pr(distance > d) ≤ 2 exp(−2 n d²)      (Dvoretzky, Kiefer and Wolfowitz, with Massart's constant)

    >>> round(chance_distance(1_000, error=0.05), 4)
    0.0429
    """
    return min(1.0, float(np.sqrt(np.log(2 / error) / (2 * count)))) if count else 1.0


_BEYOND = 10.0  # how much longer than allowed features are, and scores
_MOST_NUMBERS = 2**24  # of a game: enough for a thousandth of σ at every device of a usual network
_BATCH = 2**20
_LAW_SAMPLE = 2**14  # numbers of a device whose distribution is compared with the Gaussian
_ROUNDING = 1e-9  # of a sum without receiver noise, relative to what is in it


def enough(network: Network, runs: int) -> int:
    """Number of runs that are tested: `runs`, capped where a thousandth of a usual σ is resolved, but not below 200."""
    return min(runs, max(200, _MOST_NUMBERS // (2 * network.devices.count * network.coordinates)))


def measure(
    network: Network,
    *,
    runs: int,
    rng: np.random.Generator,
    confidence: float = 0.95,
    played: Path | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> list[Evidence]:
    """All claims, on `runs` runs of each world; chance contradicts any of them with probability ≤ 1 − confidence.

    played: the path to test, by default the network's own.
    Holds for: noise, coins and gains that are as claimed and independent. The alignments are taken as the path reports
    them; that the sum is what they say is tested.
    Not tested: how often power suffices, except under truncate with known channels and one antenna; the noise of the
    sum under the power rule `paper`, where the alignment depends on it.
    """
    if runs < 4:
        raise ValueError(f"runs={runs} must be at least 4, two in each of two calls")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence:g} must be > 0 and < 1")
    link = link_of(network)
    run = path(network, link=link) if played is None else played
    tests: list[tuple[Test, str]] = []
    for long in (False, True):
        world, along = _world(network, long, rng)
        heard = _Sums(network, link, world, along)
        for size in _sizes(runs, network.devices.count * network.coordinates):
            heard.add(run(world, size, rng))
            if on_batch is not None:
                on_batch(size)
        tests += [(test, "long feature" if long else "no feature") for test in heard.tests()]
    return [replace(test((1 - confidence) / len(tests)), world=world) for test, world in tests]


def _sizes(runs: int, numbers: int) -> list[int]:
    """An even number of calls, all about alike: noise that comes again in the next call is noticed."""
    calls = min(2 * max(1, -(-runs * numbers // (2 * _BATCH))), runs)
    return np.diff(np.linspace(0, runs, calls + 1).astype(int)).tolist()


def _world(network: Network, long: bool, rng: np.random.Generator) -> tuple[World, Floats]:
    """Features along random directions (K, r), and the directions; zeros and the lowest scores where not `long`."""
    along = rng.standard_normal((network.devices.count, network.dimension))
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    features = _BEYOND * np.array(network.devices.column("clip_norm"))[:, None] * along * long
    if network.scheme.independent:
        return World(features), along
    low, high = scored(network.scheme).score_range()
    return World(features, np.full(network.devices.count, _BEYOND * high if long else low)), along


class _Sums:
    """Statistics of all runs in one world: counts, energies, products."""

    def __init__(self, network: Network, link: Link, world: World, along: Floats) -> None:
        d = network.devices
        self.network, self.link, self.world = network, link, world
        self.long = bool(world.features.any())
        self.along = np.pad(along, ((0, 0), (0, network.coordinates - network.dimension)))
        self.std = np.array(d.column("noise_std"))
        self.noisy = np.flatnonzero(self.std > 0)
        self.pairs: dict[str, Any] = defaultdict(lambda: np.zeros((3, d.count)))
        self.pair_count: dict[str, int] = defaultdict(int)
        self.energy, self.numbers = np.zeros(d.count), 0
        self.law: list[Floats] = []
        self.projections: list[Floats] = []
        self.coins: list[Any] = []
        self.arrived: list[Any] = []
        self.sum_energy, self.sum_numbers = 0.0, 0
        self.rest_energy, self.rest_numbers, self.loudest = 0.0, 0, 0.0
        self.scores: list[Floats] = []
        self.before: Floats | None = None

    def add(self, heard: Overheard) -> None:
        noise = heard.signals
        if self.long:
            # What is said of noise here must not depend on the clip: across the feature, not along it.
            projection = np.einsum("nkc,kc->nk", noise, self.along)
            noise = noise - projection[..., None] * self.along
            self.projections.append(np.where(heard.taking_part, projection, np.nan))
        self.energy += np.einsum("nkc,nkc->k", noise, noise)
        self.numbers += len(noise) * (noise.shape[2] - self.long)
        self.coins.append(heard.taking_part)
        self.arrived.append(heard.on_the_air)
        if heard.noisy_scores is not None:
            self.scores.append(heard.noisy_scores)
        self._add_sum(heard)
        if not self.long:
            self._add_pairs(noise)

    def _add_sum(self, heard: Overheard) -> None:
        """The sum without the receiver's noise, and what else was received."""
        received, quadrature = np.einsum("nk,nkc->nc", heard.alignment, heard.signals), heard.quadrature
        square = heard.alignment**2
        if quadrature is not None:
            received = received + turned(np.einsum("nk,nkc->nc", quadrature, heard.signals))
            square = square + quadrature**2
        rest = heard.estimate - received[:, : heard.estimate.shape[1]]
        share = np.broadcast_to(self.network.channel.rules.receptions(heard.on_the_air), len(rest))
        some = share > 0
        self.rest_energy += float(np.sum(rest[some] ** 2 / share[some, None])) + float(np.sum(rest[~some] ** 2))
        self.rest_numbers += int(np.sum(some)) * rest.shape[1]
        self.loudest = max(self.loudest, float(np.max(np.abs(heard.alignment[..., None] * heard.signals))))
        variance = square @ self.std**2
        some = variance > 0
        self.sum_energy += float(np.sum(np.sum(received[some] ** 2, axis=1) / variance[some]))
        self.sum_numbers += int(np.sum(some)) * received.shape[1]

    def _add_pairs(self, noise: Floats) -> None:
        """Products of numbers that must be independent; in units of σ, so that the loudest device hides no other."""
        unit = noise / np.where(self.std > 0, self.std, 1.0)[:, None]
        if sum(map(len, self.law)) < _LAW_SAMPLE:
            self.law.append(np.moveaxis(unit, 1, 2).reshape(-1, unit.shape[1]))
        half, even = len(unit) // 2, unit.shape[2] // 2
        chosen = {
            "independent of other devices": (unit, unit[:, self.noisy].sum(axis=1, keepdims=True) - unit),
            "independent of the next run": (unit[0 : 2 * half : 2], unit[1 : 2 * half : 2]),
            "independent of the next coordinate": (unit[..., 0 : 2 * even : 2], unit[..., 1 : 2 * even : 2]),
        }
        if self.before is None:
            self.before = unit
        else:
            both = min(len(unit), len(self.before))
            chosen["independent of the next call"] = (self.before[:both], unit[:both])
            self.before = None
        for name, (x, y) in chosen.items():
            self.pairs[name] += [np.einsum("nkc,nkc->k", a, b) for a, b in ((x, y), (x, x), (y, y))]
            self.pair_count[name] += x.shape[0] * x.shape[2]

    def tests(self) -> list[Test]:
        self.coins, self.arrived = [np.concatenate(self.coins)], [np.concatenate(self.arrived)]
        self.law = [np.concatenate(self.law)[:_LAW_SAMPLE]] if self.law else []
        of_devices = [test for k in range(self.network.devices.count) for test in self._of_device(k)]
        return of_devices + self._of_sum()

    def _of_device(self, k: int) -> list[Test]:
        d, scheme, found = self.network.devices, self.network.scheme, list[Test]()
        by_score = None if scheme.independent else scored(scheme)
        if self.std[k] > 0 and (self.numbers or not self.long):
            found.append(
                least_noise("own noise", k, self.energy[k], self.numbers, self.std[k], "local ε, and ε in the sum")
            )
        if self.std[k] > 0 and not self.long:
            found.append(law(k, self.law[0][:, k]))
            for name in self.pairs:
                if name != "independent of other devices" or len(self.noisy) > 1:
                    found.append(independent(name, k, *self.pairs[name][:, k], count=self.pair_count[name]))
        if self.long:
            projections = np.concatenate(self.projections)[:, k]
            most = d.column("weight")[k] * d.column("clip_norm")[k]
            found.append(most_mean("clip", "feature sent", k, projections[~np.isnan(projections)], most, "every ε"))
        if by_score is not None and by_score.score_noise_std > 0:
            bounds, scores = by_score.score_range(), np.concatenate(self.scores)[:, k]
            if self.long:
                found.append(most_mean("bound of the score", "noisy score", k, scores, bounds.high, "every ε"))
            else:
                energy = float(np.sum((scores - bounds.low) ** 2))
                found.append(least_noise("score noise", k, energy, len(scores), by_score.score_noise_std, "every ε"))
        return found + self._coins(k)

    def _coins(self, k: int) -> list[Test]:
        """Tests of a device's participation, also given the next one's; and of its outage, where the law is known."""
        coins, arrived = self.coins[0], self.arrived[0]
        scheme = self.network.scheme
        if scheme.needs_ranking_server:
            return []
        p = self.network.devices.column("participation")[k]
        if (scores := self.world.scores) is not None:
            by_score = scored(scheme)
            p = float(by_score.participation_by_score(np.clip(scores, *by_score.score_range()))[k])
        found, after = [rate("participation", k, coins[:, k], p)], (k + 1) % coins.shape[1]
        if after != k:
            found.append(rate(f"participation when device {after} takes part", k, coins[coins[:, after], k], p))
        channel = self.network.channel
        if channel.power_rule == "truncate" and channel.aligned:
            able = arrived[:, k] if self.network.cover_noise else arrived[coins[:, k], k]
            of = getattr(self.link.fading.law, "reference_draws", None)
            found.append(rate("how often power suffices", k, able, 1 - float(self.link.outage[k]), claimed_from=of))
        return found

    def _of_sum(self) -> list[Test]:
        network, channel, found = self.network, self.network.channel, list[Test]()
        if not self.long and channel.power_rule in ("truncate", "backoff") and len(self.noisy):
            relative = (self.sum_energy, self.sum_numbers, 1.0)
            found.append(least_noise("its noise in units of what is claimed", None, *relative, "ε in the sum"))
        if network.scheme.needs_ranking_server:
            count = network.scheme.most_senders(network)
            wanted = self.coins[0].sum(axis=1) == count
            found.append(rate(f"{count} devices selected", None, wanted, 1.0))
        claimed = channel.noise_std / self.link.gamma
        found.append(receiver(claimed, self.rest_energy, self.rest_numbers, _ROUNDING * self.loudest))
        return found
