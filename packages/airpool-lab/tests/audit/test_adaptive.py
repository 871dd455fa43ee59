"""An adversary that adapts over slots stays below the cap, and a fault in one slot of four is caught."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from airpool.account.guarantee import guarantee
from airpool.cli import app
from airpool.evaluation.audit.bound import clopper_pearson, mu_bound
from airpool.evaluation.audit.whole import examined
from airpool.network import Channel, Claim, Devices, Neighbours, Network, NetworkError, Ranking, Slots, Threshold
from airpool.network import file as network_file
from airpool.privacy import gaussian
from airpool_lab.audit.adaptive import (
    ASKING_AGAIN,
    CHARGING,
    DROPPING,
    STOPPING,
    TURNING,
    AdaptiveGame,
    CapAudit,
    Move,
    Situation,
    asks_again_when_silent,
    asks_again_when_undecided,
    capped,
    claimed_mu,
    large_steps_when_undecided,
    mechanism,
    never_stops,
    played,
    seated,
    stops_when_decided,
    stops_when_guilty,
    strategies,
    transmission,
)
from studies.audit_slots import attacked, claim, network, planted

GAUSSIAN, TWICE = network("gaussian"), claim("gaussian")
ONE_SLOT = Network.uniform(num_devices=3, noise_std=0.6, dimension=2, slots=Slots(1))


def ended(net: Network, strategy, runs: int = 8000, seed: int = 0, claim: Claim = TWICE):
    """Evidence at the end, with the feature and without."""
    table = seated(net, claim, 0)
    play = mechanism(table, strategy, transmission(table.network))
    return [play(world, runs, np.random.default_rng(seed)) for world in table.worlds]


def mu_of(game: AdaptiveGame) -> tuple[float, float]:
    """Shown and claimed."""
    assert game.report.mu_lower is not None
    assert game.report.claimed_mu is not None
    return game.report.mu_lower, game.report.claimed_mu


def drawn_from(mean: float, std: float, values) -> None:
    n = len(values)
    assert values.mean() == pytest.approx(mean, abs=4.5 * std / n**0.5)
    assert values.var() == pytest.approx(std**2, rel=4.5 * (2 / n) ** 0.5)


def test_evidence_of_all_slots_is_that_of_one_gaussian_at_distance_b():
    b = 2.0
    assert claimed_mu(GAUSSIAN, TWICE, 0) == pytest.approx(b)
    assert guarantee(GAUSSIAN, TWICE).epsilon[0] == pytest.approx(float(gaussian.epsilon(2.0, 1e-5)), rel=1e-6)
    for strategy in (never_stops, *TURNING):
        here, there = ended(GAUSSIAN, strategy)
        drawn_from(b**2 / 2, b, here)
        drawn_from(-(b**2) / 2, b, there)


@pytest.mark.parametrize("strategy", CHARGING)
def test_chosen_steps_spend_the_same_budget(strategy):
    # However the steps are chosen, Σμ_i² = B² in the end, and the evidence has one law.
    here, there = ended(GAUSSIAN, strategy, runs=4000)
    drawn_from(2.0, 2.0, here)
    drawn_from(-2.0, 2.0, there)


@pytest.mark.parametrize("kind", ["seen, anew", "seen, once", "hidden, anew", "hidden, once"])
@pytest.mark.parametrize("strategy", [never_stops, stops_when_guilty, asks_again_when_silent])
def test_evidence_is_a_likelihood_ratio(kind, strategy):
    # E_Q[L; L < c] = P(L < c): for any strategy, since L stopped is the ratio of what was seen.
    here, there = ended(network(kind), strategy, runs=8000, claim=claim(kind))
    for cut in (-0.5, 0.5, 1.5):
        weighed = np.where(there < cut, np.exp(np.minimum(there, cut)), 0.0)
        error = np.hypot(weighed.std(), 0.5) / len(there) ** 0.5
        assert weighed.mean() == pytest.approx(np.mean(here < cut), abs=4.5 * error)


def test_stopping_and_asking_again_use_fewer_slots():
    never = played(GAUSSIAN, TWICE, 0, never_stops, runs=1000, seed=0)
    assert never.mean_slots == never.slots == 8
    for strategy in (stops_when_decided, asks_again_when_undecided):
        assert played(GAUSSIAN, TWICE, 0, strategy, runs=1000, seed=0).mean_slots < 7.5
    # One draw for four slots: who is silent is asked again at once, and silent again half of the time.
    kind = "seen, once"
    found = played(network(kind), claim(kind), 0, asks_again_when_silent, runs=4000, seed=0)
    assert found.mean_slots == pytest.approx(0.5 * (4 + 2.5) + 0.5 * (1 + 2.5), abs=0.15)


def test_no_strategy_gets_more_than_the_budget():
    def greedy(now: Situation) -> Move:
        plain = never_stops(now)
        return replace(plain, charge=np.full(len(now.left), 3.0), anew=np.ones(len(now.left), bool))

    assert played(GAUSSIAN, TWICE, 0, greedy, runs=40, seed=0).mean_slots == 2  # 3 + 3 ≤ 8 < 9
    table = seated(network("hidden, once"), claim("hidden, once"), 0)
    sent = []
    mechanism(
        table, lambda now: replace(never_stops(now), anew=now.inference > 0), transmission(table.network), sent.append
    )(table.worlds[0], 50, np.random.default_rng(0))
    assert sum(sent) == 100  # two inferences, left after one slot each


@pytest.mark.parametrize(
    ("net", "claim"),
    [
        (GAUSSIAN, TWICE),
        (network("seen, anew"), claim("seen, anew")),
        (network("hidden, once"), claim("hidden, once")),
        (network("hidden, anew"), replace(claim("hidden, anew"), neighbours=Neighbours.REPLACE)),
        (
            Network(Devices(4, noise_std=(0.3, 0.3, 2.0, 0.5)), dimension=3, colluders=1, dropouts=1, slots=Slots(3)),
            Claim(),
        ),
        (
            Network.uniform(
                num_devices=3, noise_std=0.5, channel=Channel(fading="rayleigh", outage=0.2), slots=Slots(3)
            ),
            Claim(delta=0.01),
        ),
        (
            Network.uniform(
                num_devices=3, noise_std=0.5, scheme=Threshold(score_noise_std=1.0), slots=Slots(3, redrawn=False)
            ),
            Claim(delta=0.01),
        ),
        (
            Network.uniform(
                num_devices=3, noise_std=0.5, scheme=Ranking(num_selected=2), slots=Slots(3, redrawn=False)
            ),
            Claim(delta=0.01),
        ),
    ],
    ids=["gaussian", "seen", "hidden, once", "replace", "colluders", "fading", "2.1", "2.2"],
)
def test_an_honest_cap_is_not_refuted(net, claim):
    found = capped(net, claim, 0, runs=500, seed=0)
    assert len(found.games) == len(strategies(net, claim)) >= 4
    assert set(TURNING) <= set(strategies(net, claim)) or not net.slots.redrawn
    assert not found.violated


def test_the_claim_is_the_cap_of_as_many_inferences():
    once = capped(GAUSSIAN, Claim(), 0, runs=40, seed=0)
    assert once.games[0].report.claimed_mu == pytest.approx(2**0.5)
    found = capped(GAUSSIAN, Claim(inferences=1000), 0, runs=40, seed=0)
    assert found.inferences == 2
    assert found.games[0].report.claimed_mu == pytest.approx(2.0)


@pytest.mark.parametrize(("fault", "runs"), [("no clip", 1000), ("noise repeated", 4000), ("half the noise", 16_000)])
def test_a_fault_in_one_slot_of_four_is_caught(fault, runs):
    net, claim, strategy = attacked(fault)
    found = played(net, claim, 0, strategy, runs=runs, seed=0, transmit=planted(fault, net))
    shown, claimed = mu_of(found)
    assert found.report.violated
    assert shown > claimed
    assert not played(net, claim, 0, strategy, runs=1000, seed=0).report.violated


@pytest.mark.check
@pytest.mark.parametrize("fault", ["coin kept", "own noise missing"])
def test_a_fault_that_shows_little_is_caught_with_many_runs(fault):
    net, claim, strategy = attacked(fault)
    assert played(net, claim, 0, strategy, runs=1_000_000, seed=0, transmit=planted(fault, net)).report.violated
    assert not played(net, claim, 0, strategy, runs=100_000, seed=0).report.violated


@pytest.mark.check
@pytest.mark.parametrize("strategy", STOPPING + ASKING_AGAIN[:1] + DROPPING + CHARGING + TURNING)
def test_lower_bounds_on_mu_come_close_to_b_and_stay_below(strategy):
    shown, claimed = mu_of(played(GAUSSIAN, TWICE, 0, strategy, runs=100_000, seed=1))
    assert 0.85 * claimed < shown < claimed


def test_a_repeated_noise_tells_nothing_more_about_a_view_that_stays():
    # The same message twice; what it breaks is a view that changes.
    net, claim, _ = attacked("noise repeated")
    repeated = planted("noise repeated", net)
    shown, claimed = mu_of(played(net, claim, 0, never_stops, runs=4000, seed=0, transmit=repeated))
    assert shown < 0.9 * claimed


def test_the_bound_on_mu_is_that_of_two_gaussians():
    alarms, misses = (clopper_pearson(count, 1000, error=0.05)[1] for count in (100, 200))
    allowed = gaussian.delta(np.log(np.array([0.5, 1.0, 2.0])), mu_bound(100, 200, 1000, confidence=0.9))
    # No (ε, δ) of that curve forbids these rates, and one of them touches it.
    assert np.all(1 - misses - np.array([0.5, 1.0, 2.0]) * alarms <= allowed + 1e-12)
    assert mu_bound(500, 500, 1000, confidence=0.9) < 0


def test_the_whole_audit_gives_the_cap_beside_one_slot():
    net = Network.uniform(num_devices=3, noise_std=0.6, dimension=2, slots=Slots(4))
    found = examined(net, Claim(), 1, runs=400, seed=0)
    assert isinstance(found.cap, CapAudit)
    assert found.cap.device == 1
    assert "4 strategies over slots" not in found.cap.lines()[0]
    assert found.cap.lines()[-1].endswith("against the cap of one inference: not refuted")
    assert found.to_json()["cap"]["games"][0]["claimed_mu"] == pytest.approx(claimed_mu(net, Claim(), 1))
    assert examined(ONE_SLOT, Claim(), 0, runs=400, seed=0).cap is None
    off = examined(replace(net, channel=Channel(csi_error_std=0.1)), Claim(), 0, runs=400, seed=0).cap
    assert isinstance(off, CapAudit)
    assert not off.games
    assert "not audited" in off.lines()[0]


def test_what_is_not_allowed_is_refused():
    with pytest.raises(ValueError, match="needs Gaussian slots"):
        played(network("seen, anew"), claim("seen, anew"), 0, large_steps_when_undecided, runs=1000, seed=0)
    with pytest.raises(NetworkError, match="audited for zero-out and replace"):
        seated(GAUSSIAN, Claim(neighbours=Neighbours.REMOVE), 0)


def test_the_command_prints_the_cap_and_writes_it(tmp_path):
    file = tmp_path / "net.toml"
    network_file.write(GAUSSIAN, file)
    said = CliRunner().invoke(app, ["audit", "--network", str(file), "--runs", "200"])
    assert said.exit_code == 0, said.output
    assert "never stops, 4.0 slots of a budget of 4: ε ≥" in said.output
    assert "strategies over slots, together with 0.9999 confidence, against the cap of one inference" in said.output
    said = CliRunner().invoke(app, ["audit", "--network", str(file), "--runs", "200", "--json"])
    cap = json.loads(said.stdout)["cap"]
    assert cap["confidence"] == 0.9999
    assert [game["strategy"] for game in cap["games"]][:2] == ["never stops", "stops when decided"]
    assert cap["games"][0]["mu_ceiling"] > cap["games"][0]["claimed_mu"]
