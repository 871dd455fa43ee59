"""Identities of a secure sum from the folders that `airpool keys` makes: all certificates, its own private key.

    FOLDER/device-K/      the device's own folder, as it was made
    FOLDER/device-J/      of every other device identity.crt alone, which is public

The authority's own folder has all of them.
"""

from pathlib import Path

from airpool.runtime import secured
from airpool.runtime.keys import credentials, secret
from airpool.runtime.keys.credentials import UntrustedError
from airpool.runtime.keys.secret import KeyFileError
from airpool.runtime.secure.keys import Session


def session(folder: Path, device: int, num_devices: int) -> Session:
    """The session of a device. folder: its own, or the one that it lies in.

    Every certificate must be the authority's, of the right name, in date, and not revoked: one that is not ends the
    start, since a sum of K devices names them all.
    """
    own = secured.home(folder, device).resolve()
    _, trust = credentials.load(own)
    roster = []
    for k in range(num_devices):
        path = own.parent / f"device-{k}" / "identity.crt"
        try:
            name, public = trust.identity(path.read_bytes())
        except OSError as error:
            raise KeyFileError(f"{path}: {error.strerror}; copy the identity.crt of every device there") from None
        except UntrustedError as why:
            raise KeyFileError(f"{path}: {why}") from None
        if name != f"device-{k}":
            raise KeyFileError(f"{path} is of {name}, must be of device-{k}")
        roster.append(public.public_bytes_raw())
    return Session(device, secret.identity(own / "identity.key"), roster)
