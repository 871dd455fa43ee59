"""What our own shapes are made of: boxes, rods, prisms and turned profiles, as triangle meshes. z is up."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airpool.models.vision.meshes import Mesh

Point = tuple[float, float, float]


def box(size: Point, at: Point = (0, 0, 0)) -> Mesh:
    """A box of this size (x, y, z) that stands on the point `at`."""
    x, y, z = size
    return moved(prism([(-x / 2, -y / 2), (x / 2, -y / 2), (x / 2, y / 2), (-x / 2, y / 2)], z), at)


def prism(outline: Sequence[tuple[float, float]], height: float) -> Mesh:
    """An outline in x and y raised from z = 0 to `height`. It must be seen whole from its middle."""
    ring = np.asarray(outline, float)
    n = len(ring)
    flat = np.vstack([ring, ring.mean(0)])
    low, high = np.c_[flat, np.zeros(n + 1)], np.c_[flat, np.full(n + 1, height)]
    i = np.arange(n)
    j, ring_above = (i + 1) % n, i + n + 1
    j_above = j + n + 1
    faces = [
        np.c_[j, i, np.full(n, n)],
        np.c_[ring_above, j_above, np.full(n, 2 * n + 1)],
        np.c_[i, j, j_above],
        np.c_[i, j_above, ring_above],
    ]
    return Mesh(np.vstack([low, high]), np.vstack(faces))


def lathe(profile: Sequence[tuple[float, float]], at: Point = (0, 0, 0), *, sides: int = 32) -> Mesh:
    """A profile of (radius, z) turned about the z axis. It encloses a solid if it begins and ends with radius 0.

    With few sides the radius is that of the corners; four sides make a square along x and y.
    """
    radius, z = np.asarray(profile, float).T
    angle = 2 * np.pi * (np.arange(sides) + 0.5) / sides
    rings = np.stack(
        [np.outer(radius, np.cos(angle)), np.outer(radius, np.sin(angle)), np.outer(z, np.ones(sides))], -1
    )
    row, i = (index.ravel() for index in np.mgrid[: len(radius) - 1, :sides])
    a, b = row * sides + i, row * sides + (i + 1) % sides
    faces = np.vstack([np.c_[a, b, b + sides], np.c_[a, b + sides, a + sides]])
    return moved(Mesh(rings.reshape(-1, 3), faces), at)


def disc(radius: float, height: float, at: Point = (0, 0, 0), *, sides: int = 32) -> Mesh:
    """An upright cylinder that stands on the point `at`."""
    return lathe([(0, 0), (radius, 0), (radius, height), (0, height)], at, sides=sides)


def rod(path: Sequence[Point], radius: float, *, sides: int = 8) -> Mesh:
    """Round bars from each point of the path to the next."""
    bars = []
    for start, end in zip(np.asarray(path[:-1], float), np.asarray(path[1:], float), strict=True):
        length = float(np.linalg.norm(end - start))
        along = (end - start) / length
        across = np.cross(along, np.eye(3)[np.abs(along).argmin()])
        across /= np.linalg.norm(across)
        frame = np.stack([across, np.cross(along, across), along])
        bar = disc(radius, length, sides=sides)
        bars.append(Mesh(bar.vertices @ frame + start, bar.faces))
    return join(bars)


def moved(mesh: Mesh, by: Point) -> Mesh:
    return Mesh(mesh.vertices + np.asarray(by, float), mesh.faces)


def turned(mesh: Mesh, degrees: float, axis: str) -> Mesh:
    """Turned about the axis x, y or z through the origin, by the right-hand rule."""
    i, j = {"x": (1, 2), "y": (2, 0), "z": (0, 1)}[axis]
    angle = np.deg2rad(degrees)
    vertices = mesh.vertices.copy()
    vertices[:, i] = np.cos(angle) * mesh.vertices[:, i] - np.sin(angle) * mesh.vertices[:, j]
    vertices[:, j] = np.sin(angle) * mesh.vertices[:, i] + np.cos(angle) * mesh.vertices[:, j]
    return Mesh(vertices, mesh.faces)


def join(parts: Iterable[Mesh]) -> Mesh:
    """One mesh of all the parts; they may overlap."""
    parts = list(parts)
    starts = np.cumsum([0] + [len(part.vertices) for part in parts[:-1]])
    faces = [part.faces + start for part, start in zip(parts, starts, strict=True)]
    return Mesh(np.vstack([part.vertices for part in parts]), np.vstack(faces).astype(np.int64))


def corners(x: float, y: float) -> list[tuple[float, float]]:
    """The four corners of a rectangle about the origin with these half sides."""
    return [(-x, -y), (x, -y), (x, y), (-x, y)]


def arc(centre: ArrayLike, radius: float, start: float, end: float, *, steps: int = 12) -> NDArray[np.float64]:
    """Points (steps + 1, 2) on a circle, between two angles in degrees."""
    angle = np.deg2rad(np.linspace(start, end, steps + 1))
    return np.asarray(centre, float) + radius * np.stack([np.cos(angle), np.sin(angle)], -1)
