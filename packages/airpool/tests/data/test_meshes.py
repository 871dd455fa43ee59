import subprocess
import sys

import numpy as np
import pytest

from airpool.models.vision import meshes, shapes
from airpool.models.vision.meshes import Limits, MeshError, parse

pytest.importorskip("trimesh", reason="needs the extra mesh")

TETRAHEDRON = "4 4 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n3 0 1 3\n3 0 2 3\n3 1 2 3\n"
OFF = f"OFF\n{TETRAHEDRON}".encode()
OBJ = b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1 2 4\nf 1 3 4\nf 2 3 4\n"
PLY = (
    b"ply\nformat ascii 1.0\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\n"
    b"element face 4\nproperty list uchar int vertex_indices\nend_header\n"
    b"0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n3 0 1 3\n3 0 2 3\n3 1 2 3\n"
)
FACET = "facet normal 0 0 0\nouter loop\nvertex {}\nvertex {}\nvertex {}\nendloop\nendfacet\n"
CORNERS = ["0 0 0", "1 0 0", "0 1 0", "0 0 1"]
STL = (
    "solid t\n"
    + "".join(FACET.format(*(CORNERS[i] for i in face)) for face in [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)])
    + "endsolid t\n"
).encode()


@pytest.mark.parametrize(("name", "data"), [("t.off", OFF), ("t.OBJ", OBJ), ("t.ply", PLY), ("t.stl", STL)])
def test_the_same_tetrahedron_is_read_from_every_format(name, data):
    mesh = parse(data, name=name)
    corners = mesh.vertices[mesh.faces]
    assert corners.shape == (4, 3, 3)
    expected = parse(OFF, name="t.off")
    assert np.array_equal(corners, expected.vertices[expected.faces])


@pytest.mark.parametrize("header", ["OFF", "OFF ", "OFF\r\n", "OFF\n# by hand\n"])
def test_a_broken_off_header_is_repaired(header):
    mesh = parse((header + TETRAHEDRON).encode(), name="broken.off")
    assert len(mesh.faces) == 4


def test_polygons_become_triangles():
    square = parse(b"OFF\n4 1 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n4 0 1 2 3\n", name="square.off")
    assert square.faces.shape == (2, 3)


def test_a_comment_in_any_encoding_does_no_harm():
    assert len(parse(b"# Stra\xdfe\n" + OBJ, name="t.obj").faces) == 4


def test_several_bodies_in_one_file_are_one_mesh():
    other = b"o second\nv 5 0 0\nv 6 0 0\nv 5 1 0\nf 5 6 7\n"
    assert len(parse(b"o first\n" + OBJ + other, name="two.obj").faces) == 5


def test_a_mesh_from_a_stranger_opens_no_other_file(tmp_path):
    secret = tmp_path / "secret.mtl"
    secret.write_text("not a material")
    assert len(parse(f"mtllib {secret}\nusemtl x\n".encode() + OBJ, name="t.obj").faces) == 4


def test_a_texture_that_is_named_is_not_opened_and_no_traceback_tells_of_it(tmp_path):
    program = tmp_path / "program.py"
    textured = PLY.replace(b"1.0\n", b"1.0\ncomment TextureFile /nowhere.png\n", 1)
    program.write_text(
        f"from airpool.models.vision.meshes import parse\nassert len(parse({textured!r}, name='t.ply').faces) == 4\n"
    )
    found = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=60, check=True)
    assert found.stderr == ""


def test_a_shape_survives_writing_and_reading(tmp_path):
    shape = shapes.all()[0]
    path = tmp_path / "shape.off"
    path.write_text(shape.off)
    mesh = meshes.read(path)
    assert np.array_equal(mesh.faces, shape.faces)
    assert np.allclose(mesh.vertices, shape.vertices, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["t.off", "t.obj", "t.ply", "t.stl"])
@pytest.mark.parametrize("data", [b"", b"hello", bytes(range(256)) * 20], ids=["empty", "text", "bytes"])
def test_what_is_not_a_mesh_is_one_line(name, data):
    with pytest.raises(MeshError, match=f"^{name}: [^\n]*$"):
        parse(data, name=name)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (OFF[:30], "not a readable OFF mesh"),
        (b"OFF\n3 0 0\n0 0 0\n1 0 0\n0 1 0\n", "no faces"),
        (b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 3\n", "outside the range"),
        (b"OFF\n3 1 0\n0 0 nan\n1 0 0\n0 1 0\n3 0 1 2\n", "must be a number"),
        (b"OFF\n3 1 0\n0 0 1e31\n1 0 0\n0 1 0\n3 0 1 2\n", "smaller than 1e30"),
        (b"OFF\n3 1 0\n1 0 0\n1 0 0\n1 0 0\n3 0 1 2\n", "coincide"),
    ],
)
def test_a_damaged_mesh_says_what_is_wrong(data, reason):
    with pytest.raises(MeshError, match=reason):
        parse(data, name="damaged.off")


@pytest.mark.parametrize(
    ("limits", "what"),
    [(Limits(num_bytes=10), "bytes"), (Limits(num_vertices=3), "4 vertices"), (Limits(num_faces=3), "4 faces")],
)
def test_a_mesh_over_the_limits_is_refused(limits, what, tmp_path):
    path = tmp_path / "large.off"
    path.write_bytes(OFF)
    with pytest.raises(MeshError, match=f"large.off: .*{what}; at most"):
        meshes.read(path, limits)
    if what != "bytes":
        with pytest.raises(MeshError, match=what):
            parse(PLY, name="large.ply", limits=limits)


def test_counts_are_checked_before_anything_is_allocated():
    with pytest.raises(MeshError, match="999999999999 vertices"):
        parse(b"OFF\n999999999999 1 0\n", name="bomb.off")


def test_other_endings_are_refused():
    with pytest.raises(MeshError, match=r"must end in \.off, \.obj, \.stl, \.ply"):
        parse(b"", name="model.exe")


def test_without_trimesh_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "trimesh", None)
    with pytest.raises(ValueError, match=r"pip install -e './packages/airpool\[mesh\]'") as missing:
        parse(OFF, name="t.off")
    assert not isinstance(missing.value, MeshError)  # nothing is wrong with the file
