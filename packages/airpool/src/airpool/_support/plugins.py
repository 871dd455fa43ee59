"""Registries of plug-ins: each open set (codecs, …) has one, in which every member has a name.

    @airpool.register("codec", "sketch")       in a file that `airpool --plugin FILE.py` loads, or in a script
    [project.entry-points."airpool.codecs"]    in an installed package: sketch = "package.module:SketchCodec"

A member is loaded when it is asked for. A network, model or codec file may name a plug-in, and never loads one.
"""

import hashlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from airpool._support.errors import AirpoolError

Member = TypeVar("Member")

# What can be registered → the registry of it. A new open set adds a line.
REGISTRIES = {
    "codec": "airpool.models.codecs.codec:CODECS",
    "fading": "airpool.network.fading:LAWS",
    "medium": "airpool_runtime.medium:MEDIA",
    "scheme": "airpool.schemes.scheme:SCHEMES",
    "attack": "airpool_lab.attacks.attack:ATTACKS",
}

_loaded: dict[Path, None] = {}  # files of `load_file`, in their order


class PluginError(AirpoolError, ValueError):
    """A plug-in that is unknown, incomplete, or fails to load."""


@dataclass(frozen=True)
class PluginOrigin:
    """A plug-in's package or file, its version, and the SHA-256 of its source; "": unknown."""

    source: str
    version: str = ""
    sha256: str = ""


@dataclass(frozen=True, eq=False)
class Registry(Generic[Member]):
    """The members of one open set, by name.

    what: a member, in messages. group: of Python entry points. builtin: airpool's own members, as "module:attribute".
    needs: attributes that a member must have.

    >>> from airpool.models.codecs.codec import CODECS
    >>> "vote" in CODECS.names(), CODECS.get("vote").__name__, CODECS.origin("vote")
    (True, 'Vote', None)
    """

    what: str
    group: str
    builtin: Mapping[str, str]
    needs: tuple[str, ...] = ()
    _added: dict[str, tuple[Member, PluginOrigin]] = field(default_factory=dict)

    def register(self, name: str, member: Member, origin: PluginOrigin | None = None) -> Member:
        """Adds a member under a new name; returns it."""
        origin = origin or _origin(member)
        this = f"{self.what} {name!r} of {origin.source}"
        if not isinstance(name, str) or not name or name.strip() != name:
            raise PluginError(f"{this}: its name must be text without spaces around it")
        if name in self.builtin:
            raise PluginError(f"{this}: airpool's own has this name; choose another")
        known = self._added.get(name)
        if known is not None and known[1].source != origin.source:
            raise PluginError(f"{this}: {known[1].source} has registered it already")
        if lacking := [each for each in self.needs if not hasattr(member, each)]:
            raise PluginError(f"{this} lacks {', '.join(lacking)} (docs/howto/plugins.md)")
        self._added[name] = (member, origin)
        return member

    def get(self, name: str) -> Member:
        """The member of this name; an error that lists the known names if there is none."""
        if name in self.builtin:
            return _attribute(self.builtin[name])
        if name not in self._added:
            self._load(name)
        return self._added[name][0]

    def names(self) -> tuple[str, ...]:
        """Names of airpool's own members first, then those of plug-ins."""
        return tuple(dict.fromkeys((*self.builtin, *self._added, *self._entries())))

    def origin(self, name: str) -> PluginOrigin | None:
        """Origin of a plug-in; None for airpool's own members."""
        if name in self.builtin:
            return None
        self.get(name)
        return self._added[name][1]

    def _entries(self) -> dict[str, EntryPoint]:
        return {each.name: each for each in entry_points(group=self.group)}

    def _load(self, name: str) -> None:
        if (entry := self._entries().get(name)) is None:
            known = f"{self.what} {name!r} is not known; there is {', '.join(self.names())}"
            raise PluginError(f"{known}. If a plug-in brings it: airpool --plugin FILE.py, or install its package")
        package, version = (entry.dist.name, entry.dist.version) if entry.dist else (entry.value, "")
        try:
            member = entry.load()
        except Exception as error:
            raise PluginError(f"{self.what} {name!r} of {package} fails to load: {_told(error)}") from error
        self.register(name, member, PluginOrigin(package, version, _origin(member).sha256))


def register(what: str, name: str) -> Callable[[Member], Member]:
    """A decorator that registers a plug-in: `@airpool.register("codec", "sketch")` (docs/howto/plugins.md).

    what: "codec", "fading", "medium", "scheme" or "attack". name: new in its registry.

    >>> from airpool_lab.attacks.attack import ATTACKS
    >>> @register("attack", "silence")
    ... class Silence:
    ...     about, options = "Guess nothing.", {}
    ...     @staticmethod
    ...     def run(setting):
    ...         return []
    >>> "silence" in ATTACKS.names()
    True
    """
    known = registry(what)
    return lambda member: known.register(name, member)


def registry(what: str) -> Registry[Any]:
    """The registry of one open set."""
    if what not in REGISTRIES:
        raise PluginError(f"{what!r} cannot be registered, must be one of {', '.join(REGISTRIES)}")
    return _attribute(REGISTRIES[what])


def load_file(path: Path | str) -> None:
    """Runs a plug-in's file, which registers what it brings. A file that was loaded is not run again."""
    path = Path(path).resolve()
    if path in _loaded:
        return
    if not path.exists():
        raise PluginError(f"--plugin {path}: no such file")
    if not path.is_file() or path.suffix != ".py":
        raise PluginError(f"--plugin {path} must be a Python file (.py)")
    name = f"airpool_plugin_{path.stem}_{hashlib.sha256(bytes(path)).hexdigest()[:8]}"
    loader = SourceFileLoader(name, str(path))
    sys.modules[name] = module = ModuleType(name)  # dataclasses look themselves up there
    module.__file__ = str(path)
    try:
        loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise PluginError(f"--plugin {path} fails: {_told(error)}") from error
    _loaded[path] = None


def loaded_files() -> tuple[Path, ...]:
    """The files that `load_file` has run, for the processes that this one starts."""
    return tuple(_loaded)


def _attribute(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def _origin(member: Any) -> PluginOrigin:
    of = member if hasattr(member, "__module__") else type(member)
    module = sys.modules.get(of.__module__)
    file = getattr(module, "__file__", None)
    if file is None or not Path(file).is_file():
        return PluginOrigin(of.__module__)
    digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    return PluginOrigin(file, str(getattr(module, "__version__", "")), digest)


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, PluginError) else f"{type(error).__name__}: {error}"
