"""Scores on the real path: who is on the air in Schemes 2.1 and 2.2, how often, how loud, and never by 1/p."""

import json
import math
import os
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from typer.testing import CliRunner

import airpool
from airpool.cli import app
from airpool.evaluation import settings as plain
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import EncodedObjects
from airpool.network import Channel, Coin, Devices, Network, Ranking, Threshold, named_scheme
from airpool.network import file as network_file
from airpool.privacy.noise import grid_of
from airpool.protocol import live as transmission
from airpool.protocol.inference import Baseline, Simulation
from airpool.protocol.inference import infer_features as infer
from airpool.protocol.simulation import receive
from airpool.radio.link import level, link_of
from airpool.schemes import ranking
from airpool.schemes.scores import Uncertainty, expected_participation, participation, uncertainty
from tests.random_networks import channels, stds

R = 4


@st.composite
def networks(draw):
    """A few unlike devices with any channel, cover noise or not, that choose by scores."""
    count = draw(st.integers(2, 5))

    def column(low, high):
        return tuple(draw(st.lists(st.floats(low, high), min_size=count, max_size=count)))

    scheme = named_scheme(
        name=draw(st.sampled_from(["2.1", "2.2"])),
        score_rule=draw(st.sampled_from(["clip", "scale"])),
        score_bound=draw(st.floats(0.2, 4.0)),
        score_noise_std=draw(st.sampled_from([0.0, 0.1, 0.5])),
        threshold=draw(st.floats(0.0, 1.5)),
        num_selected=draw(st.integers(1, count)),
    )
    return Network(
        devices=Devices(
            count=count,
            weight=column(0.1, 1.0),
            clip_norm=column(0.5, 2.0),
            noise_std=tuple(draw(st.lists(stds(0.5), min_size=count, max_size=count))),
            participation=column(0.0, 1.0),  # Scheme 1's, and without effect here
        ),
        channel=draw(channels()),
        scheme=scheme,
        dimension=R,
        cover_noise=draw(st.booleans()),
    )


def drawn(network, seed, objects=2):
    rng = np.random.default_rng(seed)
    count = network.devices.count
    return rng.standard_normal((objects, count, R)), rng.uniform(0, 3, (objects, count))


def within(found, p, n):
    np.testing.assert_array_less(np.abs(found - p), 5 * np.sqrt(p * (1 - p) / n) + 5 / n)


# --- how often ---


@given(networks(), st.sampled_from(["fast", "full"]), st.integers(0, 99))
def test_devices_take_part_as_often_as_the_formulas_say_whatever_else_is_on(network, path, seed):
    latents, scores = drawn(network, seed)
    n = 3_000
    got = receive(latents, network, rng=np.random.default_rng(seed), trials=n, path=path, scores=scores, num_classes=8)
    p = participation(scores, network.scheme, num_classes=8)
    within(got.taking_part.mean(axis=1), p, n)
    on_air = np.ones_like(p) if network.cover_noise else p
    if network.channel.power_rule == "truncate":
        within((got.alignment != 0).mean(axis=1), on_air * (1 - link_of(network).outage), n)
    if isinstance(network.scheme, Ranking):
        assert (got.taking_part.sum(axis=-1) == network.scheme.num_selected).all()
        np.testing.assert_array_equal(got.taking_part, ranking.selected(got.noisy_scores, network.scheme.num_selected))
    else:
        np.testing.assert_array_equal(got.taking_part, got.noisy_scores <= network.scheme.threshold)


@settings(max_examples=15)
@given(networks(), st.integers(0, 99))
def test_both_paths_give_the_same_estimate_on_average_and_the_same_spread(network, seed):
    latents, scores = drawn(network, seed, objects=1)
    n = 4_000
    fast, full = (
        receive(
            latents, network, rng=np.random.default_rng(seed), trials=n, path=path, scores=scores, num_classes=8
        ).estimate[0]
        for path in ("fast", "full")
    )
    error = 5 * np.sqrt((fast.var(axis=0) + full.var(axis=0)) / n) + 1e-12
    np.testing.assert_array_less(np.abs(fast.mean(axis=0) - full.mean(axis=0)), error)
    fourth = max(np.mean((x - x.mean(axis=0)) ** 4) for x in (fast, full))
    spread = abs(fast.var(axis=0).mean() - full.var(axis=0).mean())
    assert spread < 5 * np.sqrt(2 * fourth / n) + 1e-12


def test_nothing_is_ever_divided_by_the_participation():
    """Without noise on features and channel the sum is that of w z of whoever takes part, to rounding."""
    network = Network.uniform(num_devices=3, noise_std=0.0, dimension=R, scheme=Threshold(threshold=0.3))
    latents, scores = drawn(network, 0)
    latents /= 10
    for path in ("fast", "full"):
        got = receive(latents, network, rng=np.random.default_rng(1), trials=50, path=path, scores=scores)
        np.testing.assert_allclose(got.estimate, got.taking_part.astype(float) @ (latents / 3), atol=1e-12)
        assert 0 < got.taking_part.mean() < 1


def test_each_device_draws_its_own_score_noise_on_the_full_path():
    """A device's noisy score does not change when another one's score does."""
    network = Network.uniform(num_devices=3, dimension=R, scheme=Threshold())
    latents, scores = drawn(network, 2)
    other = scores.copy()
    other[:, 0] = 0.0
    one, two = (
        receive(latents, network, rng=np.random.default_rng(3), trials=5, path="full", scores=each).noisy_scores
        for each in (scores, other)
    )
    assert one is not None
    assert two is not None
    np.testing.assert_array_equal(one[..., 1:], two[..., 1:])
    assert np.corrcoef((one - one.mean(axis=1, keepdims=True)).reshape(-1, 3).T)[0, 1] < 0.9


def test_a_selected_device_in_outage_is_silent_and_heard_says_so():
    channel = Channel(fading="rayleigh", outage=0.4)
    network = Network.uniform(
        num_devices=2, dimension=R, channel=channel, scheme=Ranking(num_selected=1, score_noise_std=0.0)
    )
    got = receive(
        np.ones((1, 2, R)), network, rng=np.random.default_rng(4), trials=4_000, scores=np.array([[0.1, 0.9]])
    )
    assert got.taking_part[..., 0].all()
    within(got.any_signal.mean(), 1 - link_of(network).outage[0], 4_000)
    assert (got.alignment[..., 1] == 0).all()


def test_spoilt_scores_count_as_the_least_sure_ones_and_nothing_fails():
    network = Network.uniform(num_devices=3, dimension=R, scheme=Ranking(num_selected=1, score_noise_std=0.0))
    scores = np.array([[np.nan, 0.4, np.inf]])
    got = receive(np.ones((1, 3, R)), network, rng=np.random.default_rng(5), scores=scores)
    assert got.taking_part[0, 0].tolist() == [False, True, False]
    assert got.noisy_scores is not None
    assert got.noisy_scores[0, 0] == pytest.approx([1.0, 0.4, 1.0])


@pytest.mark.parametrize("name", ["2.1", "2.2"])
@pytest.mark.parametrize("path", ["fast", "full"])
def test_torch_draws_by_the_same_law(name, path):
    network = Network.uniform(num_devices=3, dimension=R, scheme=named_scheme(name, num_selected=2))
    latents, scores = drawn(network, 6)
    got = receive(
        torch.tensor(latents).float(),
        network,
        rng=torch.Generator().manual_seed(0),
        trials=4_000,
        path=path,
        scores=torch.tensor(scores),
    )
    assert got.taking_part.dtype == torch.bool
    assert got.estimate.dtype == torch.float32
    within(got.taking_part.double().mean(1).numpy(), participation(scores, network.scheme), 4_000)


def test_best_device_speaks_alone_and_is_one_of_those_selected():
    network = Network.uniform(
        num_devices=4, dimension=R, channel=Channel(fading="rician"), scheme=Ranking(num_selected=2)
    )
    latents, scores = drawn(network, 7)
    got = receive(latents, network, rng=np.random.default_rng(8), trials=500, scores=scores, only_best=True)
    assert (got.taking_part.sum(axis=-1) == 1).all()
    chosen = ranking.selected(got.noisy_scores, 2)
    assert (got.taking_part <= chosen).all()
    best = np.where(chosen, got.gain, -1).argmax(axis=-1)
    np.testing.assert_array_equal(got.taking_part.argmax(axis=-1), best)


# --- how loud ---


@settings(max_examples=20)
@given(networks(), st.integers(0, 99))
def test_the_level_is_what_is_heard_of_latents_at_full_norm(network, seed):
    count = network.devices.count
    latents = np.zeros((1, count, R))
    latents[0, :, 0] = network.devices.column("clip_norm")
    scores = np.random.default_rng(seed).uniform(0, 3, (1, count))
    p = participation(scores, network.scheme, num_classes=8)[0]
    known = level(network, participation=p)
    n = 4_000
    got = receive(latents, network, rng=np.random.default_rng(seed), trials=n, scores=scores, num_classes=8).estimate[0]
    # What happens too rarely to be seen in n draws counts as well, by the moments that it has in truth.
    full = [np.array(network.devices.column(name)) for name in ("weight", "clip_norm", "noise_std")]
    spread = max(got[:, 0].std(), float(np.sqrt(p * (1 - p)) @ (full[0] * full[1])))
    assert abs(got[:, 0].mean() - known.signal) < 5 * spread / math.sqrt(n) + 1e-9
    noise = got[:, 2:].ravel()  # beyond the symbol of the first axis
    fourth = max(float(np.mean(noise**4)), float(3 * p @ full[2] ** 4), 1e-30)
    assert abs(noise.var() - known.noise_std**2) < 5 * math.sqrt(fourth / n) + 1e-9


def test_ranked_devices_take_part_so_many_of_all_times_and_may_be_known_better():
    network = Network.uniform(num_devices=4, dimension=R, noise_std=0.1, scheme=Ranking(num_selected=3))
    assert level(network).signal == pytest.approx(0.75)
    assert level(network).noise_std == pytest.approx(math.sqrt(3 * 0.01))
    assert level(network, participation=[1.0, 1.0, 1.0, 0.0]).signal == pytest.approx(0.75)
    assert level(network, participation=0.5).signal == pytest.approx(0.5)


# --- from posteriors to labels ---


def two_classes(count=200, *, devices=3):
    """Half of the views are turned around, and their devices know that they know nothing."""
    rng = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % 2
    right = torch.rand(count, devices, generator=rng) < 0.6
    latents = torch.zeros(count, devices, R)
    latents[:, :, 0] = (2 * labels[:, None] - 1) * torch.where(right, 1.0, -1.0)
    posteriors = torch.full((count, devices, 2), 0.5)
    posteriors[right] = torch.tensor([1.0, 0.0])
    return latents, labels, posteriors


def by_sign(_level):
    return lambda estimate: torch.stack((-estimate[..., 0], estimate[..., 0]), -1)


def scored(name, **changes):
    given: dict[str, Any] = {"score_bound": 1.0, "score_noise_std": 0.05, "threshold": 0.5, "num_selected": 1}
    return Network.uniform(num_devices=3, dimension=R, noise_std=0.01, scheme=named_scheme(name, **(given | changes)))


@pytest.mark.parametrize("name", ["2.1", "2.2"])
def test_asking_only_who_is_sure_beats_asking_everybody(name):
    latents, labels, posteriors = two_classes()
    plain = evaluate(
        EncodedObjects(latents, labels, by_sign), Network.uniform(num_devices=3, dimension=R, noise_std=0.01)
    )
    found = evaluate(
        EncodedObjects(latents, labels, by_sign, posteriors=posteriors, participation=0.6), scored(name), trials=5
    )
    somebody_knows = 1 - 0.4**3
    assert plain.accuracy_mean < 0.75
    assert found.accuracy_mean == pytest.approx(somebody_knows, abs=0.1)
    assert found.record()["scheme"] == name
    same = evaluate(
        EncodedObjects(latents, labels, by_sign, scores=uncertainty(posteriors, "shannon"), participation=0.6),
        scored(name),
        trials=5,
    )
    assert same.record() == found.record()


@pytest.mark.parametrize("baseline", get_args(Baseline))
@pytest.mark.parametrize("name", ["2.1", "2.2"])
def test_baselines_still_work(name, baseline):
    latents, labels, posteriors = two_classes(40)
    found = evaluate(
        EncodedObjects(latents, labels, by_sign, posteriors=posteriors, participation=0.6),
        scored(name),
        instead=baseline,
        trials=2,
    )
    assert 0 < found.accuracy_mean <= 1
    assert found.report.worst == math.inf or found.report.worst > 0


def test_infer_takes_posteriors_or_scores_and_reports_its_epsilon():
    latents, labels, posteriors = two_classes(30)
    network = scored("2.2", score_rule="scale", score_bound=2.0)
    classify = by_sign(None)
    ways: Any = ({"posteriors": posteriors}, {"scores": uncertainty(posteriors, "shannon"), "num_classes": 2})
    baselines: Any = (None, "best-device", "centralised")
    outs = [
        infer(
            latents,
            network,
            server=classify,
            rng=torch.Generator().manual_seed(0),
            uncertainty=Uncertainty(**way),
            simulation=Simulation(baseline=baseline),
        )
        for way in ways
        for baseline in baselines
    ]
    assert torch.equal(outs[0].label, outs[3].label)
    assert isinstance(outs[0].report.network.scheme, Ranking)
    assert (outs[0].label[:, 0] == labels).double().mean() > 0.7


@pytest.mark.parametrize(
    ("name", "given_", "message"),
    [
        ("2.1", {}, "scheme 2.1 needs scores"),
        ("2.2", {}, "scheme 2.2 needs scores"),
        ("1", {"scores": np.zeros((1, 3))}, "scores are for Schemes 2.1 and 2.2"),
        ("2.1", {"scores": np.zeros((1, 2))}, r"scores has shape \(1, 2\), must be \(1 objects, 3 devices\)"),
        ("2.1", {"scores": [[0.0, 0.0, 0.0]]}, r"scores has shape \(\)"),
        ("2.1", {"scores": torch.zeros(1, 3)}, "must be real floating as the latents"),
    ],
)
def test_scores_that_do_not_fit_are_named(name, given_, message):
    network = replace(scored("1"), scheme=named_scheme(name, num_selected=1))
    with pytest.raises(ValueError, match=message) as caught:
        receive(np.zeros((1, 3, R)), network, rng=np.random.default_rng(0), **given_)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "given_", "message"),
    [
        ("1", 0.5, "participation is for Schemes 2.1 and 2.2"),
        ("2.1", None, "scheme 2.1 needs participation"),
        ("2.1", [0.5, 0.5], r"participation has shape \(2,\), must be one number or \(3,\)"),
        ("2.2", 1.5, "participation=1.5 must be between 0 and 1"),
    ],
)
def test_levels_that_cannot_be_known_are_named(name, given_, message):
    with pytest.raises(ValueError, match=message):
        level(replace(scored("1"), scheme=named_scheme(name, num_selected=1)), participation=given_)


# --- live devices ---


@pytest.fixture
def the_same_entropy_in_every_run(monkeypatch):
    monkeypatch.setattr(os, "urandom", np.random.default_rng(0).bytes)


@pytest.mark.usefixtures("the_same_entropy_in_every_run")
def test_a_live_device_speaks_as_often_as_its_score_says():
    network = scored("2.1", score_noise_std=0.4)
    for score in (0.1, 0.8, math.nan):
        n = 800
        sent = [transmission.signal(np.ones(R), network, device=1, gain=1.0, score=score).sends for _ in range(n)]
        p = participation([[1.0 if math.isnan(score) else score]], network.scheme)[0, 0]
        within(np.mean(sent), p, n)


@pytest.mark.usefixtures("the_same_entropy_in_every_run")
def test_a_live_noisy_score_has_the_right_law_and_lies_on_the_grid():
    network = scored("2.2", score_noise_std=0.4)
    found = np.array([transmission.noisy_score(0.7, network) for _ in range(2_000)])
    assert abs(found.mean() - 0.7) < 4.5 * 0.4 / math.sqrt(2_000)
    assert found.std() == pytest.approx(0.4, rel=4.5 / math.sqrt(2 * 2_000))
    assert np.all(found % grid_of(0.4).step == 0)
    assert 0 < transmission.noisy_score(1e9, network) < 1 + 9 * 0.4


def test_a_live_device_does_what_the_ranking_server_says():
    network = scored("2.2")
    for answer in (True, False, np.True_):
        sent = transmission.signal(np.ones(R), network, device=0, gain=1.0, selected=bool(answer))
        assert sent.sends == bool(answer)


@pytest.mark.parametrize(
    ("network", "given_", "message"),
    [
        (scored("1"), {"score": 0.1}, "scheme 1 takes no score"),
        (scored("1"), {"selected": True}, "scheme 1 takes no selected"),
        (scored("2.1"), {}, "scheme 2.1 needs score"),
        (scored("2.1"), {"score": 0.1, "selected": True}, "scheme 2.1 takes no selected"),
        (scored("2.2"), {}, "scheme 2.2 needs selected"),
        (scored("2.2"), {"score": 0.1, "selected": True}, "scheme 2.2 takes no score"),
        (scored("2.2"), {"selected": 1}, "selected=1 must be true or false"),
        (scored("2.1", score_rule="scale"), {"score": 0.1}, "score_rule='scale' needs num_classes"),
    ],
)
def test_what_a_live_device_must_be_told_is_named(network, given_, message):
    with pytest.raises(ValueError, match=message):
        transmission.signal(np.ones(R), network, device=0, gain=1.0, **given_)


def test_scores_leave_a_device_in_scheme_2_2_alone_and_never_without_noise():
    with pytest.raises(ValueError, match=r"scheme.name='2.1' must be 2.2"):
        transmission.noisy_score(0.1, scored("2.1"))
    with pytest.raises(ValueError, match=r"score_noise_std=0 must be > 0"):
        transmission.noisy_score(0.1, scored("2.2", score_noise_std=0.0))


# --- what ships, and the commands ---


@pytest.fixture(scope="module")
def model():
    return airpool.load("modelnet40")


def test_the_shipped_scores_lie_in_their_range_and_say_who_is_right(model):
    objects = model.held_out("validation")
    bits = uncertainty(objects.posteriors, "shannon")
    assert float(bits.max()) <= math.log2(40)
    right = objects.posteriors.argmax(-1) == objects.labels[:, None]
    assert float(bits[right].mean()) < 0.5 * float(bits[~right].mean())


@pytest.mark.parametrize("name", ["2.1", "2.2"])
def test_views_go_all_the_way_with_the_devices_own_heads(model, name):
    views = torch.randint(0, 256, (1, 12, 2, 224, 224), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    network = Network.uniform(num_devices=12, dimension=40, scheme=named_scheme(name, score_bound=5.0, threshold=4.0))
    latents, posteriors = model.seen(views)
    assert torch.equal(latents, model.encode(views))
    assert torch.allclose(posteriors.sum(-1), torch.ones(1, 12), atol=1e-5)
    out = airpool.infer(
        model, views, network=network, rng=torch.Generator().manual_seed(0), simulation=Simulation(trials=200)
    )
    p = participation(uncertainty(posteriors, "shannon"), network.scheme, num_classes=40)
    within(out.received.taking_part.double().mean(1).numpy(), p, 200)
    assert out.report.network.scheme.name == name


def test_a_codec_whose_trunk_does_not_ship_takes_no_views(model):
    views = torch.zeros(1, 12, 2, 224, 224, dtype=torch.uint8)
    with pytest.raises(ValueError, match="codec 'q16' reads maps of vgg11, whose weights do not ship"):
        model.seen(views, codec="q16")


def test_the_expected_participation_comes_from_validation_objects(model):
    network = Network.uniform(num_devices=12, dimension=40, scheme=Threshold(threshold=0.6))
    bits = uncertainty(model.held_out("validation").posteriors, "shannon")
    np.testing.assert_allclose(model.participation(network), expected_participation(bits, network.scheme))
    assert model.participation(replace(network, scheme=Coin())) is None
    np.testing.assert_allclose(
        model.participation(Network.uniform(num_devices=3, scheme=network.scheme)),
        np.asarray(model.participation(network))[[0, 4, 8]],
    )


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["evaluate", *arguments])


@pytest.mark.parametrize("name", ["2.1", "2.2"])
def test_the_command_evaluates_a_network_file_that_chooses_by_scores(name, tmp_path):
    path = tmp_path / "net.toml"
    given = {"threshold": 2.0, "num_selected": 10}
    scheme = named_scheme(name, score_rule="scale", score_bound=2.0, score_noise_std=1.0, **given)
    network_file.write(Network.uniform(num_devices=12, dimension=40, noise_std=0.02, scheme=scheme), path)
    out = run("--network", str(path), "--split", "validation", "--trials", "1", "--json")
    assert out.exit_code == 0, out.output
    found = json.loads(out.stdout)
    assert found["scheme"] == name
    assert found["accuracy_mean"] > 0.6
    assert max(map(float, found["epsilon"])) < math.inf


def test_the_command_shares_epsilon_out(tmp_path):
    out = run("--scheme", "2.2", "--epsilon", "2", "--share", "0.1", "--split", "validation", "--trials", "1", "--json")
    assert out.exit_code == 0, out.output
    found = json.loads(out.stdout)
    assert 1.99 < max(found["epsilon"]) <= 2.0
    assert found["accuracy_mean"] > 0.8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--share", "0.1"), "--share divides --epsilon"),
        (("--scheme", "1", "--epsilon", "2", "--share", "0.1"), "scheme.name='1' has no score"),
        (("--scheme", "2.1", "--epsilon", "0.5"), "which is what the scores cost at score_noise_std=0.3162"),
    ],
)
def test_the_command_says_what_it_cannot_do(arguments, message):
    out = run(*arguments, "--split", "validation", "--trials", "1")
    assert message in str(out.exception)


def test_own_latents_need_posteriors_and_an_expectation(tmp_path):
    latents, labels, posteriors = two_classes(40)
    path = tmp_path / "own.safetensors"
    tensors = {"latents": latents, "labels": labels, "classifier": torch.eye(2, R)}
    save_file(tensors, path)
    out = run("--latents", str(path), "--scheme", "2.1", "--trials", "1")
    assert "must hold posteriors" in str(out.exception)
    save_file({**tensors, "posteriors": posteriors}, path)
    out = run("--latents", str(path), "--scheme", "2.1", "--trials", "1")
    assert "needs --participation" in str(out.exception)
    out = run("--latents", str(path), "--scheme", "2.1", "--trials", "1", "--participation", "0.5", "--json")
    assert out.exit_code == 0, out.output
    save_file({**tensors, "posteriors": posteriors[:, :2].contiguous()}, path)
    out = run("--latents", str(path), "--scheme", "2.1", "--trials", "1", "--participation", "0.5")
    assert "posteriors has shape (40, 2, 2), must be (40, 3, L)" in str(out.exception)


def test_a_sweep_can_look_for_the_best_share():
    found = plain.evaluate(seed=0, epsilon=4.0, scheme="2.2", num_selected=11, share=0.05, split="validation", trials=1)
    epsilon, accuracy = found["epsilon_device"], found["accuracy_mean"]
    assert isinstance(epsilon, float)
    assert 3.99 < epsilon <= 4.0
    assert isinstance(accuracy, float)
    assert accuracy > 0.85


def test_the_range_that_is_accounted_for_is_the_one_that_scores_are_bounded_to():
    rules: Any = (("clip", 0.8), ("scale", 0.4))
    for rule, high in rules:
        scheme = Ranking(score_rule=rule, score_bound=0.8, score_noise_std=0.0, num_selected=1)
        network = Network.uniform(num_devices=2, dimension=R, scheme=scheme)
        got = receive(
            np.ones((1, 2, R)),
            network,
            rng=np.random.default_rng(0),
            scores=np.array([[-5.0, 50.0]]),
            num_classes=40,
        )
        assert got.noisy_scores is not None
        np.testing.assert_allclose(got.noisy_scores[0, 0], scheme.score_range())
        assert scheme.score_range().high == high
