"""Keys that are rotated while the roles run: connections use the new ones, and no process is started again."""

import asyncio
import ssl

import pytest
from cryptography import x509

from airpool.runtime import secured, transport
from airpool.runtime import wire_pb2 as wire
from airpool.runtime.air import Air
from airpool.runtime.keys import authority, reloaded
from airpool.runtime.service import AirService
from airpool.runtime.wire_pb2_grpc import AirStub, add_AirServicer_to_server

from .systems import network

NET = network(2)


@pytest.fixture
def keys(tmp_path, monkeypatch):
    monkeypatch.setattr(reloaded, "_CHECK_SECONDS", 0.0)
    authority.create(tmp_path / "keys")
    for k in range(2):
        authority.add(tmp_path / "keys", f"device-{k}")
    return tmp_path / "keys"


def serial(keys, name):
    return x509.load_pem_x509_certificate((keys / name / "tls.crt").read_bytes()).serial_number


async def shown_by(at, keys):
    """The serial number of the certificate that an HTTPS server shows."""
    context = ssl.create_default_context(cafile=str(keys / "ca.crt"))
    host, port = at.split(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(shown).serial_number


def test_both_ends_of_grpc_use_rotated_keys_without_a_restart(keys):
    async def play():
        own = secured.credentials(keys / "air", "air")
        service = AirService(Air(NET, patience=0.1), own)
        it, at = await transport.serve("127.0.0.1:0", lambda s: add_AirServicer_to_server(service, s), own)
        try:
            async with transport.channel(at, secured.credentials(keys / "server", "server"), role="air") as channel:
                stub = AirStub(channel)
                for name in (None, "server", "air", "server"):
                    if name is not None:
                        authority.rotate(keys, name)  # its old certificate is revoked with it
                    assert (await stub.Status(wire.Nothing(), timeout=20)).ready == 0
        finally:
            await it.stop(0)
        return own.renewed().certificate

    assert asyncio.run(play()) == (keys / "air" / "tls.crt").read_bytes()


def test_https_shows_the_rotated_certificate(keys):
    async def play():
        context = transport.http_context(secured.credentials(keys / "server", "server"))
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
        at = "{}:{}".format(*server.sockets[0].getsockname())
        try:
            first = await shown_by(at, keys)
            assert first == serial(keys, "server")
            authority.rotate(keys, "server")
            return first, await shown_by(at, keys), await shown_by(at, keys)
        finally:
            server.close()
            await server.wait_closed()

    first, second, third = asyncio.run(play())
    assert first != second == third == serial(keys, "server")


def test_half_copied_keys_are_not_used(keys, tmp_path):
    own = secured.credentials(keys / "air", "air")
    before = own.certificate
    (keys / "air" / "tls.crt").write_bytes((keys / "server" / "tls.crt").read_bytes())
    assert own.renewed().certificate == before
    authority.rotate(keys, "air")
    assert own.renewed().certificate == (keys / "air" / "tls.crt").read_bytes() != before
