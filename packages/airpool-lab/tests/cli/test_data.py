import json

import pytest
from typer.testing import CliRunner

from airpool import cli
from airpool.models.vision import shapes

pytest.importorskip("trimesh", reason="needs the extra mesh")

CHAIRS = [shape for shape in shapes.all() if shape.label == "chair"]


def run(*arguments):
    return CliRunner().invoke(cli.app, ["data", *map(str, arguments)])


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "meshes"
    for shape in CHAIRS:
        path = root / "chair" / ("train" if shape.variant else "test") / f"{shape.name}.off"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(shape.off)
    return root


def test_prepare_writes_a_file_that_info_describes(folder, tmp_path):
    out = tmp_path / "meshes.npz.xz"
    result = run("prepare", folder, "--out", out, "--workers", 1)
    assert result.exit_code == 0, result.output
    assert f"{len(CHAIRS)} objects → {out}" in result.output
    told = json.loads(run("info", out, "--json").stdout)
    assert sum(told["objects"].values()) == len(CHAIRS)
    assert told["objects"]["test"] == 1
    assert told["classes"] == {"chair": told["objects"]}
    assert told["twins"] == 0
    assert told["sources"] == {"cad": len(CHAIRS)}
    assert 0 < told["faces"]["median"] <= told["faces"]["largest"] <= 2000
    table = run("info", out).stdout
    assert "chair" in table
    assert f"{len(CHAIRS)} meshes, " in table
    assert "0 test objects have the mesh of a training object" in table


def test_no_worker_is_not_the_default(folder, tmp_path):
    refused = run("prepare", folder, "--out", tmp_path / "a.npz", "--workers", 0)
    assert "workers=0 must be at least 1" in str(refused.exception)


def test_unreadable_meshes_are_a_warning_and_with_strict_a_failure(folder, tmp_path):
    (folder / "chair" / "train" / "bad.off").write_text("not a mesh")
    loose = run("prepare", folder, "--out", tmp_path / "a.npz", "--workers", 1)
    assert loose.exit_code == 0
    assert "chair/train/bad.off: not an OFF mesh" in loose.stderr
    strict = run("prepare", folder, "--out", tmp_path / "b.npz", "--workers", 1, "--strict", "--json")
    assert strict.exit_code == 1
    told = json.loads(strict.stdout)
    assert told["objects"] == len(CHAIRS)
    assert len(told["unreadable"]) == 1
    assert (tmp_path / "b.npz").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "absent.npz"], "absent.npz: no such file"),
        (["info", __file__], "not a packed file of meshes"),
        (["prepare", "absent", "--out", "x.npz"], "absent: no such file or folder"),
        (["prepare", ".", "--out", "x.zip"], "--out x.zip must end in .npz or .npz.xz"),
    ],
)
def test_bad_input_is_one_line_and_exit_status_2(arguments, message, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["airpool", "data", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1
