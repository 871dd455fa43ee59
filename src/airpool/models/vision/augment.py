"""Random changes of training views: moved, turned, stretched, mirrored, lit otherwise, partly erased."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Augmentation:
    """Ranges of the random changes to a view; each change is uniform up to the number given.

    turn_deg: about the view's centre. scale, stretch: relative change of size, and of width against height. shift: of
    position, relative to the side. mirror: swap left and right half of the time. light: relative change of each
    channel, which is also raised or lowered by up to 0.4 of it. erase: smallest and largest side, relative to the view,
    of a rectangle that is erased in a share `erased` of the views.
    """

    turn_deg: float = 0.0
    scale: float = 0.15
    stretch: float = 0.1
    shift: float = 0.06
    mirror: bool = True
    light: float = 0.0
    erase: tuple[float, float] = (0.0, 0.5)
    erased: float = 1.0


@torch.no_grad()
def augmented(views: Tensor, change: Augmentation, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Views (B, C, H, H) float in [0, 1] of uint8 ones, changed, and which of them (B,) are mirrored."""
    count, channels, side = views.shape[:3]

    def uniform(*shape: int) -> Tensor:
        """Uniform numbers from -1 to 1."""
        return torch.rand(count, *shape, device=views.device, generator=rng) * 2 - 1

    angle = math.radians(change.turn_deg) * uniform()
    size, width = torch.exp(change.scale * uniform()), torch.exp(change.stretch * uniform())
    mirrored = (uniform() > 0) & change.mirror
    cos, sin = torch.cos(angle) * size, torch.sin(angle) * size
    flip = torch.where(mirrored, -1.0, 1.0) * width
    across, down = (2 * change.shift * uniform(2)).unbind(1)
    theta = torch.stack((cos * flip, -sin / width, across, sin * flip, cos / width, down), 1).view(-1, 2, 3)
    grid = F.affine_grid(theta, list(views.shape), align_corners=False)
    out = F.grid_sample(views.float() / 255, grid, align_corners=False)
    if change.light > 0:
        gain, bias = 1 + change.light * uniform(channels, 1, 1), 0.4 * change.light * uniform(channels, 1, 1)
        out = (out * gain + bias).clamp(0, 1) * (out > 0)
    if change.erased > 0:
        least, most = change.erase
        reach = 0.5 * (least + (most - least) * (uniform(2, 1) + 1) / 2) * ((uniform(1, 1) + 1) / 2 < change.erased)
        ticks = (torch.arange(side, device=views.device) + 0.5) / side
        inside = (ticks - (uniform(2, 1) + 1) / 2).abs() < reach
        out = out * ~(inside[:, 0, None, :] & inside[:, 1, :, None])[:, None]
    return out, mirrored
