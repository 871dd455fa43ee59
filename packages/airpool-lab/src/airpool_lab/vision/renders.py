"""Views of packed objects: what the cameras see, and extra views of training objects from random directions."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airpool.models.vision.views import Cameras, Triangles, placed, render
from airpool_lab.vision.cad import Meshes

_ELEVATION_DEG = 10.0  # how far above or below the cameras an extra view may be taken
_SHRUNK = 0.12  # how much shorter each side of the object may be in it


@torch.no_grad()
def renders(
    meshes: Meshes,
    rows: NDArray[np.integer],
    cameras: Cameras,
    *,
    extra_views: int = 0,
    seed: int = 0,
    torch_device: torch.device | str = "cpu",
    on_objects: Callable[[int], None] = lambda _: None,
) -> Tensor:
    """Views (N, K + extra_views, 2, H, H) uint8 of the objects at `rows`: those of the K cameras, then the extra ones.

    Extra view j is taken from within half a step of camera j mod K, up to 10° higher or lower, of an object whose sides
    are shortened by up to 12 %, differently in each. They stay on `torch_device`: 0.1 MB a view at 224 px. `on_objects`
    receives how many more are done.
    """
    rng = np.random.default_rng(seed)
    side, at_once = cameras.resolution, 512 if torch.device(torch_device).type == "cuda" else 8
    shape = (len(rows), cameras.num_views + extra_views, 2, side, side)
    out = torch.empty(shape, dtype=torch.uint8, device=torch_device)
    for first in range(0, len(rows), at_once):
        some = rows[first : first + at_once]
        triangles = placed([meshes.mesh(int(i)) for i in some], cameras.elevation_deg, device=torch_device)
        part = out[first : first + at_once]
        part[:, : cameras.num_views] = render(triangles, cameras, dtype=torch.uint8)
        for j in range(extra_views):
            part[:, cameras.num_views + j] = _varied(triangles, cameras, j, rng)
        on_objects(len(some))
    return out


def _varied(triangles: Triangles, cameras: Cameras, number: int, rng: np.random.Generator) -> Tensor:
    """One extra view (N, 2, H, H) of each object."""
    device, step = triangles.corners.device, 360 / cameras.num_views
    shorter = torch.as_tensor(rng.uniform(1 - _SHRUNK, 1.0, (triangles.num_meshes, 1, 3)), device=device).float()
    azimuth = cameras.first_azimuth_deg + step * (number + rng.uniform(-0.5, 0.5))
    elevation = cameras.elevation_deg + rng.uniform(-_ELEVATION_DEG, _ELEVATION_DEG)
    camera = Cameras(1, elevation, azimuth, cameras.resolution, cameras.oversample)
    changed = triangles._replace(corners=triangles.corners * shorter[triangles.mesh])
    return render(changed, camera, dtype=torch.uint8)[:, 0]
