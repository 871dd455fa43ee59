from collections import Counter

import numpy as np
import pytest

from airpool.models.vision import shapes

CLASSES = [
    "airplane",
    "bathtub",
    "bed",
    "bench",
    "bookshelf",
    "bottle",
    "bowl",
    "car",
    "chair",
    "cone",
    "cup",
    "curtain",
    "desk",
    "door",
    "dresser",
    "flower_pot",
    "glass_box",
    "guitar",
    "keyboard",
    "lamp",
    "laptop",
    "mantel",
    "monitor",
    "night_stand",
    "person",
    "piano",
    "plant",
    "radio",
    "range_hood",
    "sink",
    "sofa",
    "stairs",
    "stool",
    "table",
    "tent",
    "toilet",
    "tv_stand",
    "vase",
    "wardrobe",
    "xbox",
]
SHAPES = shapes.all()


def test_there_are_fifteen_kinds_with_four_variants_each():
    kinds = Counter(shape.label for shape in SHAPES)
    assert len(kinds) >= 15
    assert min(kinds.values()) >= 4
    assert set(kinds) <= set(CLASSES)


def test_names_differ_and_the_order_is_fixed():
    names = [shape.name for shape in SHAPES]
    assert len(set(names)) == len(names)
    assert names == [shape.name for shape in shapes.all()]
    assert names == [f"{shape.label}_{shape.variant}" for shape in SHAPES]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_shape_is_a_sound_mesh(shape):
    assert np.isfinite(shape.vertices).all()
    assert shape.faces.shape[1:] == (3,)
    assert shape.faces.min() == 0
    assert shape.faces.max() < len(shape.vertices)
    assert np.ptp(shape.vertices, axis=0).min() > 0


def test_variants_of_a_kind_differ():
    sizes = {(shape.label, *np.ptp(shape.vertices, axis=0).round(4), len(shape.faces)) for shape in SHAPES}
    assert len(sizes) == len(SHAPES)


def test_a_shape_is_written_as_off_text():
    chair = next(shape for shape in SHAPES if shape.label == "chair")
    first, counts, *rest = chair.off.splitlines()
    assert first == "OFF"
    assert counts.split() == [str(len(chair.vertices)), str(len(chair.faces)), "0"]
    assert len(rest) == len(chair.vertices) + len(chair.faces)
    assert rest[-1].startswith("3 ")
