"""Views, and what a trunk makes of them: feature maps or their averages, batch by batch. Any trunk will do."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from airpool._support.arrays import require, require_array


@dataclass(frozen=True, eq=False)
class Images:
    """Views (N, K, channels, H, H) uint8 and labels (N,) int64, on one device."""

    views: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        if self.views.ndim != 5 or self.views.dtype != torch.uint8:
            raise ValueError(f"views is {self.views.dtype} {tuple(self.views.shape)}: must be uint8 (N, K, C, H, H)")
        if self.labels.shape != self.views.shape[:1]:
            raise ValueError(f"labels has shape {tuple(self.labels.shape)}: must be ({len(self.views)},)")

    def __len__(self) -> int:
        return len(self.labels)


def pooled(
    trunk: nn.Module, views: Tensor | Images, *, batch: int = 16, on_objects: Callable[[int], None] = lambda _: None
) -> Tensor:
    """Averages (N, K, F) float32 of the maps (F, h, w) that a trunk makes of every view, in eval mode.

    views: (N, K, C, H, H), bytes or floats in [0, 1]; `batch` objects at a time. The result stays on the views' torch
    device; CUDA computes in bfloat16. `on_objects` receives how many more are done.
    """
    out: list[Tensor] = []
    for some in spatial(trunk, views, batch=batch):
        out.append(some.mean((-2, -1)))
        on_objects(len(some))
    return torch.cat(out)


def maps(trunk: nn.Module, views: Tensor | Images, *, batch: int = 16) -> Iterator[Tensor]:
    """Maps (n, K, F·h·w) float32 of `batch` objects at a time: all together they seldom fit in memory."""
    for some in spatial(trunk, views, batch=batch):
        yield some.flatten(2)


@torch.no_grad()
def spatial(trunk: nn.Module, views: Tensor | Images, *, batch: int = 16) -> Iterator[Tensor]:
    """Maps (n, K, F, h, w) float32 of `batch` objects at a time; the trunk's training mode is left unchanged."""
    views = views.views if isinstance(views, Images) else views
    if views.ndim != 5 or not (views.dtype == torch.uint8 or views.is_floating_point()):
        raise ValueError(f"views is {views.dtype} {tuple(views.shape)}: must be uint8 or float (N, K, C, H, H)")
    if batch < 1:
        raise ValueError(f"batch={batch} must be ≥ 1")
    was_training = trunk.training
    for some in views.split(batch):
        flat = some.float() / 255 if some.dtype == torch.uint8 else some.float()
        flat = flat.flatten(0, 1).contiguous(memory_format=torch.channels_last)
        trunk.eval()
        with torch.autocast(flat.device.type, torch.bfloat16, enabled=flat.is_cuda):
            seen = trunk(flat)
        trunk.train(was_training)
        yield seen.float().unflatten(0, some.shape[:2])


def check_views(views: Tensor, wanted: tuple[int, ...]) -> None:
    """Checks that views are (N, K, *wanted), channels, height and width, bytes or floats in [0, 1]."""
    require_array("views", views, torch=True)
    if views.ndim != 5 or views.shape[2:] != wanted or not views.numel():
        raise ValueError(f"views has shape {tuple(views.shape)}, must be (N, K, {', '.join(map(str, wanted))})")
    if views.dtype != torch.uint8:
        if not views.is_floating_point():
            raise ValueError(f"views is {views.dtype}, must be uint8, or floating numbers from 0 to 1")
        hint = "must be from 0 to 1 (bytes go from 0 to 255: give them as uint8)"
        require("views", views, hint, ok=lambda x: (x >= 0) & (x <= 1))
