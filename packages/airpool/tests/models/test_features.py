"""Averages of feature maps: each view by itself, whatever its company."""

import pytest
import torch

from airpool.models.vision import mvcnn
from airpool.models.vision.features import Images, maps, pooled


@pytest.fixture
def narrow(monkeypatch):
    monkeypatch.setattr(mvcnn, "_BLOCKS", ((4,), (4,), (4, 4), (4, 4), (4, 512)))
    torch.manual_seed(0)
    return mvcnn.vgg_trunk(2).eval()


@pytest.fixture
def views():
    return torch.randint(0, 256, (5, 3, 2, 112, 112), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


def test_every_view_is_averaged_over_its_own_map(narrow, views):
    found = pooled(narrow, views)
    assert found.shape == (5, 3, 512)
    assert found.dtype == torch.float32
    with torch.no_grad():
        for i, k in ((0, 0), (2, 1), (4, 2)):
            alone = narrow(views[i, k][None].float() / 255)[0]
            assert alone.shape == (512, 7, 7)
            assert torch.allclose(found[i, k], alone.flatten(1).mean(1), atol=1e-5)


@pytest.mark.parametrize("batch", [1, 2, 5, 100])
def test_the_batch_changes_nothing(narrow, views, batch):
    told = []
    assert torch.allclose(pooled(narrow, views, batch=batch, on_objects=told.append), pooled(narrow, views), atol=1e-6)
    assert sum(told) == 5


def test_bytes_floats_and_images_are_the_same(narrow, views):
    found = pooled(narrow, views)
    assert torch.equal(pooled(narrow, views.float() / 255), found)
    assert torch.equal(pooled(narrow, Images(views, torch.zeros(5, dtype=torch.int64))), found)


def test_a_trunk_in_training_is_looked_at_in_eval_mode_and_left_as_it_was(narrow, views):
    expected, before = pooled(narrow, views), {k: v.clone() for k, v in narrow.state_dict().items()}
    found = pooled(narrow.train(), views)
    assert torch.equal(found, expected)
    assert narrow.training
    assert not found.requires_grad
    assert all(torch.equal(before[k], v) for k, v in narrow.state_dict().items())


def test_whole_maps_come_in_batches_and_their_averages_are_the_pooled_ones(narrow, views):
    batches = list(maps(narrow, views, batch=2))
    assert [tuple(each.shape) for each in batches] == [(2, 3, 512 * 49), (2, 3, 512 * 49), (1, 3, 512 * 49)]
    assert torch.allclose(torch.cat(batches).unflatten(-1, (512, 49)).mean(-1), pooled(narrow, views), atol=1e-6)


def test_whoever_takes_one_batch_only_finds_the_trunk_as_it_was(narrow, views):
    first = next(maps(narrow.train(), views, batch=1))
    assert narrow.training
    assert torch.equal(first, next(maps(narrow.eval(), views, batch=1)))
    assert not narrow.training
    assert not first.requires_grad


def test_any_trunk_will_do(views):
    trunk = torch.nn.Conv2d(2, 7, kernel_size=5, stride=4)
    assert pooled(trunk, views).shape == (5, 3, 7)
    assert next(maps(trunk, views)).shape == (5, 3, 7 * 27 * 27)


def test_no_objects_have_no_features(narrow, views):
    assert pooled(narrow, views[:0]).shape == (0, 3, 512)


def test_what_is_no_set_of_views_is_refused(narrow, views):
    with pytest.raises(ValueError, match=r"views is torch.uint8 \(3, 2, 112, 112\): must be"):
        pooled(narrow, views[0])
    with pytest.raises(ValueError, match=r"views is torch.int64"):
        pooled(narrow, views.long())
    with pytest.raises(ValueError, match="batch=0 must be ≥ 1"):
        pooled(narrow, views, batch=0)


@pytest.mark.gpu
def test_cuda_agrees_within_bfloat16(narrow, views):
    expected = pooled(narrow, views)
    found = pooled(narrow.cuda(), views.cuda())
    assert found.dtype == torch.float32
    assert (found.cpu() - expected).norm() < 0.02 * expected.norm()
