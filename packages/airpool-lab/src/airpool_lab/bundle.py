"""Bundles for devices: trunk in int8, local head and encoder in one file (airpool_runtime.bundle reads it).

bundle.write(Path("cameras.zip"), made("modelnet40"))
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from airpool.models.codecs import codec as codecs
from airpool.models.images import features, folder
from airpool.models.layers import Layers, in_numpy
from airpool.models.pretrained import Pretrained, load
from airpool.models.sensors.fitted import Fitted
from airpool.models.vision import shapes
from airpool.models.vision.views import Cameras
from airpool.models.vision.views import views as render
from airpool_lab.vision.quantisation import quantise
from airpool_runtime.bundle import Bundle

_LEAST = 1.0  # of 255, by which pictures differ on average


def made(model_name: str = "modelnet40", *, codec: str | None = None, views: Tensor | None = None) -> Bundle:
    """The bundle of a shipped model, or of your own cameras, in int8. Needs the extra `bundle`; takes minutes.

    views: (N, C, H, H) to fit int8 to, not those it is tested on (`folder_views`); of the shipped model by
    default of our own shapes, but the first variant of each class.
    """
    model = load(model_name)
    if isinstance(model, Fitted):
        return _of_cameras(model, codec, views)
    if not isinstance(model, Pretrained):
        raise ValueError(f"{model_name} takes no images, so it has no trunk to bundle: use a source MODULE:FUNCTION")
    if model.trunk_of(codec) != model.trunk_of():
        raise ValueError(
            f"codec {codec!r} must be one of {', '.join(model.deployable)}: its trunk is the one that ships"
        )
    trunk = quantise(model.trunk.features, calibration_views(model) if views is None else views)
    about = {"model": model_name, "codec": model.checked(codec), "classes": list(model.classes)}
    own = codecs.moved(model.codec(codec), in_numpy)
    return Bundle(trunk, (_layers(model.head.classifier),), in_numpy(model.head.temperatures), own, about)


def _of_cameras(model: Fitted, codec: str | None, views: Tensor | None) -> Bundle:
    """The bundle of a model that `airpool.fit` made of pictures, with all that is each camera's own."""
    if model.trunk is None:
        raise ValueError(f"{model.name} takes no images, so it has no trunk to bundle: use a source MODULE:FUNCTION")
    if views is None:
        raise ValueError(
            f"{model.name} holds no pictures, and int8 is fitted to some: name a folder, --images FOLDER, as it "
            "was given to `airpool fit`"
        )
    heads = tuple(_layers(each) for each in model.heads.classifiers)
    scaling = np.stack([in_numpy(model.sensors.centre), in_numpy(model.sensors.scale)])
    about = {"model": model.name, "codec": model.checked(codec), "classes": list(model.classes)}
    about["cameras"] = model.about.get("pictures", {}).get("cameras")
    own = codecs.moved(model.codec(codec), in_numpy)
    trunk = quantise(model.trunk.module, views)
    return Bundle(trunk, heads, in_numpy(model.heads.temperatures), own, about, scaling)


def _layers(classifier: Any) -> Layers:
    parameters = [in_numpy(each) for each in classifier.parameters()]
    return tuple(zip(parameters[::2], parameters[1::2], strict=True))


def calibration_views(model: Pretrained, count: int = 120) -> Tensor:
    """Views (count, C, H, H) of our own shapes, but the first variant of each class, evenly over the cameras."""
    ring, first = Cameras(resolution=model.trunk.architecture.resolution), set[str]()
    some = [shape for shape in shapes.all() if shape.label in first or first.add(shape.label)]
    seen = []
    for k in range(count):
        shape, camera = some[k % len(some)], ring.alone(5 * k % ring.num_views)
        seen.append(render([(shape.vertices, shape.faces)], camera)[0, 0])
    return torch.stack(seen)


def folder_views(path: Path | str, *, count: int = 120) -> Tensor:
    """(count, 3, 224, 224), bytes, at most: of pictures of a folder or a CSV file, spread over objects and cameras.

    A model holds no picture: int8 is fitted to those of the folder that it was fitted to, or of one like it. Where the
    list says so, they are of objects to train on alone.
    """
    pictures = folder.found(path)
    split = pictures.split
    some = [shot for shot in pictures.shots if split is None or split[shot.object] == "train"] or list(pictures.shots)
    # A step that shares no factor with the number of cameras would be ideal; the golden section comes close for all.
    chosen = sorted(range(len(some)), key=lambda k: k * 0.6180339887498949 % 1)[:count]
    found = [torch.from_numpy(view) for view in features.views([some[k] for k in sorted(chosen)]) if view is not None]
    if not found:
        raise ValueError(f"{path}: no picture that can be read, to fit int8 to")
    seen = torch.stack(found)
    if seen[..., ::8, ::8].float().std(0, correction=0).mean() < _LEAST:
        raise ValueError(f"{path}: {len(seen)} pictures that are all alike: int8 fitted to them would read no others")
    return seen
