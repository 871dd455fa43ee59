"""What each camera sees of an object made of voxels: two-channel images, shading and depth.

Coordinates: the voxel grid spans the cube [-1, 1]³; its array axes 0, 1, 2 are y, x and z (up) of a right-handed frame,
as in `data.voxels`. The camera is orthographic and fixed: on the side of negative y, raised by the elevation, looking
at the centre, x to the right. Objects turn from axis 0 towards axis 1, clockwise seen from above.

Channels, float in [0, 1], exactly 0 where there is no object:
    0  shading: ambient light plus Lambert's law under one light fixed to the camera, above its left shoulder
    1  depth: linear, 1 on the near plane, 0 on the far plane

The surface is an iso-surface of the lightly blurred occupancy, and its normals are the gradient of a stronger blur.
Torch alone, CPU or CUDA, no gradient.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from airpool.data import voxels as grids

SIDE = grids.SIDE
FILL = grids.FILL / SIDE  # the part of the grid's side that an object's longest side takes up in the packed data
HALF_WINDOW = 17 / 15  # half the width, height and depth that are seen: holds a full cube of FILL seen from its corner
AMBIENT = 0.25
LIGHT = (-0.45, 0.55, 0.70)  # towards the light: right, up, towards the camera

_SURFACE = 0.5  # level of the field where the object begins
_STEPS = 64  # samples of the field along each axis of the camera's cube, 0.53 voxel apart, interpolated between
_CHUNK = 2**26  # rays × steps in flight: 0.3 GB
_OBJECTS = 16  # rendered at a time, twelve views each


def renders(
    packed: NDArray[np.uint8],
    *,
    resolution: int = 112,
    torch_device: torch.device | str = "cpu",
    on_objects: Callable[[int], None] = lambda _: None,
) -> Tensor:
    """Views (N, 12, 2, H, H) uint8 of packed objects (N, 12, 3375), H = resolution: `object_views` times 255, rounded.

    They stay on `torch_device`: 0.3 MB an object at 112 px, 1.2 MB at 224. `on_objects` receives how many are done.
    """
    shape = (*packed.shape[:2], 2, resolution, resolution)
    out = torch.empty(shape, dtype=torch.uint8, device=torch_device)
    for start in range(0, len(packed), _OBJECTS):
        some = torch.from_numpy(grids.unpack(packed[start : start + _OBJECTS])).to(torch_device)
        seen = object_views(some, num_views=packed.shape[1], resolution=resolution)
        out[start : start + _OBJECTS] = (seen * 255).round().byte()
        on_objects(len(some))
    return out


@torch.no_grad()
def object_views(voxels: Tensor, *, num_views: int = 12, resolution: int = 112) -> Tensor:
    """Views (B, K, 2, resolution, resolution) of each object from K = num_views cameras evenly around it.

    voxels: (B, P, n, n, n), an object in P poses 360/P degrees apart, or (B, n, n, n), one pose.
    View k is pose k where P = K. Any other number of views is rendered from pose 0, turned by 360k/K degrees and
    rescaled to fill the grid, as every packed pose is.
    """
    if voxels.ndim not in (4, 5):
        raise ValueError(f"voxels has shape {tuple(voxels.shape)}: must be (B, P, n, n, n) or (B, n, n, n)")
    if num_views < 1:
        raise ValueError(f"num_views={num_views} must be ≥ 1")
    if voxels.ndim == 5 and voxels.shape[1] == num_views:
        return render(voxels.flatten(0, 1), resolution=resolution).unflatten(0, voxels.shape[:2])
    first = voxels if voxels.ndim == 4 else voxels[:, 0]
    angles = [360 * k / num_views for k in range(num_views)]
    return torch.stack([render(first, azimuth_deg=a, resolution=resolution, fit=True) for a in angles], dim=1)


@torch.no_grad()
def render(
    voxels: Tensor,
    *,
    azimuth_deg: float = 0.0,
    elevation_deg: float = 30.0,
    resolution: int = 112,
    fit: bool = False,
) -> Tensor:
    """Images (B, 2, resolution, resolution) float32 of objects (B, n, n, n), turned by azimuth_deg.

    voxels: occupancy as bool, uint8 or float in [0, 1]. fit: centre and rescale each turned object to fill the grid
    (FILL). Without it, what lies outside the window (HALF_WINDOW) is cut off.
    """
    if voxels.ndim != 4 or len(set(voxels.shape[1:])) != 1:
        raise ValueError(f"voxels has shape {tuple(voxels.shape)}: must be (B, n, n, n)")
    if resolution < 1:
        raise ValueError(f"resolution={resolution} must be ≥ 1")
    chunk = max(1, _CHUNK // (_STEPS * max(resolution, _STEPS) ** 2))
    return torch.cat([_images(part, azimuth_deg, elevation_deg, resolution, fit) for part in voxels.split(chunk)])


def _images(voxels: Tensor, azimuth_deg: float, elevation_deg: float, resolution: int, fit: bool) -> Tensor:
    """Images of a batch that fits in memory."""
    device = voxels.device
    occupancy = voxels[:, None].float()
    axes = _camera_axes(azimuth_deg, elevation_deg).to(device)
    whole = torch.zeros(1, 3, device=device), torch.ones(1, 1, device=device)
    box = _fit(occupancy[:, 0], azimuth_deg) if fit else whole

    coarse, fine = _ticks(_STEPS, device), _ticks(resolution, device)
    cube = _places(coarse, coarse[:, None, None], axes)
    field = _sample(_field(occupancy), cube[None], box)[:, 0]
    field = functional.interpolate(field, size=(resolution, resolution), mode="bilinear", align_corners=False)
    hit, distance = _first_crossing(field, coarse)

    surface = _places(fine, distance, axes)
    gradient = _gradient(_blur(_blur(occupancy, centre=1 / 2), centre=1 / 2))
    normal = -functional.normalize(_sample(gradient, surface[:, None], box)[:, :, 0], dim=1)

    right, up, near = LIGHT
    light = functional.normalize(right * axes[0] - up * axes[1] - near * axes[2], dim=0)
    shading = AMBIENT + (1 - AMBIENT) * (normal * light[:, None, None]).sum(1).clamp(min=0)
    depth = (0.5 - distance / (2 * HALF_WINDOW)).clamp(0, 1)
    return torch.stack((shading, depth), dim=1) * hit[:, None]


def _camera_axes(azimuth_deg: float, elevation_deg: float) -> Tensor:
    """Rows: the directions u (right), v (down), t (away from the camera), along the object's axes before it turns."""
    a, e = math.radians(azimuth_deg), math.radians(elevation_deg)
    vectors = [[math.sin(a), math.cos(a), 0.0], [math.cos(a), -math.sin(a), 0.0], [0.0, 0.0, 1.0]]
    right, back, up = torch.tensor(vectors, dtype=torch.float64)
    down, away = -math.sin(e) * back - math.cos(e) * up, math.cos(e) * back - math.sin(e) * up
    return torch.stack([right, down, away]).float()


def _fit(occupancy: Tensor, azimuth_deg: float) -> tuple[Tensor, Tensor]:
    """Centre (B, 3) and scale (B, 1) of the box in which each turned object (B, n, n, n) is centred and takes up FILL.

    Edge case: an empty object → the whole grid.
    """
    n = occupancy.shape[-1]
    ticks = (torch.arange(n, device=occupancy.device, dtype=torch.float64) + 0.5) * (2 / n) - 1
    axes = _camera_axes(azimuth_deg, elevation_deg=0.0).to(ticks)
    places = torch.cartesian_prod(ticks, ticks, ticks) @ axes.T  # (n³, 3): right, down and back, once turned
    filled = (occupancy >= 0.5).flatten(1)[:, :, None]
    low, high = places.where(filled, math.inf).amin(1), places.where(filled, -math.inf).amax(1)
    anything = filled.any(1)
    centre = ((low + high) / 2).where(anything, 0.0) @ axes
    scale = (((high - low).amax(1, keepdim=True) + 2 / n) / (2 * FILL)).where(anything, 1.0)
    return centre.float(), scale.float()


def _ticks(count: int, device: torch.device) -> Tensor:
    """Centres of `count` equal cells across the window, from -HALF_WINDOW to HALF_WINDOW."""
    return ((torch.arange(count, device=device) + 0.5) * (2 / count) - 1) * HALF_WINDOW


def _places(ticks: Tensor, distance: Tensor, axes: Tensor) -> Tensor:
    """Points (T, H, H, 3) on the rays through the pixels at ticks (H,), as far along as distance (T or 1, H or 1, ...).

    Sums of products rather than a matrix product, which may be rounded to fewer bits (TF32, autocast).
    """
    return distance[..., None] * axes[2] + ticks[:, None, None] * axes[1] + ticks[:, None] * axes[0]


def _sample(volume: Tensor, places: Tensor, box: tuple[Tensor, Tensor]) -> Tensor:
    """Values (B, C, *S) of volumes (B, C, n, n, n) at places (1 or B, *S, 3) of the box, trilinear, 0 outside."""
    centre, scale = (each[:, None, None, None] for each in box)
    places = (places * scale + centre).flip(-1).expand(len(volume), -1, -1, -1, -1)  # grid_sample: last axis first
    return functional.grid_sample(volume, places, align_corners=False)


def _field(occupancy: Tensor) -> Tensor:
    """The volume (B, 1, n, n, n) whose level _SURFACE is the surface: blurred, relative to the largest value nearby.

    Relative, so that a single voxel, a rod or a sheet is as visible as the face of a solid: the face stays within 0.03
    voxel of its place, and what is one voxel thin becomes 1.33 thick.
    """
    blurred = _blur(occupancy, centre=2 / 3)
    return blurred / functional.max_pool3d(blurred, 3, stride=1, padding=1).clamp(min=1e-6)


def _first_crossing(field: Tensor, ticks: Tensor) -> tuple[Tensor, Tensor]:
    """Whether each ray meets the surface (B, H, W) bool, and at which distance, interpolated between samples.

    field: (B, T, H, W), its samples along the rays, front to back, at ticks (T,).
    """
    steps = field.shape[1]
    countdown = torch.arange(steps, 0, -1, dtype=torch.uint8, device=field.device)[:, None, None]
    left = ((field > _SURFACE) * countdown).amax(1)  # 0: never inside
    index = (steps - left.long()).clamp(max=steps - 1)
    inside = field.gather(1, index[:, None])[:, 0]
    outside = field.gather(1, (index - 1).clamp(min=0)[:, None])[:, 0]
    back = ((inside - _SURFACE) / (inside - outside).clamp(min=1e-6)).clamp(0, 1)
    return left > 0, ticks[index] - back * (ticks[1] - ticks[0])


def _neighbours(volume: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The volume (B, C, n, n, n) shifted by one voxel along an axis, both ways, with zeros beyond its border."""
    n = volume.shape[2]
    padded = functional.pad(volume, [int(axis == 2 - side // 2) for side in range(6)])
    return padded.narrow(axis + 2, 0, n), padded.narrow(axis + 2, 2, n)


def _blur(volume: Tensor, *, centre: float) -> Tensor:
    """Three-point average along every axis, with weight `centre` in the middle."""
    for axis in range(3):
        before, after = _neighbours(volume, axis)
        volume = centre * volume + (1 - centre) / 2 * (before + after)
    return volume


def _gradient(volume: Tensor) -> Tensor:
    """Central differences (B, 3, n, n, n) of a volume (B, 1, n, n, n), up to a factor."""
    pairs = (_neighbours(volume, axis) for axis in range(3))
    return torch.cat([after - before for before, after in pairs], dim=1)
