"""A triangle mesh as voxels, in the form of the 3DShapeNets release of ModelNet40.

Coordinates: meshes are right-handed (x, y, z) with z up. Array axes 0, 1, 2 of a grid are y, x, z, as in that release.
Pose j is the object turned by 30·j degrees from axis 0 towards axis 1: clockwise, seen from above.

In every pose the object is centred by its bounding box and scaled so that its longest side spans 23 voxel widths, from
the middle of voxel 3 to the middle of voxel 26, of 30. Occupied are the voxels that the surface, sampled every half
voxel, touches or encloses.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

SIDE = 30
FILL = 24
NUM_POSES = 12
PACKED_BYTES = SIDE**3 // 8

_SPACING = 0.5  # voxels between samples
_BLOCK = 2**14  # samples in flight


def voxelise(vertices: NDArray[np.floating], faces: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Occupancy (12, 30, 30, 30) of a mesh with vertices (V, 3) and triangles (F, 3), one grid for each pose.

    Differs from the release: vertices that belong to no triangle are ignored.

    >>> cube = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], float)
    >>> sides = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    >>> poses = voxelise(cube, np.array([[a, b, c] for a, b, c, d in sides] + [[a, c, d] for a, b, c, d in sides]))
    >>> int(poses[0].sum()) == 24**3, poses[1].any((1, 2)).sum(), poses[1].any((0, 1)).sum()
    (True, np.int64(24), np.int64(18))
    """
    from scipy.ndimage import binary_fill_holes  # not needed to read voxels: training runs without SciPy

    if not len(faces):
        raise ValueError("a mesh without faces has no voxels")
    used, corners = np.unique(faces, return_inverse=True)
    points = np.asarray(vertices, np.float64)[used][:, [1, 0, 2]]
    points -= (points.min(0) + points.max(0)) / 2
    extent = np.abs(points).max()
    if not extent > 0:
        raise ValueError("a mesh whose vertices all coincide has no size")
    points /= extent
    poses = points @ _turns()
    low, high = poses.min(1, keepdims=True), poses.max(1, keepdims=True)
    scale = (FILL - 1) / (high - low).max(-1, keepdims=True)
    shift = FILL / 2 - (low + high) / 2 * scale
    grids = np.zeros((NUM_POSES, FILL, FILL, FILL), np.bool_)
    for samples in _samples(points[corners.reshape(faces.shape)], _SPACING / scale.max()):
        cells = np.floor(samples @ _turns() * scale + shift).astype(np.intp)
        for grid, (i, j, k) in zip(grids, np.moveaxis(cells, -1, 1), strict=True):
            grid[i, j, k] = True
    margin = (SIDE - FILL) // 2
    return np.pad([binary_fill_holes(grid) for grid in grids], [(0, 0)] + 3 * [(margin, margin)])


def pack(grids: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Bits (..., 3375) of grids (..., 30, 30, 30), the first voxel in the highest bit."""
    return np.packbits(grids.reshape(*grids.shape[:-3], SIDE**3), axis=-1)


def unpack(packed: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Grids (..., 30, 30, 30) of their bits (..., 3375)."""
    return np.unpackbits(packed, axis=-1).reshape(*packed.shape[:-1], SIDE, SIDE, SIDE).view(np.bool_)


def _turns() -> NDArray[np.float64]:
    """(12, 3, 3): matrices that turn rows of grid coordinates from axis 0 towards axis 1."""
    angle = 2 * np.pi * np.arange(NUM_POSES) / NUM_POSES
    turns = np.zeros((NUM_POSES, 3, 3))
    turns[:, 0, 0] = turns[:, 1, 1] = np.cos(angle)
    turns[:, 0, 1] = np.sin(angle)
    turns[:, 1, 0] = -np.sin(angle)
    turns[:, 2, 2] = 1
    return turns


def _samples(triangles: NDArray[np.float64], spacing: float) -> Iterator[NDArray[np.float64]]:
    """Points (m, 3) on triangles (F, 3, 3), corners included, at most `spacing` apart; in blocks."""
    edges = triangles - np.roll(triangles, 1, axis=1)
    steps = np.ceil(np.linalg.norm(edges, axis=-1).max(-1) / spacing).astype(np.intp).clip(1)
    for n in np.unique(steps):
        u, v = np.divmod(np.arange((n + 1) ** 2), n + 1)
        weights = np.stack([n - u - v, u, v], -1)[u + v <= n] / n
        alike = triangles[steps == n]
        rows = max(1, _BLOCK // len(weights))
        for start in range(0, len(alike), rows):
            yield (weights @ alike[start : start + rows]).reshape(-1, 3)
