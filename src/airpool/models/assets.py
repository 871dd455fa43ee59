"""The folder of what ships: weights, latents and sample objects, in the data package airpool-models (packages/models).

It is found when it is asked for, and never imported: airpool works without it, on models and data of your own.
"""

from pathlib import Path

from airpool._support import extras


def installed() -> Path | None:
    """The folder airpool_models; None where the package is not installed."""
    return extras.place("airpool_models")


def folder(what: str = "what ships with airpool") -> Path:
    """The folder airpool_models; a ValueError that says how to install it, for `what`, where it is missing."""
    if (found := installed()) is None:
        raise ValueError(f"{what} needs the package airpool-models: {extras.install_data()}")
    return found
