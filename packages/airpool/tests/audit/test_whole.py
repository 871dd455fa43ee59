"""The whole audit: every claim against its own adversary, at one level of confidence."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import airpool
from airpool._support.rounding import shown_below
from airpool.account.guarantee import guarantee
from airpool.evaluation.audit.adversary import audited
from airpool.evaluation.audit.whole import MEASURED, examined
from airpool.network import Channel, Claim, Devices, Network
from studies.audit_faults import FAULTS, NETWORK, drawing

from .honest import honest

LOOSE = Claim(delta=0.01)


def test_confidence_is_shared_by_all_games_and_measurements():
    found = examined(NETWORK, devices=[0, 3], runs=400, seed=1, confidence=0.9)
    assert not found.violated
    games = [*found.games.values(), *found.alone.values()]
    assert [game.confidence for game in games] == pytest.approx([1 - 0.1 * (1 - MEASURED) / 4] * 4)
    said = found.lines()
    assert "none contradicted" in said[0]
    assert f"all 4 games and {len(found.outcomes)} measurements hold together with 0.9 confidence (union" in said[-1]


def test_each_game_has_its_own_claim():
    report = guarantee(NETWORK)
    found = examined(NETWORK, Claim(inferences=100), 2, runs=400, seed=1)  # what is played is one inference
    assert found.games[2].claimed_epsilon == pytest.approx(report.epsilon[2])
    assert found.alone[2].claimed_epsilon == pytest.approx(report.epsilon_local[2])
    assert airpool.audit is examined


@pytest.mark.parametrize(
    "network",
    [
        Network.uniform(num_devices=3, noise_std=0.5, participation=0.5, dimension=3),
        Network.uniform(num_devices=3, noise_std=0.5, participation=0.5, dimension=3, cover_noise=True),
        Network.uniform(num_devices=3, noise_std=0.5, dimension=3, channel=Channel(csi_error_std=0.1)),
    ],
    ids=["visible", "cover noise", "errors"],
)
def test_the_game_on_own_noise_comes_close_to_the_local_claim_and_catches_half_of_it(network):
    claimed = float(guarantee(network, LOOSE).epsilon_local[0])
    game = audited(network, LOOSE, 0, claimed_epsilon=claimed, runs=10_000, seed=0, alone=True)
    assert 0.6 * claimed < game.epsilon_lower < claimed
    with drawing(lambda noise: noise * np.array([[0.5], [1.0], [1.0]]))():
        assert audited(network, LOOSE, 0, claimed_epsilon=claimed, runs=10_000, seed=0, alone=True).violated


def test_colluders_tell_what_they_have_sent():
    # Those with much noise collude: what is left is that of device 0 and one other.
    none = Network(Devices(4, noise_std=(0.2, 0.2, 5.0, 5.0)), dimension=2)
    for network, claim in (
        (replace(none, colluders=2), LOOSE),
        (replace(none, colluders=1), replace(LOOSE, colluding=(2,))),
        (none, replace(LOOSE, colluding=(2, 3))),
    ):
        claimed = float(guarantee(network, claim).epsilon[0])
        game = audited(network, claim, 0, claimed_epsilon=claimed, runs=10_000, seed=0)
        assert 0.5 * claimed < game.epsilon_lower < claimed
    assert audited(none, LOOSE, 0, claimed_epsilon=claimed, runs=10_000, seed=0).epsilon_lower < 0.1


def test_a_claim_that_credits_the_receivers_noise_is_not_audited():
    with pytest.raises(ValueError, match="credit_channel_noise=True must be False here"):
        examined(NETWORK, Claim(credit_channel_noise=True), runs=400)


def test_missing_noise_is_said_in_epsilon():
    with FAULTS[4].plant():  # three of five others without noise
        found = examined(NETWORK, devices=0, runs=400, seed=0)
    assert found.violated
    implied = found.implied()
    assert implied is not None
    epsilon, local = implied
    assert epsilon[0] > guarantee(NETWORK).epsilon[0]
    assert local[:3] == pytest.approx(guarantee(NETWORK).epsilon_local[:3], rel=1e-3)
    assert np.all(local[3:] == np.inf)
    assert any(
        "with no more noise than that, device 3 has ε" in line and "local ε inf" in line for line in found.lines()
    )


def test_lower_bounds_are_rounded_down_and_claims_up():
    assert shown_below(1.9999) == "1.999"
    game = examined(NETWORK, devices=0, runs=400, seed=0).games[0]
    text = str(replace(game, epsilon_lower=1.23456, claimed_epsilon=2.00001))
    assert text.startswith("ε ≥ 1.234 with")
    assert "claimed 2.001:" in text


@pytest.mark.check
def test_over_200_honest_networks_whole_audits_raise_no_more_alarms_than_stated():
    alarms = sum(examined(*honest(seed, playable=True), runs=200, seed=seed).violated for seed in range(200))
    assert alarms <= stats.binom.isf(1e-3, 200, 0.05)
