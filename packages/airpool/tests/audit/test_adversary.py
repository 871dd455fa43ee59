"""The real transmission path keeps its promise in a distinguishing game, and planted bugs in it are caught.

Twelve devices, r = 64, played on protocol.simulation. δ = 0.01 rather than 1e-5: then the few runs that fit
into a test show most of what there is to show.
"""

import copy
import json
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from airpool._support import draws
from airpool.account.guarantee import guarantee
from airpool.cli import app
from airpool.evaluation.audit.adversary import mechanism, released
from airpool.evaluation.audit.bound import AuditReport, audit
from airpool.evaluation.audit.release import Observed, log_likelihood_ratio, worst_pair
from airpool.network import Channel, Claim, Devices, Neighbours, Network
from airpool.network import file as network_file
from airpool.protocol import device, simulation
from airpool.radio.link import link_of
from tests.plain_air import simulated

K, R, STD, DELTA, RUNS = 12, 64, 0.05, 0.01, 10_000
CLAIM = Claim(delta=DELTA)
FADING: dict[str, Any] = {"fading": "rician", "outage": 0.1, "noise_std": 0.3162}


def twelve(channel: dict[str, Any] | None = None, **fields: Any) -> Network:
    given: dict[str, Any] = {
        "num_devices": K,
        "noise_std": STD,
        "participation": 0.9,
        "dimension": R,
        "channel": Channel(**(channel or {})),
    }
    return Network.uniform(**(given | fields))


def played(
    network: Network, claim: Claim = CLAIM, *, seed: int, transmission: Any = None, longer: float = 1.0
) -> AuditReport:
    """The game against device 0; features may be sent longer than the clip norm allows."""
    law = released(network)
    features, neighbour = worst_pair(law, 0, dimension=network.dimension, neighbours=claim.neighbours)
    return audit(
        mechanism(network) if transmission is None else transmission,
        longer * features,
        longer * neighbour,
        runs=RUNS,
        rng=np.random.default_rng(seed),
        delta=claim.delta,
        score=log_likelihood_ratio(law, features, neighbour),
        claimed_epsilon=guarantee(network, claim).worst,
    )


REPLACE = Claim(delta=DELTA, neighbours=Neighbours.REPLACE)
KINDS: dict[str, tuple[dict[str, Any], Claim]] = {
    "zero-out": ({}, CLAIM),
    "replace": ({}, REPLACE),
    "cover noise": ({"cover_noise": True}, CLAIM),
    "cover noise, replace": ({"cover_noise": True}, REPLACE),
}


@pytest.fixture(params=[{}, FADING], ids=["perfect channel", "fading"])
def channel(request):
    return request.param


@pytest.fixture(params=KINDS.values(), ids=list(KINDS))
def kind(request):
    return request.param


# --- honest ---


def test_the_lower_bound_stays_under_the_claim_and_says_most_of_it(channel, kind):
    fields, claim = kind
    report = played(twelve(channel, **fields), claim, seed=1)
    assert not report.violated
    assert report.claimed_epsilon is not None
    assert report.epsilon_lower > 0.4 * report.claimed_epsilon


def test_the_path_and_the_reference_release_have_the_same_law(kind):
    """Two implementations that share no code: scores on one look like scores on the other."""
    network = twelve(**kind[0])
    law = released(network)
    features, neighbour = worst_pair(law, 0, dimension=R)
    score = log_likelihood_ratio(law, features, neighbour)
    n = 6_000
    ours = score(mechanism(network)(features, n, np.random.default_rng(2)))
    reference = score(simulated(law, features, n, np.random.default_rng(3)))
    error = 4.5 * np.sqrt((ours.var() + reference.var()) / n)
    assert abs(ours.mean() - reference.mean()) < error
    assert ours.var() == pytest.approx(reference.var(), rel=4.5 * 2 * np.sqrt(2 / n))


def test_the_adversary_sees_who_is_in_the_sum_and_nothing_of_it_under_cover_noise():
    network = twelve(FADING)
    seen = mechanism(network)(np.zeros((K, R)), 4_000, np.random.default_rng(4))
    assert seen.total.shape == (4_000, R)
    assert seen.participation is not None
    p = released(network).participation
    np.testing.assert_allclose(p, 0.9 * (1 - link_of(network).outage))
    np.testing.assert_allclose(seen.participation.mean(axis=0), p, atol=4.5 * 0.5 / np.sqrt(4_000))
    covered = mechanism(replace(network, cover_noise=True))(np.zeros((K, R)), 10, np.random.default_rng(4))
    assert covered.participation is None


def test_the_receivers_noise_does_not_help_the_devices():
    """A better receiver hears the devices' noise only: the sum's variance is theirs."""
    network = twelve({"noise_std": 100.0}, participation=1.0)
    total = mechanism(network)(np.zeros((K, R)), 500, np.random.default_rng(5)).total
    assert total.var() == pytest.approx(K * STD**2, rel=4.5 * np.sqrt(2 / total.size))


# --- planted bugs ---


def test_halved_noise_is_caught(channel, kind, monkeypatch):
    honest = draws.standard_normal
    monkeypatch.setattr(draws, "standard_normal", lambda *args, **kwargs: honest(*args, **kwargs) / 2)
    fields, claim = kind
    assert played(twelve(channel, **fields), claim, seed=6).violated


def test_a_forgotten_clip_is_caught(channel, monkeypatch):
    network = twelve(channel)
    assert not played(network, seed=7, longer=3.0).violated
    monkeypatch.setattr(device, "clipped", lambda latents, clip_norm: latents)
    assert played(network, seed=7, longer=3.0).violated


def test_a_forgotten_guard_against_non_finite_values_is_caught(monkeypatch):
    network = twelve()
    broken = np.zeros((1, K, R))
    broken[0, 0] = np.nan
    assert np.isfinite(simulation.receive(broken, network, rng=np.random.default_rng(8), path="full").estimate).all()
    monkeypatch.setattr(device, "clipped", lambda latents, clip_norm: latents)
    with pytest.raises(ValueError, match="mechanism returned nan"):
        audit(mechanism(network), broken[0], np.zeros((K, R)), runs=100, rng=np.random.default_rng(8), delta=DELTA)


def test_noise_that_stays_at_home_when_the_coin_says_so_is_caught_under_cover_noise(monkeypatch):
    network = twelve(cover_noise=True, participation=0.3)
    assert not played(network, seed=9).violated
    honest = device.power

    def forgetful(senders: device.Senders, *args: Any, **norms: Any) -> Any:
        open_ = replace(senders.network, cover_noise=False)
        return honest(replace(senders, network=open_), *args, **norms)

    monkeypatch.setattr(device, "power", forgetful)
    assert played(network, seed=9).violated


def colluding_with_all_but_device_0(network: Network, monkeypatch: Any) -> Any:
    """A mechanism in which devices 1 to 11 tell the adversary what they have sent."""
    drawn: list[Any] = []
    honest, run = draws.standard_normal, mechanism(network)

    def overheard(*args: Any, **kwargs: Any) -> Any:
        drawn.append(honest(*args, **kwargs))
        return drawn[-1]

    monkeypatch.setattr(draws, "standard_normal", overheard)

    def colluding(features: Any, runs: int, rng: Any) -> Observed:
        drawn.clear()
        seen = run(features, runs, rng)
        return replace(seen, sent=STD * np.stack([noise[0] for noise in drawn[1:K]], axis=1))

    return colluding


def test_a_generator_shared_with_colluders_is_caught(monkeypatch):
    # Against eleven colluders the promise is the local one: device 0's own noise.
    network = twelve(participation=1.0, colluders=11, dimension=2)
    transmission = colluding_with_all_but_device_0(network, monkeypatch)

    def game() -> AuditReport:
        features, neighbour = worst_pair(released(network), 0, dimension=2)
        claim = guarantee(network, CLAIM).worst
        rng = np.random.default_rng(10)
        return audit(transmission, features, neighbour, runs=RUNS, rng=rng, delta=DELTA, claimed_epsilon=claim)

    honest = game()
    assert 0.4 * guarantee(network, CLAIM).worst < honest.epsilon_lower
    assert not honest.violated

    def one_for_all(rng: Any, number: int) -> list[Any]:
        return [copy.deepcopy(child) for child in rng.spawn(1) * number]

    monkeypatch.setattr(draws, "spawn", one_for_all)
    shared = game()
    assert shared.violated
    assert shared.epsilon_lower == shared.ceiling


def test_a_seed_that_comes_again_in_the_next_inference_is_caught(monkeypatch):
    network = twelve(FADING, dimension=2)
    run = mechanism(network)

    def twice(pair: Any, runs: int, rng: Any) -> Any:
        return np.stack([run(features, runs, rng).total for features in pair], axis=1)

    # Only the first inference differs between the worlds, so the claim for one inference covers both.
    features, neighbour = worst_pair(released(network), 0, dimension=2)
    worlds = np.stack([features, neighbour]), np.stack([neighbour, neighbour])

    def game() -> AuditReport:
        claim, rng = guarantee(network, CLAIM).worst, np.random.default_rng(11)
        return audit(twice, *worlds, runs=RUNS, rng=rng, delta=DELTA, claimed_epsilon=claim)

    assert not game().violated
    monkeypatch.setattr(draws, "spawn", lambda rng, number: np.random.default_rng(0).spawn(number))
    assert game().violated


# --- what is not audited ---


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (twelve({"access": "orthogonal"}), "audits superposed and secure access, not access='orthogonal'"),
        (twelve({"csi_error_std": 0.1}), "csi_error_std and phase_error_std must be 0"),
        (twelve({"phase_error_std": 0.1}), "csi_error_std and phase_error_std must be 0"),
        (
            twelve(FADING | {"power_rule": "backoff"}),
            r"power_rule='backoff' only where .* \(here up to 0.1 of the time",
        ),
        (twelve(FADING | {"power_rule": "paper"}), "power_rule='paper' only where power never limits"),
    ],
)
def test_what_cannot_be_audited_yet_is_said_in_one_line(network, message):
    for function in (mechanism, released):
        with pytest.raises(ValueError, match=message) as caught:
            function(network)
        assert "\n" not in str(caught.value)


def test_backoff_is_audited_where_power_never_limits():
    network = twelve({"power_rule": "backoff", "gamma": 1.0})
    assert released(network).participation == pytest.approx(0.9)
    assert mechanism(network)(np.zeros((K, R)), 3, np.random.default_rng(12)).total.shape == (3, R)


# --- the command ---


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["audit", *arguments])


def test_the_command_plays_on_the_real_path(tmp_path, monkeypatch):
    path = tmp_path / "net.toml"
    network_file.write(twelve(FADING, dimension=4), path, CLAIM)
    arguments = ("--network", str(path), "--runs", "4000", "--seed", "3", "--json")
    out = run(*arguments)
    assert out.exit_code == 0
    found = json.loads(out.stdout)
    assert found["claimed_epsilon"] == pytest.approx(guarantee(twelve(FADING), CLAIM).worst)
    assert not found["violated"]
    assert (found["runs"], found["seed"], found["device"]) == (4_000, 3, 0)
    honest = draws.standard_normal
    monkeypatch.setattr(draws, "standard_normal", lambda *args, **kwargs: honest(*args, **kwargs) / 8)
    out = run(*arguments)
    assert out.exit_code == 1
    assert json.loads(out.stdout)["violated"]


UNLIKE = ("--clip-norm", "1,0.5,0.2", "--noise-std", "0.3", "--dimension", "2", "--runs", "3000")


def test_all_devices_are_audited_on_request_and_their_bounds_hold_together():
    out = run(*UNLIKE, "--device", "all", "--json")
    assert out.exit_code == 0
    found = json.loads(out.stdout)
    claimed = guarantee(Network(Devices(3, clip_norm=(1.0, 0.5, 0.2), noise_std=0.3), dimension=2)).epsilon
    assert [game["device"] for game in found["devices"]] == [0, 1, 2]
    assert [game["claimed_epsilon"] for game in found["devices"]] == pytest.approx(claimed.tolist())
    # Two games against each device; the measurements take a fiftieth.
    assert [game["confidence"] for game in found["devices"]] == pytest.approx([1 - 0.98 * 0.05 / 6] * 3)
    assert [game["local"]["confidence"] for game in found["devices"]] == pytest.approx([1 - 0.98 * 0.05 / 6] * 3)
    assert (found["confidence"], found["violated"]) == (0.95, False)
    assert len({game["threshold"] for game in found["devices"]}) == 3  # each has noise of its own


def test_a_leak_of_a_device_that_claims_little_is_found_where_all_are_audited(monkeypatch, tmp_path):
    honest = device.clipped
    monkeypatch.setattr(device, "clipped", lambda z, clip_norm: honest(z, clip_norm) * np.array([1, 1, 40])[:, None])
    out = run(*UNLIKE, "--json")  # the games are against device 0, whose ε is the largest; all are measured
    assert out.exit_code == 1
    found = json.loads(out.stdout)
    assert found["epsilon_lower"] < found["claimed_epsilon"]
    assert {(each["claim"], each["device"]) for each in found["measurements"]["contradicted"]} == {("clip", 2)}
    picture = tmp_path / "audit.png"
    out = run(*UNLIKE, "--device", "all", "--plot", str(picture))
    assert out.exit_code == 1
    assert "claims of devices 2 VIOLATED" in out.stdout
    assert "device 2, clip (long feature): feature sent 2.6" in out.stdout
    assert "all 6 games and 45 measurements hold together with 0.95 confidence (union bound" in out.stdout
    assert out.stdout.count("not refuted") == 4
    assert f"Picture of device 2: {picture}" in out.stdout
    assert picture.exists()
    out = run(*UNLIKE, "--device", "0,2", "--json")
    assert out.exit_code == 1
    found = json.loads(out.stdout)
    assert found["violated"]
    assert [(game["device"], game["violated"]) for game in found["devices"]] == [(0, False), (2, True)]
    assert [game["local"]["violated"] for game in found["devices"]] == [False, True]


def test_every_device_has_its_own_progress(monkeypatch):
    seen = []

    @contextmanager
    def progress(what, total):
        done = []
        yield done.append
        seen.append((what, total, sum(done)))

    monkeypatch.setattr("airpool.cli.output.progress", progress)
    assert run(*UNLIKE, "--device", "1,2").exit_code == 0
    games = [(f"auditing device {k} ({n} of 2)", 12_000, 12_000) for n, k in ((1, 1), (2, 2))]
    assert seen == [*games, ("measuring", 6_000, 6_000)]


def test_the_command_names_what_it_cannot_audit(tmp_path):
    path = tmp_path / "net.toml"
    network_file.write(twelve(FADING | {"power_rule": "backoff"}), path)
    for arguments, message in (
        (("--network", str(path)), "power_rule='backoff'"),
        (("--devices", "3", "--neighbours", "remove"), "neighbours='remove'"),
        (("--devices", "3", "--device", "3"), "--device 3 must be from 0 to 2"),
        (("--devices", "3", "--device", "0,3"), "--device 3 must be from 0 to 2"),
        (("--devices", "3", "--device", "every"), "--device 'every' must be a number, numbers such as 0,3, or all"),
        (("--devices", "3", "--confidence", "1"), "--confidence 1 must be > 0 and < 1"),
    ):
        out = run(*arguments, "--runs", "100")
        assert isinstance(out.exception, ValueError)
        assert message in str(out.exception)
