"""The authority: one folder with its key, from which the folder of every role is made.

    KEYS/ca.key  ca.crt  revoked.crl  roster.pem  issued.json
    KEYS/NAME/ca.crt  tls.key  tls.crt  identity.key  identity.crt  revoked.crl  roster.pem

A folder KEYS/NAME is all that its process needs; ca.key should not leave the machine where it was made. roster.pem has
the identity certificates of all devices, which are public. Connections use P-256 (what gRPC's TLS speaks), signatures
Ed25519. A rotated connection key is a new key; the identity stays, and with it the ledger. A reissued name has a new
identity, and begins a new ledger.
"""

import json
import re
import shutil
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from airpool._support import files
from airpool_runtime.keys import secret
from airpool_runtime.keys.secret import KeyFileError

_SKEW = timedelta(hours=1)
_DECADE = timedelta(days=3650)


def root(key: EllipticCurvePrivateKey) -> x509.Certificate:
    now, subject = datetime.now(UTC), _subject("airpool authority")
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _DECADE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def unsigned(
    authority: x509.Certificate,
    name: str,
    public: EllipticCurvePublicKey | Ed25519PublicKey,
    *,
    identity: bool,
    serves: bool,
    days: float,
) -> x509.CertificateBuilder:
    """The certificate of a name before it is signed, for these days, never longer than the authority's.

    identity: signs for no connection. serves: accepts connections, over HTTP too, and so also names this machine.
    """
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] * serves)]
    here = [x509.DNSName("localhost"), *(x509.IPAddress(ip_address(each)) for each in ("127.0.0.1", "::1"))]
    now = datetime.now(UTC)
    until = min(now + timedelta(days=days), authority.not_valid_after_utc)
    return (
        x509.CertificateBuilder()
        .subject_name(_subject(name))
        .issuer_name(authority.subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, until) - _SKEW)
        .not_valid_after(until)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name), *(here if serves else [])]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING] if identity else uses), critical=False)
    )


def unsigned_list(authority: x509.Certificate, serials: Iterable[int]) -> x509.CertificateRevocationListBuilder:
    """The list of revoked certificates before it is signed."""
    now = datetime.now(UTC)
    builder = x509.CertificateRevocationListBuilder().issuer_name(authority.subject)
    builder = builder.last_update(now - _SKEW).next_update(now + _DECADE)
    for serial in serials:
        one = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now)
        builder = builder.add_revoked_certificate(one.build())
    return builder


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


# Processes that accept connections. A device's certificate is a client's alone.
ROLES = ("server", "air", "ranking")
# Where `create` works, and where all of it stands before it is moved up.
_PARTIAL, _WHOLE = ".partial", ".whole"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_HOME = {"ca.crt", "tls.key", "tls.crt", "identity.key", "identity.crt", "revoked.crl", "roster.pem"}


class Issued(NamedTuple):
    """One certificate: whose, of which kind (tls, identity), until when, and whether it was revoked."""

    name: str
    kind: str
    serial: int
    until: str
    revoked: bool = False


def create(folder: Path, *, devices: int = 0, days: float = 365) -> None:
    """A new authority in an empty or new folder, with certificates for server, air and ranking server.

    devices: as many have keys from the beginning, device-0 and on.

    A role's certificate also names this machine, so that an HTTP client on it can check whom it asks. Whole or nothing:
    it is made in a folder within, and moved up once all is there. After a kill the next call finishes or starts over.
    """
    _days(days)
    partial, whole, new = folder / _PARTIAL, folder / _WHOLE, not folder.exists()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not whole.exists():
        shutil.rmtree(partial, ignore_errors=True)
        if any(folder.iterdir()):
            raise KeyFileError(
                f"{folder} is not empty: an authority is made once (`airpool keys show` lists what is there)"
            )
        try:
            _make(partial, (*ROLES, *(f"device-{k}" for k in range(devices))), days)
            partial.rename(whole)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            if new:
                folder.rmdir()
            raise
    # The register goes last: a folder that has one has all.
    for path in sorted(whole.iterdir(), key=lambda path: path.name == "issued.json"):
        path.rename(folder / path.name)
    whole.rmdir()


def _make(folder: Path, names: Iterable[str], days: float) -> None:
    folder.mkdir(mode=0o700)
    key = ec.generate_private_key(ec.SECP256R1())
    secret.write(folder / "ca.key", secret.pem(key))
    files.write(folder / "ca.crt", root(key).public_bytes(serialization.Encoding.PEM))
    _record(folder, [each for name in names for each in _new(folder, name, days)])


def add(folder: Path, name: str, *, days: float = 365) -> Path:
    """Keys and certificates for a new name, in a folder of its own; returns that folder."""
    if not _NAME.fullmatch(name):
        raise KeyFileError(f"name {name!r} must be of small letters, digits and hyphens, at most 63, such as device-3")
    _days(days)
    known = issued(folder)
    home = folder / name
    registered = any(each.name == name for each in known)
    if not registered and home.is_dir() and {path.name for path in home.iterdir() if path.suffix != ".tmp"} <= _HOME:
        shutil.rmtree(home)  # of a call that was killed before it was in the register
    if home.exists() or registered:
        verb, what = ("reissue", "replaces the revoked ones") if _revoked(known, name) else ("rotate", "renews them")
        raise KeyFileError(f"{name} has keys already: `airpool keys {verb} {name}` {what}")
    try:
        _record(folder, [*known, *_new(folder, name, days)])
    except BaseException:
        if all(each.name != name for each in issued(folder)):
            shutil.rmtree(home, ignore_errors=True)
        raise
    return home


def _new(folder: Path, name: str, days: float) -> list[Issued]:
    """The certificates of a new name, not yet in the register."""
    (folder / name).mkdir(mode=0o700, exist_ok=True)
    identity = Ed25519PrivateKey.generate()
    secret.write(folder / name / "identity.key", secret.pem(identity))
    return [_certify(folder, name, "identity", identity.public_key(), days), _connection(folder, name, days)]


def rotate(folder: Path, name: str, *, days: float = 365) -> None:
    """A new connection key for a name, and new certificates. The identity key stays.

    The old connection certificate is revoked. The old identity certificate is not: its key stays, and other devices may
    have it until they get the new roster.
    """
    known = _of(folder, name)
    if _revoked(known, name):
        raise KeyFileError(f"{name} is revoked: `airpool keys reissue {name}` makes keys for its replacement")
    identity = secret.identity(folder / name / "identity.key")
    known = [each._replace(revoked=True) if (each.name, each.kind) == (name, "tls") else each for each in known]
    known = [*known, _certify(folder, name, "identity", identity.public_key(), days)]
    _record(folder, [*known, _connection(folder, name, days)])


def reissue(folder: Path, name: str, *, days: float = 365) -> None:
    """New keys and a new identity for a revoked name, whose replacement begins a new ledger.

    The old certificates stay revoked. The old head, which lies beside the key, is kept under another name.
    """
    known = _of(folder, name)
    if not _revoked(known, name):
        raise KeyFileError(
            f"{name} is not revoked: `airpool keys rotate {name}` renews its keys and keeps identity and ledger; "
            f"to replace it, `airpool keys revoke {name}` first"
        )
    _days(days)
    if (head := folder / name / "identity.head").exists():
        head.rename(head.with_name(f"identity-before-{len(known)}.head"))
    _record(folder, [*known, *_new(folder, name, days)])


def revoke(folder: Path, name: str) -> None:
    _record(folder, [each._replace(revoked=True) if each.name == name else each for each in _of(folder, name)])


def issued(folder: Path) -> list[Issued]:
    try:
        return [Issued(**each) for each in json.loads((folder / "issued.json").read_text("utf-8"))]
    except (OSError, ValueError, TypeError):
        raise KeyFileError(f"{folder} holds no authority: `airpool keys init --keys {folder}` makes one") from None


def _revoked(known: list[Issued], name: str) -> bool:
    own = [each.revoked for each in known if each.name == name]
    return bool(own) and all(own)


def _of(folder: Path, name: str) -> list[Issued]:
    known = issued(folder)
    if all(each.name != name for each in known):
        there = ", ".join(sorted({each.name for each in known}))
        raise KeyFileError(f"{name} has no keys here; known are {there}")
    return known


def _connection(folder: Path, name: str, days: float) -> Issued:
    key = ec.generate_private_key(ec.SECP256R1())
    secret.write(folder / name / "tls.key", secret.pem(key))
    return _certify(folder, name, "tls", key.public_key(), days)


def _certify(
    folder: Path, name: str, kind: str, public: ec.EllipticCurvePublicKey | Ed25519PublicKey, days: float
) -> Issued:
    _days(days)
    authority = _authority(folder)
    made = unsigned(authority, name, public, identity=kind == "identity", serves=name in ROLES, days=days)
    certificate = made.sign(_key(folder), hashes.SHA256())
    files.write(folder / name / f"{kind}.crt", certificate.public_bytes(serialization.Encoding.PEM))
    files.write(folder / name / "ca.crt", authority.public_bytes(serialization.Encoding.PEM))
    return Issued(name, kind, certificate.serial_number, certificate.not_valid_after_utc.isoformat(timespec="seconds"))


def _record(folder: Path, known: list[Issued]) -> None:
    """Writes the register; into every folder of keys the signed list of revoked certificates, and the roster."""
    revoked = unsigned_list(_authority(folder), (each.serial for each in known if each.revoked))
    listed = revoked.sign(_key(folder), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    files.write(folder / "issued.json", json.dumps([each._asdict() for each in known], indent=1) + "\n")
    roster = _roster(folder, known)
    for home in (folder, *(folder / name for name in {each.name for each in known})):
        if home.is_dir():
            files.write(home / "revoked.crl", listed)
            files.write(home / "roster.pem", roster)


def _roster(folder: Path, known: list[Issued]) -> bytes:
    """The newest identity certificate of every device, revoked or not: the list of revoked ones is beside it."""
    sources = (folder / "roster.pem", *folder.glob("device-*/identity.crt"))
    contents = [path.read_bytes() for path in sources if path.exists()]
    held = {
        each.serial_number: each for part in filter(None, contents) for each in x509.load_pem_x509_certificates(part)
    }
    newest = {each.name: each.serial for each in known if each.kind == "identity"}
    devices = sorted((name for name in newest if name.startswith("device-")), key=lambda name: (len(name), name))
    listed = (held[newest[name]] for name in devices if newest[name] in held)
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in listed)


def _authority(folder: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())


def _key(folder: Path) -> Any:
    return secret.private_key(folder / "ca.key")


def _days(days: float) -> None:
    if not 0 < days <= 3650:
        raise KeyFileError(f"days={days} must be > 0 and at most 3650")
