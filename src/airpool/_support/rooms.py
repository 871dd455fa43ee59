"""Modules of a package that are imported on first use: `airpool.radio.link` after `import airpool` alone."""

import sys
from importlib import import_module
from types import ModuleType


def import_on_use(package: str) -> None:
    """Gives a package a `__getattr__` that imports its modules. Type checkers see only what is imported explicitly."""
    setattr(sys.modules[package], "__getattr__", lambda name: module_of(package, name))  # noqa: B010


def module_of(package: str, name: str) -> ModuleType:
    """The module of this name in a package; an AttributeError where there is none."""
    try:
        return import_module(f"{package}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{package}.{name}":
            raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}") from None
