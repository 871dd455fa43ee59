"""What is built: six wheels with all their code and their licences, each of which runs where nothing else is."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from airpool._support.version import __version__
from scripts.extras import ROOT, built

FOLDERS = {path.parent.name: path.parent for path in sorted(ROOT.glob("packages/*/pyproject.toml"))}
# Those that bring code or data of their own: airpool-device has that of two others.
OWN = sorted(FOLDERS.keys() - {"airpool-device"})
# Package → the packages of airpool that it cannot do without.
BESIDE = {
    "airpool": set(),
    "airpool-device": set(),
    "airpool-lab": {"airpool"},
    "airpool-models": set(),
    "airpool-runtime": {"airpool"},
    "airpool-web": {"airpool", "airpool-lab", "airpool-runtime"},
}
# Requirements of an empty environment → what runs in it.
FIRST = {
    "airpool": ["airpool epsilon --devices 12 --noise-std 0.05 --participation 0.9"],
    "airpool-models": ["python -c 'import airpool_models'"],
    "airpool-device": ["airpool device --help", "airpool ledger --help"],
    "airpool-runtime": ["airpool up --help", "airpool ledger --help", "airpool keys init --keys keys"],
    "airpool-web": ["airpool ui --help", "airpool reproduce table-2", "airpool demo --help"],  # airpool-lab, too
}


def project(name):
    return tomllib.loads((FOLDERS[name] / "pyproject.toml").read_text("utf-8"))


def files(folder):
    """Paths of all files below a folder of sources."""
    found = [each.relative_to(folder) for each in folder.rglob("*") if each.is_file()]
    return {each.as_posix() for each in found if "__pycache__" not in each.parts}


def contents(wheel):
    """Checksums by name; a wheel's own list is left out, as its lines are these."""
    with zipfile.ZipFile(wheel) as archive:
        return {each.filename: each.CRC for each in archive.infolist() if not each.filename.endswith("RECORD")}


def licences(wheel):
    return {name.partition("/licenses/")[2] for name in contents(wheel) if "/licenses/" in name}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_package_names_the_others_by_this_version_and_only_those_below_it(name):
    found = project(name)["project"]
    needs = [Requirement(each) for each in found.get("dependencies", ())]
    beside = {each.name: each for each in needs if each.name in FOLDERS}
    assert beside.keys() == BESIDE[name]
    assert {str(each.specifier) for each in beside.values()} <= {f"=={__version__}"}
    extras = [Requirement(each) for wanted in found.get("optional-dependencies", {}).values() for each in wanted]
    others = [each for each in extras if each.name in FOLDERS and each.name != name]
    assert {str(each.specifier) for each in others} <= {f"=={__version__}"}
    assert not any(each.name == "airpool" and "all" in each.extras for each in (*needs, *extras))


@pytest.mark.parametrize("name", FOLDERS)
def test_a_package_has_the_one_version_and_needs_hatchling_alone_to_build(name):
    found = project(name)
    assert found["project"]["dynamic"] == ["version"]
    path = FOLDERS[name] / found["tool"]["hatch"]["version"]["path"]
    assert path.resolve() == ROOT / "packages/airpool/src/airpool/_support/version.py"
    assert found["build-system"] == {"requires": ["hatchling"], "build-backend": "hatchling.build"}


@pytest.mark.parametrize("name", OWN)
def test_a_package_that_says_it_is_typed_tells_type_checkers(name):
    said = "Typing :: Typed" in project(name)["project"]["classifiers"]
    assert said == (FOLDERS[name] / "src" / name.replace("-", "_") / "py.typed").exists()


def test_models_are_of_the_lab_and_no_torch_is_of_the_runtime():
    needs = {name: [Requirement(each) for each in project(name)["project"].get("dependencies", ())] for name in OWN}
    assert any("models" in each.extras for each in needs["airpool-lab"] if each.name == "airpool")
    assert not {"torch", "airpool-lab", "airpool-models"} & {each.name for each in needs["airpool-runtime"]}
    assert not any(each.extras for each in needs["airpool-runtime"])
    assert not needs["airpool-models"]


def test_the_data_package_has_the_licence_and_a_notice_for_each_part():
    folder = FOLDERS["airpool-models"]
    data = folder / "src" / "airpool_models"
    notice = (folder / "NOTICE").read_text("utf-8")
    for part in data.iterdir():
        assert part.name in notice or part.name in ("__init__.py", "__pycache__", "sensors"), part
    assert all(path.stem in notice for path in (data / "sensors").iterdir())
    assert "academic" in notice


@pytest.fixture(scope="session")
def dist(tmp_path_factory) -> Path:
    """The folder of all wheels and sdists."""
    out = tmp_path_factory.mktemp("dist")
    for name in OWN:
        built(FOLDERS[name], out)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(command, check=True, cwd=FOLDERS["airpool-device"], capture_output=True)
    return out


def wheel_of(dist, name):
    return dist / f"{name.replace('-', '_')}-{__version__}-py3-none-any.whl"


@pytest.mark.check
@pytest.mark.parametrize("name", OWN)
def test_a_wheel_is_small_and_holds_all_code_or_data_and_the_licences(name, dist):
    wheel = wheel_of(dist, name)
    assert wheel.stat().st_size <= (40e6 if name == "airpool-models" else 1e6)
    found = {each for each in contents(wheel) if ".dist-info/" not in each}
    assert found == files(FOLDERS[name] / "src")
    assert name == "airpool-models" or not [each for each in found if re.search(r"safetensors$|(^|/)tests?/", each)]
    kept = [path for pattern in project(name)["project"]["license-files"] for path in FOLDERS[name].glob(pattern)]
    assert licences(wheel) == {path.relative_to(FOLDERS[name]).as_posix() for path in kept}
    assert {"LICENSE", "NOTICE"} <= licences(wheel)


@pytest.mark.check
def test_the_wheel_of_a_device_holds_the_code_of_library_and_runtime(dist):
    wheel = wheel_of(dist, "airpool-device")
    assert wheel.stat().st_size <= 1e6
    found = {each for each in contents(wheel) if ".dist-info/" not in each}
    assert found == files(FOLDERS["airpool"] / "src") | files(FOLDERS["airpool-runtime"] / "src")
    assert licences(wheel) == {"LICENSE"}


@pytest.mark.check
@pytest.mark.parametrize("name", OWN)
def test_an_sdist_is_small_and_builds_the_same_wheel(name, dist, tmp_path):
    source = dist / f"{name.replace('-', '_')}-{__version__}.tar.gz"
    assert source.stat().st_size <= (40e6 if name == "airpool-models" else 1e6)
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    assert (unpacked / "LICENSE").exists()
    assert not (unpacked / "tests").exists()
    assert contents(built(unpacked, tmp_path / "again")[0]) == contents(wheel_of(dist, name))


@pytest.mark.check
@pytest.mark.skipif(find_spec("check_wheel_contents") is None, reason="needs check-wheel-contents")
@pytest.mark.parametrize("name", FOLDERS)
def test_nothing_in_a_wheel_is_out_of_place(name, dist):
    """What is meant to be so is in the package's pyproject.toml, with the reason."""
    command = [sys.executable, "-m", "check_wheel_contents", wheel_of(dist, name)]
    done = subprocess.run(command, cwd=FOLDERS[name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.check
@pytest.mark.parametrize("name", FIRST)
def test_a_package_alone_runs_its_first_command(name, dist, tmp_path):
    venv.create(tmp_path / "env")
    program = tmp_path / "env" / "bin"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    pip = [sys.executable, "-m", "pip", "--python", program / "python", "install", "-q", "--no-input", "--no-compile"]
    constraints = ROOT / "constraints.txt"
    torch = next(each for each in constraints.read_text("utf-8").split() if each.startswith("torch=="))
    # torch first: a looser request may bring gigabytes of CUDA.
    for wanted in [torch, name] if name == "airpool-web" else [name]:
        command = [*pip, "--find-links", dist, "-c", constraints, wanted]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if re.search("No matching distribution|ConnectionError|NewConnectionError", done.stderr):
            pytest.skip("no package index can be reached")
        assert done.returncode == 0, done.stderr
    environment |= {"PATH": f"{program}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    for command in FIRST[name]:
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
