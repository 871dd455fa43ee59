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
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from airpool._support import files
from airpool.runtime.keys import secret
from airpool.runtime.keys.secret import KeyFileError

# Processes that accept connections. A device's certificate is a client's alone.
ROLES = ("server", "air", "ranking")
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_SKEW = timedelta(hours=1)
_DECADE = timedelta(days=3650)


class Issued(NamedTuple):
    """One certificate: whose, of which kind (tls, identity), until when, and whether it was revoked."""

    name: str
    kind: str
    serial: int
    until: str
    revoked: bool = False


def create(folder: Path, *, days: float = 365) -> None:
    """A new authority in an empty or new folder, with certificates for server, air and ranking server.

    A role's certificate also names this machine, so that an HTTP client on it can check whom it asks.
    """
    if folder.exists() and any(folder.iterdir()):
        raise KeyFileError(
            f"{folder} is not empty: an authority is made once (`airpool keys show` lists what is there)"
        )
    _days(days)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = ec.generate_private_key(ec.SECP256R1())
    now, subject = datetime.now(UTC), _subject("airpool authority")
    certificate = (
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
    secret.write(folder / "ca.key", secret.pem(key))
    files.write(folder / "ca.crt", certificate.public_bytes(serialization.Encoding.PEM))
    _record(folder, [])
    for name in ROLES:
        add(folder, name, days=days)


def add(folder: Path, name: str, *, days: float = 365) -> Path:
    """Keys and certificates for a new name, in a folder of its own; returns that folder."""
    if not _NAME.fullmatch(name):
        raise KeyFileError(f"name {name!r} must be of small letters, digits and hyphens, at most 63, such as device-3")
    _days(days)
    known = issued(folder)
    home = folder / name
    if home.exists() or any(each.name == name for each in known):
        verb, what = ("reissue", "replaces the revoked ones") if _revoked(known, name) else ("rotate", "renews them")
        raise KeyFileError(f"{name} has keys already: `airpool keys {verb} {name}` {what}")
    home.mkdir(mode=0o700)
    identity = Ed25519PrivateKey.generate()
    secret.write(home / "identity.key", secret.pem(identity))
    known = [*known, _certify(folder, name, "identity", identity.public_key(), days)]
    _record(folder, [*known, _connection(folder, name, days)])
    return home


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
    (folder / name).mkdir(mode=0o700, exist_ok=True)
    identity = Ed25519PrivateKey.generate()
    if (head := folder / name / "identity.head").exists():
        head.rename(head.with_name(f"identity-before-{len(known)}.head"))
    secret.write(folder / name / "identity.key", secret.pem(identity))
    known = [*known, _certify(folder, name, "identity", identity.public_key(), days)]
    _record(folder, [*known, _connection(folder, name, days)])


def revoke(folder: Path, name: str) -> None:
    """Puts all certificates of a name on the list of revoked ones."""
    _record(folder, [each._replace(revoked=True) if each.name == name else each for each in _of(folder, name)])


def issued(folder: Path) -> list[Issued]:
    """All certificates that the authority has issued."""
    try:
        return [Issued(**each) for each in json.loads((folder / "issued.json").read_text("utf-8"))]
    except (OSError, ValueError, TypeError):
        raise KeyFileError(f"{folder} holds no authority: `airpool keys init --keys {folder}` makes one") from None


def _revoked(known: list[Issued], name: str) -> bool:
    """Whether a name has certificates, and all of them are revoked."""
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
    authority, now = _authority(folder), datetime.now(UTC)
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] * (name in ROLES))]
    if kind == "identity":
        uses = [ExtendedKeyUsageOID.CODE_SIGNING]  # for no connection
    until = min(now + timedelta(days=days), authority.not_valid_after_utc)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_subject(name))
        .issuer_name(authority.subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, until) - _SKEW)
        .not_valid_after(until)
        .add_extension(x509.SubjectAlternativeName(_names(name)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    )
    certificate = builder.sign(_key(folder), hashes.SHA256())
    files.write(folder / name / f"{kind}.crt", certificate.public_bytes(serialization.Encoding.PEM))
    files.write(folder / name / "ca.crt", authority.public_bytes(serialization.Encoding.PEM))
    return Issued(name, kind, certificate.serial_number, until.isoformat(timespec="seconds"))


def _record(folder: Path, known: list[Issued]) -> None:
    """Writes the register; into every folder of keys the signed list of revoked certificates, and the roster."""
    now = datetime.now(UTC)
    builder = x509.CertificateRevocationListBuilder().issuer_name(_authority(folder).subject)
    builder = builder.last_update(now - _SKEW).next_update(now + _DECADE)
    for each in known:
        if each.revoked:
            one = x509.RevokedCertificateBuilder().serial_number(each.serial).revocation_date(now)
            builder = builder.add_revoked_certificate(one.build())
    listed = builder.sign(_key(folder), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
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


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _names(name: str) -> list[x509.GeneralName]:
    """The name itself; for roles, which answer HTTP too, this machine as well."""
    here = [x509.DNSName("localhost"), *(x509.IPAddress(ip_address(each)) for each in ("127.0.0.1", "::1"))]
    return [x509.DNSName(name), *(here if name in ROLES else [])]


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


def _days(days: float) -> None:
    if not 0 < days <= 3650:
        raise KeyFileError(f"days={days} must be > 0 and at most 3650")
