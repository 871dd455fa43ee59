"""The examples of deploy/, the bill of materials, and what the code must not use."""

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer

from airpool.cli import COMMANDS, load_command

ROOT = Path(__file__).resolve().parent.parent
UNITS = sorted((ROOT / "deploy").glob("*.service"))
SOURCES = sorted((ROOT / "packages").glob("*/src/**/*.py"))


def options_of(command):
    loaded = typer.main.get_command(load_command(command))
    return {name for parameter in loaded.params for name in parameter.opts}


def compose():
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text("utf-8"))


def test_every_container_is_locked_down():
    services = compose()["services"]
    assert {"air", "server", "device-0"} <= services.keys()
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["user"].split(":")[0] not in ("", "0", "root")
        assert service["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in service["security_opt"]
        assert service["pids_limit"]
        assert service["mem_limit"]
        assert not service.keys() & {"privileged", "cap_add", "devices", "network_mode", "pid", "ipc"}
        shared = [volume.split(":") for volume in service["volumes"]]
        writable = {target for _, target, *mode in shared if "ro" not in mode}
        assert writable <= {"/ledger", "/head"}
        assert not any("ca.key" in source or source.endswith("keys") for source, *_ in shared)
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert services["device-0"]["networks"] == services["device-2"]["networks"] == ["inside"]
    assert compose()["networks"]["inside"]["internal"] is True


def test_every_command_of_the_examples_exists_with_its_options():
    assert len(UNITS) == 4
    for unit in UNITS:
        for line in re.findall(r"^ExecStart\w*=(.*)$", unit.read_text("utf-8"), re.MULTILINE):
            _, command, *arguments = shlex.split(line)
            assert command in COMMANDS
            assert {argument for argument in arguments if argument.startswith("--")} <= options_of(command)
    for command, *arguments in [service["command"] for service in compose()["services"].values()]:
        assert command in COMMANDS
        given = {argument for argument in arguments if argument.startswith("--")}
        assert given <= options_of(command)
        assert {"--keys", "--network"} <= given


@pytest.mark.parametrize("role", ["air", "ranking", "server", "device"])
def test_every_role_has_an_example_of_options_and_a_unit_that_takes_it(role):
    from airpool_runtime import options

    found = options.read(ROOT / "deploy" / f"{role}.toml")
    assert isinstance(found, options.ROLES[role])
    assert found.keys is not None
    (unit,) = (path.read_text("utf-8") for path in UNITS if path.name.startswith(f"airpool-{role}"))
    assert f"airpool {role} --config /etc/airpool/{role}" in unit
    stop = re.search(r"TimeoutStopSec=(\d+)", unit)
    assert found.drain_seconds < (int(stop[1]) if stop else 90)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_systemd_accepts_the_unit_and_finds_it_tight(tmp_path, unit):
    program = Path(sys.executable).with_name("airpool")
    copied = tmp_path / unit.name.replace("@", "@3")
    copied.write_text(unit.read_text("utf-8").replace("/opt/airpool/bin/airpool", str(program)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", copied], capture_output=True, text=True, check=False, timeout=60
    )
    said = [line for line in done.stderr.splitlines() if copied.name in line]
    assert [line for line in said if "Unknown" in line or "Failed" in line or "rror" in line] == []
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", copied],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    exposure = re.search(r"exposure level.*?: ([\d.]+)", done.stdout)
    if exposure is None:
        pytest.skip("this systemd-analyze has no offline security")
    assert float(exposure[1]) < 3.0


def test_the_image_owns_the_folders_that_volumes_are_mounted_on():
    (made,) = re.findall(
        r"install -d -o 10001 -g 10001 -m 0700 (.*)", (ROOT / "deploy" / "Dockerfile").read_text("utf-8")
    )
    volumes = [volume.split(":") for service in compose()["services"].values() for volume in service["volumes"]]
    assert {target for source, target, *_ in volumes if "/" not in source} == set(made.split())


def test_the_image_does_not_run_as_root():
    lines = (ROOT / "deploy" / "Dockerfile").read_text("utf-8").splitlines()
    assert [line for line in lines if line.startswith("USER")] == ["USER 10001:10001"]
    assert not any(re.search(r"chmod 777|sudo|COPY .*keys|ADD http", line) for line in lines)


def test_the_images_are_made_of_what_is_here_on_a_base_that_is_an_argument():
    text = (ROOT / "deploy" / "Dockerfile").read_text("utf-8")
    stages = re.findall(r"^FROM (\S+) AS (\S+)$", text, re.MULTILINE)
    assert {base for base, _ in stages} - {name for _, name in stages} == {"${BASE}"}
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for word in line.split()]
    ignored, *kept = [line for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line[0] != "#"]
    assert ignored == "*"
    assert {line.removeprefix("!") for line in kept if line[0] == "!"} == set(copied)
    assert all((ROOT / each).exists() for each in copied)
    for name, service in compose()["services"].items():
        build = service["build"]
        assert (ROOT / "deploy" / build["context"] / build["dockerfile"]).samefile(ROOT / "deploy" / "Dockerfile")
        assert build["target"] == ("device" if name.startswith("device") else "server") in [each for _, each in stages]


def test_every_container_is_asked_for_its_health_where_it_tells_it():
    for service in compose()["services"].values():
        metrics = service["command"][service["command"].index("--metrics") + 1]
        assert f"http://{metrics}/healthz" in service["healthcheck"]["test"][-1]


def test_the_tests_that_the_pages_name_exist():
    there = {
        name
        for path in (*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("packages/*/tests/**/test_*.py"))
        for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    for page in ("ledger.md", "security.md"):
        text = (ROOT / "docs" / "howto" / page).read_text("utf-8")
        for path in re.findall(r"[\w/-]*tests/[\w/]+\.py", text):
            assert (ROOT / path).exists(), path
        for row in (line for line in text.splitlines() if line.startswith("|")):
            for name in re.findall(r"`([a-z0-9]+(?:_[a-z0-9]+)+)`", row.split("|")[-2]):
                assert any(name in each for each in there), name


# Supply


def test_no_module_unpickles_or_evaluates():
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name for alias in node.names} | {getattr(node, "module", None) or ""}
                assert not names & {"pickle", "cPickle", "dill", "marshal", "shelve"}, path
                if "joblib" in names:  # its workers, in sweeps alone; its files are pickles
                    assert path.name == "sweep.py", path
                    assert names <= {"joblib", "Parallel", "delayed", "parallel_config"}, path
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("eval", "exec", "os.system", "yaml.load", "compile"), path
                keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
                if called == "torch.load":
                    assert keywords.get("weights_only") == "True", path
                assert keywords.get("allow_pickle", "False") == "False", path
                assert keywords.get("shell", "False") == "False", path


def test_every_constraint_is_a_name_and_a_version():
    from scripts import supply

    pinned = supply.pins((ROOT / "constraints.txt").read_text("utf-8"))
    assert {"cryptography", "psycopg", "torch", "grpcio"} <= pinned.keys()
    for wrong in ("x>=1", "x @ https://example.org/x.whl", "x==1 --hash=sha256:0", "-r other.txt"):
        with pytest.raises(ValueError, match="must be NAME==VERSION"):
            supply.pins(wrong)


def test_requirements_with_hashes_name_no_address():
    from scripts import supply

    file = {"url": "https://example.org/x.whl", "archive_info": {"hashes": {"sha256": "ab"}}}
    named = [{"metadata": {"name": name, "version": "1.2"}, "download_info": file} for name in ("Z_y", "a")]
    own = {"metadata": {"name": "airpool", "version": "0.1"}, "download_info": {"url": "file:///x", "dir_info": {}}}
    assert supply.locked({"install": [*named, own]}) == "a==1.2 --hash=sha256:ab\nz-y==1.2 --hash=sha256:ab\n"


@pytest.mark.check
@pytest.mark.skipif(find_spec("cyclonedx_py") is None, reason="needs cyclonedx-bom")
def test_the_bill_of_materials_names_what_is_installed(tmp_path):
    out = tmp_path / "sbom.json"
    command = [sys.executable, ROOT / "scripts" / "supply.py", "--offline", "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
    assert "packages audited" in done.stdout, done.stdout + done.stderr
    found = json.loads(out.read_text("utf-8"))
    assert found["bomFormat"] == "CycloneDX"
    assert {"cryptography", "numpy", "grpcio"} <= {each["name"] for each in found["components"]}
    assert str(ROOT) not in out.read_text("utf-8")
