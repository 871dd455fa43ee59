import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import binary_fill_holes
from studies.shapes.solids import box, disc, join, rod

from airpool.data import shapes
from airpool.data.voxels import PACKED_BYTES, SIDE, pack, unpack, voxelise

SHAPES = shapes.all()


def voxels(mesh):
    return voxelise(mesh.vertices, mesh.faces)


def spans(grid):
    return np.ptp(np.argwhere(grid), axis=0) + 1


def test_packing_is_numpys_bit_order_and_loses_nothing():
    grids = np.random.default_rng(0).random((2, 3, SIDE, SIDE, SIDE)) < 0.3
    packed = pack(grids)
    assert packed.shape == (2, 3, PACKED_BYTES)
    assert packed.dtype == np.uint8
    assert np.array_equal(np.unpackbits(packed[1, 2])[:27000].reshape(30, 30, 30), grids[1, 2])
    assert np.array_equal(unpack(packed), grids)


def test_a_box_is_solid_centred_and_fills_24_voxels():
    poses = voxels(box((1, 2, 4), at=(100, -50, 7)))
    assert poses.shape == (12, 30, 30, 30)
    # Half sides of 11.5, 5.75 and 2.875 voxels from the middle, y first: 24, 2·(5 + 1) and 2·(2 + 1) voxels.
    assert spans(poses[0]).tolist() == [12, 6, 24]
    assert poses[0].sum() == 12 * 6 * 24
    assert poses[0, 9:21, 12:18, 3:27].all()


@pytest.mark.parametrize("shape", SHAPES[::9], ids=lambda shape: shape.name)
def test_every_pose_fills_the_grid_by_itself_and_has_no_hollow(shape):
    for grid in voxelise(shape.vertices, shape.faces):
        assert spans(grid).max() == 24
        assert np.argwhere(grid).min() == 3
        assert np.argwhere(grid).max() == 26
        assert np.array_equal(binary_fill_holes(grid), grid)


def test_a_long_thing_is_drawn_larger_where_it_lies_askew():
    poses = voxels(box((1, 10, 4.2)))
    assert spans(poses[0]).tolist() == [24, 4, 10]
    assert spans(poses[1])[[0, 2]].tolist() == [24, 12]  # 30° on, 10·cos 30° + 1·sin 30° = 9.2 fill the grid


def test_poses_turn_from_axis_0_towards_axis_1():
    seat = join([box((1, 1, 0.1), (0, 0, 0.5)), box((1, 0.1, 1), (0, 0.5, 0))])  # back towards +y, which is axis 0
    poses = voxels(seat)
    assert np.argwhere(poses[0])[:, 0].mean() > 15
    for pose in range(12):
        turned = np.rot90(poses[pose], axes=(0, 1))
        assert (turned != poses[(pose + 3) % 12]).sum() <= 0.01 * turned.sum()
    # 30° take +axis 0 a third of the way to +axis 1.
    top = np.argwhere(poses[1].any((0, 1))).max()
    back = np.argwhere(poses[1][:, :, top]).mean(0) - 14.5
    assert np.rad2deg(np.arctan2(back[1], back[0])) == pytest.approx(30, abs=3)


def test_grid_axes_are_y_x_z():
    poses = voxels(box((1, 3, 2)))
    assert spans(poses[0]).tolist() == [24, 8, 16]


def test_an_open_vessel_stays_hollow_and_a_closed_one_does_not():
    cup = next(shape for shape in SHAPES if shape.label == "cup" and shape.variant == 1)
    grid = voxelise(cup.vertices, cup.faces)[0]
    assert not grid[15, 15, 20]
    assert voxels(disc(1, 2))[0][15, 15, 20]


def test_a_thin_rod_is_unbroken():
    grid = voxels(rod([(0, 0, 0), (3, 5, 7)], 0.001))[0]
    assert grid.any((0, 1))[3:27].all()


def test_stray_vertices_do_not_shrink_the_object():
    mesh = box((1, 1, 1))
    strayed = voxelise(np.vstack([mesh.vertices, [[99, 99, 99]]]), mesh.faces)
    assert np.array_equal(strayed, voxels(mesh))


@given(st.floats(1e-6, 1e6), st.tuples(*3 * [st.floats(-10, 10)]))
def test_size_and_place_of_a_mesh_do_not_matter(scale, shift):
    mesh = box((1.03, 2.17, 3.31))
    there = voxelise((mesh.vertices + shift) * scale, mesh.faces)
    assert np.array_equal(there, voxels(mesh))


def test_what_has_no_faces_or_no_size_is_an_error():
    with pytest.raises(ValueError, match="without faces"):
        voxelise(np.zeros((3, 3)), np.zeros((0, 3), int))
    with pytest.raises(ValueError, match="no size"):
        voxelise(np.ones((3, 3)), np.array([[0, 1, 2]]))
