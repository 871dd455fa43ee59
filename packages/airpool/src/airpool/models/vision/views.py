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
from torch.nn import functional

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
            keys = nearest(triangles.corners[part], triangles.mesh[part] - first, axes, (last - first, size), samples)
            out[first:last, k] = pixels(keys, cameras.oversample, dtype)
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


AMBIENT = 0.25
LIGHT = (-0.45, 0.55, 0.70)  # towards the light: right, up, towards the camera

_SHADES = 2**11 - 1
_DEPTHS = 2**20 - 1
_EMPTY = 2**31 - 1
_SLACK = 1 / 32  # samples by which a row of a face is widened: closes the cracks that rounded vertices leave
_SLIVER = 1e-6  # faces seen under a smaller area, in samples, are left out


def nearest(
    corners: Tensor, image: Tensor, axes: tuple[tuple[float, ...], ...], shape: tuple[int, int], samples: int
) -> Tensor:
    """Keys (N, S, S) int32: depth and darkness of the nearest face at each sample, _EMPTY where there is none.

    image (F,): which of the N images a face belongs to. shape: (N, S).
    """
    count, size = shape
    keys = torch.full((count * size * size,), _EMPTY, dtype=torch.int32, device=corners.device)
    faces, base = _faces(corners, axes, size), image * (size * size)
    for part in _pieces(faces.rows, samples // 4):
        face, within = _expanded(part, faces.rows)
        row = within + faces.top[face]
        first, last = _span(faces, face, row, size)
        wide = (last - first + 1).clamp(min=0).long()
        start, stop = _depths(faces, face, row, first), _depths(faces, face, row, last)
        slope = (stop - start) / (last - first).clamp(min=1)
        place = base[face] + row.long() * size + first.long()
        dark = faces.dark[face]
        for piece in _pieces(wide, samples):
            span, column = _expanded(piece, wide)
            depth = torch.addcmul(start[span], slope[span], column.float())
            key = depth.int().mul_(_SHADES + 1).add_(dark[span])
            keys.scatter_reduce_(0, place[span].add_(column), key, "amin")
    return keys.view(count, size, size)


class _Faces(NamedTuple):
    """Faces in one view, in samples: corner 0 is the uppermost, 2 the lowest. All (F,) but the edges."""

    rows: Tensor  # number of rows crossed
    top: Tensor  # the first of them
    long: Tensor  # (F, 4): v and u of corner 0, slope of the edge to corner 2, v of corner 1
    short: Tensor  # (2F, 3): v, u and slope of the edges from corner 0 to 1 and from 1 to 2
    plane: Tensor  # (F, 7): u, v and depth of corner 0, slopes of depth along u and v, least and largest depth
    dark: Tensor  # 1 − shading, in steps


def _faces(corners: Tensor, axes: tuple[tuple[float, ...], ...], size: int) -> _Faces:
    # Sums of products rather than a matrix product, which may be rounded to fewer bits (TF32).
    u, v, d = (corners[..., 0] * x + corners[..., 1] * y + corners[..., 2] * z for x, y, z in axes)
    dark = ((1 - _shading(torch.stack((u, v, d), -1))) * _SHADES).round().int()
    u, v = ((each + 1) * (size / 2) - 0.5 for each in (u, v))  # sample i lies at i
    d = ((d + 1) * (_DEPTHS / 2)).clamp(0, _DEPTHS - 1)
    # The order depends on the ends of an edge alone, so two faces that share it cut each row at the same place.
    order = u.argsort(1)
    order = order.gather(1, v.gather(1, order).argsort(dim=1, stable=True))
    u, v, d = (each.gather(1, order) for each in (u, v, d))
    (u0, u1, u2), (v0, v1, v2), (d0, d1, d2) = (each.unbind(1) for each in (u, v, d))
    area = (u1 - u0) * (v2 - v0) - (u2 - u0) * (v1 - v0)
    seen = area.abs() > _SLIVER
    top = v0.ceil().clamp(0, size)
    rows = (v2.floor().clamp(-1, size - 1) - top + 1).clamp(min=0).where(seen, 0.0).long()
    safe = area.where(seen, 1.0)
    along_u = ((d1 - d0) * (v2 - v0) - (d2 - d0) * (v1 - v0)) / safe
    along_v = ((d2 - d0) * (u1 - u0) - (d1 - d0) * (u2 - u0)) / safe
    ends = ((u0, u2, v0, v2), (u0, u1, v0, v1), (u1, u2, v1, v2))
    long, upper, lower = ((b - a) / (y - x).where(y > x, 1.0) for a, b, x, y in ends)
    short = torch.stack((v0, u0, upper, v1, u1, lower), 1).view(-1, 3)
    plane = torch.stack((u0, v0, d0, along_u, along_v, d.amin(1), d.amax(1)), 1)
    return _Faces(rows, top, torch.stack((v0, u0, long, v1), 1), short, plane, dark)


def _shading(corners: Tensor) -> Tensor:
    """Shading (F,) of faces whose corners (F, 3, 3) are given along right, down, away."""
    normal = torch.linalg.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normal = normal / normal.norm(dim=1, keepdim=True).clamp(min=1e-20)
    normal = torch.where(normal[:, 2:] > 0, -normal, normal)  # towards the camera
    right, up, near = (each / math.hypot(*LIGHT) for each in LIGHT)
    lambert = normal[:, 0] * right - normal[:, 1] * up - normal[:, 2] * near
    return AMBIENT + (1 - AMBIENT) * lambert.clamp(0, 1)


def _span(faces: _Faces, face: Tensor, row: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """First and last sample of each row within its face; first > last for none."""
    v, u, slope, middle = faces.long[face].unbind(1)
    one = torch.addcmul(u, row - v, slope)
    v, u, slope = faces.short[2 * face + (row >= middle)].unbind(1)
    other = torch.addcmul(u, row - v, slope)
    left, right = torch.minimum(one, other) - _SLACK, torch.maximum(one, other) + _SLACK
    return left.ceil().clamp(0, size), right.floor().clamp(-1, size - 1)


def _depths(faces: _Faces, face: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """Depth of the face at its samples, in steps, never beyond its corners: steep faces are sampled beside them."""
    u, v, depth, along_u, along_v, near, far = faces.plane[face].unbind(1)
    return (depth + along_u * (column - u) + along_v * (row - v)).clamp(near, far)


def _pieces(counts: Tensor, limit: int) -> list[Tensor]:
    """Indices of the positive counts, in groups whose sums stay near the limit."""
    index = counts.nonzero()[:, 0]
    if not len(index):
        return []
    group = counts[index].cumsum(0) // max(limit, 1)
    _, sizes = torch.unique_consecutive(group, return_counts=True)
    return list(index.split(sizes.tolist()))


def _expanded(index: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Each index as often as its count says, and 0, 1, ... within each run."""
    run = torch.repeat_interleave(times := counts[index])
    return index[run], torch.arange(len(run), device=counts.device) - (times.cumsum(0) - times)[run]


def pixels(keys: Tensor, oversample: int, dtype: torch.dtype) -> Tensor:
    """Images (N, 2, H, H) of keys (N, S, S). _EMPTY has the largest darkness and depth: 0 in both channels."""
    dark, depth = (keys & _SHADES).float(), (keys >> 11).float()
    if oversample > 1:
        dark, depth = functional.avg_pool2d(dark, oversample), functional.avg_pool2d(depth, oversample)
    images = 1 - torch.stack((dark * (1 / _SHADES), depth * (1 / _DEPTHS)), 1)
    return (images * 255).round().to(dtype) if dtype == torch.uint8 else images.to(dtype)
