"""Docstrings name the thing first: none begins with What, How, Who, Which, Where or Why."""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src/airpool"
PACKAGES = [path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()]
RIDDLE = re.compile(r"(What|How|Who|Whose|Whom|Which|Where|Why)\b")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_name_the_thing_first(package):
    for file in sorted((SOURCE / package).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            text = ast.get_docstring(node) if isinstance(node, DOCUMENTED) else None
            assert not RIDDLE.match(text or ""), f"{file}: {text}"


@pytest.mark.parametrize("package", ["account", "network", "privacy", "radio", "schemes"])
def test_docstrings_name_who_is_meant(package):
    for file in sorted((SOURCE / package).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            text = ast.get_docstring(node) if isinstance(node, DOCUMENTED) else None
            assert not re.search(r"\b(nobody|somebody|everybody|told|so many)\b", text or "", re.I), f"{file}: {text}"
