"""Our own sample objects: what the demo looks at, free of anybody's models. Fixed before any network was trained.

Each has the name of a ModelNet40 class as its label, at least four variants, and that class's usual proportions. They
are read from assets/shapes.safetensors, which studies/shapes in the repository builds.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from airpool.data import meshes

ASSET = Path(__file__).parent.parent / "assets" / "shapes.safetensors"


@dataclass(frozen=True, eq=False)
class Shape:
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


def all() -> list[Shape]:
    """Every shape, by label and variant, always in the same order.

    >>> shapes = all()
    >>> len({shape.label for shape in shapes}), len(shapes)
    (26, 112)
    """
    from safetensors import safe_open

    with safe_open(ASSET, "numpy") as file:
        names = json.loads(file.metadata()["names"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    ends = {name: np.cumsum(tensors[f"num_{name}"])[:-1] for name in ("vertices", "faces")}
    vertices = np.split(tensors["vertices"], ends["vertices"])
    faces = np.split(tensors["faces"].astype(np.int64), ends["faces"])
    return [_shape(*each) for each in zip(names, vertices, faces, strict=True)]


def _shape(name: str, vertices: NDArray[np.float64], faces: NDArray[np.int64]) -> Shape:
    label, _, variant = name.rpartition("_")
    return Shape(name, label, int(variant), vertices, faces)
