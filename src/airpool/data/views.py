"""What each camera sees: an object made of voxels in, two-channel images out (shading and depth).

Coordinates: the voxel grid spans the cube [-1, 1]³. Its array axes 0, 1, 2 are y, x and z (up) of a right-handed frame,
as in `data.voxels`, so nothing is seen mirrored. The camera is fixed and orthographic: it stands on the side of
negative y (low indices of axis 0), raised by the elevation, and looks at the centre; x points right in the image.
Objects turn from axis 0 towards axis 1, clockwise seen from above; a camera that goes counterclockwise around a still
object sees the same.

Channels, both float in [0, 1] and exactly 0 where there is no object:
    0  shading: ambient light plus Lambert's law under one light fixed to the camera, above its left shoulder
    1  depth: nearer is larger; 1 on the near plane, 0 on the far plane, linear in the distance between

The surface is an iso-surface of the lightly blurred occupancy, so it looks smooth where the voxels are steps, and its
normals come from the gradient of a stronger blur. Torch alone, CPU or CUDA, no gradient.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

SIDE = 30  # voxels along each axis of the packed data
FILL = 24 / SIDE  # the part of the grid's side that an object's longest side takes up in the packed data
HALF_WINDOW = 17 / 15  # half the width, height and depth that are seen: holds a full cube of FILL seen from its corner
AMBIENT = 0.25
LIGHT = (-0.45, 0.55, 0.70)  # towards the light: right, up, towards the camera

_SURFACE = 0.5  # level of the field where the object begins
_STEPS = 64  # samples of the field along each axis of the camera's cube, 0.53 voxel apart, interpolated between
_CHUNK = 2**26  # rays × steps in flight: 0.3 GB


@torch.no_grad()
def unpack(packed: Tensor) -> Tensor:
    """Occupancy (..., 30, 30, 30) uint8, 0 or 1, from its bits (..., 3375) uint8, first voxel in the highest bit.

    The same as `np.unpackbits`, on any torch device.

    >>> unpack(torch.tensor([0b10100000] + 3374 * [0], dtype=torch.uint8))[0, 0, :4].tolist()
    [1, 0, 1, 0]
    """
    if packed.dtype != torch.uint8 or packed.shape[-1:] != (SIDE**3 // 8,):
        raise ValueError(f"packed is {packed.dtype} {tuple(packed.shape)}: must be uint8 with {SIDE**3 // 8} last")
    shift = torch.arange(7, -1, -1, dtype=torch.uint8, device=packed.device)
    return ((packed[..., None] >> shift) & 1).reshape(*packed.shape[:-1], SIDE, SIDE, SIDE)


@torch.no_grad()
def object_views(
    voxels: Tensor,
    *,
    num_views: int = 12,
    elevation_deg: float = 30.0,
    resolution: int = 112,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Views (B, K, 2, resolution, resolution) of each object from K = num_views cameras evenly around it.

    voxels: (B, P, n, n, n), an object in P poses 360/P degrees apart, or (B, n, n, n), one pose.
    View k is pose k where there are as many poses as views. Any other number of views is rendered from pose 0, turned
    by 360k/K degrees and rescaled to fill the grid, as every pose of the packed data is by itself: the views differ
    from those of the poses by the resampling alone.
    """
    if voxels.ndim not in (4, 5):
        raise ValueError(f"voxels has shape {tuple(voxels.shape)}: must be (B, P, n, n, n) or (B, n, n, n)")
    if num_views < 1:
        raise ValueError(f"num_views={num_views} must be ≥ 1")
    if voxels.ndim == 5 and voxels.shape[1] == num_views:
        flat = render(voxels.flatten(0, 1), elevation_deg=elevation_deg, resolution=resolution)
        return flat.to(dtype).unflatten(0, voxels.shape[:2])
    first = voxels if voxels.ndim == 4 else voxels[:, 0]
    return torch.stack(
        [
            render(first, azimuth_deg=360 * k / num_views, elevation_deg=elevation_deg, resolution=resolution, fit=True)
            for k in range(num_views)
        ],
        dim=1,
    ).to(dtype)


@torch.no_grad()
def render(
    voxels: Tensor,
    *,
    azimuth_deg: float = 0.0,
    elevation_deg: float = 30.0,
    resolution: int = 112,
    fit: bool = False,
    oversample: int = 1,
) -> Tensor:
    """Images (B, 2, resolution, resolution) float32 of the objects turned by azimuth_deg; channels as in the module.

    voxels: (B, n, n, n), occupancy as bool, uint8 or float in [0, 1].
    fit: centre and rescale each object, once turned, to fill the grid as the packed data do (FILL). Without it, what
    reaches out of the window of HALF_WINDOW is cut off.
    oversample: this many rays per pixel and axis, averaged: smoother edges at oversample² times the cost.
    """
    if voxels.ndim != 4 or len(set(voxels.shape[1:])) != 1:
        raise ValueError(f"voxels has shape {tuple(voxels.shape)}: must be (B, n, n, n)")
    if resolution < 1 or oversample < 1:
        raise ValueError(f"resolution={resolution} and oversample={oversample} must be ≥ 1")
    fine = resolution * oversample
    chunk = max(1, _CHUNK // (_STEPS * max(fine, _STEPS) ** 2))
    images = torch.cat([_images(part, azimuth_deg, elevation_deg, fine, fit) for part in voxels.split(chunk)])
    return functional.avg_pool2d(images, oversample) if oversample > 1 else images


def _images(voxels: Tensor, azimuth_deg: float, elevation_deg: float, resolution: int, fit: bool) -> Tensor:
    """Images (B, 2, resolution, resolution) of a batch that fits in memory."""
    device = voxels.device
    occupancy = voxels[:, None].float()
    axes = _camera_axes(azimuth_deg, elevation_deg).to(device)
    whole = _Box(torch.zeros(1, 3, device=device), torch.ones(1, 1, device=device))
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
    lambert = (normal * light[:, None, None]).sum(1).clamp(min=0)
    shading = AMBIENT + (1 - AMBIENT) * lambert
    depth = (0.5 - distance / (2 * HALF_WINDOW)).clamp(0, 1)
    return torch.stack((shading, depth), dim=1) * hit[:, None]


def _camera_axes(azimuth_deg: float, elevation_deg: float) -> Tensor:
    """Rows: the directions u (right), v (down), t (away from the camera), along the object's axes before it turns."""
    a, e = math.radians(azimuth_deg), math.radians(elevation_deg)
    right, back = (math.sin(a), math.cos(a)), (math.cos(a), -math.sin(a))  # both horizontal
    return torch.tensor(
        [
            [right[0], right[1], 0.0],
            [-math.sin(e) * back[0], -math.sin(e) * back[1], -math.cos(e)],
            [math.cos(e) * back[0], math.cos(e) * back[1], -math.sin(e)],
        ]
    )


class _Box(NamedTuple):
    """The part of the grid that is seen as if it were all of it."""

    centre: Tensor  # (1 or B, 3), in the frame of the object before it turns
    scale: Tensor  # (1 or B, 1), 1 for the grid itself


def _fit(occupancy: Tensor, azimuth_deg: float) -> _Box:
    """Where the bounding box of each turned object (B, n, n, n) is centred and takes up FILL.

    An object without a voxel stays as it is.
    """
    n = occupancy.shape[-1]
    ticks = (torch.arange(n, device=occupancy.device, dtype=torch.float64) + 0.5) * (2 / n) - 1
    axes = _camera_axes(azimuth_deg, elevation_deg=0.0).to(ticks)
    places = torch.cartesian_prod(ticks, ticks, ticks) @ axes.T  # (n³, 3): right, down and back, once turned
    filled = (occupancy >= 0.5).flatten(1)[:, :, None]
    low = places.where(filled, math.inf).amin(1)
    high = places.where(filled, -math.inf).amax(1)
    anything = filled.any(1)
    centre = ((low + high) / 2).where(anything, 0.0) @ axes
    scale = (((high - low).amax(1, keepdim=True) + 2 / n) / (2 * FILL)).where(anything, 1.0)
    return _Box(centre.float(), scale.float())


def _ticks(count: int, device: torch.device) -> Tensor:
    """Centres of `count` equal cells across the window, from -HALF_WINDOW to HALF_WINDOW."""
    return ((torch.arange(count, device=device) + 0.5) * (2 / count) - 1) * HALF_WINDOW


def _places(ticks: Tensor, distance: Tensor, axes: Tensor) -> Tensor:
    """Points (T, H, H, 3) on the rays through the pixels at ticks (H,), as far along as distance (T or 1, H or 1, ...).

    Sums of products rather than a matrix product, which may be rounded to fewer bits (TF32, autocast).
    """
    return distance[..., None] * axes[2] + ticks[:, None, None] * axes[1] + ticks[:, None] * axes[0]


def _sample(volume: Tensor, places: Tensor, box: _Box) -> Tensor:
    """Values (B, C, *S) of volumes (B, C, n, n, n) at places (1 or B, *S, 3), trilinear, 0 outside the grid."""
    places = places * box.scale[:, None, None, None] + box.centre[:, None, None, None]
    places = places.flip(-1).expand(len(volume), -1, -1, -1, -1)  # grid_sample wants the last axis first
    return functional.grid_sample(volume, places, align_corners=False)


def _field(occupancy: Tensor) -> Tensor:
    """The volume (B, 1, n, n, n) whose level _SURFACE is the surface: lightly blurred, relative to the largest around.

    Relative, so that one voxel alone, a rod or a sheet is as visible as the face of a solid: the face stays within 0.03
    voxel of where it is, and what is one voxel thin becomes 1.33 thick.
    """
    blurred = _blur(occupancy, centre=2 / 3)
    return blurred / functional.max_pool3d(blurred, 3, stride=1, padding=1).clamp(min=1e-6)


def _first_crossing(field: Tensor, ticks: Tensor) -> tuple[Tensor, Tensor]:
    """Whether each ray meets the surface, and where: (B, H, W) bool and the distance t, interpolated between samples.

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
    """The volume (B, C, n, n, n) shifted by one voxel along an axis, both ways, with nothing beyond its border."""
    pad = [0] * 6
    pad[2 * (2 - axis)] = pad[2 * (2 - axis) + 1] = 1
    padded, n = functional.pad(volume, pad), volume.shape[2]
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
