"""Measures of how alike two pictures are, against scikit-image."""

import numpy as np
import pytest
import torch
from torch import nn

from airpool_lab.attacks import likeness

metrics = pytest.importorskip("skimage.metrics")


@pytest.fixture
def pair():
    rng = np.random.default_rng(3)
    originals = rng.random((5, 2, 24, 31))
    return np.clip(originals + 0.2 * rng.standard_normal(originals.shape), 0, 1), originals


def test_psnr_is_that_of_scikit_image(pair):
    found = likeness.psnr(*map(torch.tensor, pair)).numpy()
    wanted = [metrics.peak_signal_noise_ratio(y, x, data_range=1) for x, y in zip(*pair, strict=True)]
    assert found == pytest.approx(wanted, abs=1e-9)


def test_ssim_is_that_of_scikit_image(pair):
    found = likeness.ssim(*map(torch.tensor, pair)).numpy()
    wanted = [metrics.structural_similarity(y, x, data_range=1, channel_axis=0) for x, y in zip(*pair, strict=True)]
    assert found == pytest.approx(wanted, abs=1e-9)


def test_a_mask_leaves_its_pixels_alone_in_the_psnr(pair):
    pictures, originals = map(torch.tensor, pair)
    mask = torch.zeros(5, 1, 24, 31, dtype=torch.bool)
    mask[..., 4:10, 6:20] = True
    cut = (slice(None), slice(None), slice(4, 10), slice(6, 20))
    assert torch.allclose(likeness.psnr(pictures, originals, mask), likeness.psnr(pictures[cut], originals[cut]))


def test_equal_pictures_are_as_alike_as_can_be(pair):
    originals = torch.tensor(pair[1])
    assert likeness.psnr(originals, originals).isposinf().all()
    assert torch.allclose(likeness.ssim(originals, originals), torch.ones(5).double())


def test_the_foreground_is_where_a_view_is_shaded():
    view = torch.zeros(1, 2, 4, 4)
    view[0, :, 1, 2] = 0.3
    view[0, 1, 3, 3] = 0.5  # depth alone
    assert likeness.foreground(view).nonzero().tolist() == [[0, 0, 1, 2]]


def test_the_perceptual_distance_grows_with_the_difference_and_is_symmetric():
    torch.manual_seed(0)
    layers = [nn.Conv2d(2, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2, padding=1)]
    trunk = nn.Sequential(*layers, nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.Conv2d(8, 8, 3, stride=2, padding=1))
    x = torch.rand(3, 2, 16, 16)
    near, far = x + 0.02 * torch.rand_like(x), torch.rand_like(x)

    def distance(a, b):
        return likeness.perceptual(trunk, a, b, resolution=32)

    assert torch.equal(distance(x, x), torch.zeros(3))
    assert (distance(x, near) < distance(x, far)).all()
    assert torch.allclose(distance(x, far), distance(far, x))
