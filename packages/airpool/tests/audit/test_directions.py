"""Errors, I and Q, and antennas: the game stays below the claim, and a planted mistake is caught."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from airpool.account.guarantee import guarantee
from airpool.evaluation.audit.adversary import audited
from airpool.evaluation.audit.bound import audit
from airpool.evaluation.audit.directions import ObservedDirections, likelihood_ratio, mechanism, worst_pair
from airpool.network import Adversary, Channel, Claim, Neighbours, Network

pytestmark = pytest.mark.usefixtures("few_draws")
RUNS, DELTA = 4_000, 0.01
CLAIM = Claim(delta=DELTA)
UNKNOWING = Claim(delta=DELTA, knows_answer=False)


def five(channel: dict[str, Any], antennas: int = 0, **fields: Any) -> Network:
    given: dict[str, Any] = {"num_devices": 5, "noise_std": 0.1, "dimension": 4}
    return Network.uniform(**(given | fields), channel=Channel(**channel), adversary=Adversary(antennas))


CASES = {
    "csi": five({"csi_error_std": 0.2}),
    "csi and phase, rayleigh": five({"csi_error_std": 0.1, "phase_error_std": 0.3, "fading": "rayleigh"}),
    "backoff, odd dimension": five({"csi_error_std": 0.1, "fading": "rician", "power_rule": "backoff"}, dimension=3),
    "participation, replace": five({"csi_error_std": 0.1}, participation=0.7),
    "cover noise": five({"csi_error_std": 0.1}, participation=0.7, cover_noise=True),
    "server with two antennas": five({"antennas": 2}),
    "server with three antennas, rayleigh": five({"antennas": 3, "fading": "rayleigh", "csi_error_std": 0.05}),
    "one antenna elsewhere": five({}, 1),
    "three antennas elsewhere": five({"fading": "rayleigh"}, 3),
    "elsewhere without the answer": five({}, 1),
    "elsewhere, and two at the server": five({"antennas": 2, "fading": "rician", "csi_error_std": 0.05}, 1),
    "two at the server without the answer": five({"antennas": 2}, 2),
}


def claim_of(case: str) -> Claim:
    if case.endswith("without the answer"):
        return UNKNOWING
    return Claim(delta=DELTA, neighbours=Neighbours.REPLACE if case.endswith("replace") else Neighbours.ZERO_OUT)


@pytest.mark.parametrize("case", CASES)
def test_the_game_stays_below_the_claim_and_near_it(case):
    network, asked = CASES[case], claim_of(case)
    report, elsewhere = guarantee(network, asked), network.adversary.antennas > 0
    claim = report.epsilon if report.epsilon_eavesdropper is None else report.epsilon_eavesdropper
    game = audited(network, asked, 0, claimed_epsilon=float(claim[0]), runs=RUNS, seed=1, elsewhere=elsewhere)
    assert not game.violated
    assert game.epsilon_lower > 0.3 * claim[0]


@pytest.mark.parametrize("case", ["csi", "server with two antennas", "one antenna elsewhere"])
def test_devices_with_a_third_of_their_noise_are_caught(case):
    network = CASES[case]
    report = guarantee(network, CLAIM)
    claim = report.epsilon if report.epsilon_eavesdropper is None else report.epsilon_eavesdropper
    quiet = replace(network, devices=replace(network.devices, noise_std=0.1 / 3))
    elsewhere = network.adversary.antennas > 0
    assert audited(quiet, CLAIM, 0, claimed_epsilon=float(claim[0]), runs=RUNS, seed=2, elsewhere=elsewhere).violated


def test_an_eavesdropper_with_the_servers_antennas_beats_what_one_without_them_is_granted():
    network = five({"antennas": 2}, 1)
    unknowing = guarantee(network, UNKNOWING).epsilon_eavesdropper
    assert unknowing is not None
    assert audited(network, CLAIM, 0, claimed_epsilon=float(unknowing[0]), runs=20_000, seed=1, elsewhere=True).violated


def test_an_auditor_without_the_second_antenna_is_beaten_by_one_that_has_it():
    network = five({"antennas": 2}, num_devices=10)
    pair, play = worst_pair(network, CLAIM, 0), mechanism(network, CLAIM)
    both = likelihood_ratio(network, *pair)

    def at_one(seen: ObservedDirections) -> np.ndarray:
        return both(ObservedDirections(seen.components[..., :1], seen.directions[..., :1]))

    found = [
        audit(play, *pair, runs=20_000, rng=np.random.default_rng(3), delta=DELTA, score=score).epsilon_lower
        for score in (both, at_one)
    ]
    assert found[0] > found[1] + 0.1
