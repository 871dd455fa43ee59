"""What theory says of a network before it runs: beside what is measured, and on what ships."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import airpool
from airpool.evaluation import mse
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import EncodedObjects
from airpool.models.codecs import codec as codecs
from airpool.models.codecs.dense import CodecShape, DenseCodec
from airpool.models.codecs.training import initial
from airpool.network import Channel, Network, Ranking, Threshold
from airpool.radio.link import Level, level
from airpool_lab.theory.prediction import (
    AccuracyBounds,
    chebyshev,
    linear_for,
    lipschitz_constants,
    margin,
    no_answer,
    predict,
)
from airpool_lab.theory.server import LayeredServer, scores
from tests.random_servers import random_server

K, R, CLASSES = 4, 5, 3
NETWORK = Network.uniform(num_devices=K, noise_std=0.05, participation=0.9, dimension=R)


def objects(count, *, seed):
    """Views that agree, of unit length, of classes around fixed directions."""
    rng, centres = np.random.default_rng(seed), np.linalg.qr(np.random.default_rng(9).standard_normal((R, R)))[0]
    y = rng.integers(0, CLASSES, count)
    z = centres[y][:, None] + 0.15 * rng.standard_normal((count, 1, R)) + 0.1 * rng.standard_normal((count, K, R))
    return z / np.linalg.norm(z, axis=-1, keepdims=True), y


LATENTS, LABELS = objects(30, seed=0)
EXAMPLES = objects(200, seed=1)


def with_hidden_layer(linear):
    """The same server through a hidden layer: ReLU(x) − ReLU(−x) = x."""
    (A, b), both = linear.layers[0], np.concatenate((np.eye(R), -np.eye(R)))
    return LayeredServer(((both, np.zeros(2 * R)), (np.concatenate((A, -A), axis=1), b)))


HIDDEN = with_hidden_layer(linear_for(NETWORK, *EXAMPLES, num_classes=CLASSES))


def predicted(network=NETWORK, *, server=HIDDEN, examples=EXAMPLES):
    return predict(network, LATENTS, LABELS, server=lambda _: server, examples=examples)


def measured(network, server, *, trials=400):
    layers = [(torch.from_numpy(A), torch.from_numpy(b)) for A, b in server.layers]

    def forward(x):
        for A, b in layers[:-1]:
            x = torch.relu(x @ A.T + b)
        return x @ layers[-1][0].T + layers[-1][1]

    z, y = torch.from_numpy(LATENTS), torch.from_numpy(LABELS)
    return evaluate(EncodedObjects(z, y, lambda _: forward), network, trials=trials, seed=0)


@pytest.mark.parametrize(
    "network",
    [
        NETWORK,
        replace(NETWORK, cover_noise=True),
        replace(NETWORK, channel=Channel("rayleigh", noise_std=0.3, outage=0.1)),
        replace(NETWORK, channel=Channel("rician", noise_std=0.1, access="orthogonal")),
    ],
    ids=["plain", "cover", "rayleigh", "orthogonal"],
)
def test_bounds_stand_in_order_around_what_is_measured(network):
    found = predicted(network)
    linear = linear_for(network, *EXAMPLES, num_classes=CLASSES)
    for bounds, run in ((found.server, measured(network, HIDDEN)), (found.linear, measured(network, linear))):
        assert bounds is not None
        error = 5 * (0.25 / (run.trials * run.objects)) ** 0.5
        assert bounds.ball is not None
        assert bounds.half_spaces is not None
        assert 0 < bounds.chebyshev <= bounds.ball <= bounds.half_spaces == bounds.best
        assert bounds.half_spaces <= run.accuracy_mean + error
        assert bounds.paper <= run.accuracy_mean + error
        assert bounds.ceiling is None or run.accuracy_mean <= bounds.ceiling + error
        assert 0 < bounds.margin_paper < bounds.margin
    assert found.linear is not None
    assert found.linear.ceiling is not None
    assert found.server.ceiling is None
    assert found.objects == len(LATENTS)


def test_the_error_adds_up_and_is_what_is_measured():
    found, run = predicted(examples=None), measured(NETWORK, HIDDEN)
    parts = [found.error[name] for name in ("bias", "participation", "privacy_noise", "channel_noise")]
    assert sum(parts) == pytest.approx(found.error["total"])
    assert found.error["total"] == pytest.approx(float(np.mean(mse.error(LATENTS, NETWORK).total)))
    assert run.mse == pytest.approx(found.error["total"], rel=0.05)
    assert found.linear is None
    assert found.no_answer == pytest.approx(0.1**K)


def test_chebyshev_looks_at_what_is_expected_so_that_no_bias_counts():
    quiet = replace(NETWORK, devices=replace(NETWORK.devices, participation=0.95, noise_std=0.01))
    expected, constants = mse.expected(LATENTS, quiet), lipschitz_constants(HIDDEN)
    there, meant = (
        np.mean(
            chebyshev(
                mse.error(LATENTS, quiet, target=x).total,
                margin(HIDDEN, x, LABELS, constants=constants),
                unanswered=no_answer(quiet),
            )
        )
        for x in (expected, LATENTS.mean(axis=1))
    )
    assert predicted(quiet).server.chebyshev == pytest.approx(there)
    assert there > meant


def test_a_prediction_is_plain_data():
    data = json.loads(json.dumps(predicted().to_json(), allow_nan=False))
    assert set(data) == {"objects", "no_answer", "error", "server", "linear"}
    assert set(data["server"]) == set(AccuracyBounds.__annotations__)
    assert data["server"]["ceiling"] is None
    one = LayeredServer(((np.ones((CLASSES, R)), np.array([1.0, 0.0, 0.0])),))
    settled = predict(NETWORK, LATENTS, 0 * LABELS, server=lambda _: one).to_json()
    assert settled["server"]["margin"] == "inf"
    assert settled["linear"] is None


@pytest.mark.parametrize(
    "channel",
    [
        Channel("rician", csi_error_std=0.1),
        Channel("rician", phase_error_std=0.2),
        Channel("rayleigh", power_rule="backoff"),
    ],
    ids=["csi", "phase", "backoff"],
)
def test_where_the_law_is_unknown_chebyshev_is_left(channel):
    network = replace(NETWORK, channel=channel)
    found = predicted(network).server
    assert found.ball is found.half_spaces is found.ceiling is None
    assert found.best == found.chebyshev > 0
    assert found.chebyshev <= measured(network, HIDDEN).accuracy_mean


def test_a_deep_server_has_no_half_spaces():
    found = predicted(server=random_server(np.random.default_rng(0), R, 6, 6, CLASSES)).server
    assert found.half_spaces is found.ceiling is None
    assert found.ball is not None


def test_nobody_ever_on_the_air_proves_nothing():
    found = predicted(replace(NETWORK, devices=replace(NETWORK.devices, participation=0.0)))
    assert found.no_answer == 1.0
    assert found.linear is not None
    assert found.server.best == found.linear.best == found.linear.ceiling == 0.0


def test_a_server_that_is_always_wrong_has_bounds_of_zero():
    found = predict(NETWORK, LATENTS, (LABELS + 1) % CLASSES, server=lambda _: HIDDEN).server
    assert found.ideal == found.best == found.paper == found.margin == found.margin_paper == 0.0


def test_the_server_is_told_the_level():
    told = []

    def server(at):
        told.append(at)
        return HIDDEN

    said = []
    predict(NETWORK, LATENTS, LABELS, server=server, examples=EXAMPLES, on_step=said.append)
    assert set(told) == {level(NETWORK)}
    assert said == ["bounds of the codec's server", "bounds of the linear server"]


def test_long_latents_are_clipped_as_on_the_air():
    plain, long = (predict(NETWORK, size * LATENTS, LABELS, server=lambda _: HIDDEN) for size in (1.0, 50.0))
    assert long.server.half_spaces == pytest.approx(plain.server.half_spaces)
    assert long.error == pytest.approx(plain.error)


@pytest.mark.parametrize(
    ("network", "latents", "labels", "message"),
    [
        (NETWORK, LATENTS[:, :2], LABELS, r"latents has shape \(30, 2, 5\), must be \(objects, 4 devices, 5 coord"),
        (replace(NETWORK, dimension=9), LATENTS, LABELS, r"must be \(objects, 4 devices, 9 coordinates\)"),
        (NETWORK, LATENTS, LABELS[:5], r"labels has shape \(5,\), must be \(30,\)"),
        (NETWORK, LATENTS, LABELS + 7, "labels run from 7 to 9, must be from 0 to 2"),
        (replace(NETWORK, scheme=Threshold()), LATENTS, LABELS, r"scheme.name='2.1' must be 1.*airpool evaluate"),
        (replace(NETWORK, scheme=Ranking(num_selected=2)), LATENTS, LABELS, r"scheme.name='2.2' must be 1"),
        (replace(NETWORK, channel=Channel(power_rule="paper")), LATENTS, LABELS, "power_rule='paper' must be truncate"),
    ],
)
def test_what_is_out_of_reach_is_refused_with_a_reason(network, latents, labels, message):
    with pytest.raises(ValueError, match=message):
        predict(network, latents, labels, server=lambda _: HIDDEN)


def test_the_linear_server_is_made_of_what_is_heard_not_of_what_is_meant():
    """With p = ½ estimates have half the length; a class boundary in the right place knows it."""
    half = replace(NETWORK, devices=replace(NETWORK.devices, participation=0.5))
    quiet, loud = (linear_for(net, *EXAMPLES, num_classes=CLASSES) for net in (half, NETWORK))
    assert not np.allclose(quiet.matrices[0], loud.matrices[0])
    expected = mse.expected(LATENTS, half)
    assert np.mean(np.argmax(scores(quiet, expected), axis=1) == LABELS) > 0.9


# The codec as matrices


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("at", [Level(0.9, 0.2), Level(3.0, 0.001), Level(0.5, 4.0), Level(0.0, 0.1)])
def test_the_codecs_matrices_are_its_server(told, at):
    torch.manual_seed(0)
    codec = initial(CodecShape(dimension=R, num_classes=CLASSES, hidden=4, server_hidden=16, told=told))
    x = np.random.default_rng(0).standard_normal((50, R))
    with torch.no_grad():
        expected = codec.server(at)(torch.from_numpy(x)).numpy()
    assert scores(LayeredServer(codec.matrices(at)), x) == pytest.approx(expected, abs=1e-10)


def test_the_shipped_codec_is_proven_to_be_of_use():
    """Sixty test objects at ε = 10, spread over all classes."""
    model = airpool.load("modelnet40")
    held, codec = model.held_out("test", codec="compact"), model.codec("compact")
    assert isinstance(codec, DenseCodec)
    network = airpool.calibrate(Network.uniform(num_devices=12, dimension=40), epsilon=10.0)
    rows = torch.linspace(0, len(held) - 1, 60).round().long()
    latents, own = held.latents[rows], held.labels[rows]

    at = level(network)
    x = latents.mean(1)
    with torch.no_grad():
        exact, single = codecs.moved(codec, torch.Tensor.double).server(at)(x.double()), codec.server(at)(x)
    found = scores(LayeredServer(codec.matrices(at)), x.double().numpy())
    assert found == pytest.approx(exact.numpy(), abs=1e-9)
    assert found == pytest.approx(single.numpy(), abs=1e-3)

    result = predict(
        network, latents.double().numpy(), own.numpy(), server=lambda at: LayeredServer(codec.matrices(at))
    )
    run = evaluate(EncodedObjects(latents, own, codec.server), network, trials=20, seed=0)
    bounds = result.server
    assert bounds.half_spaces is not None
    assert bounds.ball is not None
    assert 0.3 < bounds.chebyshev < bounds.ball < bounds.half_spaces
    assert bounds.half_spaces <= run.accuracy_mean + 5 * (0.25 / (20 * 60)) ** 0.5
    assert bounds.margin > 50 * bounds.margin_paper
