"""What is built: airpool's wheel is small and whole, its sdist builds the same, and the data are in a package apart."""

import re
import tarfile
import tomllib
import zipfile

import pytest
from packaging.requirements import Requirement
from scripts.extras import ROOT, built

from airpool._support.version import __version__

SOURCE, DATA = ROOT / "src", ROOT / "packages" / "models" / "src"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def files(folder):
    """Paths of all files below a folder of sources."""
    found = [each.relative_to(folder) for each in folder.rglob("*") if each.is_file()]
    return {each.as_posix() for each in found if "__pycache__" not in each.parts}


def contents(wheel):
    """Checksums by name; a wheel's own list is left out, as its lines are these."""
    with zipfile.ZipFile(wheel) as archive:
        return {each.filename: each.CRC for each in archive.infolist() if not each.filename.endswith("RECORD")}


def test_the_models_extra_asks_for_the_data_of_this_version():
    (wanted,) = [each for each in PROJECT["optional-dependencies"]["models"] if each.startswith("airpool-models")]
    major, minor, _ = __version__.split(".")
    assert Requirement(wanted).specifier.contains(__version__)
    assert not Requirement(wanted).specifier.contains(f"{major}.{int(minor) + 1}.0")


def test_the_data_package_has_the_licence_and_a_notice_for_each_part():
    folder = DATA.parent
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    notice = (folder / "NOTICE").read_text("utf-8")
    for part in (DATA / "airpool_models").iterdir():
        assert part.name in notice or part.name in ("__init__.py", "__pycache__", "sensors"), part
    assert all(path.stem in notice for path in (DATA / "airpool_models" / "sensors").iterdir())
    assert "academic" in notice


@pytest.mark.check
def test_airpool_s_wheel_is_small_and_holds_all_code_the_page_and_the_licences(code):
    wheel = code[0]
    assert wheel.stat().st_size <= 3e6
    found = set(contents(wheel))
    own = {name for name in found if name.startswith("airpool/")}
    assert own == {name for name in files(SOURCE) if name.startswith("airpool/")}
    licences = {name.rpartition("/")[2] for name in found if "/licenses/" in name}
    assert licences == {"LICENSE", "NOTICE", "three.LICENSE", "uPlot.LICENSE"}
    assert not [name for name in found if re.search(r"safetensors$|(^|/)tests?/", name)]


@pytest.mark.check
def test_the_sdist_is_small_and_builds_the_same_wheel(code, tmp_path):
    wheel, source = code
    assert source.stat().st_size <= 3e6
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    assert (unpacked / "LICENSE").exists()
    assert not (unpacked / "docs").exists()
    assert contents(built(unpacked, tmp_path / "again")[0]) == contents(wheel)


@pytest.mark.check
def test_the_data_wheel_holds_all_data_and_their_notices(data, tmp_path):
    wheel, source = data
    assert wheel.stat().st_size <= 40e6
    found = set(contents(wheel))
    assert {name for name in found if name.startswith("airpool_models/")} == files(DATA)
    notices = {name.partition("/licenses/")[2] for name in found if "/licenses/" in name}
    assert {"LICENSE", "NOTICE", "src/airpool_models/modelnet40/NOTICE"} <= notices
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    assert contents(built(unpacked, tmp_path / "again")[0]) == contents(wheel)
