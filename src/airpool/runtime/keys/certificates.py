"""Certificates and the list of revoked ones, as X.509 has them: of the authority, of a process, of an identity."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_SKEW = timedelta(hours=1)
_DECADE = timedelta(days=3650)


def root(key: EllipticCurvePrivateKey) -> x509.Certificate:
    """The authority's own certificate, for ten years."""
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
