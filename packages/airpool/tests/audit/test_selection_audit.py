"""Schemes 2.1 and 2.2 keep their promise in a distinguishing game on the real path, scores included; bugs are caught.

Six devices, r = 8, played on protocol.simulation. δ = 0.01 rather than 1e-5: then the few runs that fit into a
test show most of what there is to show.
"""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from airpool.account.guarantee import guarantee
from airpool.cli import app
from airpool.evaluation.audit.adversary import World, likelihood_ratio, mechanism, released, worst_worlds
from airpool.evaluation.audit.bound import AuditReport, audit
from airpool.evaluation.audit.release import log_likelihood_ratio
from airpool.network import Channel, Claim, Neighbours, Network, Threshold, named_scheme
from airpool.network import file as network_file
from airpool.protocol import device as stations
from airpool.radio.link import link_of
from airpool.schemes import threshold
from airpool.schemes.scores import Scored, participation

K, R, DELTA, RUNS = 6, 8, 0.01, 10_000
CLAIM = Claim(delta=DELTA)
FADING: dict[str, Any] = {"fading": "rician", "outage": 0.1, "noise_std": 0.3162}


def six(name: Any, channel: dict[str, Any] | None = None, **fields: Any) -> Network:
    scheme: dict[str, Any] = {
        "score_bound": 1.0,
        "score_noise_std": 1.0 if name == "2.1" else 1.5,
        "threshold": 0.8,
        "num_selected": K,
    }
    scheme |= {key: fields.pop(key) for key in list(fields) if key in scheme or key == "score_rule"}
    given: dict[str, Any] = {"num_devices": K, "noise_std": 0.15, "dimension": R}
    return Network.uniform(scheme=named_scheme(name, **scheme), channel=Channel(**(channel or {})), **(given | fields))


def played(
    network: Network, claim: Claim = CLAIM, *, seed: int, score: Any = "low", transmission: Any = None, runs: int = RUNS
) -> AuditReport:
    world, neighbour = worst_worlds(network, claim, 0, score=score)
    return audit(
        mechanism(network) if transmission is None else transmission,
        world,
        neighbour,
        runs=runs,
        rng=np.random.default_rng(seed),
        delta=claim.delta,
        score=likelihood_ratio(network, world, neighbour),
        claimed_epsilon=guarantee(network, claim).worst,
    )


# --- honest ---


@pytest.mark.parametrize("name", ["2.1", "2.2"])
@pytest.mark.parametrize("score", ["low", "high"])
@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
def test_the_lower_bound_stays_under_the_claim_and_says_most_of_it(name, score, neighbours):
    report = played(six(name), replace(CLAIM, neighbours=neighbours), seed=1, score=score)
    assert not report.violated
    assert report.claimed_epsilon is not None
    assert report.epsilon_lower > 0.5 * report.claimed_epsilon


@pytest.mark.parametrize("name", ["2.1", "2.2"])
@pytest.mark.parametrize(
    "fields",
    [
        {"channel": FADING},
        {"cover_noise": True},
        {"channel": FADING, "cover_noise": True},
        {"num_selected": 3, "threshold": 0.2},
        {"score_rule": "scale", "score_bound": 2.0},
    ],
    ids=["fading", "cover noise", "fading and cover noise", "few", "the paper's scaling"],
)
def test_no_option_makes_the_claim_wrong(name, fields):
    network = six(name, **fields)
    for score in ("low", "high"):
        report = played(network, seed=2, score=score)
        assert not report.violated
        assert report.epsilon_lower > 0


@pytest.mark.check
@pytest.mark.parametrize("name", ["2.1", "2.2"])
@pytest.mark.parametrize("channel", [{}, FADING], ids=["perfect channel", "fading"])
@pytest.mark.parametrize("score", ["low", "high"])
def test_many_more_runs_do_not_refute_the_claim_either(name, channel, score):
    report = played(six(name, channel), seed=3, score=score, runs=400_000)
    assert not report.violated


# --- what is played ---


def test_worlds_are_as_far_apart_as_clipping_and_the_range_allow():
    network = six("2.1", score_rule="scale", score_bound=3.0)
    played_ends: Any = (("low", (0.0, 1.5)), ("high", (1.5, 0.0)))
    for score, ends in played_ends:
        world, neighbour = worst_worlds(network, CLAIM, 2, score=score)
        assert world.scores is not None
        assert neighbour.scores is not None
        assert (world.scores[2], neighbour.scores[2]) == ends
        np.testing.assert_array_equal(np.delete(world.scores, 2), np.full(K - 1, 1.5))
        np.testing.assert_array_equal(np.delete(neighbour.scores, 2), np.full(K - 1, 1.5))
        assert np.linalg.norm(world.features[2]) == 1
        assert not neighbour.features.any()
    first = worst_worlds(Network.uniform(num_devices=3, dimension=2), CLAIM, 0)
    assert first[0].scores is None
    opposite = worst_worlds(network, Claim(neighbours=Neighbours.REPLACE), 2)
    np.testing.assert_array_equal(opposite[0].features, -opposite[1].features)


def test_the_adversary_sees_who_speaks_in_2_1_and_all_noisy_scores_in_2_2():
    scores = np.linspace(0, 1, K)
    world, rng = World(np.zeros((K, R)), scores), np.random.default_rng(4)
    network = six("2.1", FADING)
    seen = mechanism(network)(world, 4_000, rng)
    assert seen.noisy_scores is None
    assert seen.participation is not None
    p = stats.norm.cdf(0.8 - scores) * (1 - link_of(network).outage)
    np.testing.assert_allclose(seen.participation.mean(axis=0), p, atol=4.5 * 0.5 / np.sqrt(4_000))
    np.testing.assert_allclose(released(network, scores).participation, p)
    assert mechanism(replace(network, cover_noise=True))(world, 3, rng).participation is None

    ranked = six("2.2", num_selected=2, cover_noise=True)
    seen = mechanism(ranked)(world, 4_000, rng)
    assert seen.noisy_scores is not None
    assert seen.participation is not None
    assert seen.noisy_scores.shape == (4_000, K)
    assert (seen.participation.sum(axis=1) == 2).all()
    found = participation(scores[None], ranked.scheme)[0]
    np.testing.assert_allclose(seen.participation.mean(axis=0), found, atol=4.5 * 0.5 / np.sqrt(4_000))


def test_the_ratio_of_scheme_2_2_is_that_of_the_two_gaussians():
    network = six("2.2")
    world, neighbour = worst_worlds(network, CLAIM, 0, score="low")
    ratio = likelihood_ratio(network, world, neighbour)(mechanism(network)(world, 20_000, np.random.default_rng(5)))
    # N(μ²/2, μ²) under the first world, μ² = (Δu/σ₀)² + (Δ/√v)².
    mu2 = (1 / 1.5) ** 2 + (1 / K) ** 2 / (K * 0.15**2)
    assert abs(ratio.mean() - mu2 / 2) < 4.5 * np.sqrt(mu2 / 20_000)
    assert ratio.var() == pytest.approx(mu2, rel=4.5 * np.sqrt(2 / 20_000))


# --- planted bugs ---


def own_participation(network: Network, world: World) -> Any:
    scheme = network.scheme
    assert world.scores is not None
    assert isinstance(scheme, Threshold)
    return threshold.participation(world.scores, threshold=scheme.threshold, score_noise_std=scheme.score_noise_std)


def dividing_by_participation(network: Network, monkeypatch: Any) -> Any:
    """Every device really sends (α/p_k) z̃, as the paper prints it: p_k is made of its own score."""
    honest, run = stations.power, mechanism(network)

    def transmission(world: World, runs: int, rng: Any) -> Any:
        loud = 1 / own_participation(network, world)

        def louder(*args: Any, **norms: Any) -> Any:
            sent = honest(*args, **norms)
            return replace(sent, aim=sent.aim * loud, alignment=sent.alignment * loud)

        with monkeypatch.context() as patch:
            patch.setattr(stations, "power", louder)
            return run(world, runs, rng)

    return transmission


def test_a_device_that_really_divides_by_its_participation_is_caught(monkeypatch):
    """An adversary who listens for how loud the noise is learns the score: in 64 dimensions that is easy to hear."""
    network = six("2.1", threshold=0.2, dimension=64)
    world, neighbour = worst_worlds(network, CLAIM, 0, score="high")

    def louder(each: World) -> Any:
        law, p = released(network, each.scores), own_participation(network, each)
        return replace(law, weight=law.weight / p, noise_std=law.noise_std / p)

    listening = log_likelihood_ratio(
        louder(world), world.features, neighbour.features, neighbour_devices=louder(neighbour)
    )

    def game(transmission: Any) -> AuditReport:
        return audit(
            transmission,
            world,
            neighbour,
            runs=RUNS,
            rng=np.random.default_rng(6),
            delta=DELTA,
            score=listening,
            claimed_epsilon=guarantee(network, CLAIM).worst,
        )

    assert not game(mechanism(network)).violated
    assert game(dividing_by_participation(network, monkeypatch)).violated


@pytest.mark.parametrize("name", ["2.1", "2.2"])
def test_half_of_the_scores_noise_is_caught(name, monkeypatch):
    # Little noise on the score and much on the features: what is there to be seen is in the score.
    network = six(name, noise_std=1.0, score_noise_std=0.7, threshold=0.5)
    assert not played(network, seed=7).violated
    honest = stations.noisy
    monkeypatch.setattr(stations, "noisy", lambda u, std, **rest: honest(u, std / 2, **rest))
    assert played(network, seed=7).violated


@pytest.mark.parametrize("name", ["2.1", "2.2"])
@pytest.mark.parametrize("channel", [{}, FADING], ids=["perfect channel", "fading"])
def test_half_of_the_features_noise_is_caught(name, channel):
    # Where devices may be in outage the claim for 2.2 counts own noise alone: a device by itself shows it.
    network = six(
        name,
        channel,
        score_noise_std=6.0,
        threshold=12.0,
        noise_std=0.8 if channel else 0.15,
        num_devices=1 if channel else K,
        num_selected=1 if channel else K,
    )
    assert not played(network, seed=8).violated
    halved = replace(network, devices=replace(network.devices, noise_std=network.devices.column("noise_std")[0] / 2))
    assert played(network, seed=8, transmission=mechanism(halved)).violated


def test_a_forgotten_bound_on_the_score_is_caught(monkeypatch):
    network = six("2.2", noise_std=1.0, score_noise_std=0.7)

    def tenfold(world: World, runs: int, rng: Any) -> Any:
        assert world.scores is not None
        return mechanism(network)(World(world.features, 10 * world.scores), runs, rng)

    assert not played(network, seed=9, transmission=tenfold).violated
    monkeypatch.setattr(Scored, "bounded", lambda scheme, bits, num_classes: bits)
    assert played(network, seed=9, transmission=tenfold).violated


# --- the command ---


@pytest.mark.parametrize("name", ["2.1", "2.2"])
def test_the_command_plays_with_scores(name, tmp_path, monkeypatch):
    path = tmp_path / "net.toml"
    network_file.write(six(name, noise_std=1.0, score_noise_std=0.7, threshold=0.5), path)
    arguments = ["audit", "--network", str(path), "--runs", "6000", "--seed", "3", "--score-end", "low", "--json"]
    out = CliRunner().invoke(app, arguments)
    assert out.exit_code == 0, out.output
    assert not json.loads(out.stdout)["violated"]
    honest = stations.noisy
    monkeypatch.setattr(stations, "noisy", lambda u, std, **rest: honest(u, std / 2, **rest))
    out = CliRunner().invoke(app, arguments)
    assert out.exit_code == 1
    assert json.loads(out.stdout)["violated"]
    out = CliRunner().invoke(app, [*arguments[:-2], "middle"])
    assert "--score-end 'middle' must be high or low" in str(out.exception)


def test_scheme_2_1_needs_scores_to_know_its_law():
    with pytest.raises(ValueError, match=r"scheme 2.1 needs scores"):
        released(six("2.1"))
