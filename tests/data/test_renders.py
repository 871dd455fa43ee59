import numpy as np
import pytest
import torch

from airpool.data import shapes, views, voxels
from airpool.data.views import renders


@pytest.fixture(scope="module")
def packed():
    """Two objects, each in twelve poses."""
    return np.stack([voxels.pack(voxels.voxelise(s.vertices, s.faces)) for s in shapes.all()[:2]])


def test_pictures_are_the_views_in_bytes(packed):
    told = []
    found = renders(packed, on_objects=told.append)
    assert found.shape == (2, 12, 2, 112, 112)
    assert found.dtype == torch.uint8
    seen = views.object_views(torch.from_numpy(voxels.unpack(packed)))
    assert (found.float() / 255 - seen).abs().max() <= 0.5 / 255 + 1e-6
    assert sum(told) == 2


def test_every_object_is_rendered_by_itself_whatever_the_batch(packed, monkeypatch):
    monkeypatch.setattr("airpool.data.views._OBJECTS", 1)
    one_by_one = renders(packed)
    monkeypatch.setattr("airpool.data.views._OBJECTS", 2)
    assert torch.equal(renders(packed), one_by_one)


def test_no_objects_have_no_pictures(packed):
    assert renders(packed[:0]).shape == (0, 12, 2, 112, 112)
