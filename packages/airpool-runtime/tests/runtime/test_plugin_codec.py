"""A codec of a stranger, examples/plugins/codec.py: in the simulator, in training, and over gRPC."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import airpool
from airpool._support import plugins
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import held_out
from airpool.models.codecs import codec as codecs
from airpool.models.codecs import training as codec_training
from airpool.models.codecs.training import CodecRecipe, TrainingObjects, setting
from airpool.protocol.inference import Simulation, infer_features
from airpool_runtime import seeded, sources
from airpool_runtime.server import codec_of

from .systems import small

EXAMPLE = Path(__file__).parents[4] / "examples" / "plugins" / "codec.py"
DEVICES, R = 4, 16


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """The file that the example writes, as a user runs it."""
    path = tmp_path_factory.mktemp("codec") / "sketch.safetensors"
    subprocess.run([sys.executable, str(EXAMPLE), str(path)], check=True)
    plugins.load_file(EXAMPLE)
    return str(path)


def network(**more):
    return airpool.calibrate(airpool.Network.uniform(num_devices=DEVICES, dimension=R, **more), epsilon=8.0)


def test_the_example_is_one_short_file():
    assert len(EXAMPLE.read_text("utf-8").splitlines()) <= 80


@pytest.mark.parametrize(
    ("member", "does", "message"),
    [
        ("encoder", lambda self, x: x[..., :3], r"its encoder gives shape \(.*3\), must be"),
        ("encoder", lambda self, x: x[..., :R] * float("nan"), "its encoder gives NaN"),
        ("encoder", lambda self, x: 1 / 0, "its encoder fails: ZeroDivisionError"),
        ("server", lambda self, level: lambda x: x[..., :5], r"its server gives logits of shape \(.*5\), must be"),
        ("server", lambda self, level: lambda x: x.nonsense, "its server fails: AttributeError"),
        ("server", lambda self, level: 1 / 0, "its server fails: ZeroDivisionError"),
    ],
)
def test_a_broken_one_is_named(file, monkeypatch, member, does, message):
    monkeypatch.setattr(codecs.CODECS.get("sketch"), member, does)
    with pytest.raises(plugins.PluginError, match=f"codec 'sketch': {message}"):
        evaluate(held_out(airpool.load("modelnet40"), network(), codec=file), network(), trials=1)


def test_where_it_comes_from_is_known(file):
    origin = codecs.CODECS.origin("sketch")
    assert origin is not None
    assert origin.source == str(EXAMPLE)
    assert len(origin.sha256) == 64


@pytest.mark.parametrize("scheme", [airpool.Coin(), airpool.Threshold()])
def test_the_simulator_takes_it_wherever_a_codec_is_named(file, scheme):
    model = airpool.load("modelnet40")
    run = evaluate(
        held_out(model, network(scheme=scheme), codec=file, split="validation", against_vote=True),
        network(scheme=scheme),
        trials=1,
    )
    assert run.against_vote is not None
    assert run.against_vote > -0.1  # nearly as good as the vote, which sends 40 numbers
    assert model.wanted(file) == {"devices": 12, "dimension": R}


def test_it_is_the_same_in_numpy_and_in_torch(file):
    held = airpool.load("modelnet40").held_out("validation", codec=file)
    for k in (0, DEVICES - 1):
        latents, _ = sources.held_out_latents("modelnet40", "validation", file, k, DEVICES)
        own = held.fitted(DEVICES).latents[sources.order(len(held)), k]
        np.testing.assert_allclose(latents, own, atol=3e-6)


@pytest.mark.parametrize("medium", ["loopback", "grpc"])
def test_devices_and_server_run_it(file, medium):
    net = network(participation=0.9)
    each = [sources.held_out_latents("modelnet40", "test", file, k, DEVICES) for k in range(DEVICES)]
    z, p = (np.stack([pair[part] for pair in each], axis=1) for part in (0, 1))
    codec = codec_of("modelnet40", net, codec=file)

    async def play():
        async with small(net, medium, seed=3, z=z, p=p, codec=codec) as system:
            return await system.infer(6)

    for result in asyncio.run(play()):
        i = result.number
        how = Simulation(path="full")
        sent = infer_features(z[i : i + 1], net, server=codec.decode, rng=seeded.generator(3, i), simulation=how)
        np.testing.assert_allclose(result.logits, sent.logits[0, 0], atol=1e-9)
        assert result.status == "answered"


def test_it_is_trained_through_the_air_by_the_same_code(file):
    model, net = airpool.load("modelnet40"), network()
    known = model.held_out("validation", codec=file).fitted(DEVICES)
    posteriors, labels = known.posteriors[::4], known.labels[::4]
    before = codecs.load(Path(file))[0]
    recipe = CodecRecipe(epochs=3, objects=32, learning_rate=0.02, label_smoothing=0.0)
    here = setting(net)
    trained = codec_training.train(recipe, before, TrainingObjects(posteriors, labels), settings=[here])

    def loss(codec):
        with torch.no_grad():
            logits = codec_training.decoded(codec, codec.encoder(posteriors), here, torch.Generator().manual_seed(0))
        return float(torch.nn.functional.cross_entropy(logits[:, 0], labels))

    assert trained.kind == "sketch"
    assert loss(trained) < loss(before) - 0.1
    assert torch.equal(before.directions, codecs.load(Path(file))[0].directions)  # it was not touched


def test_training_refuses_what_does_not_fit(file):
    codec = codecs.load(Path(file))[0]
    objects = TrainingObjects(torch.full((8, DEVICES, 40), 1 / 40), torch.zeros(8, dtype=torch.long))
    wide = setting(airpool.Network.uniform(num_devices=DEVICES, dimension=40))
    for settings, message in (([], "settings is empty"), ([wide], "and a codec of dimension 16")):
        with pytest.raises(ValueError, match=message):
            codec_training.train(CodecRecipe(epochs=1), codec, objects, settings=settings)


def test_without_the_plug_in_its_file_says_what_to_do(file):
    code = f"from airpool.models.codecs import codec; from pathlib import Path; codec.read(Path({file!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "codec 'sketch' is not known; there is compact, map, vote" in done.stderr
    assert "airpool --plugin FILE.py" in done.stderr


@pytest.mark.check
def test_the_whole_system_runs_it_as_processes(file):
    args = ["--plugin", str(EXAMPLE), "--codec", file, "--devices", "3", "--epsilon", "8", "--inferences", "20"]
    done = subprocess.run(
        [sys.executable, "-m", "airpool", "up", *args, "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["statuses"] == {"answered": 20}
    assert record["accuracy"] > 0.5
    assert record["epsilon"]["device"] <= 8
