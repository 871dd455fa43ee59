"""The arrows of the design: who may import whom, and what `airpool epsilon` leaves unloaded."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import airpool

SOURCE = Path(airpool.__file__).parent
MODULES = sorted(path for path in SOURCE.rglob("*.py"))
HEAVY = ("torch", "matplotlib", "dp_accounting")


def name_of(path):
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path, *, at_start=False):
    """Full names of what a module imports: anywhere, or at module level outside `if TYPE_CHECKING`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = name_of(path).split(".") if path.name == "__init__.py" else name_of(path).split(".")[:-1]
    nodes = list(_at_module_level(tree.body)) if at_start else list(ast.walk(tree))
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, node.module] if node.module else base)
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return found


def _at_module_level(body):
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        yield node
        for field in ("body", "orelse", "handlers", "finalbody"):
            yield from _at_module_level(getattr(node, field, []))


def inside(names, package):
    return {name for name in names if name == package or name.startswith(package + ".")}


def modules_of(package):
    return [path for path in MODULES if inside({name_of(path)}, f"airpool.{package}")]


def ours(path, *allowed):
    """What a module imports of airpool, besides the packages that are allowed."""
    names = inside(imported(path), "airpool") - {"airpool"}
    return {name for name in names if not any(inside({name}, f"airpool.{package}") for package in allowed)}


def test_there_is_something_to_walk():
    assert len(MODULES) > 30
    assert "airpool.privacy.gaussian" in imported(SOURCE / "guarantees.py")
    assert "scipy.signal" in imported(SOURCE / "privacy" / "grid.py")
    assert "scipy.signal" not in imported(SOURCE / "privacy" / "grid.py", at_start=True)


@pytest.mark.parametrize("path", modules_of("privacy"), ids=name_of)
def test_privacy_knows_nothing_of_the_rest(path):
    assert ours(path, "privacy", "files") == set()


@pytest.mark.parametrize("path", modules_of("wireless"), ids=name_of)
def test_wireless_knows_nothing_of_the_rest(path):
    assert ours(path, "wireless", "units") == set()


@pytest.mark.parametrize("path", [p for p in modules_of("selection") if p.stem != "budget"], ids=name_of)
def test_selection_knows_networks_and_the_air_and_neither_privacy_nor_torch(path):
    assert ours(path, "selection", "network", "wireless") == set()
    assert "airpool.selection.budget" not in imported(path)
    assert not inside(imported(path), "torch")
    assert not inside(imported(path, at_start=True), "scipy")  # the air runs in training, where there may be none


@pytest.mark.parametrize("path", modules_of("theory"), ids=name_of)
def test_theory_stands_on_networks_and_the_air_alone(path):
    assert ours(path, "theory", "air", "network", "radio", "wireless", "units") == set()


@pytest.mark.parametrize(
    "path",
    [p for package in ("privacy", "wireless", "paper", "theory") for p in modules_of(package)]
    + [SOURCE / "design" / name for name in ("qp.py", "weights.py", "clipping.py")],
    ids=name_of,
)
def test_formulas_load_neither_torch_nor_matplotlib(path):
    assert not any(inside(imported(path, at_start=True), heavy) for heavy in HEAVY)


@pytest.mark.parametrize("path", modules_of("privacy"), ids=name_of)
def test_privacy_never_touches_torch(path):
    assert not inside(imported(path), "torch")


@pytest.mark.parametrize("path", modules_of("paper"), ids=name_of)
def test_the_papers_formulas_import_nothing_above_them(path):
    assert ours(path, "paper", "privacy", "wireless", "selection", "units", "network") == set()
    assert "airpool.selection.budget" not in imported(path)


@pytest.mark.parametrize(
    "path", [SOURCE / f"{name}.py" for name in ("units", "files", "network", "network_file")], ids=name_of
)
def test_networks_units_and_files_stand_at_the_bottom(path):
    assert ours(path, "units", "files", "network") == set()


@pytest.mark.parametrize("path", [p for p in MODULES if "cli" not in p.parts], ids=name_of)
def test_nothing_but_the_command_line_imports_the_command_line(path):
    assert not inside(imported(path), "airpool.cli")


@pytest.mark.parametrize("path", [p for p in MODULES if not {"cli", "reproduce"} & set(p.parts)], ids=name_of)
def test_the_library_stands_without_the_reproduction(path):
    assert not inside(imported(path), "airpool.reproduce")


@pytest.mark.parametrize("path", [p for p in MODULES if "cli" not in p.parts], ids=name_of)
def test_the_library_does_not_need_the_command_lines_tools(path):
    assert not inside(imported(path, at_start=True), "typer")
    assert not inside(imported(path, at_start=True), "rich")


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_the_library_stands_without_the_studies(path):
    assert not inside(imported(path), "studies")


def test_no_module_has_a_name_that_says_nothing():
    assert {path.stem for path in MODULES}.isdisjoint(
        {"utils", "util", "helpers", "helper", "manager", "base", "common"}
    )


# What really happens


def loaded_by(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_airpool_epsilon_loads_neither_torch_nor_matplotlib_nor_dp_accounting():
    code = """
import contextlib, io, json, sys
from airpool.cli import main
sys.argv = ["airpool", "epsilon", "--devices", "12", "--participation", "0.9", "--neighbours", "remove", "--json"]
with contextlib.redirect_stdout(io.StringIO()) as out:
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
assert "epsilon" in json.loads(out.getvalue())
print(json.dumps(sorted(sys.modules)))
"""
    loaded = loaded_by(code)
    assert "airpool.privacy.removal" in loaded
    assert not any(inside(loaded, heavy) for heavy in HEAVY)


def test_importing_airpool_loads_next_to_nothing():
    loaded = loaded_by("import json, sys, airpool; print(json.dumps(sorted(sys.modules)))")
    assert not any(inside(loaded, name) for name in (*HEAVY, "numpy", "scipy", "typer"))


@pytest.mark.parametrize("name", airpool.__all__)
def test_every_promised_name_is_there(name):
    assert getattr(airpool, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'airpool' has no attribute 'colour'"):
        airpool.colour  # noqa: B018


def test_guarantee_is_the_function_whatever_was_used_before():
    code = """
import json
import airpool
net = airpool.calibrate(airpool.Network.uniform(num_devices=3), epsilon=2.0)
print(json.dumps([type(airpool.guarantee).__name__]))
"""
    assert loaded_by(code) == {"function"}
