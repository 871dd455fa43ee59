"""Credentials of a process, loaded from its folder of keys, and the identity of its peers."""

import errno
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Generic, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.x509.oid import NameOID

from airpool._support.errors import AirpoolError
from airpool_runtime.keys import secret
from airpool_runtime.keys.secret import KeyFileError

_Value = TypeVar("_Value")
_CHECK_SECONDS = 1.0


class Reloaded(Generic[_Value]):
    """The value of `load()`, loaded again once a file has changed, looked at once a second at most.

    The last good value stays where loading fails, as in the middle of a copy; `report` gets the reason, once as long as
    it is the same, and loading is tried again at the next look. The first load raises.
    """

    def __init__(
        self, load: Callable[[], _Value], paths: Sequence[Path], *, report: Callable[[str], None] = lambda _: None
    ) -> None:
        self._load, self._paths, self._report = load, tuple(paths), report
        self._stamp, self._reported = self._stamped(), ""
        self._value = load()
        self._looked = time.monotonic()

    def __call__(self) -> _Value:
        now = time.monotonic()
        if now - self._looked >= _CHECK_SECONDS:
            self._looked = now
            self._look()
        return self._value

    def _look(self) -> None:
        stamp = self._stamped()
        if stamp == self._stamp:
            return
        try:
            self._value, self._stamp, self._reported = self._load(), stamp, ""
        except (OSError, ValueError) as error:
            if str(error) != self._reported:
                self._reported = str(error)
                self._report(self._reported)

    def _stamped(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_stamp(path) for path in self._paths)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Inode, size and time of a file; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


WARNING = timedelta(days=30)  # before expiry


class UntrustedError(AirpoolError):
    """A peer that must not be served: unknown, expired or revoked. The message goes to the log."""


class WithdrawnError(UntrustedError):
    """A certificate of the authority that counts no more: expired or revoked. name: of its owner."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"the certificate of {name} {why}")
        self.name = name


@dataclass(frozen=True)
class Credentials:
    """PEM bytes of the authority, of the own certificate and its key, for a TLS connection that shows both ends.

    identify: the name in a peer's certificate (PEM); raises where it must not be served. name: in the own certificate.
    newest: the same credentials after their files have changed; None: they never do. expires: Unix time.
    """

    ca: bytes
    certificate: bytes
    key: bytes = field(repr=False)
    identify: Callable[[bytes], str] | None = None
    newest: "Callable[[], Credentials] | None" = field(default=None, repr=False, compare=False)
    expires: float = math.inf
    name: str = ""

    def renewed(self) -> "Credentials":
        return self if self.newest is None else self.newest()


@dataclass(frozen=True)
class Trust:
    """One authority and its list of revoked certificates, which is read again when the file changes."""

    ca: bytes
    revoked: Path

    def name(self, certificate: bytes) -> str:
        """The name in a peer's certificate, checked by TLS before or not; UntrustedError says why not."""
        return _name(self._checked(certificate))

    def identity(self, certificate: bytes) -> tuple[str, Ed25519PublicKey]:
        """The name and the public identity key in a device's identity certificate."""
        checked = self._checked(certificate)
        key = checked.public_key()
        if not isinstance(key, Ed25519PublicKey):
            raise UntrustedError(f"the certificate of {_name(checked)} holds no identity key")
        return _name(checked), key

    def _checked(self, certificate: bytes) -> x509.Certificate:
        try:
            peer, authority = x509.load_pem_x509_certificate(certificate), x509.load_pem_x509_certificate(self.ca)
            peer.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            raise UntrustedError("a certificate that this authority did not issue") from None
        if not peer.not_valid_before_utc <= datetime.now(UTC) <= peer.not_valid_after_utc:
            raise WithdrawnError(_name(peer), "has expired or is not valid yet")
        if peer.serial_number in self._revoked():
            raise WithdrawnError(_name(peer), "is revoked")
        return peer

    def _revoked(self) -> frozenset[int]:
        """Serial numbers on the list, and on every earlier one that this process has read: none is trusted again.

        Where the machine is out of descriptors or memory, the last list that could be read is used.
        """
        last = _LISTS.get((self.revoked, self.ca))
        try:
            content = self.revoked.read_bytes()
        except OSError as error:
            if last is None or error.errno not in _PASSING:
                raise UntrustedError(f"the list of revoked certificates cannot be read: {error.strerror}") from None
            _log.warning("the list of revoked certificates cannot be read: %s; the last one is used", error.strerror)
            return last[1]
        if last is None or last[0] != content:
            last = (content, _serials(content, self.ca) | (last[1] if last else frozenset()))
            _LISTS[self.revoked, self.ca] = last
        return last[1]


_log = logging.getLogger("airpool.keys")
_PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.EINTR})
_LISTS: dict[tuple[Path, bytes], tuple[bytes, frozenset[int]]] = {}  # by file: its content, and all serials so far


def _serials(content: bytes, ca: bytes) -> frozenset[int]:
    """The serial numbers on a list that the authority has signed."""
    authority = x509.load_pem_x509_certificate(ca)
    try:
        listed = x509.load_pem_x509_crl(content)
        valid = listed.is_signature_valid(authority.public_key())  # pyright: ignore[reportArgumentType]
    except (ValueError, TypeError):
        valid, listed = False, ()
    if not valid:
        raise UntrustedError("the list of revoked certificates is not signed by the authority")
    return frozenset(each.serial_number for each in listed)


def load(folder: str | Path) -> tuple[Credentials, Trust]:
    """Credentials and trust of a process, from its own folder of keys; an error names the faulty file."""
    folder = Path(folder)
    parts: dict[str, bytes] = {}
    for name in ("ca.crt", "tls.crt"):
        try:
            parts[name] = (folder / name).read_bytes()
        except OSError as error:
            raise KeyFileError(f"{folder / name}: {error.strerror}; `airpool keys` makes such a folder") from None
    trust = Trust(parts["ca.crt"], folder / "revoked.crl")
    key = secret.private_key(folder / "tls.key")
    try:
        name = trust.name(parts["tls.crt"])
    except UntrustedError as error:
        raise KeyFileError(f"{folder / 'tls.crt'}: {error}; `airpool keys rotate` renews it") from None
    certified = x509.load_pem_x509_certificate(parts["tls.crt"])
    if certified.public_key() != key.public_key():
        raise KeyFileError(f"{folder / 'tls.key'} does not belong to tls.crt beside it")
    expires = certified.not_valid_after_utc.timestamp()
    return Credentials(
        parts["ca.crt"], parts["tls.crt"], secret.pem(key), trust.name, expires=expires, name=name
    ), trust


def identity_of(folder: Path) -> bytes:
    """The public identity key in a folder of keys; empty where there is none."""
    try:
        key = x509.load_pem_x509_certificate((folder / "identity.crt").read_bytes()).public_key()
    except (OSError, ValueError):
        return b""
    return key.public_bytes_raw() if isinstance(key, Ed25519PublicKey) else b""


def expiry_warning(name: str, end: datetime) -> str:
    """A warning from 30 days before a certificate expires; empty before that.

    >>> from datetime import timedelta
    >>> expiry_warning("air", datetime.now(UTC) + timedelta(days=12.5))
    'the certificate of air expires in 12 days: `airpool keys rotate air`'
    """
    left = end - datetime.now(UTC)
    if left > WARNING:
        return ""
    when = f"expires in {left.days} days" if left > timedelta(0) else "has expired"
    return f"the certificate of {name} {when}: `airpool keys rotate {name}`"


def _name(certificate: x509.Certificate) -> str:
    """The owner of a certificate: its common name, which must be among its alternative names."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        (found,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except (x509.ExtensionNotFound, ValueError):
        raise UntrustedError("a certificate that does not name exactly one process") from None
    if found.value not in names.get_values_for_type(x509.DNSName):
        raise UntrustedError("a certificate that does not name exactly one process")
    return str(found.value)
