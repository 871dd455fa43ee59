"""Which code makes a row: the name by which other processes import a function, and a version that changes with it.

A version hashes all of airpool (data files too, the command line not), the function's module or package with the
modules it imports that are not installed, and the versions of Python, NumPy, SciPy and torch. It covers neither other
installed packages nor files that the function reads: pass their checksum as a parameter.
"""

import hashlib
import re
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
_IMPORT = re.compile(r"(?:^|[;:])\s*(?:from\s+(\w+)|import\s+((?:[\w., \t]|\\\n)+))", re.MULTILINE)


def name_of(function: Callable[..., Any]) -> str:
    """The function's "module:name"; in the script that runs, by the name of its file. A ValueError if it has none."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not module or not name or "<" in name:
        raise ValueError(f"{name or function!r} cannot be found by other processes: it must be a function of a module")
    if module == "__main__":
        main = sys.modules["__main__"]
        script = Path(getattr(main, "__file__", None) or "").resolve()
        if main.__spec__ is None and script not in [place.resolve() for place in _places(script.stem)]:
            raise ValueError("a function that is typed in cannot be found by other processes: put it into a file")
        return f"{main.__spec__.name if main.__spec__ else script.stem}:{name}"  # a spec: python -m
    if named(f"{module}:{name}") is not function:
        raise ValueError(f"{module}:{name} is another function: sweep over one that can be imported by its name")
    return f"{module}:{name}"


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
    found = [(HOME, file) for file in HOME.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    found = [(top, file) for top, file in found if file.relative_to(top).parts[0] != "cli"]
    found += [(place.parent, file) for place in local_modules(name) for file in _sources(place)]
    contents = [(file.relative_to(top).as_posix(), hashlib.sha256(file.read_bytes()).digest()) for top, file in found]
    libraries = [(each, [one.version for one in metadata.distributions(name=each)]) for each in _LIBRARIES]
    text = f"{sys.version_info[:2]} {libraries} {sorted(contents)}"
    return f"{__version__}+{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def local_modules(name: str) -> list[Path]:
    """Files and folders of the function's own module and of all that is imported from there, except installed ones."""
    own = re.split(r"\W", name)[0]
    found: list[Path] = []
    seen, todo = {"", "airpool", *sys.stdlib_module_names}, {own}
    while todo := todo - seen:
        seen.add(module := todo.pop())
        places = _places(module)
        if module == own or not any("-packages" in str(place.resolve()) for place in places):
            found += places
            texts = [file.read_text("utf-8", "replace") for place in places for file in _sources(place)]
            imports = [each for text in texts for each in _IMPORT.findall(text)]
            todo |= {re.split(r"\W", part.strip())[0] for base, names in imports for part in (base, *names.split(","))}
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
