"""Identities as files: a roster of all public keys, and the private key of each device.

    roster.txt      one public key a line, in hex: line k is device k. Public, and the same for all.
    device-K.key    the private key of device K, in hex. For that device alone.

Made by whoever runs the fleet, never by the server: it could invent devices.
"""

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from airpool._support import files
from airpool.runtime.keys import secret
from airpool.runtime.secure.keys import Session, public_bytes

_ROSTER = "roster.txt"


def write(folder: Path, num_devices: int) -> None:
    """Fresh identities of all devices."""
    folder.mkdir(parents=True, exist_ok=True)
    identities = [Ed25519PrivateKey.generate() for _ in range(num_devices)]
    for device, identity in enumerate(identities):
        secret.write(folder / f"device-{device}.key", identity.private_bytes_raw().hex().encode() + b"\n")
    files.write(folder / _ROSTER, "".join(public_bytes(each).hex() + "\n" for each in identities))


def roster(folder: Path) -> list[bytes]:
    """The public identities of all devices."""
    try:
        return [bytes.fromhex(line) for line in (folder / _ROSTER).read_text("ascii").split()]
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read the roster in {folder}: {error}") from None


def session(folder: Path, device: int) -> Session:
    """The session of a device whose files are in this folder."""
    known = roster(folder)
    try:
        private = bytes.fromhex(secret.read(folder / f"device-{device}.key").decode("ascii").strip())
        return Session(device, Ed25519PrivateKey.from_private_bytes(private), known)
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read the identity of device {device} in {folder}: {error}") from None
