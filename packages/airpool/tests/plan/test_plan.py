"""The planner: every option meets its targets, the best is the best, and predictions hold on other objects."""

import json
import shlex
from dataclasses import replace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from airpool import Channel, Claim, Network, guarantee, load
from airpool.cli import app
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import EncodedObjects
from airpool.evaluation.plan import Candidate, candidates, fewest_devices, plan, search, smallest_epsilon
from airpool.evaluation.plan.candidates import PAPER, built
from airpool.evaluation.plan.search import Option, draw, frontier, simulated
from airpool.models.codecs.vote import crossed, fit
from airpool.network import Devices, Neighbours, Ranking
from airpool.network import file as network_file

TWELVE = Network.uniform(num_devices=12)
FEW = (Candidate(), Candidate(participation=0.9), Candidate(scheme=Ranking(num_selected=11), share=0.05))


@pytest.fixture(scope="module")
def model():
    return load("modelnet40")


def test_every_candidate_meets_its_target_exactly(model):
    for each in candidates(12, model.deployable, heterogeneous=False):
        net = built(each, TWELVE, Claim(), np.full(12, 2.0), model)
        assert guarantee(net).worst <= 2.0, each.words
        assert net.devices.count == 12
        assert set(net.devices.column("clip_norm")) == {1.0}


@pytest.mark.parametrize("handle", ["noise", "weights", "clipping"])
def test_unlike_targets_are_all_met(model, handle):
    targets = np.where(np.arange(12) % 2, 8.0, 1.0)
    net = built(Candidate(handle=handle), TWELVE, Claim(), targets, model)
    assert np.all(guarantee(net).epsilon <= targets)
    assert net.devices.column("epsilon") == tuple(targets)


def test_every_candidate_meets_its_target_with_the_noise_that_runs(model):
    given, live = replace(TWELVE, channel=Channel("rician", power_rule="backoff")), Claim(live=True)
    found = plan(given, live, model=model, epsilon=3.0, choice=FEW, trials=[1])
    for each in (found.best, *found.others):
        assert guarantee(each.network, live).worst <= 3.0
        assert each.evaluation.report.claim == live
    assert found.record()["live"]
    simulated_alone = plan(given, model=model, epsilon=3.0, choice=FEW[:1], trials=[1]).best.network
    assert guarantee(simulated_alone, live).worst > 3.0
    targets = np.where(np.arange(12) % 2, 8.0, 1.0)
    for handle in ("weights", "clipping"):
        net = built(Candidate(handle=handle), given, live, targets, model)
        assert np.all(guarantee(net, live).epsilon <= targets)


def test_what_is_given_is_kept(model):
    channel, claim = Channel("rician", noise_std=0.3), Claim(delta=1e-6, neighbours=Neighbours.REPLACE, inferences=3)
    given = replace(TWELVE, channel=channel, colluders=1, devices=Devices(count=12, power_dbm=20.0))
    net = built(Candidate(), given, claim, np.full(12, 4.0), model)
    assert (net.channel, net.colluders) == (channel, 1)
    assert set(net.devices.column("power_dbm")) == {20.0}
    assert 3.99 < guarantee(net, claim).worst <= 4.0


def test_the_best_option_comes_first_and_nothing_is_lost(model):
    found = plan(TWELVE, model=model, epsilon=2.0, choice=FEW, trials=(1, 2))
    tried = {found.best.candidate, *(each.candidate for each in found.others)}
    assert tried == set(FEW)
    assert found.best.candidate == Candidate()  # p = 1 is better than p = 0.9 at the same ε, by far more than noise
    assert all(each.accuracy <= found.best.accuracy for each in found.others if each.evaluation.trials == 2)
    assert found.paper is not None
    assert found.paper.candidate == PAPER
    assert found.best.accuracy > found.paper.accuracy
    low, high = found.best.interval
    assert low < found.best.accuracy < high


def test_the_vote_is_a_candidate_and_may_win(model):
    assert Candidate("vote") in candidates(12, model.deployable, heterogeneous=False)
    found = plan(TWELVE, model=model, epsilon=1.0, choice=(Candidate("q16"), Candidate("vote")), trials=(1, 2))
    assert found.best.candidate.words == "vote, p = 1"
    assert found.best.network.dimension == 40


def test_the_same_seed_gives_the_same_plan(model):
    one, two = (plan(TWELVE, model=model, epsilon=2.0, choice=FEW[:2], trials=(1, 1), seed=3) for _ in range(2))
    assert one.record() == two.record()
    assert one.record()["seed"] == 3


def test_with_unlike_targets_unlike_weights_win(model):
    targets = np.where(np.arange(12) % 2, 8.0, 0.5)
    choice = (Candidate(), Candidate(handle="weights"), Candidate(handle="clipping"))
    found = plan(TWELVE, model=model, epsilon=targets, choice=choice, trials=(1, 2))
    assert found.best.candidate.handle in ("weights", "clipping")
    uniform = next(each for each in found.others if each.candidate.handle == "noise")
    assert found.best.accuracy > uniform.accuracy + 0.3


def test_what_cannot_be_built_is_named_with_its_reason(model):
    removal = Claim(neighbours=Neighbours.REMOVE)
    found = plan(TWELVE, removal, model=model, epsilon=30.0, choice=FEW, trials=(1,))
    ((candidate, why),) = found.impossible
    assert candidate == FEW[2]
    assert "remove" in why
    with pytest.raises(ValueError, match=r"no candidate can be built: .*remove"):
        plan(TWELVE, removal, model=model, epsilon=30.0, choice=FEW[2:], trials=(1,))


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_a_target_that_is_no_target_is_refused(model, bad):
    with pytest.raises(ValueError, match="must be > 0 and finite"):
        plan(TWELVE, model=model, epsilon=bad, choice=FEW[:1])


def test_candidates_never_select_everybody_or_nobody():
    for count in (1, 2, 3, 12, 50):
        chosen = [each.scheme.num_selected for each in candidates(count, ("compact",), heterogeneous=False)
                  if isinstance(each.scheme, Ranking)]  # fmt: skip
        assert all(1 <= k < max(count, 2) for k in chosen)


def test_the_smallest_epsilon_reaches_the_accuracy_and_a_smaller_one_does_not(model, monkeypatch):
    monkeypatch.setattr(search, "candidates", lambda *_, **__: FEW[:1])
    epsilon, found = smallest_epsilon(TWELVE, model=model, accuracy=0.7)
    assert 0.8 < epsilon < 1.1
    assert found.best.accuracy >= 0.69
    less = built(Candidate(), TWELVE, Claim(), np.full(12, 0.9 * epsilon), model)
    assert simulated(Candidate(), less, Claim(), model, trials=10, seed=0).accuracy < 0.7
    with pytest.raises(ValueError, match=r"accuracy=0\.99 is beyond reach: the best at ε = 32 is 0\.9"):
        smallest_epsilon(TWELVE, model=model, accuracy=0.99)
    with pytest.raises(ValueError, match="accuracy=2 must be > 0 and < 1"):
        smallest_epsilon(TWELVE, model=model, accuracy=2.0)


def test_the_fewest_devices_reach_the_accuracy_and_one_less_does_not(model, monkeypatch):
    monkeypatch.setattr(search, "candidates", lambda *_, **__: FEW[:1])
    count, found = fewest_devices(TWELVE, model=model, epsilon=2.0, accuracy=0.6)
    assert found.best.network.devices.count == count < 12
    assert found.best.accuracy >= 0.58
    one_less = plan(Network.uniform(num_devices=count - 1), model=model, epsilon=2.0, choice=FEW[:1], trials=(5,))
    assert one_less.best.accuracy < 0.62
    with pytest.raises(ValueError, match=r"beyond 12 devices at ε = 0\.5: they reach 0\."):
        fewest_devices(TWELVE, model=model, epsilon=0.5, accuracy=0.9)
    for name in ("power_dbm", "path_loss_db"):
        unlike = Network(devices=Devices(count=2, **{name: (10.0, 20.0)}))
        with pytest.raises(ValueError, match=f"{name} differs"):
            fewest_devices(unlike, model=model, epsilon=0.5, accuracy=0.9)


def test_the_fewest_devices_are_as_far_away_as_those_given(model, monkeypatch):
    monkeypatch.setattr(search, "candidates", lambda *_, **__: FEW[:1])
    given = {"devices": Devices(count=4, power_dbm=20.0, path_loss_db=30.0), "channel": Channel(noise_std=0.01)}
    count, found = fewest_devices(Network(**given), model=model, epsilon=4.0, accuracy=0.2)
    own = found.best.network.devices
    assert set(own.column("path_loss_db")) == {30.0}
    assert set(own.column("power_dbm")) == {20.0}
    # What is left to the plan is what a plan of as many devices like those given finds.
    wanted = replace(Network(**given), devices=Devices(count=count, power_dbm=20.0, path_loss_db=30.0))
    assert built(FEW[0], wanted, Claim(), np.full(count, 4.0), model) == found.best.network


def test_the_frontier_rises_and_is_drawn(model, tmp_path):
    found = plan(TWELVE, model=model, epsilon=1.0, choice=FEW[:1], trials=(1,))
    curve = frontier(found, model=model, factors=(0.5, 1.0, 4.0), trials=1)
    accuracy = [each.accuracy for each in curve.options]
    assert accuracy == sorted(accuracy)
    assert len(curve.paper) == 3
    assert curve.columns()["kind"] == ["plan"] * 3 + ["paper"] * 3
    draw(curve, found, tmp_path / "frontier.png")
    assert (tmp_path / "frontier.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give --epsilon"),
        (["--epsilon", "1,2"], "2 values for 12 devices"),
        (["--epsilon", "-1"], "must be > 0"),
        (["--accuracy", "1.5"], "must be > 0 and < 1"),
        (["--epsilon", "1", "--fading", "fog"], "fading='fog'"),
        (["--epsilon", "1", "--colluders", "#3"], "takes a number"),
        (["--epsilon", "1", "--seed", "-1"], "must be ≥ 0"),
    ],
)
def test_bad_input_is_one_clear_line(arguments, message):
    result = CliRunner().invoke(app, ["plan", *arguments])
    assert result.exit_code != 0
    assert message in str(result.exception) + result.output


def test_the_command_writes_a_network_that_evaluate_reads(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "candidates", lambda *_, **__: FEW[:2])
    monkeypatch.setattr(search, "TRIALS", (1, 1))
    out, plot = tmp_path / "net.toml", tmp_path / "frontier.svg"
    result = CliRunner().invoke(app, ["plan", "--epsilon", "2", "--out", str(out), "--plot", str(plot)])
    assert result.exit_code == 0, result.output
    assert "vote, p = 1" in result.output
    assert plot.exists()
    assert guarantee(network_file.read(out)).worst <= 2.0
    measured = CliRunner().invoke(app, ["evaluate", "--network", str(out), "--trials", "1", "--json"])
    assert json.loads(measured.stdout)["accuracy_mean"] > 0.85


@pytest.mark.parametrize(
    ("count", "note"),
    [
        (1, "used: 0; left out: 1, 2, 3"),
        (3, "used: 0, 4, 8; left out: 1, 2"),
        (13, "from device 12 on"),
        (12, None),
    ],
)
def test_the_command_that_plan_prints_works_for_any_number_of_devices(tmp_path, monkeypatch, count, note):
    monkeypatch.setattr(search, "candidates", lambda *_, **__: FEW[:1])
    out = tmp_path / "my net.toml"
    planned = CliRunner().invoke(app, ["plan", "--epsilon", "2", "--devices", str(count), "--out", str(out)])
    assert planned.exit_code == 0, planned.output
    printed = planned.output.rsplit("test objects: airpool ", 1)[1]
    measured = CliRunner().invoke(app, [*shlex.split(printed), "--trials", "1", "--json"], catch_exceptions=False)
    assert measured.exit_code == 0, measured.output
    record = json.loads(measured.stdout)
    assert len(record["epsilon"]) == count
    if note is None:
        assert record["cameras"] is None
        assert "camera" not in planned.output
    else:
        assert note in record["cameras"]
        assert record["cameras"] in planned.output


def test_the_record_of_a_plan_says_which_cameras_were_repeated(model):
    found = plan(Network.uniform(num_devices=13), model=model, epsilon=2.0, choice=FEW[:1], trials=(1,))
    assert "not that of 13 different sensors" in found.record()["cameras"]


def test_more_devices_than_can_share_the_cameras_are_refused_at_once(refused):
    assert "num_devices=121 must be from 1 to 120: the model has 12 sensors" in refused(
        "plan", "--epsilon", "2", "--devices", "121"
    )


def test_the_record_of_the_command_is_whole(monkeypatch):
    monkeypatch.setattr(search, "candidates", lambda *_, **__: FEW[:1])
    result = CliRunner().invoke(app, ["plan", "--epsilon", "2", "--json"])
    record = json.loads(result.stdout)
    assert record["best"]["epsilon"] <= 2.0
    assert record["best"]["channel_uses"] == 20
    assert record["best"]["energy"] > 0
    assert network_file.parse(record["network"]).dimension == 40
    assert len(record["frontier"]["epsilon"]) == 14


def test_the_command_for_the_fewest_devices_has_their_frontier(monkeypatch):
    monkeypatch.setattr(search, "candidates", lambda *_, **__: FEW[:1])
    result = CliRunner().invoke(app, ["plan", "--epsilon", "2", "--accuracy", "0.6", "--json"], catch_exceptions=False)
    record = json.loads(result.stdout)
    count = network_file.parse(record["network"]).devices.count
    assert count < 12
    assert record["best"]["accuracy_mean"] > 0.55
    assert len(record["frontier"]["epsilon"]) == 14


def test_score_schemes_with_removal_are_refused_by_name(model):
    with pytest.raises(ValueError, match="remove"):
        built(FEW[2], TWELVE, Claim(neighbours=Neighbours.REMOVE), np.ones(12), model)


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
def test_the_interval_covers_the_accuracy_on_as_many_other_objects(model, epsilon):
    """Predicted on a random half of the validation objects, measured on the other by a vote of the first half."""
    net = built(Candidate(), TWELVE, Claim(), np.full(12, epsilon), model)
    objects, vote, report = model.held_out("validation"), model.codec("vote"), guarantee(net)
    splits, covered, gaps = 150, 0, []
    for seed in range(splits):
        one, other = torch.randperm(len(objects), generator=torch.Generator().manual_seed(seed)).tensor_split(2)
        own = fit(objects.posteriors[one], objects.labels[one], sharpness=(vote.sharpness,))
        server = crossed(own, objects.latents[one], objects.labels[one], seed=seed)
        predicted, measured = (
            evaluate(
                EncodedObjects(objects.latents[rows], objects.labels[rows], by),
                net,
                trials=2,
                seed=2 * seed + k,
                report=report,
            )
            for k, (rows, by) in enumerate(((one, server), (other, own.server)))
        )
        low, high = Option(Candidate(), net, predicted).interval
        covered += low <= measured.accuracy_mean <= high
        gaps.append(measured.accuracy_mean - predicted.accuracy_mean)
    assert covered / splits >= 0.95 - 2 * (0.95 * 0.05 / splits) ** 0.5  # 95 %, but for the number of splits
    assert abs(np.mean(gaps)) < 0.004


def test_a_plan_predicts_with_votes_that_did_not_see_the_object(model):
    net = built(Candidate(), TWELVE, Claim(), np.full(12, 2.0), model)
    objects = model.held_out("validation")
    seen = evaluate(EncodedObjects(objects.latents, objects.labels, model.codec("vote").server), net, trials=4)
    unseen = simulated(Candidate(), net, Claim(), model, trials=4, seed=0)
    assert seen.accuracy_mean - 0.01 < unseen.accuracy < seen.accuracy_mean
    assert unseen.evaluation.mse == seen.mse  # the same noise


@pytest.mark.check
@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
def test_the_whole_search_beats_the_paper_on_the_test_objects(model, epsilon):
    found = plan(TWELVE, model=model, epsilon=epsilon)
    assert found.paper is not None
    ours = simulated(found.best.candidate, found.best.network, Claim(), model, trials=20, seed=7, split="test")
    paper = simulated(PAPER, found.paper.network, Claim(), model, trials=20, seed=7, split="test")
    assert ours.accuracy > paper.accuracy
