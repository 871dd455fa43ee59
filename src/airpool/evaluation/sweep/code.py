"""Identity of the code that makes a row: the function's import name, and a version that changes with the code.

A version hashes all of airpool (the command line not), the shipped models, the function's module or package with the
modules it imports that are not installed, and the versions of Python, NumPy, SciPy and torch. It covers neither other
installed packages nor files that the function reads: pass their checksum as a parameter.
"""

import hashlib
import re
import sys
import sysconfig
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from airpool._support.plugins import loaded_files
from airpool._support.version import __version__
from airpool.models import assets

HOME = Path(__file__).resolve().parents[2]
_STDLIB = Path(sysconfig.get_path("stdlib")).resolve()
_LIBRARIES = ("numpy", "scipy", "torch")
_IMPORT = re.compile(r"(?:^|[;:])\s*(?:from\s+(\w+)|import\s+((?:[\w., \t]|\\\n)+))", re.MULTILINE)


def name_of(function: Callable[..., Any]) -> str:
    """The function's "module:name"; in the script that runs, by the name of its file. A ValueError if it has none."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not module or not name or "<" in name:
        raise ValueError(f"{name or function!r} cannot be found by other processes: it must be a function of a module")
    if module == "__main__":
        main: Any = sys.modules["__main__"]
        script = Path(getattr(main, "__file__", None) or "").resolve()
        module = main.__spec__.name if main.__spec__ else script.stem  # a spec: python -m
        if not main.__spec__ and script not in [place.resolve() for place in _places(module)]:
            raise ValueError("a function that is typed in cannot be found by other processes: put it into a file")
    elif named(f"{module}:{name}") is not function:
        raise ValueError(f"{module}:{name} is another function: sweep over one that can be imported by its name")
    return f"{module}:{name}"


def named(name: str) -> Callable[..., Any]:
    """The function "module:name". A ValueError if there is none, or if the module cannot be loaded."""
    if not all(name.partition(":")):
        raise ValueError(f"{name!r} must be module:function, such as experiment:accuracy")
    try:
        return resolve_name(name)
    except AttributeError:
        raise ValueError(f"{name}: the module has no such function") from None
    except Exception as error:
        raise ValueError(f"{name}: the module cannot be loaded: {type(error).__name__}: {error}") from error


def version_of(name: str) -> str:
    """The version of the code behind the function "module:name", as it is on disk; of airpool alone if ""."""
    data = assets.installed()
    tops = [HOME] if data is None else [HOME, data]
    own = [(top, each) for top in tops for each in top.rglob("*") if each.is_file() and "__pycache__" not in each.parts]
    own = [(top, file) for top, file in own if file.relative_to(top).parts[0] != "cli"]
    local = [(place.parent, file) for place in local_modules(name) for file in _sources(place)]
    local += [(file.parent, file) for file in loaded_files()]  # of --plugin
    contents = [(str(file.relative_to(top)), hashlib.sha256(file.read_bytes()).digest()) for top, file in own + local]
    libraries = [(each, [one.version for one in metadata.distributions(name=each)]) for each in _LIBRARIES]
    text = f"{sys.version_info[:2]} {libraries} {sorted(contents)}"
    return f"{__version__}+{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def local_modules(name: str) -> list[Path]:
    """Files and folders of the function's own module and of all that is imported from there, except installed ones."""
    own = re.split(r"\W", name)[0]
    found: list[Path] = []
    seen, todo = {"", "airpool"}, {own}
    while todo := todo - seen:
        seen.add(module := todo.pop())
        places = _places(module)
        if module == own or not any(map(_installed, places)):
            found += places
            texts = [file.read_text("utf-8", "replace") for place in places for file in _sources(place)]
            imports = [each for text in texts for each in _IMPORT.findall(text)]
            todo |= {re.split(r"\W", part.strip())[0] for base, names in imports for part in (base, *names.split(","))}
    return found


def _places(module: str) -> list[Path]:
    with suppress(ImportError, ValueError):
        if spec := find_spec(module):
            places = [Path(place) for place in spec.submodule_search_locations or [spec.origin or "built-in"]]
            return [place for place in places if place.is_dir() or place.suffix == ".py"]
    return []


def _installed(place: Path) -> bool:
    """Whether a module is installed, judged by its path: a user's file may have a standard name, such as wave.py."""
    place = place.resolve()
    return place.is_relative_to(_STDLIB) or not {"site-packages", "dist-packages"}.isdisjoint(place.parts)


def _sources(place: Path) -> list[Path]:
    return list(place.rglob("*.py")) if place.is_dir() else [place]
