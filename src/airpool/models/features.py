"""The average of a view's feature map: what a device's local classifier takes in."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from .train import Images


@torch.no_grad()
def pooled(
    trunk: nn.Module, views: Tensor | Images, *, batch: int = 16, on_objects: Callable[[int], None] = lambda _: None
) -> Tensor:
    """Averages (N, K, 512) float32 of the maps (512, 7, 7) that the trunk makes of every view, by itself, in eval mode.

    views: (N, K, C, H, H), bytes or floats in [0, 1]; `batch` objects at a time. The views' torch device does the work
    and keeps the result: CUDA in bfloat16, summed in float32; the CPU in float32 throughout. `on_objects` is told
    how many more are done.
    """
    views = views.views if isinstance(views, Images) else views
    if views.ndim != 5 or not (views.dtype == torch.uint8 or views.is_floating_point()):
        raise ValueError(f"views is {views.dtype} {tuple(views.shape)}: must be uint8 or float (N, K, C, H, H)")
    if batch < 1:
        raise ValueError(f"batch={batch} must be ≥ 1")
    was_training = trunk.training
    trunk.eval()
    out: list[Tensor] = []
    for some in views.split(batch):
        flat = some.float() / 255 if some.dtype == torch.uint8 else some.float()
        flat = flat.flatten(0, 1).contiguous(memory_format=torch.channels_last)
        with torch.autocast(flat.device.type, torch.bfloat16, enabled=flat.is_cuda):
            maps = trunk(flat)
        out.append(maps.float().mean((2, 3)).unflatten(0, some.shape[:2]))
        on_objects(len(some))
    trunk.train(was_training)
    return torch.cat(out)
