"""Private keys on disk: written for their owner alone, and refused if another user could read them."""

import os
import secrets
import stat
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from airpool._support.errors import AirpoolError

_LARGEST = 1 << 16

PrivateKey = EllipticCurvePrivateKey | Ed25519PrivateKey


class KeyFileError(AirpoolError, ValueError):
    """A key or certificate that must not be used; the message names the file and what to do, never its content."""


def write(path: Path, content: bytes) -> None:
    """Writes a file atomically, readable by its owner alone, in place of what was there."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(file, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def read(path: Path) -> bytes:
    """The content of a private file; an error if others may read it, or if its owner is another user."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror}; `airpool keys` makes keys") from None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise KeyFileError(f"{path} must be a regular file")
        if status.st_mode & 0o077:
            mode = stat.S_IMODE(status.st_mode)
            raise KeyFileError(f"{path} has mode {mode:04o}, must be 0600: others can read it (chmod 600 {path})")
        if status.st_uid not in (0, os.geteuid()):
            raise KeyFileError(f"{path} belongs to user {status.st_uid}, must belong to the user who runs airpool")
        return os.read(file, _LARGEST)
    finally:
        os.close(file)


def pem(key: PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def private_key(path: Path) -> PrivateKey:
    """The private key in a file; an error that does not show its content if there is none."""
    content = read(path)
    try:
        key = serialization.load_pem_private_key(content, None)
    except (ValueError, TypeError):
        raise KeyFileError(f"{path} holds no private key in PEM without a password") from None
    if not isinstance(key, EllipticCurvePrivateKey | Ed25519PrivateKey):
        raise KeyFileError(f"{path} holds a key of another kind, must be Ed25519 or P-256 as `airpool keys` makes them")
    return key


def identity(path: str | Path) -> Ed25519PrivateKey:
    """A device's identity key: it signs the ledger, and what the device says of itself."""
    key = private_key(Path(path))
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(f"{path} is not an Ed25519 key: give identity.key, not tls.key")
    return key
