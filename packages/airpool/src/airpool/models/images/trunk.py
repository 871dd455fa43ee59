"""The trunk of ordinary cameras: EfficientNet-Lite2 with ImageNet weights, which ships, or a model's own weights.

trunk = shipped()
trunk.features(views)                                    # (N, K, 3, 224, 224) → (N, K, 1280)
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from airpool._support.brief import Brief
from airpool.models import assets, stored, weights
from airpool.models.layers import in_numpy
from airpool.models.vision import features, lite

NAME: lite.Variant = "lite2"
SIDE = 224  # pixels along a view
WIDTH = lite.CHANNELS  # numbers in a feature


@dataclass(frozen=True, eq=False, repr=False)
class ImageTrunk(Brief):
    """A trunk by name and SHA-256. own: its tensors in half precision; None: it is the one that ships."""

    name: str
    sha256: str
    own: Mapping[str, Tensor] | None = None

    @property
    def view_shape(self) -> tuple[int, int, int]:
        return 3, SIDE, SIDE

    @cached_property
    def module(self) -> nn.Sequential:
        """Pictures (B, 3, 224, 224) in [0, 1] to maps (B, 1280, 7, 7), in eval mode, without batch norms."""
        return lite.folded(self.layers())

    def layers(self) -> nn.Sequential:
        """A fresh copy of the trunk with its batch norms, to train on."""
        if self.own is None:
            tensors = weights.read(stored.verified(_folder() / f"{self.name}.safetensors", self.sha256))[0]
        else:
            tensors = {k: v.float() for k, v in self.own.items()}
        return weights.fill(lite.rgb(NAME), tensors, Path(f"{self.name}.safetensors"))

    def features(self, views: Any, *, batch: int = 16) -> Tensor:
        """Averages (N, K, 1280) of the maps of views (N, K, 3, 224, 224), bytes or floats in [0, 1]."""
        views = torch.as_tensor(views)
        features.check_views(views, self.view_shape)
        objects = max(1, batch // views.shape[1])
        return features.pooled(self.module, views, batch=objects).cpu()

    def described(self) -> dict[str, Any]:
        """Plain data, as a model's file holds it."""
        return {"name": self.name, "sha256": self.sha256, "side": SIDE, "own": self.own is not None}


@cache
def shipped() -> ImageTrunk:
    """The ImageNet trunk that ships."""
    return ImageTrunk(NAME, json.loads((_folder() / "trunks.json").read_text("utf-8"))[NAME]["sha256"])


def own(layers: nn.Sequential) -> ImageTrunk:
    """A trunk that was trained further, rounded as a model's file keeps it."""
    state = {name: each.detach().cpu() for name, each in layers.state_dict().items() if each.is_floating_point()}
    kept = {name: each.half() if each.ndim > 1 else each.float() for name, each in state.items()}
    return ImageTrunk(NAME, _digest(kept), kept)


def _digest(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode() + np.ascontiguousarray(in_numpy(tensors[name])).tobytes())
    return digest.hexdigest()


def restored(described: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> ImageTrunk:
    """The trunk that a model's file describes. tensors: those of its own, where it has any."""
    if described["side"] != SIDE or described["name"] != NAME:
        raise ValueError(f"its trunk is {described['name']} at {described['side']} pixels, must be {NAME} at {SIDE}")
    if described["own"]:
        if described["sha256"] != _digest(tensors):
            raise ValueError("its trunk is damaged: copy it again or fit anew")
        return ImageTrunk(NAME, described["sha256"], tensors)
    if described["sha256"] != shipped().sha256:
        raise ValueError("it was fitted to another trunk than the one that ships with this version: fit it anew")
    return shipped()


def _folder() -> Path:
    return assets.folder("the ImageNet trunk") / "trunks"
