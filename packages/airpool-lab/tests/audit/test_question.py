"""A yes-or-no question about one view is answered as often as its odds allow, and planted faults more often."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from airpool._support import draws
from airpool.account.odds import odds
from airpool.evaluation.audit.adversary import attack_on, audited
from airpool.evaluation.audit.bound import clopper_pearson
from airpool.evaluation.audit.path import World
from airpool.network import Channel, Claim, Neighbours, Network, Ranking, Threshold
from airpool.protocol import device
from airpool.radio.link import link_of
from tests.random_networks import any_network

# Runs that are in memory at a time.
_BATCH = 2**12
# Scores that are as good as infinite, which has no sum with its opposite.
_SURE = 1e9
RUNS = 4_000
KINDS: dict[str, dict[str, Any]] = {
    "everybody": {"participation": 1.0},
    "coins": {},
    "cover noise": {"cover_noise": True},
    "fading": {"channel": Channel(fading="rician", outage=0.1)},
    "secure": {"channel": Channel(access="secure")},
    "colluders": {"colluders": 2},
    "threshold": {"scheme": Threshold(score_noise_std=3.0)},
    "ranking": {"scheme": Ranking(score_noise_std=3.0, num_selected=6)},
    "a stream": {"noise_std": 0.3},
    "a covered stream": {"noise_std": 0.3, "cover_noise": True},
}


@dataclass(frozen=True)
class Guesses:
    """Guesses that were right, of how many, and how often they may be right: `odds`."""

    right: int
    runs: int
    odds: float
    confidence: float

    @property
    def rate(self) -> float:
        return self.right / self.runs

    @property
    def at_least(self) -> float:
        """The true rate from below, with the stated confidence (Clopper and Pearson)."""
        return float(clopper_pearson(self.right, self.runs, error=1 - self.confidence)[0])

    @property
    def violated(self) -> bool:
        """Whether the guesses refute the odds."""
        return self.at_least > self.odds


def asked(
    network: Network,
    claim: Claim,
    device: int,
    *,
    runs: int,
    seed: int,
    alone: bool = False,
    longer: float = 1.0,
    confidence: float = 0.999,
) -> Guesses:
    """A question about one device's view, asked `runs` times of all inferences of a claim; a seed repeats it.

    Two opposite features at full norm (and the two ends of the range of scores) are equally likely, and the adversary
    guesses by the likelihood ratio. That is the attack for which odds at a prior of ½ are tight (docs/proofs/odds.md):
    a share above them refutes the account, or the code.
    alone: the adversary also knows what all others sent, and the device takes part: the local odds.
    longer: features are so many times as long as the clip norm; a device that clips is not harmed by it.
    Holds for: what `adversary.audited` covers (superposed and secure access), one slot an inference, and channels that
    are new in each.
    """
    found = odds(network, claim, prior=0.5)
    bound = (found.local if alone else found.device)[device]
    attack = attack_on(network, Claim(neighbours=Neighbours.REPLACE), device, alone=alone)
    rng, right = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(device, int(alone)))), 0
    for world, sign in ((attack.world, 1), (attack.neighbour, -1)):
        left = runs // 2
        while left > 0:
            now = min(left, _BATCH)
            scores = (attack.score(attack.played(_stretched(world, longer), now, rng)) for _ in range(claim.inferences))
            score = sign * np.sum([np.clip(each, -_SURE, _SURE) for each in scores], axis=0)
            # Where both are equally likely a coin decides.
            right += int(np.sum(score > 0) + rng.binomial(int(np.sum(score == 0)), 0.5))
            left -= now
    return Guesses(right, 2 * (runs // 2), float(bound), confidence)


def _stretched(world: Any, longer: float) -> Any:
    return replace(world, features=longer * world.features) if isinstance(world, World) else longer * world


def six(**settings: Any) -> Network:
    return Network.uniform(**{"num_devices": 6, "noise_std": 0.15, "participation": 0.8, "dimension": 8} | settings)


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_guess_is_right_as_often_as_the_odds_allow(kind):
    claim = Claim(inferences=4 if kind.endswith("stream") else 1)
    found = asked(six(**KINDS[kind]), claim, 0, runs=RUNS, seed=1)
    assert not found.violated
    assert found.rate > 0.5
    if kind in ("everybody", "coins", "cover noise", "secure", "colluders", "a stream"):  # where they are tight
        assert found.rate == pytest.approx(found.odds, abs=4 * np.sqrt(0.25 / RUNS))


def test_the_question_to_the_device_alone_has_the_local_odds():
    found = asked(six(), Claim(), 0, runs=RUNS, seed=2, alone=True)
    assert found.odds == odds(six()).local[0]
    assert found.rate == pytest.approx(found.odds, abs=4 * np.sqrt(0.25 / RUNS))


@pytest.mark.parametrize("kind", ["everybody", "coins", "cover noise", "fading", "secure"])
def test_half_the_noise_is_caught(kind, monkeypatch):
    honest = draws.standard_normal
    monkeypatch.setattr(draws, "standard_normal", lambda *args, **kwargs: honest(*args, **kwargs) / 2)
    assert asked(six(**KINDS[kind]), Claim(), 0, runs=RUNS, seed=3).violated


@pytest.mark.parametrize("kind", ["everybody", "coins", "cover noise", "fading"])
def test_a_device_without_clip_is_caught(kind, monkeypatch):
    network = six(**KINDS[kind])
    assert not asked(network, Claim(), 0, runs=RUNS, seed=4, longer=3.0).violated
    monkeypatch.setattr(device, "clipped", lambda latents, clip_norm: latents)
    assert asked(network, Claim(), 0, runs=RUNS, seed=4, longer=3.0).violated


def best_power(network: Network, k: int, prior: float, runs: int, seed: int) -> tuple[float, float]:
    """Level and power, on one half of the runs, of a likelihood-ratio test of about level κ chosen on the other half.

    κ is the level given what the adversary sees: a guess has the same prior whoever takes part. So a score counts as
    its quantile given who takes part, by the law that it has without the feature, N(−μ²/2, μ²); at random in silence.
    Both limits are on the side that the test could refute: level from above, power from below, each wrong with
    probability 1e-5.
    """
    attack, d = attack_on(network, Claim(), k), network.devices
    rng, honest = np.random.default_rng([seed, k]), np.array(d.noise_std) ** 2
    honest[[j for j in np.argsort(honest)[::-1] if j != k][: network.colluders]] = 0.0

    def played(world: Any) -> Any:
        seen = attack.played(world, runs, rng)
        score = attack.score(seen)
        if seen.participation is None:
            return score
        with np.errstate(divide="ignore", invalid="ignore"):
            mu = d.column("weight")[k] * d.column("clip_norm")[k] / np.sqrt(seen.participation @ honest)
            standard = np.where(np.isfinite(mu), score / mu + mu / 2, np.sign(score) * np.inf)
        # At random where a score says nothing, and, for a level in spite of ties, where it refutes the feature.
        tied = (score == 0) | np.isnan(standard) | (standard == -np.inf)
        return np.where(tied, rng.standard_normal(runs), standard)

    scores = [played(world) for world in (attack.neighbour, attack.world)]
    chosen = np.sort(scores[0][: runs // 2])[::-1][int(prior * (runs // 2))]
    level, power = (int(np.sum(each[runs // 2 :] > chosen)) for each in scores)
    trials = runs - runs // 2
    return float(clopper_pearson(level, trials, error=1e-5)[1]), float(clopper_pearson(power, trials, error=1e-5)[0])


def audited_networks(seeds: range) -> list[tuple[int, Network, Claim]]:
    """Random networks that the auditor covers: aligned signals, Scheme 1 and the schemes with scores."""
    out = []
    for seed in seeds:
        network, claim = any_network(np.random.default_rng([32, seed]))
        channel = replace(network.channel, access="superposed", power_rule="truncate", csi_error_std=0.0)
        channel = replace(channel, phase_error_std=0.0, gamma="auto")
        network = replace(network, channel=channel, dimension=min(network.dimension, 4), dropouts=0)
        claim = replace(claim, neighbours=Neighbours.ZERO_OUT, inferences=1 + 3 * (seed % 3 == 0))
        out.append((seed, network, claim))
    return out


def refuted(seed: int, network: Network, claim: Claim, runs: int) -> str | None:
    k = seed % network.devices.count
    # Not where scores choose (a neighbour's score is not the public one) nor where the adversary is not given outages.
    unseen = network.cover_noise and bool(np.any(link_of(network).outage > 0))
    once = claim.inferences == 1 and not unseen and network.scheme.independent
    for prior in (0.5, 0.05) if once else ():
        level, power = best_power(network, k, prior, runs, seed)
        if level < 1 and power > odds(network, claim, prior=level).device[k]:
            return f"seed {seed}, prior {prior}: power {power} at level {level}"
    found = asked(network, claim, k, runs=runs, seed=seed, confidence=1 - 1e-5)
    return f"seed {seed}: {found}" if found.violated else None


def test_a_few_random_networks_are_never_below_likelihood_ratio_tests():
    assert [why for each in audited_networks(range(12)) if (why := refuted(*each, 2_000))] == []


@pytest.mark.check
def test_300_random_networks_are_never_below_likelihood_ratio_tests():
    assert [why for each in audited_networks(range(300)) if (why := refuted(*each, 10_000))] == []


@pytest.mark.parametrize("kind", ["everybody", "coins", "cover noise", "threshold", "ranking"])
def test_odds_are_never_below_any_test_of_an_audit(kind):
    """Two opposite features are two answers: every test between them is a guess, right (power + 1 − level)/2 times."""
    network, claim = six(**KINDS[kind]), Claim(delta=0.01, neighbours=Neighbours.REPLACE)
    report = audited(network, claim, 0, claimed_epsilon=100.0, runs=RUNS, seed=5)
    right = 1 - (report.miss_rates + report.false_alarm_rates) / 2
    assert np.max(right) <= odds(network, claim, prior=0.5).device[0] + 4 * np.sqrt(0.5 / report.evaluated)
