"""Notices, citation, workflows and policies: whole, and true of the repository."""

import re
import tomllib
from pathlib import Path

import pytest

import airpool

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parent.parent
VENDOR = [ROOT / "packages/airpool-web/src/airpool_web/static/vendor", ROOT / "packages/airpool-web/tests/web/vendor"]
FILES_OF_OTHERS = [path for folder in VENDOR for path in sorted(folder.iterdir()) if path.suffix in (".js", ".css")]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PACKAGES = sorted(path.parent for path in (ROOT / "packages").glob("*/pyproject.toml"))
# Of the schema of CFF 1.2.0, those that are used here.
KINDS = {"article", "conference-paper", "data", "software"}


def text(name):
    return (ROOT / name).read_text("utf-8")


@pytest.mark.parametrize("path", FILES_OF_OTHERS, ids=lambda path: path.name)
def test_every_file_of_others_is_in_the_notices_with_its_version_and_licence(path):
    name, folder = path.name.split(".")[0], path.parent
    assert (folder / f"{name}.LICENSE").stat().st_size > 500
    (version,) = set(re.findall(rf"{name}\S* [^|]*?\|? ?(\d+\.\d+\.\d+)", text(folder / "README.md"), re.I)[:1])
    for notice in ("NOTICE", "docs/project/licences.md"):
        assert path.name in text(notice)
        assert version in text(notice)
        assert f"{name}.LICENSE" in text(notice)


def test_no_other_file_of_others_is_in_the_package():
    files = sorted((ROOT / "packages").glob("*/src/**/*.*"))
    minified = [path for path in files if ".min." in path.name and path.parent not in VENDOR]
    fonts = [path for path in files if path.suffix in (".woff", ".woff2", ".ttf", ".otf")]
    assert files
    assert minified + fonts == []


def project(folder):
    return tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: folder.name)
def test_wheels_carry_licence_and_notices(folder):
    kept = {path for pattern in project(folder)["license-files"] for path in folder.glob(pattern)}
    assert {folder / name for name in ("LICENSE", "NOTICE") if (folder / name).exists()} <= kept
    assert set(folder.glob("src/*/static/vendor/*.LICENSE")) <= kept
    assert (folder / "LICENSE").read_text("utf-8") == text("LICENSE")
    assert project(folder)["license"] == "Apache-2.0" or folder.name == "airpool-models"


def test_every_part_of_the_data_package_has_its_source_named():
    data = ROOT / "packages/airpool-models/src/airpool_models"
    parts = [path for path in data.iterdir() if path.name not in ("__init__.py", "__pycache__", "sensors")]
    parts += data.glob("sensors/*.safetensors")
    assert len(parts) >= 5
    for path in parts:
        name = path.relative_to(data).as_posix().removesuffix(".safetensors")
        for notice in ("packages/airpool-models/NOTICE", "docs/project/licences.md"):
            assert name in text(notice), (name, notice)


def test_the_citation_is_of_this_version_and_complete():
    found = yaml.safe_load(text("CITATION.cff"))
    assert found["cff-version"] == "1.2.0"
    assert found["version"] == airpool.__version__
    assert found["license"] == "Apache-2.0"
    assert f"version = {{{airpool.__version__}}}" in text("docs/project/citing.md")
    for each in found["references"]:
        assert each["type"] in KINDS
        assert each["title"]
        assert all({"name"} == who.keys() or {"given-names", "family-names"} == who.keys() for who in each["authors"])
        assert (each["type"] == "conference-paper") == ("conference" in each)
    paper = found["references"][0]
    for value in (paper["title"], paper["journal"], f"{paper['start']}--{paper['end']}"):
        assert str(value) in text("docs/project/citing.md")


def targets():
    return set(re.findall(r"^([a-z]+):", text("Makefile"), re.MULTILINE))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_make_and_may_only_read(path):
    found = yaml.safe_load(path.read_text("utf-8"))
    assert found["permissions"] == {"contents": "read"}
    assert "http" not in path.read_text("utf-8")
    steps = [step for job in found["jobs"].values() for step in job["steps"]]
    commands = [step["run"] for step in steps if "run" in step]
    assert commands
    for command in commands:
        made = re.fullmatch(r"make PYTHON=python ([a-z]+)", command)
        assert made, command
        assert made[1] in targets()
    for step in steps:
        if "uses" in step:
            assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", step["uses"])
    assert all(job["timeout-minutes"] for job in found["jobs"].values())


def test_workflows_try_every_python_that_is_promised():
    assert [path.stem for path in WORKFLOWS] == ["docs", "tests", "wheels"]
    matrix = yaml.safe_load(text(".github/workflows/tests.yml"))["jobs"]["test"]["strategy"]["matrix"]["python"]
    first, last = re.findall(r"Python (3\.\d+) to (3\.\d+)", text("docs/project/versions.md"))[0]
    assert (matrix[0], matrix[-1]) == (first, last)
    assert {project(folder)["requires-python"] for folder in PACKAGES} == {f">={first}"}


def test_the_versions_of_files_are_those_of_the_code():
    from airpool.network.file import VERSION
    from airpool_runtime.ledger import store

    page = text("docs/project/versions.md")
    assert f"`version = {VERSION}`" in page
    assert f"| schema {store.VERSION} |" in page


def test_the_changelog_is_for_users():
    lines = text("CHANGELOG.md").splitlines()
    assert f"## {airpool.__version__} (unreleased)" in lines
    assert len(lines) < 200
