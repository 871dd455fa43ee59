"""What a trunk makes of views: their feature maps, or the averages of these, batch by batch."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from airpool.models.train import Images


@torch.no_grad()
def pooled(
    trunk: nn.Module, views: Tensor | Images, *, batch: int = 16, on_objects: Callable[[int], None] = lambda _: None
) -> Tensor:
    """Averages (N, K, F) float32 of the maps (F, h, w) that a trunk makes of every view, by itself, in eval mode.

    views: (N, K, C, H, H), bytes or floats in [0, 1]; `batch` objects at a time. The views' torch device does the work
    and keeps the result: CUDA in bfloat16, summed in float32; the CPU in float32 throughout. `on_objects` is told
    how many more are done. Any trunk will do; VGG11's maps are (512, 7, 7).
    """
    out: list[Tensor] = []
    for some in _seen(trunk, views, batch):
        out.append(some.mean((-2, -1)))
        on_objects(len(some))
    return torch.cat(out)


@torch.no_grad()
def maps(trunk: nn.Module, views: Tensor | Images, *, batch: int = 16) -> Iterator[Tensor]:
    """Maps (n, K, F·h·w) float32 of `batch` objects at a time: all together they seldom fit in memory."""
    for some in _seen(trunk, views, batch):
        yield some.flatten(2)


@torch.no_grad()
def _seen(trunk: nn.Module, views: Tensor | Images, batch: int) -> Iterator[Tensor]:
    """Maps (n, K, F, h, w); the trunk is left as it was, in training or not, however many are taken."""
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
