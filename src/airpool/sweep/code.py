"""Which code makes a row: the name by which other processes import a function, and a version that changes with it.

A version stands for all of airpool (data files too, the command line not), for the function's module or package and
what it imports that is not installed, and for Python, NumPy, SciPy and torch by their versions. It sees neither other
installed packages nor files that the function reads: pass their checksum as a parameter.
"""

import ast
import hashlib
import sys
from collections.abc import Callable
from functools import reduce
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from airpool.version import __version__

HOME = Path(__file__).resolve().parents[1]
_LIBRARIES = ("numpy", "scipy", "torch")


def name_of(function: Callable[..., Any]) -> str:
    """The function's "module:name"; a function of the script that runs goes by the script's own name.

    Edge cases: ValueError if importing that name would not give this function.
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not module or not name or "<" in name:
        raise ValueError(f"{name or function!r} cannot be found by other processes: it must be a function of a module")
    if module != "__main__":
        if named(f"{module}:{name}") is not function:
            raise ValueError(f"{module}:{name} is another function: sweep over one that can be imported by its name")
        return f"{module}:{name}"
    main = sys.modules["__main__"]
    if main.__spec__ is not None:  # python -m
        return f"{main.__spec__.name}:{name}"
    script = Path(getattr(main, "__file__", None) or "").resolve()
    if script not in [place.resolve() for place in _places(script.stem)]:
        raise ValueError("a function that is typed in cannot be found by other processes: put it into a file")
    return f"{script.stem}:{name}"


def named(name: str) -> Callable[..., Any]:
    """The function "module:name". A ValueError if there is none, or if the module cannot be loaded."""
    module, _, attribute = name.partition(":")
    if not (module and attribute):
        raise ValueError(f"{name!r} must be module:function, such as experiment:accuracy")
    try:
        loaded = import_module(module)
    except Exception as error:
        raise ValueError(f"{name}: the module cannot be loaded: {type(error).__name__}: {error}") from error
    function = reduce(lambda found, part: getattr(found, part, None), attribute.split("."), loaded)
    if not callable(function):
        raise ValueError(f"{name}: the module has no such function")
    return function


def version_of(name: str) -> str:
    """The version of the code behind the function "module:name", as it is on disk; of airpool alone if ""."""
    installed = [(library, [each.version for each in metadata.distributions(name=library)]) for library in _LIBRARIES]
    return f"{__version__}+{_digest(name, Path.read_bytes, f'{sys.version_info[:2]} {installed}')}"


def stamp_of(name: str) -> str:
    """Sizes and times instead of contents: tells at once, on one machine, whether the code was changed."""
    return _digest(name, lambda file: f"{file.stat().st_size} {file.stat().st_mtime_ns}".encode())


def _digest(name: str, content: Callable[[Path], bytes], about: str = "") -> str:
    own = [file for file in HOME.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    files = {f"airpool/{at.as_posix()}": file for file in own if (at := file.relative_to(HOME)).parts[0] != "cli"}
    for place in local_modules(name):
        files |= {file.relative_to(place.parent).as_posix(): file for file in _sources(place)}
    contents = [(path, hashlib.sha256(content(file)).hexdigest()) for path, file in sorted(files.items())]
    return hashlib.sha256(f"{about} {contents}".encode()).hexdigest()[:16]


def local_modules(name: str) -> list[Path]:
    """Files and folders of the modules that a function is made of: its own, and what those import, anywhere in them.

    Airpool is left out, and so is what is installed, unless the function itself is.
    """
    own = name.partition(":")[0].partition(".")[0]
    found: list[Path] = []
    seen, todo = {"", "airpool", *sys.stdlib_module_names}, {own}
    while todo := todo - seen:
        module = todo.pop()
        seen.add(module)
        places = _places(module)
        if module == own or not any("-packages" in str(place.resolve()) for place in places):
            found += places
            todo |= {top for place in places for file in _sources(place) for top in _imported(file)}
    return found


def _places(module: str) -> list[Path]:
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return []
    if spec is not None and spec.submodule_search_locations is not None:
        return [Path(folder) for folder in spec.submodule_search_locations]
    return [Path(spec.origin)] if spec and spec.origin and spec.origin.endswith(".py") else []


def _sources(place: Path) -> list[Path]:
    return list(place.rglob("*.py")) if place.is_dir() else [place]


def _imported(file: Path) -> set[str]:
    """Top-level names that a file imports, its own package's relative ones aside."""
    try:
        nodes = list(ast.walk(ast.parse(file.read_bytes())))
    except (SyntaxError, ValueError):
        return set()
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level]
    return {name.partition(".")[0] for name in names}
