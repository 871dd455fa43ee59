"""Keys that are rotated while the roles run: connections use the new ones, and no process is started again."""

import asyncio
import itertools
import json
import ssl
from datetime import UTC, datetime

import numpy as np
import pytest
from cryptography import x509

from airpool.network import Channel
from airpool_runtime import device as devices
from airpool_runtime import logs, secured, terms, transport
from airpool_runtime import wire_pb2 as wire
from airpool_runtime.air import Air
from airpool_runtime.device import Device, Seen
from airpool_runtime.keys import authority, credentials
from airpool_runtime.medium import PortOptions
from airpool_runtime.remote import RemoteDevice, connected
from airpool_runtime.secure_medium import SECURE
from airpool_runtime.service import AirService
from airpool_runtime.wire_pb2_grpc import AirStub, add_AirServicer_to_server

from .systems import R, network

NET = network(2)


@pytest.fixture
def keys(tmp_path, monkeypatch):
    monkeypatch.setattr(credentials, "_CHECK_SECONDS", 0.0)
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


def test_a_secure_fleet_goes_on_while_one_of_its_devices_is_rotated_revoked_and_replaced(keys, monkeypatch):
    """No process is started again but that of the replacement, and no round is lost."""
    monkeypatch.setattr("airpool_runtime.remote._LOOK_SECONDS", 0.05)
    net, count = network(3, channel=Channel(access="secure"), dropouts=1), 3
    authority.add(keys, "device-2")

    async def hosted(at, k):
        device = Device(k, net, lambda i: Seen(np.full(R, 0.1)))
        ports = SECURE.ports(net, [k], PortOptions(keys=keys, quorum=2))
        own = secured.credentials(keys / f"device-{k}", f"device-{k}")

        async def opened():
            used = own.renewed()
            how = {"simulated": False, "network": net, "stale": lambda: own.renewed() != used}
            return await RemoteDevice.opened(channels[k], k, **how)

        channels[k] = transport.channel(at, own, role="air")
        await connected(opened, lambda line: devices.run(device, ports(line, k)))

    channels = {}

    async def play():
        own = secured.credentials(keys / "air", "air")
        air = Air(net, quorum=2, patience=10.0, options=PortOptions(keys=keys / "air"))
        it, at = await transport.serve("127.0.0.1:0", lambda s: add_AirServicer_to_server(AirService(air, own), s), own)
        tasks = {k: asyncio.create_task(hosted(at, k)) for k in range(count)}
        numbers = itertools.count()

        async def rounds(of, times=2):
            async with asyncio.timeout(60):
                while (await air.status()).ready != of:
                    await asyncio.sleep(0.02)
            got = [await air.run_slot(f"id {(n := next(numbers))}", n, terms.stated(net)) for _ in range(times)]
            assert [getattr(each, "devices", each) for each in got] == [of] * times

        try:
            await rounds(3)
            authority.rotate(keys, "device-2")
            await asyncio.sleep(0.3)
            await rounds(3)
            authority.rotate(keys, "air")
            await rounds(3)
            authority.revoke(keys, "device-2")
            tasks[2].cancel()
            await asyncio.wait([tasks[2]])
            await rounds(2)
            authority.reissue(keys, "device-2")
            tasks[2] = asyncio.create_task(hosted(at, 2))
            await rounds(3)
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.wait(tasks.values())
            for channel in channels.values():
                await channel.close()
            await it.stop(0)

    asyncio.run(play())


def test_a_certificate_that_expires_soon_is_logged_once_a_day(keys, monkeypatch, capfd):
    monkeypatch.setattr(logs, "_state", {"role": "air", "on": True})
    authority.rotate(keys, "air", days=10)
    own = secured.credentials(keys / "air", "air")
    for _ in range(3):
        own.renewed()
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if "expires in" in line]
    assert [line["reason"] for line in lines] == ["the certificate of air expires in 9 days: `airpool keys rotate air`"]
    assert 9 < (own.expires - datetime.now(UTC).timestamp()) / 86_400 < 10


def test_a_running_device_does_not_take_up_the_keys_of_its_replacement(keys, monkeypatch, capfd):
    """It would be cut off no more, and the replacement would hear that it is connected already."""
    monkeypatch.setattr(logs, "_state", {"role": "device", "on": True})
    own = secured.credentials(keys / "device-1", "device-1")
    authority.rotate(keys, "device-1")
    rotated = own.renewed()
    assert rotated.certificate == (keys / "device-1" / "tls.crt").read_bytes()
    authority.revoke(keys, "device-1")
    authority.reissue(keys, "device-1")
    for _ in range(3):
        assert own.renewed() == rotated
    said = [json.loads(line) for line in capfd.readouterr().err.splitlines() if "replacement" in line]
    assert len(said) == 1  # not once a second
    assert said[0]["reason"].endswith("now holds the keys of a replacement of this device-1: end this process")
    replacement = secured.credentials(keys / "device-1", "device-1")
    assert replacement.certificate == (keys / "device-1" / "tls.crt").read_bytes() != rotated.certificate
