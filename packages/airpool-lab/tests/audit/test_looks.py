"""Games that are watched: looks share one error, and a false claim about removal is refuted by energy alone."""

from functools import partial

import numpy as np
import pytest

from airpool import Claim, Network
from airpool.account.guarantee import guarantee
from airpool.account.theorem1 import paper_claim
from airpool.evaluation.audit.adversary import audited
from airpool.evaluation.audit.bound import audit
from airpool.network import Neighbours
from airpool_lab.audit.energy import claimed_by_the_paper, removed, sizes, watched

NETWORK = Network.uniform(num_devices=3, noise_std=0.2, dimension=4)


def test_looks_double_and_are_bounded():
    assert sizes(100, most=10**6) == (1000, 2000, 4000, 8000)
    assert sizes(10**9, most=10**6) == (1000,)


def test_every_look_is_the_librarys_game_at_its_share_of_the_error():
    claimed = guarantee(NETWORK).worst
    looks = list(watched(partial(audited, NETWORK, Claim(), 1, claimed_epsilon=claimed), (1000, 2000), seed=5))
    assert [look.report.runs for look in looks] == [1000, 2000]
    for look in looks:
        again = audited(
            NETWORK, Claim(), 1, claimed_epsilon=claimed, runs=look.report.runs, seed=look.seed, confidence=0.975
        )
        assert look.report.epsilon_lower == again.epsilon_lower
    assert looks[-1].best == max(look.report.epsilon_lower for look in looks)
    assert not any(look.refuted for look in looks)


def test_looks_draw_runs_of_their_own():
    looks = list(watched(partial(audited, NETWORK, Claim(), 0, claimed_epsilon=9.0), (1000, 1000), seed=0))
    assert looks[0].report.threshold != looks[1].report.threshold


def test_all_looks_together_err_no_more_often_than_stated():
    """A claim that is exactly true, a pure (ε, 0) mechanism: its games are refuted in at most 30 % of 200 sequences."""
    epsilon = 1.0

    def response(bit, n, rng):
        return np.where(rng.random(n) < np.exp(epsilon) / (1 + np.exp(epsilon)), bit, 1.0 - bit)

    def play(*, runs, seed, confidence, on_batch):
        rng = np.random.default_rng(seed)
        how = {"delta": 1e-9, "score": lambda seen: seen, "claimed_epsilon": epsilon, "on_batch": on_batch}
        return audit(response, 1.0, 0.0, runs=runs, rng=rng, confidence=confidence, **how)

    refuted = sum(list(watched(play, (200, 400, 800), seed=seed, confidence=0.7))[-1].refuted for seed in range(200))
    assert refuted <= 0.3 * 200 + 3 * (200 * 0.3 * 0.7) ** 0.5


def test_a_watch_ends_with_the_look_that_refutes():
    looks = list(watched(partial(audited, NETWORK, Claim(), 0, claimed_epsilon=0.01), (4000, 8000, 16000), seed=0))
    assert looks[-1].refuted
    assert not any(look.refuted for look in looks[:-1])


def test_energy_alone_refutes_the_papers_claim_about_removal():
    network = claimed_by_the_paper(1.0)
    said = paper_claim(network)
    claimed, delta = float(said.epsilon[0]), float(said.delta[0])
    assert claimed == pytest.approx(1.0)
    report = removed(network, claimed_epsilon=claimed, delta=delta, runs=2000, seed=0, confidence=0.99)
    assert report.violated
    assert report.epsilon_lower <= guarantee(network, Claim(delta=delta, neighbours=Neighbours.REMOVE)).worst


def test_removal_is_played_between_equal_devices():
    uneven = Network.uniform(num_devices=2, noise_std=(0.1, 0.2), dimension=4)
    with pytest.raises(ValueError, match="equal devices"):
        removed(uneven, claimed_epsilon=1.0, delta=1e-5, runs=1000, seed=0)
