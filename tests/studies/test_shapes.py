"""Our own shapes, built again: what ships is what the builders make."""

import numpy as np
import pytest
from studies.shapes import ASSET, asset, built
from studies.shapes.solids import Mesh, box, disc, lathe, prism, rod

from airpool.models.vision import shapes


def test_the_shapes_that_ship_are_those_that_are_built():
    meshes = built()
    shipped = {shape.name: shape for shape in shapes.all()}
    assert list(shipped) == list(meshes)
    for name, mesh in meshes.items():
        assert np.array_equal(shipped[name].faces, mesh.faces)
        # Sines and cosines differ in their last digit from machine to machine.
        assert shipped[name].vertices == pytest.approx(mesh.vertices, rel=1e-12, abs=1e-12)


def test_the_asset_is_small_and_the_same_every_time():
    content = asset(built())
    assert content == asset(built())
    assert len(content) == ASSET.stat().st_size < 1_500_000


def test_solids_are_closed_and_face_outwards():
    # Signed volume by the divergence theorem: what our parts add up to is positive, and that of a box is exact.
    def volume(mesh: Mesh) -> float:
        a, b, c = mesh.vertices[mesh.faces].transpose(1, 0, 2)
        return float(np.sum(a * np.cross(b, c)) / 6)

    assert volume(box((2, 3, 4), (5, 6, 7))) == pytest.approx(24)
    assert volume(prism([(0, 0), (2, 0), (2, 1), (0, 1)], 3)) == pytest.approx(6)
    assert volume(disc(1, 2, sides=400)) == pytest.approx(2 * np.pi, rel=1e-3)
    assert volume(lathe([(0, 0), (1, 0), (0, 3)], sides=400)) == pytest.approx(np.pi, rel=1e-3)
    assert volume(rod([(1, 1, 1), (1, 4, 5)], 0.5, sides=400)) == pytest.approx(5 * np.pi / 4, rel=1e-3)
