"""Checks of views that come from outside."""

import torch
from torch import Tensor

from airpool._support.arrays import require, require_array


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
