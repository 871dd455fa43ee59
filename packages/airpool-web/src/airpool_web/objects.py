"""The objects to look at: our own shapes, meshes that were given, and where a model takes no such views, its held-out
samples. Each as its sensors encode it, which is computed once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airpool.models.cameras import camera_note, cameras
from airpool.models.model import Model, Objects
from airpool.models.stored import HeldOut
from airpool.models.vision import shapes
from airpool.models.vision.shapes import Shape
from airpool.models.vision.views import Cameras, views
from airpool_web.asked import AskedError
from airpool_web.jobs import Jobs
from airpool_web.meshes import LastUsed, OwnMesh
from airpool_web.settings import AskedNetwork

OWN, SAMPLE = "own-", "sample_"
_PER_CLASS = 5  # held-out samples that are listed


@dataclass(frozen=True, eq=False)
class Looked:
    """One object before K devices. truth: its class, where it is known. views: (1, K, 2, H, H), where there are any.

    note: on sensors left out or repeated. encoded: gives latents (1, K, r) and posteriors (1, K, C) of the devices.
    """

    truth: str | None
    views: Tensor | None
    note: str | None
    encoded: Callable[[], tuple[Tensor, Tensor]]


class Scenery:
    """The objects that the page keeps: meshes that were given, views and encodings that were computed.

    jobs: the process that reads meshes.
    """

    def __init__(self) -> None:
        self.jobs = Jobs()
        self.meshes = LastUsed[OwnMesh](16, 256 * 2**20)
        self._views = LastUsed[Tensor](12, 128 * 2**20)
        self._encoded = LastUsed[tuple[Tensor, Tensor]](64, 32 * 2**20)

    def views(self, name: str, devices: int) -> Tensor:
        """The views (1, K, 2, H, H) of a shape or a mesh, one of each device."""
        found = self._views.get(name)
        if found is None:
            if name.startswith(OWN):
                found = torch.from_numpy(self.mesh(name).views)
            else:
                found = views([(shape(name).vertices, shape(name).faces)], Cameras())
            self._views.put(name, found, found.nbytes)
        return found[:, cameras(devices, found.shape[1])]

    def mesh(self, name: str) -> OwnMesh:
        if (found := self.meshes.get(name.removeprefix(OWN))) is None:
            raise AskedError("this mesh is not kept any more: choose its file again", field="object", status=404)
        return found

    def look(self, name: str, asked: AskedNetwork) -> Looked:
        """An object as the devices of a network see it."""
        model, codec, devices = asked.model, asked.codec, asked.network.devices.count
        if not takes_views(model, codec):
            return _sampled(name, model, codec, devices)
        seen = self.views(name, devices)

        def encoded() -> tuple[Tensor, Tensor]:
            key = f"{model.name} {codec} {devices} {name}"
            if (found := self._encoded.get(key)) is None:
                found = model.seen(seen, codec=codec)
                self._encoded.put(key, found, found[0].nbytes + found[1].nbytes)
            return found

        truth = None if name.startswith(OWN) else shape(name).label
        return Looked(truth, seen, camera_note(devices, Cameras().num_views), encoded)


def takes_views(model: Model, codec: str) -> bool:
    """Whether the devices of this model can be shown an object: its trunk ships, and reads shading and depth."""
    return codec in model.deployable and model.view_shape == (2, Cameras().resolution, Cameras().resolution)


@cache
def known() -> Mapping[str, Shape]:
    """Our own shapes, by name."""
    return {each.name: each for each in shapes.all()}


def shape(name: str) -> Shape:
    if name not in known():
        raise AskedError(f"there is no shape {name[:40]!r}", field="object", status=404)
    return known()[name]


def geometry(vertices: NDArray[Any], faces: NDArray[Any]) -> dict[str, list[Any]]:
    """A mesh for the scene: centred, within a sphere of radius 1, z up; vertices and faces as flat lists."""
    used = vertices[np.unique(faces)]
    centre = (used.min(0) + used.max(0)) / 2
    reach = float(np.linalg.norm(used - centre, axis=1).max())
    placed = np.nan_to_num((vertices - centre) / reach, nan=0.0, posinf=0.0, neginf=0.0).clip(-1e3, 1e3)
    return {"vertices": placed.round(4).ravel().tolist(), "faces": faces.ravel().tolist()}


def listed(model: Model, codec: str) -> dict[str, Any]:
    """The objects to choose from: names and classes, of shapes or of held-out samples."""
    if takes_views(model, codec):
        return {
            "kind": "shapes",
            "note": None,
            "shapes": [{"name": s.name, "label": s.label} for s in known().values()],
        }
    held, split = _held_out(model, codec)
    labels, chosen, count = held.labels.tolist(), list[dict[str, str]](), dict[int, int]()
    for index, label in enumerate(labels):
        count[label] = count.get(label, 0) + 1
        if count[label] <= _PER_CLASS:
            chosen.append({"name": f"{SAMPLE}{index}", "label": model.classes[label]})
    why = f"the sensors of {model.name} measure no views"
    if model.view_shape:
        why = f"of the trunk {model.trunk_of(codec)}, which codec {codec} reads, only features of held-out objects ship"
    note = f"{why[0].upper()}{why[1:]}: choose one of the {split} samples instead of a shape."
    return {"kind": "samples", "note": note, "shapes": sorted(chosen, key=lambda each: each["label"])}


@cache
def _held_out(model: Model, codec: str) -> tuple[Objects, HeldOut]:
    try:
        return model.held_out("test", codec=codec), "test"
    except ValueError:
        return model.held_out("validation", codec=codec), "validation"


def _sampled(name: str, model: Model, codec: str, devices: int) -> Looked:
    held = _held_out(model, codec)[0].fitted(devices)
    number = name.removeprefix(SAMPLE)
    if not (name.startswith(SAMPLE) and number.isdecimal() and len(number) < 8 and int(number) < len(held)):
        raise AskedError(f"{model.name} with the codec {codec} has no object {name[:40]!r}", field="object", status=404)
    one = slice(int(number), int(number) + 1)
    truth = model.classes[int(held.labels[one][0])]
    return Looked(truth, None, held.note, lambda: (held.latents[one], held.posteriors[one]))
