"""Bundles of models of your own cameras: each device has the head, temperature, scaling and encoder of its camera."""

import numpy as np
import pytest
import torch

pytest.importorskip("PIL.Image")

from tests.models.photographs import quick_trunk, shop

from airpool.models.codecs import codec as codecs
from airpool.models.images import fitting, folder, trunk
from airpool.models.images.features import features
from airpool.models.layers import in_numpy
from airpool_lab import bundle as making
from airpool_runtime import bundle as bundles

K = 3


class TorchTrunk:
    """Stands for the int8 trunk: the same module in torch."""

    view_shape = (3, 224, 224)
    graph = b""

    def __init__(self, module):
        self.module = module

    @torch.no_grad()
    def __call__(self, views):
        return self.module(torch.from_numpy(views).float() / 255).numpy()


@pytest.fixture(scope="module")
def quick():
    with pytest.MonkeyPatch.context() as patch:
        quick_trunk(patch)
        patch.setattr(making, "quantise", lambda module, views: TorchTrunk(module))
        yield


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return shop(tmp_path_factory.mktemp("shop"), cameras=K, objects=5)


@pytest.fixture(scope="module", params=[True, False], ids=["one head", "a head each"])
def model(request, quick, pictures):
    found = features(folder.found(pictures), trunk.shipped())
    recipe = fitting.FitRecipe(
        alike=request.param, hidden=(0,), head_steps=40, codec_steps=20, codec_hidden=8, server_hidden=8
    )
    return fitting.fitted(found, trunk.shipped(), recipe=recipe, epsilon=8)


@pytest.mark.parametrize("codec", ["vote", "compact"])
def test_a_device_of_a_bundle_sends_what_the_model_would(model, pictures, tmp_path, codec):
    model.save(tmp_path / "shop.safetensors")
    views = making.folder_views(pictures)[: 2 * K].reshape(2, K, 3, 224, 224)
    made = making.made(str(tmp_path / "shop.safetensors"), codec=codec, views=views.flatten(0, 1))
    assert len(made.heads) == len(model.heads.classifiers)
    assert made.about["cameras"] == ["cam0", "cam1", "cam2"]
    latents, posteriors = model.seen(views, codec=codec)
    for k in range(K):
        seen = made.encoder(device=k, devices=K)(views[1, k].numpy())
        np.testing.assert_allclose(np.asarray(seen.posterior), posteriors[1, k], atol=2e-3)  # heads are kept in half
        np.testing.assert_allclose(seen.latent, latents[1, k], atol=5e-3)
    # Two devices have the first and the second of three cameras: each with what is its own.
    seen = made.encoder(device=1, devices=2)(views[1, 1].numpy())
    np.testing.assert_allclose(seen.latent, latents[1, 1], atol=5e-3)


def test_a_bundle_keeps_all_heads_on_disk(model, pictures, tmp_path, monkeypatch):
    model.save(tmp_path / "shop.safetensors")
    views = making.folder_views(pictures, count=2)
    made = making.made(str(tmp_path / "shop.safetensors"), codec="compact", views=views)
    monkeypatch.setattr(bundles, "Int8Trunk", lambda *parts, threads: made.trunk)
    bundles.write(tmp_path / "b.zip", made)
    again = bundles.read(tmp_path / "b.zip")
    view = views[0].numpy()
    for k in range(K):
        one, other = (each.encoder(device=k, devices=K)(view) for each in (made, again))
        np.testing.assert_array_equal(one.latent, other.latent)
        np.testing.assert_array_equal(one.posterior, other.posterior)


def test_pictures_are_asked_for_and_a_model_of_features_has_no_trunk(model, tmp_path):
    model.save(tmp_path / "shop.safetensors")
    with pytest.raises(ValueError, match="holds no pictures, and int8 is fitted to some: name a folder, --images"):
        making.made(str(tmp_path / "shop.safetensors"))
    with pytest.raises(ValueError, match="takes no images, so it has no trunk to bundle"):
        making.made("photos")


def test_the_codec_of_one_device_is_its_row_of_all(model):
    codec = codecs.moved(model.codec("compact"), in_numpy)
    width = model.sensors.widths[0]
    x = np.random.default_rng(0).standard_normal((4, K, width)).astype(np.float32)
    for k in range(K):
        alone = codecs.of_device(codec, k).encoder(x[:, k])
        np.testing.assert_allclose(alone, codec.encoder(x)[:, k], atol=1e-5)
