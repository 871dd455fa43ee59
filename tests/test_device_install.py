"""The install of a device, as docs/howto/runtime.md has it: in a clean environment, beside ordinary roles."""

import asyncio
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from airpool_runtime import up
from airpool_runtime import wire_pb2 as wire
from airpool_runtime.ledger.backup import content
from airpool_runtime.ledger.spending import total
from benchmarks.shelf import beside, installed

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ROOT / "packages"
INFERENCES = 5


def project(name):
    return tomllib.loads((PACKAGES / name / "pyproject.toml").read_text("utf-8"))["project"]


def test_a_device_asks_for_no_more_and_nothing_else_than_the_library_and_the_runtime_do():
    wanted = set()
    for name in ("airpool", "airpool-runtime"):
        found = project(name)
        wanted |= {*found["dependencies"]}.union(*found["optional-dependencies"].values())
    own = {*project("airpool-device")["dependencies"]}
    assert own < wanted
    assert not any(re.match("scipy|torch|starlette|uvicorn|rich|airpool", each) for each in own)


def test_a_device_has_the_commands_of_the_runtime():
    assert project("airpool-device")["scripts"] == project("airpool")["scripts"]
    assert project("airpool-device")["entry-points"] == project("airpool-runtime")["entry-points"]


def documented(folder):
    """The commands of docs/howto/runtime.md that install a device, into a folder, with this interpreter and its pip."""
    text = (ROOT / "docs" / "howto" / "runtime.md").read_text("utf-8")
    commands = re.findall(r"^\$ ((?:python|pip) .*/opt/airpool-device.*)$", text, re.M)
    assert len(commands) == 2
    for command in commands:
        words = command.replace("/opt/airpool-device", str(folder)).replace("'", "").split()
        start = [sys.executable] if words[0] == "python" else [sys.executable, "-m", "pip"]
        yield [*start, *words[1:]]


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clean") / "device"
    for command in documented(folder):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if re.search("No matching distribution|ConnectionError|NewConnectionError", done.stderr):
            pytest.skip("no package index can be reached")
        assert done.returncode == 0, done.stderr
    return folder / "bin" / "python"


@pytest.mark.check
def test_the_documented_install_is_small_and_has_neither_scipy_nor_assets(device):
    sizes = installed(device)
    assert not {"scipy", "torch", "starlette", "airpool"} & sizes.keys()
    assert sizes["airpool-device"] < 10
    assert sum(sizes.values()) < 250


@pytest.mark.check
def test_a_device_of_that_install_takes_part_and_its_ledger_adds_up(device, tmp_path):
    """Its ε by its own functions is that of this environment by SciPy's."""
    site = next(device.parents[1].glob("lib/python*/site-packages"))
    (site / "shelf_source.py").write_text("import numpy as np\ndef view(number):\n    return np.ones(40) / 40\n")

    async def play():
        async with beside(tmp_path, device, source="shelf_source:view") as system, up.client(system) as client:
            return [await client.Infer(wire.Nothing(), timeout=60) for _ in range(INFERENCES)]

    answers = asyncio.run(play())
    assert [each.devices for each in answers] == [2] * INFERENCES
    assert {each.status for each in answers} <= {"answered", "no answer"}
    (ledger,) = (path for path in (tmp_path / "ledgers").glob("*0*") if path.suffix == ".db")
    counts = content(ledger).counts
    assert sum(use.inferences for use in counts.values()) == INFERENCES
    command = [device, "-m", "airpool", "ledger", "show", ledger, "--json"]
    shown = subprocess.run(command, cwd=tmp_path, env={}, capture_output=True, text=True, check=True)
    assert json.loads(shown.stdout)["epsilon"] == pytest.approx(total(counts, 1e-5), rel=1e-12)
