"""The folder of what ships: weights, latents and sample objects, in the data package airpool-models.

It is found when it is asked for, and never imported: airpool works without it, on models and data of your own.
"""

from functools import cache
from importlib import metadata
from pathlib import Path

from airpool._support import extras
from airpool._support.version import __version__


def installed() -> Path | None:
    """The folder airpool_models; None where the package is not installed."""
    return extras.place("airpool_models")


def folder(what: str = "what ships with airpool") -> Path:
    """The folder airpool_models; a ValueError that says how to install it, for `what`, where it is missing.

    Also where it is of another MAJOR.MINOR than airpool: the two are released together.
    """
    if (found := installed()) is None:
        raise ValueError(f"{what} needs the package airpool-models: {extras.install('airpool-models')}")
    other = _version()
    if other is not None and _release(other) != _release(__version__):
        advice = extras.install("airpool-models")
        raise ValueError(f"{what} needs airpool-models {_release(__version__)}, but {other} is installed: {advice}")
    return found


@cache
def _version() -> str | None:
    """The version of the installed package; None where only its folder is on the path."""
    try:
        return metadata.version("airpool-models")
    except metadata.PackageNotFoundError:
        return None


def _release(version: str) -> str:
    """MAJOR.MINOR of a version."""
    return ".".join(version.split(".")[:2])
