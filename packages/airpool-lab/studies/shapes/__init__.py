"""Builds our own sample objects, shapes.safetensors of airpool-models: `python -m studies.shapes`, in a second.

The shapes were fixed before any network was trained. Change none without training and measuring everything again.
"""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from airpool.models.vision import shapes
from airpool.models.vision.meshes import Mesh

from .furniture import FURNITURE
from .household import THINGS
from .vehicles import VEHICLES

ASSET: Path = shapes.file()


def built() -> dict[str, Mesh]:
    """Every shape by name, LABEL_VARIANT, in the order of labels and variants."""
    kinds = sorted((FURNITURE | THINGS | VEHICLES).items())
    return {
        f"{label}_{variant}": build(**parameters)
        for label, (build, variants) in kinds
        for variant, parameters in enumerate(variants)
    }


def asset(meshes: dict[str, Mesh]) -> bytes:
    """The file that airpool.models.vision.shapes reads. Faces count the vertices of their own shape."""
    each = list(meshes.values())
    if max(len(mesh.vertices) for mesh in each) > 2**16:
        raise ValueError("a shape has more than 65,536 vertices: faces are stored as uint16")
    tensors = {
        "vertices": np.concatenate([mesh.vertices for mesh in each]),
        "faces": np.concatenate([mesh.faces for mesh in each]).astype(np.uint16),
        "num_vertices": np.array([len(mesh.vertices) for mesh in each], dtype=np.int32),
        "num_faces": np.array([len(mesh.faces) for mesh in each], dtype=np.int32),
    }
    # One key: safetensors keeps no order among several.
    return save(tensors, metadata={"names": json.dumps(list(meshes))})
