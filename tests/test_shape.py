"""The shape of the code: at most seven parameters, at most 300 lines, and a map in every room."""

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import airpool
from airpool.cli import COMMANDS

SOURCE = Path(airpool.__file__).parent
MODULES = {
    path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py")) if "_pb2" not in path.name
}
ROOMS = [path.parent for path in sorted(SOURCE.glob("*/**/__init__.py"))]
MOST_PARAMETERS, MOST_LINES = 7, 300
# Still too many. This list may only shrink.
PARAMETERS = {
    "account/guarantee.py:guarantee",
    "evaluation/audit/adversary.py:audited",
    "evaluation/audit/bound.py:audit",
    "evaluation/audit/release.py:release",
    "evaluation/audit/whole.py:examined",
    "evaluation/settings.py:evaluate",
    "models/sensors/fitting.py:fit",
    "privacy/game.py:mixture",
    "protocol/simulation.py:receive",
    "radio/power.py:transmit",
}


def functions(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def parameters(node):
    taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return [each.arg for each in taken if each.arg not in ("self", "cls")]


def is_command(node):
    """Whether Typer reads the signature: there, options are parameters."""
    return any("command" in ast.unparse(each) or "callback" in ast.unparse(each) for each in node.decorator_list)


def test_no_function_takes_more_than_seven_parameters():
    found = {
        f"{name}:{node.name}": len(parameters(node))
        for name, path in MODULES.items()
        for node in functions(ast.parse(path.read_text(encoding="utf-8")))
        if not (name.startswith("cli/") and is_command(node))
    }
    assert len(found) > 1000
    assert {name: count for name, count in found.items() if count > MOST_PARAMETERS and name not in PARAMETERS} == {}


def test_no_module_is_longer_than_300_lines():
    lengths = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in MODULES.items()}
    assert {name: count for name, count in lengths.items() if count > MOST_LINES} == {}


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.relative_to(SOURCE).as_posix())
def test_a_room_has_a_map_of_its_modules(room):
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8"))) or ""
    own = {path.stem for path in room.glob("*.py") if "_pb2" not in path.name} - {"__init__"}
    own |= {path.parent.name for path in room.glob("*/__init__.py")}
    named = set(re.findall(r"\w+", text)) | (set(COMMANDS) if room.name == "cli" else set())
    listed = {name for name in own if re.match(r"(fig|table)_", name) and f"{name.split('_')[0]}_*.py" in text}
    assert own - named - listed == set()
    assert set(re.findall(r"\b(\w+)\.py\b", text)) - own == set()


def test_modules_are_there_after_import_airpool_alone():
    code = """
import airpool
assert airpool.radio.link.unbiased and airpool.models.vision.features.pooled and airpool.protocol.live.signal
try:
    airpool.radio.colour
except AttributeError as error:
    assert str(error) == "module 'airpool.radio' has no attribute 'colour'"
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("name", "home"),
    [
        ("plan.search", "airpool.evaluation.plan.search"),
        ("evaluate", "airpool.evaluation.evaluate"),
        ("read_network", "airpool.network.file"),
    ],
)
def test_a_function_that_is_imported_as_a_module_is_told_where_its_module_is(name, home):
    with pytest.raises(ModuleNotFoundError, match=rf"is no module.*: import {re.escape(home)}$"):
        importlib.import_module(f"airpool.{name}")
    assert importlib.import_module(home)


def test_dotted_names_in_the_documents_exist():
    rooms = {path.name for path in ROOMS if path.parent == SOURCE}
    root = SOURCE.parents[1]
    texts = [path.read_text("utf-8") for path in (root / "README.md", *(root / "docs").glob("*/*.md"))]
    names = {name for text in texts for name in re.findall(r"\bairpool((?:\.\w+)+)", text)}
    named = sorted(name for name in names if name.count(".") > 1 and name.split(".")[1] in rooms)
    assert len(named) > 20
    for name in named:
        pkgutil.resolve_name(f"airpool{name}")
