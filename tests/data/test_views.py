"""The renderer against solids whose pictures are known."""

import math

import numpy as np
import pytest
import torch
from tests.counted_work import work
from torch import Tensor

from airpool.data.views import FILL, HALF_WINDOW, LIGHT, SIDE, object_views, render


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Small tensors on a busy machine: threads would wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


WINDOW = HALF_WINDOW * SIDE / 2  # in voxels, from the centre


def grid() -> tuple[Tensor, Tensor, Tensor]:
    """y, x, z of every voxel's middle, in voxels from the centre."""
    ticks = torch.arange(SIDE) - (SIDE - 1) / 2
    y, x, z = torch.meshgrid(ticks, ticks, ticks, indexing="ij")
    return y, x, z


def sphere(radius: float, *, x0: float = 0.0, y0: float = 0.0, z0: float = 0.0) -> Tensor:
    y, x, z = grid()
    return (x - x0) ** 2 + (y - y0) ** 2 + (z - z0) ** 2 <= radius**2


def box(width: float, depth: float, height: float) -> Tensor:
    y, x, z = grid()
    return (x.abs() < width / 2) & (y.abs() < depth / 2) & (z.abs() < height / 2)


def cone() -> Tensor:
    y, x, z = grid()
    return (x**2 + y**2).sqrt() <= (12 - z) / 2 * (z.abs() < 12)


def odd_one() -> Tensor:
    """No symmetry: a box with a ball on one side, a rod on another, a fin on top."""
    y, x, z = grid()
    rod = ((y - 4).abs() < 1) & (x > 0) & (x < 12) & ((z + 3).abs() < 1)
    fin = (x.abs() < 1) & (y < 3) & (y > -9) & (z > 0) & (z < 11)
    return box(8, 14, 8) | sphere(5, x0=-6, y0=-4) | rod | fin


def pixels(resolution: int = 112) -> tuple[Tensor, Tensor]:
    """How far right and up each pixel is, in voxels from the centre."""
    ticks = ((torch.arange(resolution) + 0.5) * 2 / resolution - 1) * WINDOW
    down, right = torch.meshgrid(ticks, ticks, indexing="ij")
    return right, -down


def distances(depth: Tensor) -> Tensor:
    """Voxels from the plane through the centre, away from the camera."""
    return (0.5 - depth) * 2 * WINDOW


def shadow_centre(image: Tensor) -> tuple[float, float]:
    """Middle of what is seen, right and up, in voxels."""
    right, up = pixels(image.shape[-1])
    seen = image[1] > 0
    return float(right[seen].mean()), float(up[seen].mean())


@pytest.mark.parametrize("radius", [6.0, 8.0, 10.0, 12.0])
@pytest.mark.parametrize("elevation_deg", [0.0, 30.0, 65.0])
def test_the_surface_of_a_sphere_is_within_half_a_voxel(radius, elevation_deg):
    _, depth = render(sphere(radius)[None], elevation_deg=elevation_deg)[0]
    right, up = pixels()
    off_axis = (right**2 + up**2).sqrt()
    seen = off_axis < 0.95 * radius
    assert (depth[seen] > 0).all()
    found = (off_axis**2 + distances(depth) ** 2).sqrt()[seen]
    assert (found - radius).abs().max() < 0.5
    assert abs(float(found.mean()) - radius) < 0.1


def test_the_depth_of_a_sphere_is_within_half_a_voxel_where_it_faces_the_camera():
    _, depth = render(sphere(10)[None])[0]
    right, up = pixels()
    facing = right**2 + up**2 < 8**2
    expected = -(100 - right**2 - up**2).clamp(min=0).sqrt()
    assert (distances(depth) - expected)[facing].abs().max() < 0.5


@pytest.mark.parametrize("radius", [6.0, 10.0, 12.0])
def test_the_outline_of_a_sphere_is_a_disc_of_its_size(radius):
    shading, depth = render(sphere(radius)[None])[0]
    right, up = pixels()
    assert torch.equal(shading > 0, depth > 0)
    assert not depth[right**2 + up**2 > (radius + 0.7) ** 2].any()
    area = float((depth > 0).sum()) * (2 * WINDOW / 112) ** 2
    assert math.sqrt(area / math.pi) == pytest.approx(radius, abs=0.15)


def test_a_sphere_is_brightest_where_it_faces_the_light():
    shading, _ = render(sphere(11)[None])[0]
    right, up = pixels()
    brightest = shading > 0.99
    towards = np.array(LIGHT) / np.linalg.norm(LIGHT)
    assert float(right[brightest].mean()) == pytest.approx(11 * towards[0], abs=1.0)
    assert float(up[brightest].mean()) == pytest.approx(11 * towards[1], abs=1.0)


def test_shading_follows_lamberts_law_on_a_sphere():
    shading, _ = render(sphere(11)[None])[0]
    right, up = pixels()
    normal = torch.stack((right, up, (121 - right**2 - up**2).clamp(min=0).sqrt())) / 11
    light = torch.tensor(LIGHT) / torch.tensor(LIGHT).norm()
    expected = 0.25 + 0.75 * (normal * light[:, None, None]).sum(0).clamp(min=0)
    inner = right**2 + up**2 < 10**2
    # A step of one voxel on a ball of this size turns the estimated normal by a few degrees.
    assert (shading - expected)[inner].abs().mean() < 0.03


def test_the_faces_of_a_box_have_one_shade_each_and_straight_depth():
    shading, depth = render(box(16, 16, 16)[None])[0]
    right, up = pixels()
    tilt = math.radians(30)
    for normal_up, normal_near, middle in (
        (math.cos(tilt), math.sin(tilt), 6.93),
        (-math.sin(tilt), math.cos(tilt), -4.0),
    ):
        expected = 0.25 + 0.75 * (LIGHT[1] * normal_up + LIGHT[2] * normal_near) / math.hypot(*LIGHT)
        face = (right.abs() < 5) & ((up - middle).abs() < 1.5)
        assert (shading[face] - expected).abs().max() < 0.02
        plane = (up * normal_up - 8) / normal_near  # u·0 + v·n_v + (-t)·n_t = 8
        assert (distances(depth) - plane)[face].abs().max() < 0.1


def test_a_box_seen_from_the_front_has_the_outline_of_its_front():
    _, depth = render(box(10, 4, 20)[None], elevation_deg=0.0)[0]
    right, up = pixels()
    assert (depth > 0)[(right.abs() < 4.5) & (up.abs() < 9.5)].all()
    assert not (depth > 0)[(right.abs() > 5.5) | (up.abs() > 10.5)].any()


def test_a_cone_narrows_upwards():
    _, depth = render(cone()[None], elevation_deg=0.0)[0]
    widths = (depth > 0).sum(1).float() * 2 * WINDOW / 112
    up = pixels()[1][:, 0]
    along = up.abs() < 10
    assert (widths - (12 - up))[along].abs().max() < 1.0


def test_right_near_and_up_are_where_the_module_says():
    ball = {"x": sphere(2, x0=8), "y": sphere(2, y0=8), "z": sphere(2, z0=8)}
    right = render(ball["x"][None], elevation_deg=0.0)[0]
    back = render(ball["y"][None], elevation_deg=0.0)[0]
    top = render(ball["z"][None], elevation_deg=0.0)[0]
    assert shadow_centre(right) == pytest.approx((8, 0), abs=0.2)
    assert shadow_centre(top) == pytest.approx((0, 8), abs=0.2)
    assert shadow_centre(back) == pytest.approx((0, 0), abs=0.2)
    assert float(distances(back[1][56, 56])) == pytest.approx(6, abs=0.5)


def test_a_camera_from_above_looks_down_on_what_is_behind():
    assert shadow_centre(render(sphere(2, y0=8)[None])[0]) == pytest.approx((0, 8 * 0.5), abs=0.2)


@pytest.mark.parametrize("quarter", [1, 2, 3])
def test_turning_the_voxels_by_quarters_is_turning_the_camera(quarter):
    voxels = odd_one()
    turned = render(torch.rot90(voxels, quarter, (0, 1))[None])
    assert torch.allclose(turned, render(voxels[None], azimuth_deg=90.0 * quarter), atol=2e-3)
    assert not torch.allclose(turned, render(voxels[None], azimuth_deg=90.0 * quarter + 90), atol=0.1)


def test_a_turn_by_any_angle_moves_a_ball_from_axis_0_towards_axis_1():
    image = render(sphere(2, y0=9)[None], azimuth_deg=40.0, elevation_deg=0.0)[0]
    assert shadow_centre(image) == pytest.approx((9 * math.sin(math.radians(40)), 0), abs=0.2)


def test_what_is_one_voxel_thin_stays_visible():
    y, x, z = grid()
    for name, thing in {
        "rod": (x == 0.5) & (y == 0.5) & (z.abs() < 10),
        "sheet": (x == 0.5) & (y.abs() < 10) & (z.abs() < 10),
        "slanted": (x.round() == y.round()) & (z.abs() < 10) & (x.abs() < 8),
    }.items():
        for azimuth_deg in (0.0, 17.0, 90.0):
            _, depth = render(thing[None], azimuth_deg=azimuth_deg, elevation_deg=0.0)[0]
            rows = (depth > 0).sum(1)[pixels()[1][:, 0].abs() < 9]
            assert (rows > 0).all(), name
            assert name != "rod" or (rows * 2 * WINDOW / 112 < 1.7).all()


def test_an_empty_grid_is_a_black_image():
    nothing = torch.zeros(2, SIDE, SIDE, SIDE)
    assert not render(nothing).any()
    assert not object_views(nothing, num_views=3).any()
    assert render(nothing[:0]).shape == (0, 2, 112, 112)


def test_every_value_is_between_zero_and_one_even_when_the_grid_is_full():
    full = render(torch.ones(1, SIDE, SIDE, SIDE))
    assert float(full.min()) >= 0
    assert float(full.max()) <= 1
    assert full.isfinite().all()


def test_a_cube_that_fills_24_voxels_is_seen_whole_from_everywhere():
    views = object_views(box(24, 24, 24)[None], num_views=8)
    frame = torch.ones(112, 112, dtype=torch.bool)
    frame[1:-1, 1:-1] = False
    assert not views[..., frame].any()
    assert float(views[:, :, 1].max()) < 1


@pytest.mark.parametrize("kind", [torch.bool, torch.uint8, torch.float32, torch.float16])
def test_the_type_of_the_voxels_does_not_matter(kind):
    assert torch.equal(render(odd_one()[None].to(kind), resolution=32), render(odd_one()[None], resolution=32))


def test_a_batch_gives_what_each_object_gives_alone(monkeypatch):
    batch = torch.stack([sphere(9), cone(), odd_one(), box(6, 20, 10)])
    alone = torch.cat([render(each[None], azimuth_deg=20, fit=True) for each in batch])
    assert torch.allclose(render(batch, azimuth_deg=20, fit=True), alone, atol=1e-6)
    monkeypatch.setattr("airpool.data.views._CHUNK", 1)
    assert torch.allclose(render(batch, azimuth_deg=20, fit=True), alone, atol=1e-6)


def test_twice_the_resolution_shows_the_same_object():
    # Convex solids: no outline of one part before another, where a pixel may show either.
    solids = torch.stack([sphere(10), box(12, 18, 14), cone()])
    small, large = render(solids), render(solids, resolution=224)
    halved = torch.nn.functional.avg_pool2d(large, 2)
    inside = torch.nn.functional.avg_pool2d((large[:, 1:] > 0).float(), 2)
    both = ((inside == 1) & (small[:, 1:] > 0)).expand_as(small)
    assert (halved - small)[both].abs().mean() < 2e-3
    assert ((inside >= 0.5) != (small[:, 1:] > 0)).float().mean() < 0.01


def test_a_finer_grid_shows_the_same_object():
    fine = odd_one()
    for axis in range(3):
        fine = fine.repeat_interleave(2, axis)
    assert (render(fine[None]) - render(odd_one()[None])).abs().mean() < 0.02


def test_fit_makes_every_object_fill_the_grid_as_the_packed_data_do():
    small = sphere(8, x0=3, y0=-3, z0=2)
    image = render(small[None], azimuth_deg=25, fit=True)[0]
    assert shadow_centre(image) == pytest.approx((0, 0), abs=0.3)
    width = float((image[1] > 0).any(0).sum()) * 2 * WINDOW / 112
    assert width == pytest.approx(FILL * SIDE, abs=1.5)


def test_fit_leaves_alone_what_already_fills_the_grid():
    voxels = box(24, 10, 16)[None]
    assert torch.allclose(render(voxels, fit=True), render(voxels), atol=1e-5)


def test_view_k_of_as_many_poses_is_pose_k():
    poses = torch.stack([sphere(9), cone(), odd_one(), box(6, 20, 10)])[None]
    views = object_views(poses, num_views=4, resolution=56)
    assert views.shape == (1, 4, 2, 56, 56)
    for k in range(4):
        assert torch.equal(views[0, k], render(poses[:, k], resolution=56)[0])


@pytest.mark.parametrize("num_views", [1, 4, 5, 20])
def test_any_number_of_views_comes_from_pose_0(num_views):
    poses = torch.stack([odd_one()] + 2 * [sphere(3)])[None]
    views = object_views(poses, num_views=num_views, resolution=28)
    assert views.shape == (1, num_views, 2, 28, 28)
    assert torch.equal(views, object_views(poses[:, 0], num_views=num_views, resolution=28))
    for k in range(num_views):
        expected = render(poses[:, 0], azimuth_deg=360 * k / num_views, resolution=28, fit=True)
        assert torch.equal(views[:, k], expected)


def test_poses_turned_in_voxels_and_one_pose_turned_by_the_camera_look_alike():
    y, x, z = grid()
    poses = []
    for k in range(12):
        a = math.radians(30 * k)
        along, across = math.cos(a) * y + math.sin(a) * x, -math.sin(a) * y + math.cos(a) * x
        half = torch.tensor([9.0, 4.0])
        reach = max(9 * abs(math.cos(a)) + 4 * abs(math.sin(a)), 9 * abs(math.sin(a)) + 4 * abs(math.cos(a)), 5)
        half = half * 12 / reach
        poses.append((along.abs() < half[0]) & (across.abs() < half[1]) & (z.abs() < 5 * 12 / reach))
    views = object_views(torch.stack(poses)[None])
    turned = object_views(poses[0][None])
    # Voxels on slanted faces are steps: the pictures agree but for these.
    assert (views - turned).abs().mean() < 0.02
    assert (views - turned.roll(1, 1)).abs().mean() > 0.03


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: render(torch.zeros(30, 30, 30)), r"shape \(30, 30, 30\)"),
        (lambda: render(torch.zeros(1, 30, 30, 29)), "must be"),
        (lambda: render(torch.zeros(1, 30, 30, 30), resolution=0), "resolution=0"),
        (lambda: object_views(torch.zeros(30, 30, 30)), "must be"),
        (lambda: object_views(torch.zeros(1, 30, 30, 30), num_views=0), "num_views=0"),
    ],
)
def test_input_that_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_twelve_views_write_no_more_than_a_few_values_for_each_step_of_a_ray():
    voxels = torch.stack(12 * [odd_one()])[None]
    steps = 12 * 64 * 112 * 112
    assert work(lambda: object_views(voxels)) < 8 * steps


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_sees_what_a_cpu_sees():
    voxels = torch.stack([cone(), odd_one()])
    on_gpu = object_views(voxels.cuda(), num_views=5).cpu()
    difference = (on_gpu - object_views(voxels, num_views=5)).abs()
    assert float(difference.mean()) < 1e-4
