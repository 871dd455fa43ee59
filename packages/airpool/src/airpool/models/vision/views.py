"""Views of a triangle mesh from each camera: two-channel images (shading and depth), straight from the triangles.

Coordinates: x, y, z of a right-handed frame, z up. The cameras are orthographic, raised by the elevation, and look at
the centre. Camera 0 stands on the side of negative y; azimuths grow counterclockwise from above.

Channels, both in [0, 1] and 0 where there is no object:
    0  shading: ambient light plus Lambert's law, the same on both sides of a face, under one light fixed to the camera
    1  depth: nearer is larger; 1 on the near plane, 0 on the far plane, linear in the distance between
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from airpool.models.vision import raster

MARGIN = 0.96  # the part of the window's side that an object may take up

_STRAY = 5e-4  # part of the surface that may be cut off on each side of the box...
_STRETCH = 1.5  # ...where the box with it would be longer by this factor


@dataclass(frozen=True)
class Cameras:
    """Positions and resolution of the cameras. oversample: samples per pixel and axis, averaged."""

    num_views: int = 12
    elevation_deg: float = 30.0
    first_azimuth_deg: float = 0.0
    resolution: int = 224
    oversample: int = 2

    def __post_init__(self) -> None:
        if min(self.num_views, self.resolution, self.oversample) < 1:
            raise ValueError(f"num_views, resolution and oversample must be ≥ 1, not {self}")
        if not abs(self.elevation_deg) <= 90:
            raise ValueError(f"elevation_deg={self.elevation_deg} must be within ±90")

    def azimuth_deg(self, k: int) -> float:
        """Azimuth of camera k; all are evenly spaced."""
        return self.first_azimuth_deg + 360 * k / self.num_views

    def alone(self, k: int) -> "Cameras":
        """Camera k by itself."""
        return replace(self, num_views=1, first_azimuth_deg=self.azimuth_deg(k))

    def axes(self) -> list[tuple[tuple[float, ...], ...]]:
        """Directions of each view: right, down and away from the camera, as (x, y, z)."""
        e = math.radians(self.elevation_deg)
        turns = [math.radians(self.azimuth_deg(k)) for k in range(self.num_views)]
        return [
            (
                (math.cos(a), math.sin(a), 0.0),
                (math.sin(e) * math.sin(a), -math.sin(e) * math.cos(a), -math.cos(e)),
                (-math.cos(e) * math.sin(a), math.cos(e) * math.cos(a), -math.sin(e)),
            )
            for a in turns
        ]


class Triangles(NamedTuple):
    """Meshes one after another, each centred and scaled to the cameras' window, [-1, 1] along each camera axis."""

    corners: Tensor  # (F, 3, 3) float32: face, corner, coordinate
    mesh: Tensor  # (F,) int64: which mesh a face belongs to
    num_meshes: int


Mesh = tuple[np.ndarray | Tensor, np.ndarray | Tensor]  # vertices (V, 3), faces (F, 3)


@torch.no_grad()
def views(
    meshes: Sequence[Mesh],
    cameras: Cameras | None = None,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    samples: int | None = None,
) -> Tensor:
    """Views (B, K, 2, H, H) of each mesh: float in [0, 1], or uint8 where dtype says so (255 for 1).

    samples: bounds the memory: about 100 bytes each. By default 2²² on a CPU, 2²⁶ on a GPU.
    Edge cases: a mesh of no area gives images of zeros.

    >>> square = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]), np.array([[0, 1, 2], [0, 2, 3]])
    >>> views([square], Cameras(resolution=16))[0, :, 1].amax((1, 2)).gt(0).all().item()
    True
    """
    cameras = cameras or Cameras()
    return render(placed(meshes, cameras.elevation_deg, device=device), cameras, dtype=dtype, samples=samples)


@torch.no_grad()
def placed(meshes: Sequence[Mesh], elevation_deg: float, *, device: torch.device | str = "cpu") -> Triangles:
    """The faces of all meshes, each mesh centred and scaled so that it fits the window at every azimuth.

    The largest cylinder around the vertical axis fills MARGIN of the window, one scale for all views. Stray points
    do not count: see `_box`. What lies outside the window is cut off.
    """
    corners = [_corners(vertices, faces, device) for vertices, faces in meshes]
    counts = torch.tensor([len(each) for each in corners], dtype=torch.long, device=device)
    fitted = [_fitted(each, elevation_deg) for each in corners]
    mesh = torch.repeat_interleave(torch.arange(len(meshes), device=device), counts)
    return Triangles(torch.cat([torch.zeros(0, 3, 3, device=device), *fitted]), mesh, len(meshes))


@torch.no_grad()
def render(
    triangles: Triangles, cameras: Cameras, *, dtype: torch.dtype = torch.float32, samples: int | None = None
) -> Tensor:
    """Images (B, K, 2, H, H) of placed meshes; `views` without the placing."""
    device = triangles.corners.device
    samples = samples or (2**26 if device.type == "cuda" else 2**22)
    size = cameras.resolution * cameras.oversample
    at_once = max(1, 4 * samples // size**2)  # images in flight
    shape = (triangles.num_meshes, cameras.num_views, 2, cameras.resolution, cameras.resolution)
    out = torch.empty(shape, dtype=dtype, device=device)
    ends = torch.searchsorted(triangles.mesh, torch.arange(triangles.num_meshes + 1, device=device)).tolist()
    for k, axes in enumerate(cameras.axes()):
        for first in range(0, triangles.num_meshes, at_once):
            last = min(first + at_once, triangles.num_meshes)
            part = slice(ends[first], ends[last])
            keys = raster.nearest(
                triangles.corners[part], triangles.mesh[part] - first, axes, (last - first, size), samples
            )
            out[first:last, k] = raster.pixels(keys, cameras.oversample, dtype)
    return out


def _corners(vertices: np.ndarray | Tensor, faces: np.ndarray | Tensor, device: torch.device | str) -> Tensor:
    """Corners (F, 3, 3) float64 of the faces that have an area."""
    # A copy where NumPy reads backwards, as of faces[:, ::-1], which torch does not.
    vertices, faces = (np.ascontiguousarray(x) if isinstance(x, np.ndarray) else x for x in (vertices, faces))
    points = torch.as_tensor(vertices, device=device).double()
    index = torch.as_tensor(faces, device=device).long()
    if not len(index):
        return torch.zeros(0, 3, 3, device=device)
    if points.ndim != 2 or points.shape[1] != 3 or index.ndim != 2 or index.shape[1] != 3:
        raise ValueError(f"vertices {tuple(points.shape)} and faces {tuple(index.shape)} must be (V, 3) and (F, 3)")
    if not 0 <= int(index.min()) <= int(index.max()) < len(points):
        raise ValueError(f"faces must be indices of vertices, from 0 to {len(points) - 1}")
    corners = points[index]
    return corners[_areas(corners) > 0]


def _areas(corners: Tensor) -> Tensor:
    """Twice the area (F,) of each face."""
    return torch.linalg.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]).norm(dim=1)


def _fitted(corners: Tensor, elevation_deg: float) -> Tensor:
    """The corners (F, 3, 3) moved and scaled into the window, now float32."""
    if not len(corners):
        return corners.float()
    low, high = _box(corners)
    centre = (low + high) / 2
    inside = corners.clamp(low, high) - centre
    e = math.radians(abs(elevation_deg))
    radius = inside[..., :2].square().sum(-1).sqrt()
    upright = radius * math.sin(e) + inside[..., 2].abs() * math.cos(e)
    away = radius * math.cos(e) + inside[..., 2].abs() * math.sin(e)
    reach = torch.stack((radius.amax(), upright.amax(), away.amax())).amax()
    return ((corners - centre) * (MARGIN / reach)).float()


def _box(corners: Tensor) -> tuple[Tensor, Tensor]:
    """The lowest and highest coordinates (3,) of a mesh without its stray points.

    Along an axis where the outermost _STRAY of the surface, on both sides, stretches the box by more than _STRETCH, it
    is left out. Surface: each corner stands for a third of its face.
    """
    flat, area = corners.flatten(0, 1), _areas(corners).repeat_interleave(3)
    low, high = flat.amin(0), flat.amax(0)
    ordered, order = flat.sort(0)
    share = (surface := area[order].cumsum(0)) / surface[-1]
    last = len(flat) - 1
    tight_low = ordered.gather(0, (share < _STRAY).sum(0, keepdim=True).clamp(max=last))[0]
    tight_high = ordered.gather(0, (share < 1 - _STRAY).sum(0, keepdim=True).clamp(max=last))[0]
    stray = (high - low) > _STRETCH * (tight_high - tight_low).clamp(min=0.05 * (tight_high - tight_low).amax())
    return tight_low.where(stray, low), tight_high.where(stray, high)
