"""Objects whose views are attacked: small pictures, and the trunk's maps; training and held-out ones.

With packed meshes the splits are those of the file, and test objects with a twin are left out. Without, they are our
own shapes: the first variant of each kind, and every fourth after it, is held out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from airpool._support.progress import Progress
from airpool.models.vision import features, runs, shapes
from airpool.models.vision.renders import renders
from airpool.models.vision.runs import Source
from airpool.models.vision.views import Cameras, views

_BATCH = {"cuda": 32, "cpu": 1}  # objects at a time
_HELD_OUT_EVERY = 4


@dataclass(frozen=True, eq=False)
class Scenes:
    """Maps (N, K, F, 7, 7) in half precision, pictures (N, K, 2, side, side) as bytes, labels (N,)."""

    maps: Tensor
    pictures: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def originals(self, rows: Tensor, camera: Tensor) -> Tensor:
        """Pictures (n, 2, side, side) in [0, 1] of some objects, each by its camera (n,)."""
        return self.pictures[rows, camera].float() / 255


def scenes(
    trunk: nn.Module,
    seen: Tensor,
    labels: Tensor,
    *,
    side: int,
    on_objects: Callable[[int], None] = lambda _: None,
) -> Scenes:
    """Scenes of views (N, K, 2, H, H) as bytes, averaged down to `side`, of which H is a multiple."""
    small, maps, batch = [], [], _BATCH.get(seen.device.type, 1)
    for some, found in zip(seen.split(batch), features.spatial(trunk, seen, batch=batch), strict=True):
        small.append(shrunk(some.float() / 255, side).mul(255).round().byte())
        maps.append(found.half())
        on_objects(len(some))
    return Scenes(torch.cat(maps), torch.cat(small), labels)


def shrunk(pictures: Tensor, side: int) -> Tensor:
    """Pictures (..., C, H, H) averaged down to (..., C, side, side)."""
    small = F.avg_pool2d(pictures.flatten(0, -3), pictures.shape[-1] // side)
    return small.reshape(*pictures.shape[:-2], side, side)


def mean_pictures(training: Scenes, num_classes: int) -> tuple[Tensor, Tensor]:
    """Pictures painted without a signal: the mean of each camera (K, 2, H, H), and of each class (C, K, 2, H, H)."""
    mean = torch.stack([each.float().mean(0) for each in training.pictures.unbind(1)]) / 255
    of_class = torch.stack([mean] * num_classes)
    for label in training.labels.unique().tolist():
        of_class[label] = training.pictures[training.labels == label].float().mean(0) / 255
    return mean, of_class


def alone(source: Source) -> NDArray[np.intp]:
    """Rows of the test objects that have the mesh of no training object, and of no test object before them."""
    twins = set(source.duplicates.tolist())
    rows = [int(row) for i, row in enumerate(source.rows["test"]) if i not in twins]
    first = {source.meshes.digests[row]: row for row in reversed(rows)}
    return np.array([row for row in rows if first[source.meshes.digests[row]] == row], dtype=np.intp)


def from_meshes(
    path: Path, trunk: nn.Module, *, side: int, objects: int, torch_device: str, progress: Progress
) -> tuple[Scenes, Scenes]:
    """Training and test scenes of a packed file; at most `objects` of each, or all of them for 0."""
    source, found = runs.source(path, limit=objects or None), []
    for name, rows in (("training", source.rows["train"]), ("test", alone(source))):
        labels = torch.from_numpy(source.meshes.label[rows].astype(np.int64)).to(torch_device)
        with progress(f"{name} views", 2 * len(rows)) as advance:
            seen = renders(source.meshes, rows, Cameras(), torch_device=torch_device, on_objects=advance)
            found.append(scenes(trunk, seen, labels, side=side, on_objects=advance))
    return found[0], found[1]


def from_shapes(
    classes: tuple[str, ...], trunk: nn.Module, *, side: int, objects: int, torch_device: str, progress: Progress
) -> tuple[Scenes, Scenes]:
    """Training and held-out scenes of our own shapes; of `objects` shapes, or all of them for 0."""
    every = [each for each in shapes.all() if each.label in classes][: objects or None]
    labels = torch.tensor([classes.index(each.label) for each in every], device=torch_device)
    with progress("views of our shapes", 2 * len(every)) as advance:
        seen = []
        for each in every:
            seen.append(views([(each.vertices, each.faces)], device=torch_device, dtype=torch.uint8))
            advance(1)
        whole = scenes(trunk, torch.cat(seen), labels, side=side, on_objects=advance)
    aside = torch.tensor([each.variant % _HELD_OUT_EVERY == 0 for each in every], device=torch_device)
    return _of(whole, ~aside), _of(whole, aside)


def _of(whole: Scenes, mask: Tensor) -> Scenes:
    return Scenes(whole.maps[mask], whole.pictures[mask], whole.labels[mask])
