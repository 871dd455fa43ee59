"""scripts/bootstrap.sh with Pythons made of a few lines of shell: nothing real is installed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("packages/*/pyproject.toml"))
INPUTS = ("pyproject.toml", *PACKAGES, "constraints.txt")

# Answers as Python and, once copied into .venv, as its python and pip. Notes every installation in pip-calls.
FAKE_PYTHON = """#!/bin/sh
case "$*" in
    *version_info*) echo {version} ;;
    *ensurepip*) {find_venv} ;;
    *disk_usage*) echo {free_mb} ;;
    "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python && cp "$0" .venv/bin/pip ;;
    --version) echo "pip 1.0 from $(pwd -P)/.venv/lib/pip" ;;
    *"pip install"*) echo "$*" >>pip-calls; {install} ;;
esac
"""


class Checkout:
    """A copy of what bootstrap.sh reads, with a fake Python beside it."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.python = folder / "python3"
        self.stamp = folder / ".venv" / "installed"
        for name in ("scripts/bootstrap.sh", *INPUTS):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
        self.fake()

    def fake(self, *, version="3.11.7", find_venv="true", free_mb=100_000, install="true"):
        text = FAKE_PYTHON.format(version=version, find_venv=find_venv, free_mb=free_mb, install=install)
        for path in (self.python, *(self.folder / ".venv" / "bin").glob("p*")):
            path.write_text(text)
            path.chmod(0o755)

    def bootstrap(self, **env: str):
        env = {"PATH": os.environ["PATH"], "PYTHON": str(self.python), **env}
        return subprocess.run(
            ["sh", "scripts/bootstrap.sh"],
            check=False,
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=600,
        )

    def error(self, **env: str) -> str:
        """The one line a failing bootstrap leaves."""
        result = self.bootstrap(**env)
        assert result.returncode == 1
        assert not self.stamp.exists()
        (line,) = result.stderr.splitlines()
        return line

    def installed(self) -> list[str]:
        """What pip was asked for since the last question."""
        calls = self.folder / "pip-calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        calls.unlink(missing_ok=True)
        return [line.split("--no-input ")[1] for line in lines]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_a_missing_python_is_named_in_the_error(checkout: Checkout):
    error = checkout.error(PYTHON="python3.99")
    assert "python3.99 not found" in error
    assert "make PYTHON=/path/to/python3.12 demo" in error


@pytest.mark.parametrize("version", ["2.7.18", "3.1.5", "3.9.2", "3.10.14"])
def test_a_too_old_python_is_named_in_the_error(checkout: Checkout, version: str):
    checkout.fake(version=version)
    error = checkout.error()
    assert f"{checkout.python} is Python {version}, but 3.11 or newer is needed" in error
    assert "make PYTHON=/path/to/python3.12 demo" in error


def test_a_python_that_does_not_run_is_named_in_the_error(checkout: Checkout):
    checkout.python.write_text("#!/bin/sh\nexit 1\n")
    assert f"{checkout.python} does not run" in checkout.error()


def test_a_python_without_venv_is_told_what_to_install(checkout: Checkout):
    checkout.fake(find_venv="exit 1")
    assert "python3-venv" in checkout.error()


def test_too_little_disk_space_is_said_before_anything_is_made(checkout: Checkout):
    checkout.fake(free_mb=1234)
    assert "1234 MB free where .venv goes, 4096 MB needed" in checkout.error()
    assert not (checkout.folder / ".venv").exists()
    assert "1234 MB free where .venv goes, 9999 MB needed" in checkout.error(AIRPOOL_MIN_FREE_MB="9999")


def test_the_free_space_of_the_real_disk_is_measured(checkout: Checkout):
    assert "too little disk space" in checkout.error(PYTHON=sys.executable, AIRPOOL_MIN_FREE_MB="999999999999")


def test_no_network_is_said_in_one_line_with_the_place_of_the_log(checkout: Checkout):
    retrying = "WARNING: Retrying after connection broken by NewConnectionError: Name or service not known"
    checkout.fake(install=f'echo "{retrying}"; echo "ERROR: No matching distribution found"; exit 1')
    error = checkout.error()
    assert "no network: pip cannot reach its package index" in error
    assert error.endswith("Full log: .venv/install.log")
    assert retrying in (checkout.folder / ".venv" / "install.log").read_text()


def test_a_disk_that_fills_up_is_not_blamed_on_the_network(checkout: Checkout):
    checkout.fake(install='echo "ERROR: [Errno 28] No space left on device"; exit 1')
    assert "the disk is full" in checkout.error()


def test_any_other_failure_shows_the_last_error_of_pip(checkout: Checkout):
    checkout.fake(install='echo "ERROR: ResolutionImpossible"; exit 1')
    assert "ERROR: ResolutionImpossible" in checkout.error()


def test_torch_is_installed_first_and_by_its_pin(checkout: Checkout):
    result = checkout.bootstrap()
    assert result.returncode == 0
    assert result.stderr == ""
    (pin,) = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch==")]
    torch, pip, packages = checkout.installed()
    assert torch == pin
    assert pip == "-c constraints.txt pip"
    assert packages.startswith("-c constraints.txt --group dev -e ")
    named = set(re.findall(r"-e \./(packages/[\w-]+)", packages))
    assert named == {path.removesuffix("/pyproject.toml") for path in PACKAGES} - {"packages/airpool-device"}
    assert re.search(rf"^installing {pin.replace('==', ' ')} \.\.\. \d+ s$", result.stdout, re.MULTILINE)


def test_nothing_is_installed_twice(checkout: Checkout):
    checkout.bootstrap()
    assert checkout.installed()
    result = checkout.bootstrap()
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not checkout.installed()


@pytest.mark.parametrize("name", INPUTS)
def test_a_change_of_what_is_asked_for_installs_again(checkout: Checkout, name: str):
    checkout.bootstrap()
    checkout.installed()
    with (checkout.folder / name).open("a") as file:
        file.write("# changed\n")
    result = checkout.bootstrap()
    assert "making .venv" not in result.stdout
    assert checkout.installed()


def test_an_interrupted_installation_is_resumed(checkout: Checkout):
    checkout.fake(install="kill -9 $PPID")
    assert checkout.bootstrap().returncode != 0
    assert not checkout.stamp.exists()
    cut_off, complete = (
        checkout.folder / f".venv/lib/python3.11/site-packages/{name}-1.0.dist-info" for name in ("cut_off", "complete")
    )
    cut_off.mkdir(parents=True)
    complete.mkdir()
    (complete / "INSTALLER").touch()

    checkout.fake()
    result = checkout.bootstrap()
    assert "making .venv" not in result.stdout
    assert checkout.stamp.exists()
    assert not cut_off.exists()  # or pip would take it for installed
    assert complete.exists()


def test_an_environment_without_a_working_pip_is_made_anew(checkout: Checkout):
    checkout.bootstrap()
    checkout.stamp.unlink()
    (checkout.folder / ".venv" / "bin" / "pip").unlink()
    assert "making .venv" in checkout.bootstrap().stdout


def test_a_moved_environment_is_made_anew(checkout: Checkout, tmp_path: Path):
    checkout.bootstrap()
    # As in a moved environment, pip still speaks of the old place.
    (checkout.folder / ".venv" / "bin" / "pip").write_text("#!/bin/sh\necho pip 1.0 from /elsewhere/.venv/lib/pip\n")
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in (".venv", "scripts", "packages", "pyproject.toml", "constraints.txt"):
        (checkout.folder / name).rename(moved / name)
    checkout.folder = moved
    assert "making .venv" in checkout.bootstrap().stdout


def test_naming_another_python_makes_the_environment_anew(checkout: Checkout):
    checkout.bootstrap()
    newer = checkout.folder / "python3.12"
    newer.write_text(checkout.python.read_text().replace("3.11.7", "3.12.4"))
    newer.chmod(0o755)
    assert "making .venv with Python 3.12.4" in checkout.bootstrap(PYTHON=str(newer)).stdout
    # The default python3 then leaves it alone, even where it is too old itself.
    checkout.python.write_text(checkout.python.read_text().replace("3.11.7", "3.9.2"))
    path = f"{checkout.folder}:{os.environ['PATH']}"
    assert checkout.bootstrap(PYTHON="python3", PATH=path).stdout == ""
