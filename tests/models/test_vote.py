"""The vote: its encoder, its linear discriminant against plain NumPy, and its place beside the codecs."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

import airpool
from airpool import Channel, Network, Threshold, calibrate, guarantee
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import EncodedObjects, held_out
from airpool.models import weights
from airpool.models.codecs import codec as codecs
from airpool.models.codecs import vote
from airpool.protocol.simulation import receive
from airpool.radio.link import Level
from airpool_lab.theory.prediction import predict
from airpool_lab.theory.server import LayeredServer

L, K = 4, 3


def posteriors(objects=60, *, devices=K, sureness=2.0, seed=0):
    """Labelled objects of L classes, the first twice as frequent, that devices see with errors."""
    rng = torch.Generator().manual_seed(seed)
    labels = torch.tensor([0, 0, 1, 2, 3])[torch.arange(objects) % 5]
    logits = torch.randn(objects, devices, L, generator=rng)
    logits[torch.arange(objects), :, labels] += sureness
    return logits.softmax(-1), labels


@pytest.fixture(scope="module")
def model():
    return airpool.load("modelnet40")


# --- on the device ---


@given(st.lists(st.floats(1e-4, 1.0), min_size=2, max_size=8), st.sampled_from(vote.SHARPNESS))
def test_a_latent_is_the_formula_of_the_docs(weights, t):
    p = np.array(weights) / np.sum(weights)
    sharp = p**t / np.sum(p**t) - 1 / len(p)
    found = vote.encoded(torch.tensor(p), t).numpy()
    if (norm := np.linalg.norm(sharp)) > 1e-5:
        np.testing.assert_allclose(found, sharp / norm, rtol=1e-6, atol=1e-8)
    assert np.linalg.norm(found) <= 1 + 1e-9


@pytest.mark.parametrize("num_classes", [2, 3, 7, 40, 1000])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_uniform_posterior_says_nothing(num_classes, dtype):
    uniform = torch.full((2, num_classes), 1 / num_classes).to(dtype).float()
    assert not vote.encoded(uniform, 2.0).any()


def test_only_proportions_count_and_classes_may_change_places():
    p, _ = posteriors()
    z = vote.encoded(p, 2.0)
    torch.testing.assert_close(vote.encoded(7 * p, 2.0), z)
    order = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(vote.encoded(p[..., order], 2.0), z[..., order])
    torch.testing.assert_close(z.sum(-1), torch.zeros(60, K), atol=1e-5, rtol=0)
    torch.testing.assert_close(z.norm(dim=-1), torch.ones(60, K))


def test_the_sharper_the_closer_to_one_name():
    p = torch.tensor([0.5, 0.3, 0.1, 0.1])
    sure = vote.encoded(torch.eye(4)[0])
    near = [float(vote.encoded(p, t) @ sure) for t in (0.5, 1.0, 2.0, 8.0, 100.0)]
    assert near == sorted(near)
    assert near[-1] == pytest.approx(1.0)


def test_what_is_no_posterior_is_sent_as_nothing_and_raises_nothing():
    bad = torch.tensor([[[torch.nan, 0.5, 0.5, 0.0]], [[-0.1, 0.6, 0.5, 0.0]], [[0.0, 0.0, 0.0, 0.0]]])
    net = Network.uniform(num_devices=1, dimension=L, noise_std=1e-9)
    found = receive(vote.encoded(bad), net, rng=torch.Generator().manual_seed(0), trials=1)
    assert float(found.estimate.abs().max()) < 1e-6


# --- on the server ---


def plain(p, y, t):
    """Means, covariance and prior, in NumPy and loops, of the votes and one sure vote for each class."""
    votes = [np.mean([vote.encoded(torch.tensor(q), t).numpy() for q in own], axis=0) for own in p]
    votes += [(row - 1 / L) / np.linalg.norm(row - 1 / L) for row in np.eye(L)]
    y = [*y, *range(L)]
    means = [np.mean([v for v, c in zip(votes, y, strict=True) if c == each], axis=0) for each in range(L)]
    covariance = sum(np.outer(v - means[c], v - means[c]) for v, c in zip(votes, y, strict=True)) / len(p)
    return means, covariance, np.bincount(y) / len(y)


@pytest.mark.parametrize(("signal", "noise_std"), [(1.0, 0.3), (0.2, 0.05), (5.0, 5.0)])
def test_the_server_is_bayes_for_gaussian_classes(signal, noise_std):
    p, y = posteriors()
    fitted = vote.fit(p, y, sharpness=[2.0], balance=0.0)
    means, covariance, prior = plain(p.double().numpy(), y.tolist(), 2.0)
    estimate = torch.randn(20, L, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    total = signal**2 * covariance + noise_std**2 * np.eye(L)
    wanted = np.log(prior) + np.stack(
        [multivariate_normal.logpdf(estimate.numpy(), signal * mean, total) for mean in means], axis=-1
    )
    found = fitted.server(Level(signal, noise_std))(estimate).numpy()
    np.testing.assert_allclose(found - found[:, :1], wanted - wanted[:, :1], rtol=1e-4, atol=1e-4)


def test_matrices_are_the_server_for_theory():
    fitted, level = vote.fit(*posteriors()), Level(0.8, 0.2)
    ((A, b),) = fitted.matrices(level)
    estimate = torch.randn(5, 2, L, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(estimate.numpy() @ A.T + b, fitted.server(level)(estimate).numpy(), rtol=1e-4, atol=1e-5)
    assert LayeredServer(fitted.matrices(level)).num_classes == L


def test_loudness_cancels():
    fitted, estimate = vote.fit(*posteriors()), torch.randn(5, L, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        fitted.server(Level(8.0, 1.6))(8 * estimate), fitted.server(Level(1.0, 0.2))(estimate), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("noise_std", [0.0, 0.5])
def test_where_nobody_sends_the_most_frequent_class_is_named(noise_std):
    logits = vote.fit(*posteriors()).server(Level(0.0, noise_std))(torch.randn(9, L))
    assert logits.isfinite().all()
    assert (logits.argmax(-1) == 0).all()


def test_what_no_example_was_needed_for_takes_the_largest_sum():
    own, estimate = vote.unfitted(L), torch.randn(50, L, generator=torch.Generator().manual_seed(0))
    assert torch.equal(own.server(Level(1.0, 0.4))(estimate).argmax(-1), estimate.argmax(-1))


# --- the fit ---


def test_the_sharpness_is_chosen_and_the_same_seed_chooses_the_same():
    p, y = posteriors(200)
    one, two = vote.fit(p, y, seed=3), vote.fit(p, y, seed=3)
    assert one.sharpness == two.sharpness in vote.SHARPNESS
    assert torch.equal(one.means, two.means)
    # Posteriors that were flattened are sharpened again.
    assert vote.fit((p**0.1) / (p**0.1).sum(-1, keepdim=True), y, sharpness=[1.0, 10.0]).sharpness == 10.0


def test_the_order_of_objects_and_devices_does_not_matter_once_the_sharpness_is_given():
    p, y = posteriors()
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    one, two = (vote.fit(q, z, sharpness=[1.5]) for q, z in ((p, y), (p[order][:, [2, 0, 1]], y[order])))
    for name in ("means", "covariance", "prior"):
        torch.testing.assert_close(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_handful_of_objects_and_classes_without_any_are_enough(count):
    p, y = posteriors()
    fitted = vote.fit(p[:count], y[:count])
    assert fitted.prior.min() > 0
    sure = vote.encoded(torch.eye(L))
    assert torch.equal(fitted.server(Level(1.0, 0.1))(sure).argmax(-1), torch.arange(L))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32])
def test_labels_may_be_any_whole_numbers(dtype):
    p, labels = posteriors()
    assert torch.equal(vote.fit(p, labels.to(dtype)).means, vote.fit(p, labels).means)


def test_a_gradient_stays_outside():
    p, y = posteriors()
    assert not vote.fit(p.requires_grad_(), y).means.requires_grad


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"posteriors": torch.ones(60, L)}, ValueError, r"posteriors is torch.float32 \(60, 4\), must be float"),
        ({"posteriors": torch.ones(60, K, L, dtype=torch.int64)}, ValueError, "posteriors is torch.int64"),
        ({"posteriors": torch.ones(0, K, L)}, ValueError, "N ≥ 1"),
        ({"posteriors": -torch.ones(60, K, L)}, ValueError, r"posteriors\[0, 0, 0\]=-1 must be ≥ 0 and finite"),
        ({"posteriors": torch.full((60, K, L), torch.nan)}, ValueError, "=nan must be ≥ 0 and finite"),
        ({"posteriors": torch.zeros(60, K, L)}, ValueError, r"sum of posteriors\[0, 0\]=0 must be > 0"),
        ({"posteriors": [1.0]}, TypeError, "posteriors is of type list"),
        ({"labels": torch.zeros(5, dtype=torch.int64)}, ValueError, r"labels has shape \(5,\)"),
        ({"labels": torch.zeros(60)}, ValueError, "must be whole numbers"),
        ({"labels": torch.full((60,), 9)}, ValueError, r"labels\[0\]=9 must be below 4"),
        ({"labels": torch.full((60,), -1)}, ValueError, "labels has -1, must be ≥ 0"),
        ({"sharpness": [0.0]}, ValueError, "sharpness=0.0 must be > 0 and finite"),
        ({"sharpness": [torch.inf]}, ValueError, "sharpness=inf must be > 0 and finite"),
        ({"balance": 1.5}, ValueError, "balance=1.5 must be from 0 to 1"),
    ],
)
def test_bad_input_is_one_clear_line(change, error, message):
    p, y = posteriors()
    given = {"posteriors": p, "labels": y} | change
    with pytest.raises(error, match=message) as caught:
        vote.fit(given.pop("posteriors"), given.pop("labels"), **given)
    assert "\n" not in str(caught.value)


# --- on disk ---


def test_a_vote_comes_back_from_its_file_as_it_was(tmp_path):
    fitted, file = vote.fit(*posteriors()), tmp_path / "v.safetensors"
    codecs.save(file, fitted, {"seed": 7})
    back, about = codecs.load(file)
    assert (about["seed"], back.sharpness, back.num_classes) == (7, fitted.sharpness, L)
    for name in ("means", "covariance", "prior"):
        assert torch.equal(getattr(back, name), getattr(fitted, name))
    assert (back.kind, back.dimension, back.num_classes) == ("vote", L, L)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sharpness": -1.0}, "sharpness=-1.0 must be > 0"),
        ({"means": torch.zeros(L, 2)}, r"means has shape \(4, 2\), must be \(4, 4\)"),
        ({"prior": torch.zeros(L)}, r"prior\[0\]=0 must be > 0"),
    ],
)
def test_a_vote_that_cannot_be_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(vote.unfitted(L), **change)


def test_a_file_that_holds_no_codec_says_so(tmp_path):
    file = tmp_path / "x.safetensors"
    weights.write(file, {"means": torch.eye(L)}, {})
    with pytest.raises(ValueError, match=r"x\.safetensors: holds no codec that airpool knows \('vote' is missing\)"):
        codecs.load(file)


@pytest.mark.parametrize("balance", [0.0, 0.5, 1.0])
def test_the_prior_lies_between_what_is_seen_and_all_alike(balance):
    p, y = posteriors()
    seen = np.bincount(y.numpy(), minlength=L) + 1.0
    expected = seen ** (1 - balance)
    found = vote.fit(p, y, sharpness=[1.0], balance=balance).prior
    np.testing.assert_allclose(found.numpy(), expected / expected.sum(), rtol=1e-6)


# --- in the house ---


def test_the_shipped_vote_is_fitted_to_the_validation_objects(model):
    known = model.held_out("validation")
    again, shipped = vote.fit(known.posteriors, known.labels), codecs.load(model.file("vote.safetensors"))[0]
    assert again.sharpness == shipped.sharpness
    torch.testing.assert_close(again.means, shipped.means)
    torch.testing.assert_close(again.covariance, shipped.covariance, atol=1e-6, rtol=1e-4)


def test_its_latents_are_made_of_the_shipped_posteriors(model):
    held = model.held_out("validation", codec="vote")
    assert held.latents.shape == (976, 12, 40)
    torch.testing.assert_close(held.latents.norm(dim=-1), torch.ones(976, 12))
    assert torch.equal(held.latents, model.codec("vote").encoder(held.posteriors))
    assert torch.equal(held.fitted(3).latents, held.latents[:, [0, 4, 8]])
    assert not (model.folder / "vote-validation.safetensors").exists()


def test_views_are_voted_on_by_the_calibrated_head(model):
    views = torch.rand(1, 12, 2, 224, 224, generator=torch.Generator().manual_seed(0))
    latents, seen = model.seen(views, codec="vote")
    assert torch.equal(latents, model.codec("vote").encoder(seen))
    assert torch.equal(model.encode(views, codec="vote"), latents)
    net = Network.uniform(num_devices=12, dimension=40, noise_std=1e-6)
    out = airpool.infer(model, views, network=net, rng=torch.Generator().manual_seed(0), codec="vote")
    assert out.logits.shape == (1, 1, 40)
    few = model.seen(views[:, :3])[1]  # other cameras: by the mean of the temperatures
    torch.testing.assert_close(few, seen[:, :3], atol=0.05, rtol=0)


def test_a_model_without_a_vote_is_compared_with_none(model):
    older = replace(model, manifest={**model.manifest, "codecs": {"compact": "lite2", "q16": "vgg11"}})
    assert older.vote(torch.ones(1, 12, 40), codec="compact") is None
    net = Network.uniform(num_devices=12, dimension=40)
    found = evaluate(held_out(older, net, codec="compact", against_vote=True), net, trials=1)
    assert found.vote_accuracy is found.against_vote is None
    assert "vote_accuracy" not in found.row()
    with pytest.raises(ValueError, match="codec 'vote' must be one of compact, q16"):
        older.codec("vote")


def test_theory_certifies_the_vote_as_a_linear_server(model):
    held, own = model.held_out("validation", codec="vote"), model.codec("vote")
    net = calibrate(Network.uniform(num_devices=12, dimension=40), epsilon=2.0)
    some = held.latents[::8].double().numpy(), held.labels[::8].numpy()
    bounds = predict(net, *some, server=lambda level: LayeredServer(own.matrices(level))).server
    measured = evaluate(EncodedObjects(held.latents[::8], held.labels[::8], own.server), net, trials=20)
    assert bounds.ceiling is not None
    assert bounds.best <= measured.accuracy_mean + 0.01
    assert measured.accuracy_mean <= bounds.ceiling + 0.01


# --- the same noise ---


def shipped(model, net, **which):
    return evaluate(held_out(model, net, split="validation", **which), net, trials=2)


@pytest.mark.parametrize(
    "net",
    [
        Network.uniform(num_devices=12, dimension=40, noise_std=0.09),
        Network.uniform(
            num_devices=12, dimension=40, participation=0.8, channel=Channel(fading="rician", noise_std=0.3)
        ),
        Network.uniform(num_devices=12, dimension=40, scheme=Threshold(threshold=0.5)),
    ],
    ids=["plain", "fading", "2.1"],
)
def test_beside_a_codec_the_vote_has_the_accuracy_that_it_has_alone(model, net):
    beside, alone = (
        shipped(model, net, codec="compact", against_vote=True),
        shipped(model, net, codec="vote", against_vote=True),
    )
    assert beside.vote_accuracy == alone.accuracy_mean
    assert beside.against_vote == pytest.approx(beside.accuracy_mean - alone.accuracy_mean, abs=1e-12)
    assert alone.vote_accuracy is None  # never against itself


def test_the_vote_changes_nothing_else_in_the_record(model):
    net = Network.uniform(num_devices=12, dimension=40, participation=0.9)
    with_it, without = (shipped(model, net, against_vote=wanted).record() for wanted in (True, False))
    same = with_it.keys() - {"vote_accuracy", "against_vote", "against_vote_error"}
    assert {name: with_it[name] for name in same} == {name: without[name] for name in same}
    assert with_it["epsilon"] == guarantee(net).epsilon.tolist()


def heard(latents, net, other):
    """What two servers are given in one evaluation, batch by batch."""
    given = {"own": [], "vote": []}

    def keeping(name, classes):
        return lambda _: lambda estimate: given[name].append(estimate) or torch.zeros(*estimate.shape[:-1], classes)

    truth = torch.zeros(len(latents), dtype=torch.long)
    evaluate(EncodedObjects(latents, truth, keeping("own", 2), vote=(other, keeping("vote", 2))), net, trials=3)
    return torch.cat(given["own"]), torch.cat(given["vote"])


def test_where_the_dimensions_agree_the_noise_is_the_same():
    z = vote.encoded(posteriors()[0])
    net = Network.uniform(num_devices=K, dimension=L, participation=0.7, channel=Channel("rician", noise_std=0.2))
    own, other = heard(z, net, z)
    assert torch.equal(own, other)


def test_where_they_differ_the_same_devices_are_heard(monkeypatch):
    z = vote.encoded(posteriors()[0])
    wide = torch.cat((z, torch.zeros(60, K, 5)), -1)
    monkeypatch.setattr(sys.modules["airpool.evaluation.evaluate"], "_BATCH", 9 * 40)  # several batches
    net = Network.uniform(num_devices=K, dimension=9, noise_std=1e-7, participation=0.5)
    own, other = heard(wide, net, z)
    torch.testing.assert_close(own[..., :L], other, atol=1e-5, rtol=0)
    assert (own[..., :L].norm(dim=-1) < 1e-5).any()  # nobody took part, and both heard it


def test_the_standard_error_is_that_of_paired_objects():
    p, y = posteriors(400, sureness=1.0)
    own, net = vote.unfitted(L), Network.uniform(num_devices=K, dimension=L, noise_std=0.2)
    z = own.encoder(p)

    def worse(level):  # never names class 3
        return lambda estimate: own.server(level)(estimate) - torch.tensor([0, 0, 0, 1e9])

    found = evaluate(EncodedObjects(z, y, worse, vote=(z, own.server)), net, trials=5)
    assert found.against_vote is not None
    assert found.against_vote_error is not None
    assert found.against_vote < 0
    apart = found.accuracy_mean * (1 - found.accuracy_mean) / 400
    assert 0 < found.against_vote_error < (2 * apart) ** 0.5  # smaller than of two samples of objects
    same = evaluate(EncodedObjects(z, y, own.server, vote=(z, own.server)), net, trials=5)
    assert (same.against_vote, same.against_vote_error) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        (torch.zeros(60, K + 1, L), r"latents has shape \(60, 4, 4\), must be \(objects, 3 devices"),
        (torch.zeros(59, K, L), r"labels has shape \(60,\), must be \(59,\)"),
    ],
)
def test_votes_of_other_objects_or_devices_are_refused(votes, message):
    p, y = posteriors()
    own, net = vote.unfitted(L), Network.uniform(num_devices=K, dimension=L)
    with pytest.raises(ValueError, match=message):
        evaluate(EncodedObjects(own.encoder(p), y, own.server, vote=(votes, own.server)), net, trials=1)
