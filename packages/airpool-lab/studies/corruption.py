"""Views that went wrong: a camera out of focus, one with something in front of it, one that sees next to nothing.

A documented model of unequal view quality, to try on it what choosing devices by their uncertainty is worth. Which
cameras are bad differs from object to object: what is known beforehand needs no selection, only weights.

    blur       Gaussian, standard deviation `severity` of the image's side
    occlusion  something near and flat covers a share `severity` of the object, from one side, any direction
    noise      Gaussian, standard deviation `severity` of full scale, on every pixel of both channels
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional

from airpool.models.vision.views import AMBIENT

Kind = Literal["blur", "occlusion", "noise"]
KINDS: tuple[Kind, ...] = get_args(Kind)

# What an occluder looks like: unlit, and right in front of the lens.
_OCCLUDER = (AMBIENT, 0.95)


@dataclass(frozen=True)
class Corruption:
    """What happens to a bad view, and how badly; severities as in the module."""

    blur: float = 0.03
    occlusion: float = 0.4
    noise: float = 0.08

    def __post_init__(self) -> None:
        for name, most in (("blur", 0.5), ("occlusion", 1.0), ("noise", 10.0)):
            if not 0 <= getattr(self, name) <= most:
                raise ValueError(f"{name}={getattr(self, name)} must be from 0 to {most:g}")


def corrupted(
    views: Tensor, *, rng: torch.Generator, corruption: Corruption | None = None, kind: Kind | None = None
) -> tuple[Tensor, Tensor]:
    """Every view (..., 2, H, H), bytes, gone wrong in one way each; and which way, (...), an index into KINDS.

    kind: the same for all; left out, each view draws one of the three. Views and generator share a torch device.
    Edge case: severity 0 → the view as it was, up to rounding.
    """
    if views.dtype != torch.uint8 or views.ndim < 3 or views.shape[-1] != views.shape[-2] or views.shape[-3] != 2:
        raise ValueError(f"views is {views.dtype} {tuple(views.shape)}: must be uint8 (..., 2, H, H)")
    if kind is not None and kind not in KINDS:
        raise ValueError(f"kind={kind!r} must be one of {', '.join(KINDS)}")
    severity = corruption or Corruption()
    flat = views.flatten(0, -4) if views.ndim > 3 else views[None]
    which = torch.randint(len(KINDS), (len(flat),), generator=rng, device=views.device)
    if kind is not None:
        which = torch.full_like(which, KINDS.index(kind))
    out = flat.clone()
    for index, change in enumerate((_blurred, _occluded, _noisy)):
        rows = (which == index).nonzero()[:, 0]
        for some in rows.split(1024):
            seen = change(flat[some].float() / 255, getattr(severity, KINDS[index]), rng)
            out[some] = (seen.clamp(0, 1) * 255).round().byte()
    return out.reshape(views.shape), which.reshape(views.shape[:-3])


def _blurred(views: Tensor, severity: float, _: torch.Generator) -> Tensor:
    std = severity * views.shape[-1]
    if std == 0:
        return views
    reach = max(1, round(3 * std))
    ticks = torch.arange(-reach, reach + 1, device=views.device, dtype=views.dtype)
    kernel = torch.exp(-(ticks**2) / (2 * std**2))
    kernel = (kernel / kernel.sum()).reshape(1, 1, 1, -1).repeat(2, 1, 1, 1)
    seen = functional.conv2d(views, kernel, padding=(0, reach), groups=2)
    return functional.conv2d(seen, kernel.mT.contiguous(), padding=(reach, 0), groups=2)


def _occluded(views: Tensor, severity: float, rng: torch.Generator) -> Tensor:
    """Covers everything beyond a straight edge, placed so that `severity` of the object's pixels lie behind it."""
    n, side = len(views), views.shape[-1]
    angle = torch.rand(n, generator=rng, device=views.device) * (2 * torch.pi)
    ticks = torch.linspace(-1, 1, side, device=views.device)
    along = angle.cos()[:, None, None] * ticks + angle.sin()[:, None, None] * ticks[:, None]
    seen = (views[:, 1] > 0).flatten(1)
    behind = torch.where(seen, along.flatten(1), torch.inf).sort(dim=1).values
    # One beyond the last, for an edge that covers nothing although the object fills the view.
    behind = functional.pad(behind, (0, 1), value=torch.inf)
    # The edge is the quantile of the object's own pixels; where nothing is seen nothing can be covered.
    place = ((1 - severity) * seen.sum(1)).long()
    edge = behind.gather(1, place[:, None])[:, 0, None, None]
    covered = (along >= edge)[:, None]
    occluder = torch.tensor(_OCCLUDER, device=views.device).reshape(1, 2, 1, 1)
    return torch.where(covered, occluder, views)


def _noisy(views: Tensor, severity: float, rng: torch.Generator) -> Tensor:
    return views + severity * torch.randn(views.shape, generator=rng, device=views.device)
