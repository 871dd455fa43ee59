"""Which code makes a row: the name under which another process finds a function, and a version that changes with it.

A version stands for all of airpool (its data files too, its command line not: nothing else imports that), for the
function's own module or package with whatever it imports that is not installed, such as a file beside it, and for
Python, NumPy, SciPy and torch by their versions. It does not see other installed packages, nor files that the function
reads: give it what is in them, or their checksum, as a parameter. It is of what lies on disk: a module that was edited
after it was loaded, in a notebook, has to be loaded again.
"""

import ast
import hashlib
import json
import sys
import sysconfig
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import Any

from airpool.version import __version__

_HOME = Path(__file__).resolve().parents[1]
_INSTALLED = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")]
_LIBRARIES = ("numpy", "scipy", "torch")


def name_of(function: Callable[..., Any]) -> str:
    """The function's "module:name". A ValueError if importing the module would not give this function.

    A function of the script that is being run goes by the script's own name: other processes import it as a module.
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not module or not name or "<" in name:
        raise ValueError(f"{name or function!r} cannot be found by other processes: it must be a function of a module")
    if module == "__main__":
        return f"{_name_of_script()}:{name}"
    if _found(module, name) is not function:
        raise ValueError(f"{module}:{name} is another function: sweep over one that can be imported by its name")
    return f"{module}:{name}"


def _name_of_script() -> str:
    """What the script that is being run is called where it is imported."""
    main = sys.modules["__main__"]
    if main.__spec__ is not None:  # python -m
        return main.__spec__.name
    file = Path(getattr(main, "__file__", None) or "")
    spec = _spec(file.stem)
    if spec is None or spec.origin is None or Path(spec.origin).resolve() != file.resolve():
        raise ValueError("a function that is typed in cannot be found by other processes: put it into a file")
    return file.stem


def named(name: str) -> Callable[..., Any]:
    """The function "module:name". A ValueError if there is none, or if the module cannot be loaded."""
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise ValueError(f"{name!r} must be module:function, such as experiment:accuracy")
    try:
        function = _found(module, attribute)
    except Exception as error:
        raise ValueError(f"{name}: the module cannot be loaded: {type(error).__name__}: {error}") from error
    if not callable(function):
        raise ValueError(f"{name}: the module has no such function")
    return function


def _found(module: str, name: str) -> Any:
    loaded = import_module(module)
    try:
        return attrgetter(name)(loaded)
    except AttributeError:
        return None


def version_of(name: str | None) -> str:
    """The version of the code behind the function "module:name", read from disk now; of airpool alone if None."""
    libraries = [f"{library} {_installed_version(library)}" for library in _LIBRARIES]
    about = [f"python {sys.version_info.major}.{sys.version_info.minor}", *libraries]
    return f"{__version__}+{_digest(name, about, lambda file: file.read_bytes())}"


def stamp_of(name: str) -> str:
    """Sizes and times instead of contents: tells at once, on one machine, that nothing was touched meanwhile."""
    return _digest(name, [], lambda file: f"{file.stat().st_size} {file.stat().st_mtime_ns}".encode())


def _digest(name: str | None, about: list[str], content: Callable[[Path], bytes]) -> str:
    files = _own_files()
    for places in local_modules(name).values():
        for place in places:
            files |= {file.relative_to(place.parent).as_posix(): file for file in _python_files(place)}
    parts = [[path, hashlib.sha256(content(file)).hexdigest()] for path, file in sorted(files.items())]
    return hashlib.sha256(json.dumps([about, parts]).encode()).hexdigest()[:16]


def _installed_version(library: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _own_files() -> dict[str, Path]:
    found = (file for file in _HOME.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return {f"airpool/{at.as_posix()}": file for file in found if (at := file.relative_to(_HOME)).parts[0] != "cli"}


def local_modules(name: str | None) -> dict[str, list[Path]]:
    """Top-level modules, other than airpool, that a function is made of: its own, and what is imported and lies about.

    Each with where it lies, a file or a folder. What is installed (in site-packages) is left out, unless the function
    itself is.
    """
    found: dict[str, list[Path]] = {}
    own = (name or "").partition(":")[0].partition(".")[0]
    todo = {own} if own else set()
    while todo:
        module = todo.pop()
        places = _places(module)
        if module != own and any(map(_is_installed, places)):
            continue
        found[module] = places
        files = [file for place in places for file in _python_files(place)]
        todo |= {name for file in files for name in _imports(file)} - found.keys() - sys.stdlib_module_names
    return {module: places for module, places in found.items() if places}


def _places(module: str) -> list[Path]:
    spec = None if module == "airpool" else _spec(module)
    if spec is None:
        return []
    if spec.submodule_search_locations is None:
        return [Path(spec.origin)] if str(spec.origin).endswith(".py") else []
    return [Path(folder) for folder in spec.submodule_search_locations]


def _spec(module: str) -> Any:
    try:
        return find_spec(module)
    except (ImportError, ValueError):
        return None


def _python_files(place: Path) -> list[Path]:
    return list(place.rglob("*.py")) if place.is_dir() else [place]


def _is_installed(place: Path) -> bool:
    resolved = place.resolve()
    return "site-packages" in resolved.parts or any(resolved.is_relative_to(folder) for folder in _INSTALLED)


def _imports(file: Path) -> set[str]:
    """Top-level names that a file imports anywhere, its own package's relative ones aside."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return set()
    nodes = list(ast.walk(tree))
    full = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    full += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level]
    return {name.partition(".")[0] for name in full}
