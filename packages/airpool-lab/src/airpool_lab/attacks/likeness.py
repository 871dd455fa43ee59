"""Likeness of two pictures: PSNR, SSIM, and a distance in the first maps of a trunk.

Pictures are (..., C, H, W) in [0, 1]; every measure is a number for each picture, averaged over channels.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_WINDOW, _K1, _K2 = 7, 0.01, 0.03  # as in scikit-image


def foreground(pictures: Tensor) -> Tensor:
    """Pixels (..., 1, H, W) where a view (..., 2, H, W) shows some object: its shading is above 0 there."""
    return pictures[..., :1, :, :] > 0


def psnr(pictures: Tensor, originals: Tensor, mask: Tensor | None = None) -> Tensor:
    """Peak signal-to-noise ratio (...) in dB, of the pixels in the mask (..., 1, H, W) or of all.

        10 log₁₀(1/MSE)

    Edge cases: equal pictures → inf; an empty mask → NaN.
    """
    square = (pictures.double() - originals.double()).square()
    counted = torch.ones_like(square) if mask is None else mask.expand_as(square).double()
    return -10 * torch.log10((square * counted).sum((-3, -2, -1)) / counted.sum((-3, -2, -1)))


def ssim(pictures: Tensor, originals: Tensor) -> Tensor:
    """Structural similarity (...): windows of 7×7 pixels that lie within the picture, sample covariances, range 1."""
    shape = pictures.shape
    x, y = (each.double().reshape(-1, 1, *shape[-2:]) for each in (pictures, originals))

    def mean(values: Tensor) -> Tensor:
        return F.avg_pool2d(values, _WINDOW, stride=1)

    unbiased = _WINDOW**2 / (_WINDOW**2 - 1)
    mx, my = mean(x), mean(y)
    vx, vy, vxy = (
        unbiased * (mean(a * b) - ma * mb) for a, b, ma, mb in ((x, x, mx, mx), (y, y, my, my), (x, y, mx, my))
    )
    c1, c2 = _K1**2, _K2**2
    local = (2 * mx * my + c1) * (2 * vxy + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2))
    return local.mean((-3, -2, -1)).reshape(shape[:-2]).mean(-1)


@torch.no_grad()
def perceptual(trunk: nn.Sequential, pictures: Tensor, originals: Tensor, *, resolution: int) -> Tensor:
    """Distance (B,) of pictures (B, C, H, W) in the trunk's maps of half, a quarter and an eighth of the resolution.

    As LPIPS without its trained weights: at every place the channels are scaled to length one, and the squared distance
    is averaged over places and maps; 0 for equal pictures, 2 where no channel is shared. Both are scaled to the trunk's
    resolution first.
    """
    pair = [
        F.interpolate(each.float(), size=(resolution, resolution), mode="bilinear", align_corners=False)
        for each in (pictures, originals)
    ]
    x, seen = torch.cat(pair), {}
    for layer in trunk:
        x = layer(x)
        if x.shape[-1] < resolution // 8:
            break
        seen[x.shape[-1]] = x  # the last map of each size
    total = torch.zeros(len(pictures), device=pictures.device)
    for each in seen.values():
        a, b = F.normalize(each.float(), dim=1).chunk(2)
        total += (a - b).square().sum(1).mean((1, 2))
    return total / len(seen)
