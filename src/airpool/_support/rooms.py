"""Modules of a package that are imported on first use: `airpool.radio.link` after `import airpool` alone."""

import sys
from collections.abc import Mapping
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


class FunctionNames:
    """Says where to find the module of a function: `import airpool.plan` fails, since `airpool.plan` is a function.

    homes: name → module, from the package on. Asked last, when no module of the name was found.
    """

    def __init__(self, package: str, homes: Mapping[str, str]) -> None:
        self._homes = {f"{package}.{name}": f"{package}.{home}" for name, home in homes.items()}

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if (home := self._homes.get(name)) is not None:
            home = home.partition(":")[0]
            raise ModuleNotFoundError(f"{name} is no module, but a name in {home}: import {home}", name=name)
