"""Our own sample objects: what the demo looks at, free of anybody's models. Fixed before any network was trained.

Each has the name of a ModelNet40 class as its label, at least four variants, and that class's usual proportions.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import meshes
from .furniture import FURNITURE
from .household import THINGS
from .vehicles import VEHICLES


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
    kinds = sorted((FURNITURE | THINGS | VEHICLES).items())
    return [
        Shape(f"{label}_{variant}", label, variant, *_arrays(build(**parameters)))
        for label, (build, variants) in kinds
        for variant, parameters in enumerate(variants)
    ]


def _arrays(mesh: meshes.Mesh) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    return mesh.vertices, mesh.faces
