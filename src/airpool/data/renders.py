"""Packed objects as pictures: what the cameras around each of them see, as bytes."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airpool.data.views import object_views, unpack

_OBJECTS = 16  # at a time: twelve views each


def renders(
    packed: NDArray[np.uint8],
    *,
    resolution: int = 112,
    torch_device: torch.device | str = "cpu",
    on_objects: Callable[[int], None] = lambda _: None,
) -> Tensor:
    """Views (N, 12, 2, H, H) uint8 of objects (N, 12, 3375) packed, H = resolution: `object_views` times 255, rounded.

    They stay on `torch_device`: 0.3 MB an object at 112 px, 1.2 MB at 224. `on_objects` is told how many more are done.
    """
    shape = (*packed.shape[:2], 2, resolution, resolution)
    out = torch.empty(shape, dtype=torch.uint8, device=torch_device)
    for start in range(0, len(packed), _OBJECTS):
        bits = torch.from_numpy(packed[start : start + _OBJECTS]).to(torch_device)
        seen = object_views(unpack(bits), num_views=packed.shape[1], resolution=resolution)
        out[start : start + _OBJECTS] = (seen * 255).round().byte()
        on_objects(len(bits))
    return out
