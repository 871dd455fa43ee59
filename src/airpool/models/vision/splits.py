"""The splits of a packed file as a trunk sees them: views and features, each made once, when it is first asked for."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from airpool._support.progress import Progress, silent
from airpool.models.vision import features
from airpool.models.vision.cad import Split
from airpool.models.vision.features import Images
from airpool.models.vision.mvcnn import MVCNN
from airpool.models.vision.runs import Source

_CAMERAS = 12
_BATCH = 16  # objects at a time


@dataclass(frozen=True, eq=False)
class Splits:
    """Views of a packed file's objects, and what trunks make of them. extra_views: of training objects."""

    source: Source
    resolution: int
    extra_views: int = 0
    torch_device: torch.device | str = "cpu"
    progress: Progress = silent
    _images: dict[Split, Images | None] = field(default_factory=dict)
    _features: dict[tuple[MVCNN, Split, bool], Tensor] = field(default_factory=dict)

    def require(self, which: Split, what: str) -> None:
        """Raises an error if a split that `what` needs has no objects."""
        if not len(self.source.rows[which]):
            raise ValueError(f"{self.source.path} has no {which} objects, on which a {what} depends")

    def images(self, which: Split) -> Images | None:
        """Views of a split: of the cameras, then the extra ones. None for a split without objects."""
        if which not in self._images:
            total, extra = len(self.source.rows[which]), self.extra_views if which == "train" else 0
            options = {"resolution": self.resolution, "extra_views": extra}
            with self.progress(f"rendering {which}", total) as advance:
                draw = self.source.images
                self._images[which] = (
                    draw(which, torch_device=self.torch_device, on_objects=advance, **options) if total else None
                )
        return self._images[which]

    def features(self, model: MVCNN, which: Split, what: str, *, whole: bool = False) -> tuple[Tensor, Tensor]:
        """Features of the cameras' views, on which `what` depends, and labels (N,): averages (N, 12, F) of the maps.

        whole: the maps (N, 12, F·49) in half precision, 0.6 MB an object for VGG11, 5.3 GB for ModelNet40's training.
        """
        self.require(which, what)
        shown = self.images(which)
        assert shown is not None
        if (key := (model, which, whole)) not in self._features:
            views = shown.views[:, :_CAMERAS]
            with self.progress(f"features of {which}", len(views)) as advance:
                if not whole:
                    self._features[key] = features.pooled(model.features, views, on_objects=advance)
                    return self._features[key], shown.labels
                size = (*views.shape[:2], math.prod(model.architecture.map_shape))
                self._features[key] = torch.empty(size, dtype=torch.float16, device=views.device)
                found = features.maps(model.features, views, batch=_BATCH)
                for rows, some in zip(self._features[key].split(_BATCH), found, strict=True):
                    rows.copy_(some)
                    advance(len(some))
        return self._features[key], shown.labels
