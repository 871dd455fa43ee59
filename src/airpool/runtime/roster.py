"""Identities of a secure sum from the folders that `airpool keys` makes: the roster of all, its own private key.

    KEYS/NAME/roster.pem          identity certificates of all devices, which are public
    KEYS/device-J/identity.crt    the same of every device, where an older folder has no roster

Devices and the hub read them again when they change: rotated, revoked and reissued devices need no restart.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from airpool.runtime import logs, secured
from airpool.runtime.keys import credentials, secret
from airpool.runtime.keys.credentials import UntrustedError, WithdrawnError
from airpool.runtime.keys.reloaded import Reloaded
from airpool.runtime.keys.secret import KeyFileError
from airpool.runtime.secure.keys import Roster, Session

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.DOTALL)


def session(folder: Path, device: int, num_devices: int) -> Session:
    """The session of a device. folder: its own, or the one that it lies in."""
    own = secured.home(folder, device).resolve()
    return Session(device, secret.identity(own / "identity.key"), watched(own, num_devices))


def watched(own: Path, num_devices: int) -> Reloaded[Roster]:
    """The roster in a role's own folder, kept up to date."""
    own = own.resolve()
    paths = (own / "roster.pem", own / "revoked.crl")
    return Reloaded(lambda: read(own, num_devices), paths, report=lambda why: logs.event("roster", reason=why))


def read(own: Path, num_devices: int) -> Roster:
    """The certified identities of all devices; None for one whose certificate was revoked or has expired.

    Raises KeyFileError where one is missing, forged or of another name: a sum of K devices names them all.
    """
    _, trust = credentials.load(own)
    found: dict[str, bytes | None] = {}
    for path, name, certificate in _certificates(own, num_devices):
        try:
            of, public = trust.identity(certificate)
            found[of] = public.public_bytes_raw()
        except WithdrawnError as why:
            of = why.name
            found.setdefault(of, None)
        except UntrustedError as why:
            raise KeyFileError(f"{path}: {why}") from None
        if name is not None and of != name:
            raise KeyFileError(f"{path} is of {of}, must be of {name}")
    names = [f"device-{k}" for k in range(num_devices)]
    if missing := [name for name in names if name not in found]:
        name = missing[0]
        raise KeyFileError(f"{own / 'roster.pem'} has no {name}: `airpool keys device {name}`, then copy roster.pem")
    return tuple(found[name] for name in names)


def _certificates(own: Path, num_devices: int) -> Iterator[tuple[Path, str | None, bytes]]:
    """Each certificate with its file, and the name that it must have where the file says so."""
    if (listed := own / "roster.pem").exists():
        yield from ((listed, None, one) for one in _CERTIFICATE.findall(listed.read_bytes()))
        return
    for name in (f"device-{k}" for k in range(num_devices)):
        path = own.parent / name / "identity.crt"
        try:
            yield path, name, path.read_bytes()
        except OSError as error:
            raise KeyFileError(f"{path}: {error.strerror}; copy the identity.crt of every device there") from None
