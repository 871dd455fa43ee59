"""The diagrams of the documentation are drawn from their source, hold their text, and say what the code does."""

import re
from xml.etree import ElementTree

import pytest

from scripts import diagrams as drawing
from tests.test_imports import FLOORS, SOURCE

DIAGRAMS = drawing.diagrams()


def wide(text):
    """Width of a text in units, in the widest of the fonts that browsers fall back to."""
    textpath = pytest.importorskip("matplotlib.textpath")
    from matplotlib.font_manager import FontProperties

    font = FontProperties(family="DejaVu Sans", weight="bold" if text.bold else "normal")
    return float(textpath.TextPath((0, 0), text.words, size=text.size, prop=font).get_extents().width)


@pytest.mark.parametrize("diagram", DIAGRAMS, ids=lambda each: each.name)
def test_the_file_is_drawn_from_its_source(diagram):
    assert diagram.path.read_text("utf-8") == drawing.svg(diagram), "run scripts/diagrams.py"


@pytest.mark.parametrize("diagram", DIAGRAMS, ids=lambda each: each.name)
def test_every_text_fits_where_it_stands(diagram):
    for kind, place, lines in diagram.parts:
        for text in drawing.texts(kind, place, lines):
            room = drawing.WIDTH - text.x if kind == "note" else place[2] - 4
            assert wide(text) <= room, text.words
            assert text.y <= diagram.height - 4


@pytest.mark.parametrize("diagram", DIAGRAMS, ids=lambda each: each.name)
def test_a_diagram_has_a_title_and_a_description_and_fetches_nothing(diagram):
    root = ElementTree.fromstring(drawing.svg(diagram))
    assert all(root.findtext(f"{{http://www.w3.org/2000/svg}}{part}") for part in ("title", "desc"))
    assert not re.search(r"href|url\((?!#)|@import", drawing.svg(diagram))


def test_the_floors_are_those_that_imports_obey():
    (floors,) = [each for each in DIAGRAMS if each.name == "floors"]
    rooms = {}
    for kind, (_, y, *_), lines in floors.parts:
        if kind.startswith("box"):
            rooms.setdefault(y, []).append(lines[0])
    drawn = [rooms[y] for y in sorted(rooms, reverse=True)]
    left_out = ("airpool.__main__", "airpool_lab.bundle", "airpool_lab.cli")
    floors = [[room.removeprefix("airpool.") for room in floor if room not in left_out] for floor in FLOORS]
    assert drawn == [floor for floor in floors if floor]


def test_the_modules_that_a_feature_passes_exist():
    (feature,) = [each for each in DIAGRAMS if each.name == "feature"]
    named = {name for _, _, lines in feature.parts for line in lines for name in re.findall(r"\b[a-z]+/[a-z_.]*", line)}
    assert {"protocol/device.py", "protocol/medium.py", "protocol/server.py"} <= named
    assert [name for name in named if not (SOURCE / name).exists()] == []
