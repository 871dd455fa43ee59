"""Views of packed objects."""

import numpy as np
import pytest
import torch

from airpool.models.vision import shapes
from airpool.models.vision.meshes import Mesh
from airpool.models.vision.views import Cameras, views
from airpool_lab.vision import cad
from airpool_lab.vision.prepare import gridded
from airpool_lab.vision.renders import renders

CAMERAS = Cameras(num_views=4, resolution=32)


@pytest.fixture(scope="module")
def packed():
    chosen = shapes.all()[:10]
    columns = {"label": np.zeros(10, int), "classes": np.array(["thing"]), "split": np.array(["train"] * 10)}
    columns |= {"name": np.array([shape.name for shape in chosen]), "source": np.array(["cad"] * 10)}
    return cad.joined([cad.pack(*gridded(Mesh(shape.vertices, shape.faces))) for shape in chosen], **columns)


def test_they_are_what_the_cameras_see_in_the_order_asked_for(packed):
    told = []
    rows = np.array([7, 0, 9, 1, 2, 3, 4, 5, 6])
    found = renders(packed, rows, CAMERAS, on_objects=told.append)
    assert sum(told) == 9
    assert torch.equal(found, views([packed.mesh(i) for i in rows], CAMERAS, dtype=torch.uint8))
    assert renders(packed, rows[:0], CAMERAS).shape == (0, 4, 2, 32, 32)


def test_extra_views_come_after_the_cameras_and_near_the_same_side(packed):
    rows = np.arange(10)
    found = renders(packed, rows, CAMERAS, extra_views=8, seed=1)
    assert found.shape == (10, 12, 2, 32, 32)
    assert torch.equal(found[:, :4], renders(packed, rows, CAMERAS))
    assert torch.equal(found, renders(packed, rows, CAMERAS, extra_views=8, seed=1))
    assert not torch.equal(found[:, 4:], renders(packed, rows, CAMERAS, extra_views=8, seed=2)[:, 4:])
    seen = found[:, :, 1].float() / 255
    # View j and camera j mod 4 are at most 45° apart, others at least that: on average nearer to its own.
    far = torch.stack([(seen[:, 4:] - seen[:, [k]]).abs().mean((0, 2, 3)) for k in range(4)])
    own = far[torch.arange(8) % 4, torch.arange(8)]
    assert own.mean() < 0.8 * far.mean()
