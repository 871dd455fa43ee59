"""Every error of the package ends in Error and derives from AirpoolError."""

import ast
import builtins

import airpool
from airpool.network import NetworkError
from tests.sources import MODULES


def bases() -> dict[str, list[str]]:
    """Every class of the package by its name, with the names of its bases."""
    classes = [
        node
        for file in MODULES
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    return {node.name: [ast.unparse(base).rpartition(".")[2] for base in node.bases] for node in classes}


def ancestors(name: str, of: dict[str, list[str]]) -> set[str]:
    found = {name}
    for base in of.get(name, []):
        found |= ancestors(base, of)
    return found


def test_every_exception_is_an_airpool_error():
    known = bases()
    builtin = {name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    errors = [name for name in known if ancestors(name, known) & builtin]
    assert len(errors) > 15
    for name in errors:
        assert name.endswith("Error"), name
        assert "AirpoolError" in ancestors(name, known), name


def test_one_clause_catches_them():
    assert issubclass(NetworkError, airpool.AirpoolError)
    assert issubclass(NetworkError, ValueError)
