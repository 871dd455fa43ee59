"""Rasterisation of triangles, in torch alone, on CPU or CUDA.

Each face is cut into the rows of samples that it crosses, each row into the samples between its edges, and each sample
keeps the nearest face: exact coverage of the sample centres, no holes between neighbours. One integer per sample holds
depth (20 bits) over darkness (11 bits), so one `scatter_reduce` keeps the nearest. Torch alone, CPU or CUDA.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

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
