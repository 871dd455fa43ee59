"""What ships: files that are what they should be, and numbers that come out again."""

import shutil
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
import torch

import airpool
from airpool.account import theorem1
from airpool.models import assets, pretrained
from airpool.models.heads import expected_calibration_error
from airpool.models.vision import shapes
from airpool.models.vision.views import views
from airpool.protocol.inference import Simulation, infer_features, level_of
from airpool.radio.link import Level, level

LIMIT = 40e6
# Accuracy on the test set over 40 draws of the noise, by codec and ε.


@pytest.fixture(scope="module")
def model():
    return airpool.load("modelnet40")


def network_at(epsilon):
    return airpool.calibrate(airpool.Network.uniform(num_devices=12, dimension=40), epsilon=epsilon)


def label_accuracy(model, objects, network, *, codec, seed=0, trials=1):
    out = infer_features(
        objects.latents,
        network,
        server=model.codec(codec).server(level(network)),
        rng=torch.Generator().manual_seed(seed),
        simulation=Simulation(trials=trials),
    )
    return float((out.label == objects.labels[:, None]).float().mean())


def test_what_ships_is_listed_with_its_size_and_stays_small(model):
    folder = model.folder
    there = {path.name: path.stat().st_size for path in folder.glob("*.safetensors")}
    assert {name: each["bytes"] for name, each in model.manifest["files"].items()} == there
    assert sum(there.values()) < LIMIT
    assert all(model.file(name).exists() for name in there)
    assert "academic" in (folder / "NOTICE").read_text("utf-8")


def test_the_held_out_objects_are_the_official_test_set_and_our_validation_split(model):
    test, validation = (model.held_out(split, codec="compact") for split in ("test", "validation"))
    assert len(test) == 2468
    assert len(validation) == 976
    assert test.latents.shape == (2468, 12, 40)
    assert test.labels.bincount(minlength=40).min() >= 20
    assert torch.allclose(test.posteriors.sum(-1), torch.ones(2468, 12), atol=2e-3)
    assert test.latents.norm(dim=-1).sub(1).abs().max() < 0.02


@pytest.mark.parametrize("epsilon", [1, 2, 10])
@pytest.mark.parametrize("codec", ["vote", "compact"])
def test_the_shipped_latents_give_the_shipped_accuracy(model, codec, epsilon):
    results = model.manifest["results"]
    each = results["lite2"]["all"][f"{epsilon}"] if codec == "vote" else results["compact"][f"z{epsilon}"]
    # Of all seeds, the one that ships: one vote, or one codec under three seeds of the noise.
    shipped = fmean(each["each"][: 1 if codec == "vote" else 3])
    found = label_accuracy(model, model.held_out("test", codec=codec), network_at(epsilon), codec=codec, trials=5)
    # The spread of 2,468 objects under fresh noise, five times.
    tolerance = 4 * (shipped * (1 - shipped) / (5 * 2468)) ** 0.5 + 2e-3
    assert found == pytest.approx(shipped, abs=tolerance)


def test_the_paper_codec_gives_its_shipped_accuracy_under_theorem_1(model):
    paper = airpool.Network.uniform(num_devices=12, dimension=784, participation=0.9)
    network = theorem1.calibrate(paper, epsilon=10.0)
    objects = model.held_out("test", codec="q16")
    some = replace(objects, latents=objects.latents[::4], labels=objects.labels[::4])
    shipped = model.manifest["results"]["q16"]["t10"]["mean"]
    assert label_accuracy(model, some, network, codec="q16") == pytest.approx(shipped, abs=0.05)


def test_devices_see_through_evenly_spaced_cameras_or_share_them_and_it_is_said(model):
    objects = model.held_out("validation")
    three, twenty = objects.fitted(3), objects.fitted(20)
    assert torch.equal(three.latents, objects.latents[:, [0, 4, 8]])
    assert torch.equal(three.posteriors, objects.posteriors[:, [0, 4, 8]])
    assert three.note == "Of the model's 12 sensors, used: 0, 4, 8; left out: 1, 2, 3, 5, 6, 7, 9, 10, 11."
    assert torch.equal(twenty.latents[:, 12:], objects.latents[:, :8])
    assert twenty.note is not None
    assert "from device 12 on they are repeated in turn, with fresh noise" in twenty.note
    assert "not that of 20 different sensors" in twenty.note
    assert objects.fitted(12) is objects
    assert objects.note is None


@pytest.mark.parametrize("count", [0, 121])
def test_devices_that_the_shipped_cameras_cannot_serve_are_refused(model, count):
    with pytest.raises(ValueError, match=f"num_devices={count} must be from 1 to 120: the model has 12 sensors"):
        model.held_out("validation").fitted(count)


def test_the_local_posteriors_are_calibrated(model):
    test = model.held_out("test")
    errors = [expected_calibration_error(test.posteriors[:, k], test.labels) for k in range(12)]
    assert fmean(errors) < 0.05


def test_one_of_our_own_shapes_is_named_from_mesh_to_label_through_noise(model):
    shape = next(shape for shape in shapes.all() if shape.label == "airplane")
    seen = views([(shape.vertices, shape.faces)])
    out = airpool.infer(
        model, seen, network=network_at(2.0), rng=torch.Generator().manual_seed(0), simulation=Simulation(trials=50)
    )
    assert (out.label == model.classes.index("airplane")).float().mean() > 0.9


@pytest.mark.check
def test_our_own_112_shapes_are_named_from_mesh_to_label(model):
    """The shapes were fixed before any network was trained: nothing was ever fitted to them.

    107 and 105 were asked for; what ships names 106 and 105 (docs/results/models.md).
    """
    everything = shapes.all()
    truth = torch.tensor([model.classes.index(shape.label) for shape in everything])[:, None]
    latents = torch.cat([model.encode(views([(shape.vertices, shape.faces)])) for shape in everything])
    network, codec, rng = network_at(2.0), model.codec(), torch.Generator().manual_seed(0)
    quiet = infer_features(
        latents, network, server=codec.server(Level(1.0, 0.0)), rng=rng, simulation=Simulation(baseline="centralised")
    )
    missed = {shape.name for shape, right in zip(everything, quiet.label == truth, strict=True) if not right}
    assert len(missed) <= 6, missed
    noisy = infer_features(
        latents, network, server=codec.server(level(network)), rng=rng, simulation=Simulation(trials=50)
    )
    assert (noisy.label == truth).sum(0).median() >= 105


def test_a_damaged_or_missing_file_is_a_clear_error(model, tmp_path):
    folder = tmp_path / "modelnet40"
    shutil.copytree(model.folder, folder, ignore=shutil.ignore_patterns("q16*", "trunk*"))
    copy = pretrained.Pretrained("modelnet40", folder, model.manifest)
    with pytest.raises(FileNotFoundError, match=r"trunk\.safetensors: missing"):
        copy.trunk  # noqa: B018
    file = folder / "compact.safetensors"
    data = bytearray(file.read_bytes())
    data[-7] ^= 1
    file.write_bytes(data)
    with pytest.raises(ValueError, match=r"compact\.safetensors: damaged"):
        copy.codec("compact")
    with pytest.raises(ValueError, match=r"other is not a file of 'modelnet40'"):
        copy.file("other")


def test_a_damaged_manifest_or_another_name_is_a_clear_error(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="no pretrained model 'imagenet': there is modelnet40"):
        airpool.load("imagenet")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "manifest.json").write_text("{")
    monkeypatch.setattr(assets, "installed", lambda: tmp_path)
    with pytest.raises(ValueError, match=r"manifest\.json: damaged"):
        airpool.load("broken")
    for other in ("[]", '{"classes": [], "files": {}}'):
        (tmp_path / "broken" / "manifest.json").write_text(other)
        with pytest.raises(ValueError, match=r"manifest\.json: lacks (classes, )?codecs.*of this version"):
            airpool.load("broken")


def test_what_does_not_fit_the_codec_is_refused(model):
    dark = torch.zeros(1, 12, 2, 224, 224)
    rng = torch.Generator().manual_seed(0)
    with pytest.raises(ValueError, match="dimension=64, the codec 'vote' needs dimension=40"):
        airpool.infer(model, dark, network=airpool.Network.uniform(num_devices=12, dimension=64), rng=rng)
    with pytest.raises(ValueError, match="codec 'huge' must be one of vote, compact, q16, vote-vgg11"):
        model.codec("huge")
    with pytest.raises(ValueError, match="codec 'q16' reads maps of vgg11, whose weights do not ship, only latents"):
        model.encode(dark, codec="q16")
    with pytest.raises(ValueError, match="split='train' must be test or validation"):
        model.held_out("train")


@pytest.mark.parametrize("codec", ["vote", "compact"])
@pytest.mark.parametrize("path", ["fast", "full"])
def test_any_codec_takes_a_numpy_generator_and_computes_in_float64(model, codec, path, monkeypatch):
    held = model.held_out("validation", codec=codec)
    some = replace(held, latents=held.latents[:3], labels=held.labels[:3], posteriors=held.posteriors[:3])
    monkeypatch.setattr(type(model), "encode", lambda *_, **__: some.latents)  # as the trunk would make them
    network = airpool.Network.uniform(num_devices=12, dimension=40, noise_std=1e-6)
    found = [
        airpool.infer(model, None, network=network, rng=rng, codec=codec, simulation=Simulation(path=path))
        for rng in (np.random.default_rng(0), torch.Generator().manual_seed(0))
    ]
    assert found[0].logits.dtype == np.float64
    np.testing.assert_allclose(found[0].logits, found[1].logits.numpy(), rtol=1e-2, atol=1e-2)
    np.testing.assert_array_equal(found[0].label, found[1].label.numpy())


@pytest.mark.parametrize("codec", ["vote", "compact"])
@pytest.mark.parametrize("baseline", ["orthogonal", "best-device", "centralised"])
def test_a_decoder_is_told_the_noise_of_the_network_that_transmits(model, codec, baseline, monkeypatch):
    held = model.held_out("validation", codec=codec)
    monkeypatch.setattr(type(model), "encode", lambda *_, **__: held.latents[:3])  # as the trunk would make them
    network = airpool.Network.uniform(
        num_devices=12,
        dimension=40,
        noise_std=0.3,
        participation=0.9,
        channel=airpool.Channel(noise_std=0.1, gamma=1.0),
    )
    out = airpool.infer(
        model,
        None,
        network=network,
        rng=torch.Generator().manual_seed(0),
        codec=codec,
        simulation=Simulation(trials=2, baseline=baseline),
    )
    # Signal and noise written out: twelve receptions, one of a device of weight 1, or none at all.
    heard = {
        "orthogonal": Level(0.9, (12 * 0.9 * (0.3**2 + 0.1**2)) ** 0.5),
        "best-device": Level(0.9, (0.9 * (0.3**2 + 0.1**2)) ** 0.5),
        "centralised": Level(1.0, 0.0),
    }[baseline]
    assert level_of(network, baseline).signal == pytest.approx(heard.signal)
    assert level_of(network, baseline).noise_std == pytest.approx(heard.noise_std)
    decode = model.codec(codec).server(heard)
    np.testing.assert_allclose(out.logits, decode(out.estimate).detach(), rtol=1e-3, atol=1e-4)
    untrue = model.codec(codec).server(level(network))(out.estimate).detach()
    if baseline != "orthogonal":
        assert not np.allclose(out.logits, untrue, rtol=1e-2, atol=1e-2)


def test_a_dark_room_gives_some_label_and_no_error(model):
    dark = torch.zeros(1, 12, 2, 224, 224)
    out = airpool.infer(model, dark, network=network_at(2.0), rng=torch.Generator().manual_seed(0))
    assert 0 <= int(out.label) < 40


def test_the_manifest_says_where_everything_comes_from(model):
    assert model.manifest["version"]
    assert len(model.classes) == 40
    assert model.manifest["data"]["file"] == "modelnet40_meshes.npz.xz"
    assert {name: model.trunk_of(name) for name in model.codecs} == {
        "vote": "lite2",
        "compact": "lite2",
        "q16": "vgg11",
        "vote-vgg11": "vgg11",
    }
