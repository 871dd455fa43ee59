"""Our own 112 sample objects, for the demo. They were fixed before any network was trained.

The label is the name of a ModelNet40 class, with that class's usual proportions; each has at least four variants. They
are read from shapes.safetensors of the package airpool-models, which studies/shapes in the repository builds.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from airpool._support.brief import Brief
from airpool.models import assets
from airpool.models.vision import meshes


@dataclass(frozen=True, eq=False, repr=False)
class Shape(Brief):
    """One object: `name` is its label and variant, such as 'chair_2'."""

    name: str
    label: str
    variant: int
    vertices: NDArray[np.float64]  # (V, 3) metres, z up
    faces: NDArray[np.int64]  # (F, 3)

    @property
    def off(self) -> str:
        """The text of an OFF file."""
        return meshes.off(meshes.Mesh(self.vertices, self.faces))


def file() -> Path:
    """The file of all shapes."""
    return assets.folder("a sample object") / "shapes.safetensors"


def all() -> list[Shape]:
    """Every shape, by label and variant, always in the same order.

    >>> shapes = all()
    >>> len({shape.label for shape in shapes}), len(shapes)
    (26, 112)
    """
    from airpool._support import files

    found, header = files.read_tensors(file())
    arrays = {name: tensor.numpy() for name, tensor in found.items()}
    vertices, faces = (
        np.split(arrays[each], np.cumsum(arrays[f"num_{each}"])[:-1].astype(np.int64)) for each in ("vertices", "faces")
    )
    return [
        Shape(name, name.rpartition("_")[0], int(name.rpartition("_")[2]), points, corners.astype(np.int64))
        for name, points, corners in zip(header["names"], vertices, faces, strict=True)
    ]
