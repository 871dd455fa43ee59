"""Reconstruction and identification, on latents of a known law, and on our own shapes."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from airpool import Adversary, Network
from airpool.cli import app
from airpool.models.pretrained import load
from airpool.protocol.device import clipped
from airpool_lab.attacks import identify, reconstruct
from airpool_lab.attacks.attack import ATTACKS, AttackSetting
from airpool_lab.attacks.positions import POSITIONS, bound
from airpool_lab.attacks.targets import Q, Scenes, Targets, channels, dimension, mean_pictures, scenes, sender, shrunk

SIZE, DIMENSION = 20, 6


def identified(whole) -> Any:
    return identify._identified(whole, whole.sent[1].double().numpy())


def targets(noise_std=0.05, place="link", **options):
    """Twenty objects of random latents on twelve cameras, whose pictures are bright where a latent points."""
    rng = torch.Generator().manual_seed(0)
    sent = [torch.nn.functional.normalize(torch.randn(SIZE, 12, DIMENSION, generator=rng), dim=-1) for _ in range(2)]
    bright = [each.gt(0).float() for each in sent]
    pictures = [each[..., :2, None, None].expand(-1, -1, -1, 28, 28) for each in bright]
    net = Network.uniform(num_devices=12, noise_std=noise_std, dimension=DIMENSION, adversary=Adversary(2))
    given = {**ATTACKS.get("reconstruct").options, "side": 28, "steps": 20, "width": 4, **options}
    setting = AttackSetting(net, POSITIONS[place], device=2, trials=4000, options=given)
    parts = [Scenes(torch.zeros(SIZE, 12, 1), (200 * x).byte(), torch.arange(SIZE) % 3) for x in pictures]
    return Targets(setting, load("modelnet40"), torch.nn.Sequential(), parts[0], parts[1], (sent[0], sent[1]))


def test_identification_stays_below_its_bound_and_is_near_it():
    found = identified(targets(0.1))
    assert not found.exceeds
    assert found.prior < found.success < found.bound
    assert found.success > found.bound / 2  # codewords that are nearly orthogonal: the bound is close


def test_identification_without_noise_finds_every_object():
    for place in ("link", "sum", "colluding"):
        assert identified(targets(0.0, place)).success == 1


def test_identification_knows_the_clip():
    whole = targets(0.0)
    cut = replace(whole.setting.network, devices=replace(whole.setting.network.devices, clip_norm=0.1))
    sent = whole.sent[1] * torch.linspace(1, 3, SIZE)[:, None, None]
    assert identified(replace(whole, setting=replace(whole.setting, network=cut), sent=(sent, sent))).success == 1


@pytest.mark.parametrize("place", ["sum", "colluding", "antennas"])
def test_which_object_it_is_is_no_secret_of_the_view_where_several_views_are_heard(place):
    whole = targets(0.1, place)
    found = identified(whole)
    claimed = bound(whole.setting.network, whole.setting.claim, POSITIONS[place], "object", prior=1 / SIZE, device=2)
    assert (found.of, found.protected, found.bound) == ("object", False, claimed)
    assert not found.exceeds
    assert (found.bound == 1) == (place != "sum")


def test_signals_in_the_space_of_the_latents_have_the_same_law():
    """A rotation into fewer coordinates keeps every distance, and so the law of every likelihood."""
    whole = targets()
    flat = whole.sent[0][:3]
    wide = flat @ torch.linalg.qr(torch.randn(300, DIMENSION))[0].T
    directions = whole.spanned(wide, most=50)
    assert directions.shape == (300, 36)
    assert torch.allclose(torch.cdist(wide @ directions, wide @ directions), torch.cdist(flat, flat), atol=1e-3)


def test_a_turned_object_shows_the_attacked_device_another_view():
    whole = targets(0.0)
    z = whole.sent[1].double().numpy()
    heard = whole.heard(z, np.random.default_rng(0), turned=3).signal[:, 0]
    assert np.allclose(heard, whole.weighted(z[:, whole.camera + 3]), atol=1e-5)


def test_a_decoder_paints_every_held_out_view():
    painted, originals = reconstruct._painted(targets(), mean_pictures(targets().training, 3)[0])
    assert painted.shape == originals.shape == (SIZE, 2, 28, 28)
    assert torch.equal(originals, targets().test.pictures[:, 2].float() / 255)


@pytest.mark.parametrize("place", ["link", "sum", "colluding", "antennas"])
def test_the_nearest_view_is_a_secret_of_the_view_on_a_link_alone(place, monkeypatch):
    whole = targets(0.1, place)
    monkeypatch.setattr(Targets, "of", lambda _: whole)
    monkeypatch.setattr(reconstruct, "_measures", lambda *_: {})
    monkeypatch.setattr(reconstruct, "_painted", lambda *_: (torch.rand(SIZE, 2, 28, 28),) * 2)
    (found,) = reconstruct.RECONSTRUCT.run(whole.setting)
    assert (found.of == "view", found.protected) == (place == "link", place == "link")


def test_means_are_those_of_each_camera_and_class():
    training = targets().training
    mean, of_class = mean_pictures(training, 4)
    assert torch.allclose(mean[5], training.pictures[:, 5].float().mean(0) / 255)
    assert torch.allclose(of_class[1, 5], training.pictures[training.labels == 1, 5].float().mean(0) / 255)
    assert torch.allclose(of_class[3], mean)  # a class without objects


def test_the_leading_channels_keep_the_most_of_a_map():
    torch.manual_seed(0)
    maps = torch.randn(6, 4, 40, 7, 7) * torch.linspace(2, 0.01, 40)[:, None, None]
    whole, q16 = channels(maps.split(2))
    assert q16.directions is not None
    kept = q16.raw(maps).square().sum()
    others = torch.linalg.qr(torch.randn(40, Q))[0]
    assert kept > torch.einsum("nkfhw,fq->nkqhw", maps - whole.centre, others).square().sum()
    lengths = whole.raw(maps).flatten(0, 1).norm(dim=1)
    assert whole.clip_norm == pytest.approx(float(lengths.median()))
    assert whole.encode(maps).norm(dim=-1).max() <= 1


def test_a_codec_sends_what_the_model_sends():
    model = load("modelnet40")
    maps = torch.rand(2, 12, 1280, 7, 7)
    for name in ("vote", "compact"):
        found = sender(name, model, maps).encode(maps)
        averages = maps.mean((-2, -1))
        read = model._posteriors(averages) if name == "vote" else averages
        assert torch.allclose(found, clipped(model.codec(name).encoder(read), 1.0), atol=1e-5)
        assert dimension(name, model) == found.shape[-1]


def test_scenes_hold_maps_and_small_pictures():
    seen = (255 * torch.rand(3, 2, 2, 56, 56)).byte()
    trunk = torch.nn.AvgPool2d(8)
    found = scenes(trunk, seen, torch.arange(3), side=28)
    assert found.maps.shape == (3, 2, 2, 7, 7)
    assert torch.allclose(found.pictures.float() / 255, shrunk(seen.float() / 255, 28), atol=0.003)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--option", "codec=none"), "codec='none' must be map, q16, vote, compact"),
        (("--option", "meshes=none.npz"), "none.npz: no such file"),
        (("--option", "torch_device=cuda"), "torch finds no CUDA device here"),
        (("--option", "objects=1"), "objects=1 leaves"),
        (("--option", "codec=q16", "--fading", "rayleigh"), "codec='q16' needs fading='none', not 'rayleigh'"),
        (("--devices", "12", "--dimension", "8"), "dimension"),
    ],
)
def test_bad_input_is_named(words, message):
    if "cuda" in words[1] and torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    out = CliRunner().invoke(app, ["attack", "identify", *words])
    assert out.exit_code == 1
    assert message in str(out.exception)


@pytest.mark.check
@pytest.mark.parametrize("name", ["identify", "reconstruct"])
def test_our_own_shapes_are_attacked_from_the_command_line(name, tmp_path):
    words = ["--option", "objects=24", "--noise-std", "0.05", "--json", "--out", str(tmp_path)]
    words += ["--option", "steps=20"] if name == "reconstruct" else []
    out = CliRunner().invoke(app, ["attack", name, *words])
    assert out.exit_code == 0, out.output
    found = json.loads(out.stdout)[0]
    assert found["success"] <= found["interval"][1]
    assert (tmp_path / "results.json").exists()
    assert (tmp_path / "reconstruct.png").exists() == (name == "reconstruct")


@pytest.mark.check
def test_identification_without_noise_finds_every_shape():
    out = CliRunner().invoke(app, ["attack", "identify", "--option", "objects=24", "--noise-std", "0", "--json"])
    assert json.loads(out.stdout)[0]["success"] == 1
