"""Certificates on both ends: who may speak, and for whom."""

import asyncio
import datetime

import numpy as np
import pytest

from airpool_runtime import terms, transport
from airpool_runtime.air import Air
from airpool_runtime.keys.credentials import Credentials
from airpool_runtime.messages import DisconnectedError, UnreachedError, Withheld
from airpool_runtime.remote import RemoteDevice, RemoteServer
from airpool_runtime.service import AirService
from airpool_runtime.wire_pb2_grpc import add_AirServicer_to_server

from .systems import R, network

x509 = pytest.importorskip("cryptography.x509")
from cryptography.hazmat.primitives import hashes, serialization  # noqa: E402
from cryptography.hazmat.primitives.asymmetric import ec  # noqa: E402


class Authority:
    """A CA that exists for one test."""

    def __init__(self):
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._cert = self._signed("authority", self._key.public_key(), ca=True)

    def _signed(self, name, key, *, ca=False):
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority")])
        now = datetime.datetime.now(datetime.UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        )
        return made.sign(self._key, hashes.SHA256())

    def credentials(self, name):
        key = ec.generate_private_key(ec.SECP256R1())
        pem = serialization.Encoding.PEM
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        own = self._signed(name, key.public_key()).public_bytes(pem)
        return Credentials(self._cert.public_bytes(pem), own, private, identify=named)


def named(certificate):
    loaded = x509.load_pem_x509_certificate(certificate)
    return loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(
        x509.DNSName
    )[0]


def secured(play):
    """Runs `play(address, authority)` beside an air with certificates."""

    async def run():
        authority = Authority()
        own = authority.credentials("air")
        service = AirService(Air(network(1), patience=0.05), own)
        server, at = await transport.serve("127.0.0.1:0", lambda s: add_AirServicer_to_server(service, s), own)
        try:
            return await play(at, authority)
        finally:
            await server.stop(0)

    return asyncio.run(run())


async def opened(at, credentials, device=0):
    async with transport.channel(at, credentials, role="air") as channel:
        port = await RemoteDevice.opened(channel, device, simulated=False, network=network(1))
        await port.ready()
        port.close()


def test_a_device_and_a_server_with_their_own_certificates_are_served():
    async def play(at, authority):
        await opened(at, authority.credentials("device-0"))
        async with transport.channel(at, authority.credentials("server"), role="air") as channel:
            return await RemoteServer(channel, slot_seconds=1.0).run_slot("x", 0, terms.stated(network(1)))

    assert isinstance(secured(play), Withheld)


@pytest.mark.parametrize("name", ["device-1", "server", "somebody"])
def test_a_device_speaks_for_itself_alone(name):
    async def play(at, authority):
        with pytest.raises(DisconnectedError, match=f"{name} must not speak for device-0"):
            await opened(at, authority.credentials(name))

    secured(play)


def test_a_device_cannot_announce():
    async def play(at, authority):
        async with transport.channel(at, authority.credentials("device-0"), role="air") as channel:
            with pytest.raises(DisconnectedError, match="device-0 must not speak for server"):
                await RemoteServer(channel, slot_seconds=1.0).run_slot("x", 0, terms.stated(network(1)))

    secured(play)


def test_another_authority_is_not_believed():
    async def play(at, _):
        with pytest.raises(DisconnectedError):
            await opened(at, Authority().credentials("device-0"))

    secured(play)


def test_a_tls_mismatch_is_named_from_both_sides():
    async def plain_to_tls(at, _):
        with pytest.raises(DisconnectedError, match="if it has --keys, this one needs --keys too"):
            await opened(at, None)
        async with transport.channel(at, role="air") as channel:
            with pytest.raises(UnreachedError, match="if it has --keys, this one needs --keys too"):
                await RemoteServer(channel, slot_seconds=1.0).run_slot("x", 0, terms.stated(network(1)))

    async def tls_to_plain():
        service, authority = AirService(Air(network(1))), Authority()
        server, at = await transport.serve("127.0.0.1:0", lambda s: add_AirServicer_to_server(service, s))
        try:
            with pytest.raises(DisconnectedError, match="the other end speaks without TLS"):
                await opened(at, authority.credentials("device-0"))
        finally:
            await server.stop(0)

    secured(plain_to_tls)
    asyncio.run(tls_to_plain())


def test_without_a_certificate_nobody_is_served():
    async def play(at, _):
        with pytest.raises(DisconnectedError):
            await opened(at, None)

    secured(play)


def test_an_air_under_another_name_is_not_believed():
    async def play(at, authority):
        async with transport.channel(at, authority.credentials("device-0"), role="server") as channel:
            with pytest.raises(DisconnectedError):
                await RemoteDevice.opened(channel, 0, simulated=False, network=network(1))

    secured(play)


def test_a_key_is_not_shown():
    assert "SECRET" not in repr(Credentials(b"", b"", b"SECRET"))


def test_samples_are_packed_without_loss():
    from airpool_runtime.remote import packed, unpacked

    values = np.random.default_rng(0).standard_normal(R)
    np.testing.assert_array_equal(unpacked(packed(values)), values)
    assert len(packed(values)) == 8 * R
