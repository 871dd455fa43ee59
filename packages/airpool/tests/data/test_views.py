"""The mesh renderer against ray casting, and on meshes that are not as they should be."""

import numpy as np
import pytest
import scipy.ndimage
import torch

from airpool.models.vision import shapes
from airpool.models.vision.views import AMBIENT, LIGHT, Cameras, placed, render, views

CUBE = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], float)
SIDES = np.array([[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1]])
SIDES = np.concatenate((SIDES, [[2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]]))


def samples(cameras, axes):
    """Starts (N, 3) of the rays through the sample centres, on the near plane, in the order of the image."""
    size = cameras.resolution
    ticks = (np.arange(size) + 0.5) * (2 / size) - 1
    right, down, away = np.array(axes)
    return ticks[:, None, None] * down + ticks[None, :, None] * right - away


def cast(triangles, cameras, axes):
    """Depth (H, H) in [0, 1] from the near plane, inf without a hit, and |cos| between ray and face, by embree."""
    trimesh = pytest.importorskip("trimesh")
    pytest.importorskip("embreex", reason="ray casting needs embreex")
    corners = triangles.corners.numpy().astype(float)
    mesh = trimesh.Trimesh(corners.reshape(-1, 3), np.arange(3 * len(corners)).reshape(-1, 3), process=False)
    starts = samples(cameras, axes).reshape(-1, 3)
    rays = np.broadcast_to(np.array(axes[2]), starts.shape)
    places, ray, face = mesh.ray.intersects_location(starts, rays, multiple_hits=False)
    depth, slant = np.full(len(starts), np.inf), np.ones(len(starts))
    depth[ray] = ((places - starts[ray]) @ np.array(axes[2])) / 2
    slant[ray] = np.abs(mesh.face_normals[face] @ np.array(axes[2]))
    return depth.reshape(cameras.resolution, -1), slant.reshape(cameras.resolution, -1)


@pytest.mark.parametrize("number", range(0, 112, 8))
def test_depth_and_silhouette_are_those_of_ray_casting(number):
    shape = shapes.all()[number]
    cameras = Cameras(num_views=3, first_azimuth_deg=17, resolution=160, oversample=1)
    triangles = placed([(shape.vertices, shape.faces)], cameras.elevation_deg)
    seen = render(triangles, cameras)[0]
    for image, axes in zip(seen, cameras.axes(), strict=True):
        depth, slant = cast(triangles, cameras, axes)
        ours, theirs = image[1].numpy() > 0, np.isfinite(depth)
        assert (ours & theirs).sum() >= 0.98 * (ours | theirs).sum()
        # Per sample. At an edge the nearest face may be that of the next ray.
        slope = np.sqrt(1 - slant**2) / np.maximum(slant, 1e-3) / cameras.resolution + 1e-4
        lowest = scipy.ndimage.minimum_filter(depth - slope, 3)
        highest = scipy.ndimage.maximum_filter(np.where(theirs, depth + slope, -np.inf), 3)
        distance = 1 - image[1].numpy()
        both = ours & theirs
        assert ((lowest <= distance) & (distance <= highest))[both].mean() > 0.999
        assert (np.abs(distance - np.where(theirs, depth, 0)) <= slope)[both].mean() > 0.99


def test_a_cube_is_seen_where_it_stands():
    cameras = Cameras(num_views=4, elevation_deg=0, resolution=100, oversample=1)
    image = views([(CUBE, SIDES)], cameras)[0]
    seen = image[:, 1] > 0
    wide = seen.any(1).sum(1)  # columns
    assert wide.tolist() == [68, 68, 68, 68]  # 0.96/√2 of the window
    near = (1 - 0.96 / 2**0.5) / 2
    assert torch.allclose(image[:, 1][seen], torch.tensor(1 - near), atol=1e-3)
    light = LIGHT[2] / np.hypot(np.hypot(*LIGHT[:2]), LIGHT[2])
    assert torch.allclose(image[:, 0][seen], torch.tensor(AMBIENT + (1 - AMBIENT) * light).float(), atol=1e-3)


def test_azimuths_turn_counterclockwise():
    arrow = CUBE * [1, 0.1, 0.1]
    arrow = np.concatenate((arrow, CUBE * 0.4 + [0.6, -0.15, 0]))  # a block at the end of +x
    image = views([(arrow, np.concatenate((SIDES, SIDES + 8)))], Cameras(num_views=4, elevation_deg=0, resolution=64))[
        0
    ]
    weight = (image[:, 1] > 0).float().sum(1)
    assert weight[0, 32:].sum() > 2 * weight[0, :32].sum()  # from −y, +x is on the right
    assert weight[2, :32].sum() > 2 * weight[2, 32:].sum()
    assert image[1, 1].amax() > 0.9  # from +x, the block is near


def test_both_sides_of_a_face_look_the_same():
    ours = views([(CUBE, SIDES)], Cameras(resolution=48))
    assert torch.equal(ours, views([(CUBE, SIDES[:, ::-1])], Cameras(resolution=48)))


def test_neighbouring_faces_leave_no_holes():
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(np.arange(40), np.arange(40)), -1).reshape(-1, 2).astype(float)
    inner = ((grid > 0) & (grid < 39)).all(1)
    grid[inner] += rng.uniform(-0.3, 0.3, (inner.sum(), 2))
    corner = np.array([i * 40 + j for i in range(39) for j in range(39)])
    faces = np.concatenate(
        [np.stack((corner, corner + 1, corner + 41), 1), np.stack((corner, corner + 41, corner + 40), 1)]
    )
    flat = np.column_stack((grid, np.zeros(len(grid))))
    whole = flat[[0, 39, 1599, 1560]], np.array([[0, 1, 2], [0, 2, 3]])
    many, two = views([(flat, faces), whole], Cameras(num_views=5, first_azimuth_deg=7, resolution=150, oversample=1))
    assert torch.equal(many[:, 1] > 0, two[:, 1] > 0)
    assert (many - two).abs().amax() < 1e-3


def test_stray_points_and_degenerate_faces_change_nothing():
    dust = np.array([[90, 0, 0], [90.001, 0, 0], [90, 0.001, 0]])
    far = np.concatenate((CUBE, dust, [[1e6, 0, 0]]))
    faces = np.concatenate((SIDES, [[8, 9, 10], [0, 0, 11], [1, 2, 2], [11, 11, 11]]))
    cameras = Cameras(resolution=64)
    plain, dirty = views([(CUBE, SIDES)], cameras), views([(far, faces)], cameras)
    assert (plain - dirty).abs().mean() < 2e-3


@pytest.mark.parametrize(
    ("vertices", "faces"),
    [
        (np.zeros((0, 3)), np.zeros((0, 3), int)),
        (np.zeros((3, 3)), np.array([[0, 1, 2]])),
        (CUBE, np.array([[0, 1, 1]])),
    ],
)
def test_a_mesh_without_area_is_black(vertices, faces):
    assert not views([(vertices, faces)], Cameras(num_views=2, resolution=16)).any()


@pytest.mark.parametrize("corner", [-1, 8])
def test_a_face_of_a_vertex_that_is_not_there_is_refused(corner):
    with pytest.raises(ValueError, match="faces must be indices of vertices, from 0 to 7"):
        views([(CUBE, np.array([[0, 1, corner]]))], Cameras(num_views=1, resolution=16))


def test_no_meshes_give_no_images():
    assert views([], Cameras(num_views=2, resolution=16)).shape == (0, 2, 2, 16, 16)


def test_place_and_size_do_not_matter():
    cameras = Cameras(num_views=3, resolution=64)
    assert (views([(CUBE, SIDES)], cameras) - views([(CUBE * 37 + 1e5, SIDES)], cameras)).abs().mean() < 1e-4


def test_little_memory_gives_the_same_images():
    shape = shapes.all()[3]
    mesh, cameras = (shape.vertices, shape.faces), Cameras(num_views=2, resolution=56)
    assert torch.equal(views([mesh, mesh], cameras), views([mesh, mesh], cameras, samples=3000))


def test_bytes_are_rounded_floats():
    cameras = Cameras(num_views=1, resolution=32)
    exact, rounded = (views([(CUBE, SIDES)], cameras, dtype=dtype) for dtype in (torch.float32, torch.uint8))
    assert torch.equal(rounded, (exact * 255).round().to(torch.uint8))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_sees_what_the_cpu_sees():
    shape = shapes.all()[0]
    mesh, cameras = (shape.vertices, shape.faces), Cameras(resolution=112)
    difference = (views([mesh], cameras) - views([mesh], cameras, device="cuda").cpu()).abs()
    assert (difference > 1e-3).float().mean() < 1e-4
