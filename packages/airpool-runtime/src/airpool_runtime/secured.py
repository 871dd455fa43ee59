"""Credentials, keys and tokens of the roles, from the folders that `airpool keys` makes."""

import math
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from airpool_runtime import logs
from airpool_runtime.keys import credentials as keys
from airpool_runtime.keys import secret
from airpool_runtime.keys.credentials import Credentials, Reloaded
from airpool_runtime.keys.secret import KeyFileError

_SHORTEST_TOKEN = 16
_DAY = 86_400.0


def credentials(folder: Path, role: str) -> Credentials:
    """Credentials of a role's sockets. The certificate must be that of the role: no role can act as another.

    New keys in the folder are used from the next connection on, unless they are of another identity: those are for the
    process that replaces this one. From 30 days before they expire, a line of the log says so every day.
    """
    warned, identity = -math.inf, keys.identity_of(folder)

    def load() -> Credentials:
        own, _ = keys.load(folder)
        if own.name != role:
            raise KeyFileError(f"{folder} holds the keys of {own.name}, must be those of {role}")
        if keys.identity_of(folder) != identity:
            raise KeyFileError(f"{folder} now holds the keys of a replacement of this {role}: end this process")
        return own

    def newest() -> Credentials:
        nonlocal warned
        found, now = held(), time.monotonic()
        if now - warned >= _DAY and (warning := keys.expiry_warning(role, datetime.fromtimestamp(found.expires, UTC))):
            warned = now
            logs.event("expiry", reason=warning)
        return found

    paths = [folder / name for name in ("tls.crt", "tls.key", "ca.crt")]
    held = Reloaded(load, paths, report=lambda why: logs.event("keys", reason=why))
    return replace(newest(), newest=newest)


def home(folder: Path, device: int) -> Path:
    """The folder of one device: this one, or the one of its name in an authority's folder."""
    return folder if (folder / "tls.crt").exists() else folder / f"device-{device}"


def token(path: Path) -> str:
    """The token that HTTP clients have to show, from a file that its owner alone can read."""
    return checked_token(secret.read(path).decode("utf-8", "surrogateescape"), str(path))


def checked_token(text: str, where: str) -> str:
    """The token of a text; a KeyFileError that names where it is from, never the token, if it is not safe to use."""
    found = text.strip()
    if not found.isascii():
        at = next(k for k, each in enumerate(text) if not each.isascii())
        raise KeyFileError(
            f"{where}: character {at + 1} is not ASCII; a token must be ASCII, such as `openssl rand -hex 32` writes"
        )
    if len(found) < _SHORTEST_TOKEN or not found.isprintable():
        raise KeyFileError(f"{where} must hold a token of at least {_SHORTEST_TOKEN} printable characters, on one line")
    return found


def public_key(path: Path) -> str:
    return secret.identity(path).public_key().public_bytes_raw().hex()
