"""Views to fit int8 to. A model holds no picture: they come from the folder that it was fitted to, or one like it."""

from pathlib import Path

import torch
from torch import Tensor

from airpool.models.images import features, folder

_LEAST = 1.0  # of 255, by which pictures differ on average


def views(path: Path | str, *, count: int = 120) -> Tensor:
    """(count, 3, 224, 224), bytes, at most: of pictures of a folder or a CSV file, spread over objects and cameras.

    Where the list says so, of objects to train on alone.
    """
    pictures = folder.found(path)
    split = pictures.split
    some = [shot for shot in pictures.shots if split is None or split[shot.object] == "train"] or list(pictures.shots)
    # A step that shares no factor with the number of cameras would be ideal; the golden section comes close for all.
    chosen = sorted(range(len(some)), key=lambda k: k * 0.6180339887498949 % 1)[:count]
    found = [torch.from_numpy(view) for view in features.views([some[k] for k in sorted(chosen)]) if view is not None]
    if not found:
        raise ValueError(f"{path}: no picture that can be read, to fit int8 to")
    views = torch.stack(found)
    if views[..., ::8, ::8].float().std(0, correction=0).mean() < _LEAST:
        raise ValueError(f"{path}: {len(views)} pictures that are all alike: int8 fitted to them would read no others")
    return views
