"""Doors that stay shut, over real sockets: who may connect, for whom it may speak, how much and how often."""

import asyncio
import gc
import json
import random
import shutil
import socket
import ssl
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import grpc
import httpx
import numpy as np
import pytest

from airpool import Ranking
from airpool_runtime import http, idempotency, logs, roles, secured, service, terms, transport
from airpool_runtime import wire_pb2 as wire
from airpool_runtime.air import Air
from airpool_runtime.http import Web
from airpool_runtime.keys import authority
from airpool_runtime.keys.credentials import Credentials
from airpool_runtime.keys.secret import KeyFileError
from airpool_runtime.messages import DisconnectedError, WithdrawalReason
from airpool_runtime.options import ServerOptions
from airpool_runtime.ranking import RankingServer
from airpool_runtime.remote import PROTOCOL, RemoteDevice, RemoteRanking, RemoteServer
from airpool_runtime.server import Server
from airpool_runtime.service import AirService, InferencesService, RankingService
from airpool_runtime.wire_pb2_grpc import (
    AirStub,
    InferencesStub,
    add_AirServicer_to_server,
    add_InferencesServicer_to_server,
    add_RankingServicer_to_server,
)

from .systems import R, decoder, network

NET = network()
WAIT = 30.0


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Keys of our own; and those of somebody else with the same names."""
    folder = tmp_path_factory.mktemp("keys")
    for which in ("ours", "theirs"):
        authority.create(folder / which)
        for k in range(2):
            authority.add(folder / which, f"device-{k}")
    authority.add(folder / "ours", "client-1")
    return folder


@pytest.fixture
def keys(made, tmp_path):
    return shutil.copytree(made, tmp_path / "keys") / "ours"


@pytest.fixture
def logged(monkeypatch, capfd):
    """What was logged as rejected, so far; and what gRPC itself logs of a handshake that failed."""
    monkeypatch.setattr(logs, "_state", {"role": "test", "on": True})
    seen = []

    def rejected():
        for line in capfd.readouterr().err.splitlines():
            # gRPC writes from threads of its own, and may share a line with us.
            said = json.JSONDecoder().raw_decode(line)[0] if line.startswith("{") else {"event": ""}
            if said["event"] == "rejected":
                seen.append(said["reason"])
            if "Handshake failed" in line:
                seen.append("handshake")
        return seen

    return rejected


def own(folder, name):
    """Credentials by the name of a folder, with no check of it: as somebody would who does not play by the rules."""
    parts = [(folder / name / part).read_bytes() for part in ("ca.crt", "tls.crt", "tls.key")]
    return Credentials(*parts)


@asynccontextmanager
async def serving(keys, *, air: Any = None, ranking: Any = None, server: Any = None):
    """Addresses of the roles that are given, each with its own keys."""
    running, at = [], {}
    adds = {
        "air": lambda it, c: add_AirServicer_to_server(AirService(air, c), it),
        "ranking": lambda it, c: add_RankingServicer_to_server(RankingService(ranking, c), it),
        "server": lambda it, c: add_InferencesServicer_to_server(InferencesService(server, c), it),
    }
    try:
        for role, what in (("air", air), ("ranking", ranking), ("server", server)):
            if what is not None:
                theirs = secured.credentials(keys / role, role)
                it, at[role] = await transport.serve("127.0.0.1:0", lambda s, r=role, c=theirs: adds[r](s, c), theirs)
                running.append(it)
        yield at
    finally:
        for it in running:
            await it.stop(0)


async def connected(at, shown, index, role="air"):
    """Whether a device with these credentials is welcome as this index; else why not."""
    async with transport.channel(at["air"], shown, role=role) as channel:
        try:
            port = await asyncio.wait_for(RemoteDevice.opened(channel, index, simulated=False, network=NET), WAIT)
        except DisconnectedError as why:
            return str(why) or "disconnected"
        port.close()
        return True


async def still_serves(keys, at):
    return await connected(at, secured.credentials(keys / "device-0", "device-0"), 0)


def test_a_device_with_its_own_certificate_is_welcome(keys, logged):
    async def play():
        async with serving(keys, air=Air(NET)) as at:
            return await still_serves(keys, at)

    assert asyncio.run(play()) is True
    assert logged() == []


def test_wrong_authority_unknown_expired_and_revoked_devices_are_rejected(keys, logged):
    authority.rotate(keys, "device-1", days=1e-9)
    expired = own(keys, "device-1")
    authority.rotate(keys, "device-1")
    revoked = own(keys, "device-1")
    authority.revoke(keys, "device-1")
    mixed = Credentials(
        own(keys, "air").ca,
        own(keys.parent / "theirs", "device-1").certificate,
        own(keys.parent / "theirs", "device-1").key,
    )

    async def play():
        async with serving(keys, air=Air(NET)) as at:
            shown = {
                "of another authority": own(keys.parent / "theirs", "device-1"),
                "unknown": mixed,
                "expired": expired,
                "revoked": revoked,
            }
            found = {name: await connected(at, each, 1) for name, each in shown.items()}
            async with grpc.aio.insecure_channel(at["air"]) as channel:
                try:
                    await asyncio.wait_for(RemoteDevice.opened(channel, 1, simulated=False, network=NET), WAIT)
                    found["without"] = True
                except DisconnectedError as why:
                    found["without"] = str(why) or "disconnected"
            only_ca = grpc.ssl_channel_credentials(own(keys, "air").ca)
            options = [("grpc.ssl_target_name_override", "air")]
            async with grpc.aio.secure_channel(at["air"], only_ca, options=options) as channel:
                try:
                    await asyncio.wait_for(RemoteDevice.opened(channel, 1, simulated=False, network=NET), WAIT)
                    found["anonymous"] = True
                except DisconnectedError as why:
                    found["anonymous"] = str(why) or "disconnected"
            return found, await still_serves(keys, at)

    found, after = asyncio.run(play())
    assert True not in found.values(), found
    assert found["revoked"] == "the certificate of device-1 is revoked"
    assert after is True
    assert "the certificate of device-1 is revoked" in logged()
    assert "handshake" in logged()


def test_a_device_speaks_only_for_itself(keys, logged):
    ranking = network(scheme=Ranking(num_selected=2, score_noise_std=1.0))

    async def denied(call):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await asyncio.wait_for(call, WAIT)
        return caught.value.code(), caught.value.details()

    async def play():
        mine = secured.credentials(keys / "device-1", "device-1")
        air = Air(NET)
        it = Server(NET, decoder(), air)
        async with serving(keys, air=air, ranking=RankingServer(ranking, seconds=0.2), server=it) as at:
            found: list[Any] = [await connected(at, mine, 0)]
            async with transport.channel(at["air"], mine, role="air") as channel:
                found.append(await denied(AirStub(channel).RunSlot(wire.SlotRequest(id="x"))))
                found.append(await denied(AirStub(channel).Status(wire.Nothing())))
            async with transport.channel(at["server"], mine, role="server") as channel:
                found.append(await denied(InferencesStub(channel).Infer(wire.Nothing())))
                found.append(await denied(InferencesStub(channel).FindResult(wire.ResultRequest(id="x"))))
            async with transport.channel(at["ranking"], mine, role="ranking") as channel:
                with pytest.raises(DisconnectedError) as caught:
                    await RemoteRanking(channel).selected("x", 0, 1, 0.5)
                found.append(str(caught.value))
            client = secured.credentials(keys / "client-1", "client-1")
            async with transport.channel(at["server"], client, role="server") as channel:
                found.append((await InferencesStub(channel).Infer(wire.Nothing())).status)
            async with transport.channel(at["air"], client, role="air") as channel:
                found.append(await denied(AirStub(channel).RunSlot(wire.SlotRequest(id="x"))))
            return found, (await air.status()).ready

    (other, hold, count, infer, find, rank, client, held), ready = asyncio.run(play())
    assert other == "device-1 must not speak for device-0"
    assert hold == (grpc.StatusCode.PERMISSION_DENIED, "device-1 must not speak for server")
    for each in (count, infer, find):
        assert each == (grpc.StatusCode.PERMISSION_DENIED, "device-1 must not ask for inferences")
    assert "device-1 must not speak for device-0" in rank
    assert client == "below quorum"
    assert held[1] == "client-1 must not speak for server"
    assert ready == 0
    assert logged().count("device-1 must not speak for device-0") == 2


def test_nobody_plays_the_air_with_another_certificate(keys):
    """A device's certificate in the place of the air's: the other end hangs up."""

    async def play():
        for name in ("device-1", "server"):
            shown = secured.credentials(keys / name, name)
            it, at = await transport.serve(
                "127.0.0.1:0", lambda s, c=shown: add_AirServicer_to_server(AirService(Air(NET), c), s), shown
            )
            try:
                found = await connected({"air": at}, secured.credentials(keys / "device-0", "device-0"), 0)
                assert found is not True
            finally:
                await it.stop(0)

    asyncio.run(play())


def test_a_device_that_is_revoked_while_it_is_connected_is_cut_off(keys, logged, monkeypatch):
    monkeypatch.setattr(service, "_TRUSTED_SECONDS", 0.05)

    async def play():
        async with serving(keys, air=Air(NET)) as at:
            async with transport.channel(at["air"], own(keys, "device-1"), role="air") as channel:
                port = await RemoteDevice.opened(channel, 1, simulated=False, network=NET)
                await port.ready()
                authority.revoke(keys, "device-1")

                async def until_cut_off():
                    for _ in range(100):
                        await port.ready()
                        await asyncio.sleep(0.05)

                with pytest.raises(DisconnectedError):
                    await until_cut_off()
            return await still_serves(keys, at)

    assert asyncio.run(play()) is True
    assert "the certificate of device-1 is revoked" in logged()


def test_keys_of_another_role_are_refused(keys):
    with pytest.raises(KeyFileError, match="holds the keys of device-1, must be those of device-0"):
        secured.credentials(keys / "device-1", "device-0")
    (keys / "device-1" / "tls.key").chmod(0o644)
    with pytest.raises(KeyFileError, match="0644, must be 0600"):
        secured.credentials(keys / "device-1", "device-1")


@pytest.mark.parametrize("address", ["0.0.0.0:0", "192.0.2.1:0", "example.org:0", "[::]:0"])
def test_beyond_loopback_nothing_starts_without_certificates(address):
    for call in (transport.listening, lambda a: transport.channel(a, role="air")):
        with pytest.raises(ValueError, match="beyond this machine"):
            call(address)
    with pytest.raises(ValueError, match="beyond this machine"):
        asyncio.run(transport.serve(address, lambda _: None))
    with pytest.raises(ValueError, match="beyond this machine"):
        Web(Server(NET, decoder(), Air(NET)), address, token="x" * 20)  # it would travel in clear
    assert transport.split(address, secured=True)[1] == 0


def test_silence_shows_in_the_size_of_a_message_and_cover_noise_hides_it():
    """Zeros are as long as a signal; the scale of 0 is left out. So howto/security.md says that silence can be seen."""

    def size(scale):
        signal = wire.Signal(id="x" * 32, samples=bytes(8 * R), scale=scale)
        return len(wire.FromDevice(answers=wire.Answers(signals=[signal])).SerializeToString())

    assert size(0.7) - size(0.0) == 9
    assert size(0.7) == size(0.3)


# Too much, too slow, too often


def test_an_oversized_message_is_rejected_and_the_air_goes_on(keys, logged):
    async def play():
        async with serving(keys, air=Air(NET)) as at:
            mine = own(keys, "device-1")
            secure = grpc.ssl_channel_credentials(mine.ca, mine.key, mine.certificate)
            options = [("grpc.ssl_target_name_override", "air"), ("grpc.max_send_message_length", -1)]
            async with grpc.aio.secure_channel(at["air"], secure, options=options) as channel:
                raw = channel.stream_stream("/airpool.v1.Air/Connect")()
                await raw.write(wire.FromDevice(hello=hello(1)).SerializeToString())
                await raw.read()
                big = wire.Signal(id="x", samples=bytes(transport.MESSAGE_BYTES + 8))
                code = None
                try:
                    await raw.write(wire.FromDevice(answers=wire.Answers(signals=[big])).SerializeToString())
                    await raw.read()
                except grpc.aio.AioRpcError as error:
                    code = error.code()
                code = code or await raw.code()
            return code, await still_serves(keys, at)

    code, after = asyncio.run(play())
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert after is True


@pytest.mark.parametrize("first", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
@pytest.mark.parametrize("tls", [True, False], ids=["tls", "plain"])
def test_a_slow_loris_is_cut_off_and_holds_nobody_up(keys, monkeypatch, first, tls):
    """Thirty connections that say nothing, or little, for ever."""
    shorter = [(name, 1_000 if "handshake" in name else value) for name, value in transport._OPTIONS]
    monkeypatch.setattr(transport, "_OPTIONS", shorter)

    async def play():
        shown = secured.credentials(keys / "air", "air") if tls else None
        add = lambda it: add_AirServicer_to_server(AirService(Air(NET), shown), it)  # noqa: E731
        it, at = await transport.serve("127.0.0.1:0", add, shown)
        host, _, port = at.rpartition(":")
        idle = []
        try:
            for _ in range(30):
                idle.append(await asyncio.open_connection(host, int(port)))
                idle[-1][1].write(first)
            mine = secured.credentials(keys / "device-0", "device-0") if tls else None
            served = await connected({"air": at}, mine, 0)

            async def until_closed(reader):
                while await reader.read(1024):
                    pass

            ended = [asyncio.create_task(until_closed(reader)) for reader, _ in idle]
            done, pending = await asyncio.wait(ended, timeout=WAIT)
            [task.cancel() for task in pending]
            other = secured.credentials(keys / "device-1", "device-1") if tls else None
            return served, len(done), await connected({"air": at}, other, 1)
        finally:
            for _, writer in idle:
                writer.close()
            await it.stop(0)

    assert asyncio.run(play()) == (True, 30, True)


def test_a_device_that_sends_too_often_is_cut_off(keys, logged, monkeypatch):
    monkeypatch.setattr(service, "_MESSAGES", 5.0)

    async def play():
        async with serving(keys, air=Air(NET)) as at:
            async with transport.channel(at["air"], own(keys, "device-1"), role="air") as channel:
                port = await RemoteDevice.opened(channel, 1, simulated=False, network=NET)

                async def until_cut_off():
                    for _ in range(2000):
                        await port.withdraw("x", WithdrawalReason.BUDGET)
                    await port.announcements()

                with pytest.raises(DisconnectedError):
                    await until_cut_off()
            return await still_serves(keys, at)

    assert asyncio.run(play()) is True
    assert "too many messages" in logged()


def test_a_client_that_calls_too_often_is_told_so(keys, monkeypatch):
    monkeypatch.setattr(service, "_CALLS", 2.0)

    async def play():
        it = Server(NET, decoder(), Air(NET, patience=0.01))
        client = secured.credentials(keys / "client-1", "client-1")
        async with serving(keys, server=it) as at, transport.channel(at["server"], client, role="server") as channel:
            stub = InferencesStub(channel)
            calls = (stub.Infer(wire.Nothing(), timeout=WAIT) for _ in range(12))
            return await asyncio.gather(*calls, return_exceptions=True)

    found = asyncio.run(play())
    codes = [each.code() for each in found if isinstance(each, grpc.aio.AioRpcError)]
    assert codes
    assert set(codes) == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert len(codes) < 12


def test_retries_over_grpc_with_one_key_are_one_inference_of_one_client(keys, monkeypatch):
    monkeypatch.setattr(idempotency, "MOST_WAITING", 2)
    authority.add(keys, "client-2")

    async def play():
        spent, release = [], asyncio.Event()

        class Slow(Server):
            async def infer(self, id=None):
                spent.append(id)
                await release.wait()
                return replace(await super().infer(id), spent=True)

        it = Slow(NET, decoder(), Air(NET, patience=0.01))
        async with serving(keys, server=it) as at, AsyncExitStack() as stack:

            async def stub(name):
                own = secured.credentials(keys / name, name)
                return InferencesStub(
                    await stack.enter_async_context(transport.channel(at["server"], own, role="server"))
                )

            first, second = await stub("client-1"), await stub("client-2")

            def asked(stub, key):
                return stub.Infer(wire.Nothing(), metadata=(("idempotency-key", key),), timeout=WAIT)

            calls = [asyncio.ensure_future(asked(first, "k")) for _ in range(20)]
            calls.append(asyncio.ensure_future(asked(second, "k")))
            async with asyncio.timeout(WAIT):
                while len(spent) < 2:
                    await asyncio.sleep(0.01)
            found = []
            for key in ("other", "x" * 256):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await asked(first, key)
                found.append(caught.value.code())
            release.set()
            ids = [each.id for each in await asyncio.gather(*calls)]
            return [*ids, (await asked(first, "k")).id], found, len(spent)

    ids, found, spent = asyncio.run(play())
    assert len(set(ids[:20])) == len(set(ids) - {ids[20]}) == 1
    assert spent == len(set(ids)) == 2
    assert found == [grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INVALID_ARGUMENT]


# HTTP

TOKEN = "a token of enough length"


@asynccontextmanager
async def web(**how):
    it = Web(Server(NET, decoder(), Air(NET, patience=0.01)), "127.0.0.1:0", **how)
    await it.start()
    try:
        yield it.address
    finally:
        await it.stop()


def test_http_wants_the_token_and_speaks_tls(keys, logged):
    async def play():
        shown = secured.credentials(keys / "server", "server")
        async with web(token=TOKEN, credentials=shown) as at:
            context = ssl.create_default_context(cadata=shown.ca.decode())
            async with httpx.AsyncClient(base_url=f"https://{at}", verify=context, timeout=WAIT) as client:

                async def status(path, shown=None, method="GET"):
                    headers = {} if shown is None else {"Authorization": shown}
                    return (await client.request(method, path, headers=headers)).status_code

                right = f"Bearer {TOKEN}"
                found = [
                    await status(path, shown)
                    for path in ("/readyz", "/metrics", "/results/x")
                    for shown in (None, "Bearer x", TOKEN)
                ]
                found += [await status("/infer", method="POST"), await status("/healthz")]
                found += [await status("/results/x", right), await status("/infer", right, "POST")]
            with pytest.raises(httpx.HTTPError):
                async with httpx.AsyncClient(timeout=WAIT) as plain:
                    await plain.get(f"http://{at}/healthz")
            return found

    assert asyncio.run(play()) == [401] * 9 + [401, 200] + [404, 503]
    assert "HTTP 401" in logged()
    assert TOKEN not in str(logged())


def test_a_token_file_is_private_and_long_enough(tmp_path):
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(0o644)
    with pytest.raises(KeyFileError, match="must be 0600"):
        secured.token(path)
    path.chmod(0o600)
    assert secured.token(path) == TOKEN
    path.write_text("short")
    with pytest.raises(KeyFileError, match="at least 16 printable characters"):
        secured.token(path)


@pytest.mark.parametrize("content", ["schlüssel" * 4, "\N{BOM}" + TOKEN, "\N{REPLACEMENT CHARACTER}" * 20])
def test_a_token_that_is_not_ascii_is_an_error_at_start(tmp_path, content):
    path = tmp_path / "token"
    path.write_bytes(content.encode())
    path.chmod(0o600)
    with pytest.raises(KeyFileError, match="is not ASCII"):
        secured.token(path)


@pytest.mark.parametrize("content", ["", "short", "schlüssel" * 4, "two lines of a\ntoken that is long"])
def test_a_token_of_the_environment_is_held_to_the_same(tmp_path, content):
    options = ServerOptions(network=tmp_path, air="127.0.0.1:1", token=content)
    with pytest.raises(KeyFileError, match="AIRPOOL_TOKEN") as caught:
        roles._token(options)
    assert not content or content not in str(caught.value)


def test_http_that_comes_too_often_too_slowly_or_too_large_is_refused(monkeypatch, logged):
    monkeypatch.setattr(http, "_REQUESTS", 0.5)
    monkeypatch.setattr(http, "_REQUEST_SECONDS", 0.5)

    async def play():
        async with web() as at:
            host, _, port = at.rpartition(":")
            ended = []
            for first in (b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: x\r\n", b"GET /" + b"x" * 200_000):
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(first)
                try:
                    said = await asyncio.wait_for(reader.read(), WAIT)
                except ConnectionResetError:
                    said = b""
                ended.append(said.split(b"\r\n")[0])
                writer.close()
            # Whole requests, one after the other on one connection, are served for longer than the limit.
            async with httpx.AsyncClient(base_url=f"http://{at}", timeout=WAIT) as client:
                for _ in range(4):
                    assert (await client.get("/healthz")).status_code == 200
                    await asyncio.sleep(0.2)
                many = [(await client.get("/results/x")).status_code for _ in range(20)]
            return ended, many

    ended, many = asyncio.run(play())
    assert ended[:3] == [b""] * 3
    assert ended[3] in (b"", b"HTTP/1.1 400 Bad Request")
    assert many[0] == 404
    assert 429 in many
    assert "a request that does not end" in logged()


@asynccontextmanager
async def idle_connections(at, count):
    """Connections that say nothing; those that the other end has closed are counted by the second function."""
    host, _, port = at.rpartition(":")
    pairs = [await asyncio.open_connection(host, int(port)) for _ in range(count)]

    async def ended(reader):
        with suppress(ConnectionResetError):
            await reader.read()

    tasks = [asyncio.create_task(ended(reader)) for reader, _ in pairs]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        for _, writer in pairs:
            writer.close()


def test_idle_connections_make_way_and_end_before_a_handshake(keys, monkeypatch, logged, capfd):
    """Without a certificate, from one peer, five times the number that it may have."""
    monkeypatch.setattr(http, "_MOST_CONNECTIONS", 40)
    monkeypatch.setattr(http, "_MOST_OF_ONE_PEER", 20)
    monkeypatch.setattr(transport, "HANDSHAKE_SECONDS", 3.0)
    shown = secured.credentials(keys / "server", "server")

    async def play():
        it = Web(Server(NET, decoder(), Air(NET)), "127.0.0.1:0", token=TOKEN, credentials=shown)
        await it.start()
        try:
            context = ssl.create_default_context(cadata=shown.ca.decode())
            async with httpx.AsyncClient(base_url=f"https://{it.address}", verify=context, timeout=WAIT) as client:
                assert (await client.get("/healthz")).status_code == 200  # it has asked: it does not make way
                async with idle_connections(it.address, 100) as idle:
                    assert (await client.get("/healthz")).status_code == 200
                    async with httpx.AsyncClient(verify=context, timeout=WAIT) as new:
                        assert (await new.get(f"https://{it.address}/healthz")).status_code == 200
                    assert it._door.connections <= 20
                    done, pending = await asyncio.wait(idle, timeout=WAIT)
                    return len(done), len(pending)
        finally:
            await it.stop()

    assert asyncio.run(play()) == (100, 0)
    said = capfd.readouterr().err
    assert len(said.splitlines()) <= 60
    assert "Traceback" not in said


def test_more_connections_than_the_limit_are_turned_away_once_all_have_asked(monkeypatch, logged):
    monkeypatch.setattr(http, "_MOST_CONNECTIONS", 4)

    async def play():
        async with web() as at, AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(httpx.AsyncClient(base_url=f"http://{at}")) for _ in range(3)]
            found = [(await client.get("/healthz")).status_code for client in clients[:2]]
            with pytest.raises(httpx.HTTPError):
                await clients[2].get("/healthz")
            return found, [(await client.get("/healthz")).status_code for client in clients[:2]]

    assert asyncio.run(play()) == ([200, 200], [200, 200])
    assert "too many connections" in logged()


def test_without_descriptors_the_door_waits_in_few_words(no_descriptors, logged, capfd):
    async def play():
        async with web() as at:
            host, _, port = at.rpartition(":")
            with socket.socket() as client:
                client.setblocking(False)
                with no_descriptors():
                    await asyncio.get_running_loop().sock_connect(client, (host, int(port)))
                    await asyncio.sleep(0.5)
                await asyncio.get_running_loop().sock_sendall(
                    client, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
                )
                return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 100), WAIT)

    assert asyncio.run(play()).startswith(b"HTTP/1.1 200")
    said = capfd.readouterr().err
    assert 1 <= said.count("no connection is accepted: Too many open files") <= 10
    assert "Traceback" not in said


def test_an_error_of_a_library_is_one_line_and_a_flood_of_them_is_bounded(logged, capfd):
    async def play():
        async def fails():
            raise KeyError("SECRET")

        for _ in range(500):
            task = asyncio.create_task(fails())
            await asyncio.wait([task])
            del task

    asyncio.run(play())
    gc.collect()
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert 1 <= len(lines) <= 60
    assert lines[0]["reason"] == "Task exception was never retrieved: KeyError"
    assert lines[0]["file"].startswith("test_security.py:")
    assert "SECRET" not in str(lines)


# Handlers fed with anything


def hello(device):
    """Of a device of this network."""
    return wire.Hello(device=device, protocol=PROTOCOL, digest=terms.stated(NET).digest)


def messages(rng):
    """Bytes that are no message, messages with anything in them, and messages with a few bytes changed."""
    text = rng.choice(["", "x", "\x00" * 10, "é" * 100, "0" * 32, "../../etc/passwd"])
    number = rng.choice([0, 1, 2, 3, 99, 2**32 - 1])
    real = rng.choice([0.0, -1.0, 1e308, float("nan"), float("inf"), 1.0])
    samples = rng.choice([b"", b"abc", bytes(8 * R), np.full(R, np.nan).tobytes(), rng.randbytes(8 * R), bytes(80_000)])
    whole = rng.choice(
        [
            wire.FromDevice(hello=wire.Hello(device=number, simulated=rng.random() < 0.2)),
            wire.FromDevice(ready=wire.Ready(inferences=number)),
            wire.FromDevice(advert=samples),
            wire.FromDevice(answer=wire.RoundMessage(id=text, content=samples)),
            wire.FromDevice(
                answers=wire.Answers(
                    signals=[wire.Signal(id=text, samples=samples, scale=real)] * 3,
                    withdrawals=[wire.Withdrawal(id=text, reason=rng.randrange(9))],  # pyright: ignore
                )
            ),
            wire.SlotRequest(id=text, number=number, asked=rng.choice([text, "version = 3", "[" * 5000])),
            wire.Score(id=text, device=number, devices=number, noisy_score=real),
        ]
    ).SerializeToString()
    if rng.random() < 0.4:
        at = rng.randrange(len(whole) + 1)
        whole = whole[:at] + rng.randbytes(rng.randrange(1, 6)) + whole[at + rng.randrange(3) :]
    return whole if rng.random() < 0.9 else rng.randbytes(rng.randrange(200))


async def fed(keys, rounds, seed):
    """Feeds every handler; true if all of them still answer afterwards."""
    rng = random.Random(seed)
    ranking = RankingServer(network(scheme=Ranking(num_selected=2, score_noise_std=1.0)), seconds=0.01)
    air = Air(NET, slot_seconds=0.2, patience=0.01)
    it = Server(NET, decoder(), air)
    plain = []
    for add, what in (
        (add_AirServicer_to_server, AirService(air)),
        (add_RankingServicer_to_server, RankingService(ranking)),
        (add_InferencesServicer_to_server, InferencesService(it)),
    ):
        plain.append(await transport.serve("127.0.0.1:0", lambda s, a=add, w=what: a(w, s)))
    (_, at_air), (_, at_ranking), (_, at_server) = plain
    calls = [
        (at_air, "/airpool.v1.Air/RunSlot"),
        (at_air, "/airpool.v1.Air/Status"),
        (at_ranking, "/airpool.v1.Ranking/Rank"),
        (at_server, "/airpool.v1.Inferences/Infer"),
        (at_server, "/airpool.v1.Inferences/FindResult"),
        (at_server, "/airpool.v1.Inferences/Nothing"),
    ]
    codes = set()
    try:
        channels = {at: transport.channel(at, role="air") for at, _ in calls}
        for _ in range(rounds):
            at, method = rng.choice(calls)
            try:
                await channels[at].unary_unary(method)(messages(rng), timeout=WAIT)
                codes.add("ok")
            except grpc.aio.AioRpcError as error:
                codes.add(error.code().name)
            if rng.random() < 0.3:
                stream = channels[at_air].stream_stream("/airpool.v1.Air/Connect")()
                try:
                    if rng.random() < 0.8:
                        first = hello(rng.randrange(5))
                        await stream.write(wire.FromDevice(hello=first).SerializeToString())
                    for _ in range(rng.randrange(8)):
                        await stream.write(messages(rng))
                    if rng.random() < 0.5:
                        await stream.done_writing()
                except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    pass
                stream.cancel()
        await asyncio.sleep(0.1)
        port = RemoteServer(channels[at_air], slot_seconds=1.0)
        alive = (await port.status()).ready == 0
        result = await InferencesStub(channels[at_server]).Infer(wire.Nothing(), timeout=WAIT)
        for channel in channels.values():
            await channel.close()
        return alive and result.status == "below quorum", codes
    finally:
        for each, _ in plain:
            await each.stop(0)


def failures(said):
    """Lines of failed handlers. gRPC's poller may look for the loop of an earlier test: a role has one for its life."""
    lines = [line for line in said.splitlines() if '"event": "failed"' in line]
    return [line for line in lines if "PollerCompletionQueue" not in line]


def test_handlers_survive_anything(keys, logged, capfd, caplog):
    alive, codes = asyncio.run(fed(keys, 150, seed=1))
    assert alive
    # UNKNOWN is gRPC's answer to a message that cannot be read.
    assert codes <= {"ok", "INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "UNIMPLEMENTED", "UNKNOWN"}
    said = capfd.readouterr().err
    assert "a message that cannot be read" in said
    assert failures(said) == []
    assert "Traceback" not in said + caplog.text


@pytest.mark.check
def test_handlers_survive_anything_for_longer(keys, logged, capfd):
    async def play():
        return [(await fed(keys, 300, seed))[0] for seed in range(2, 8)]

    assert all(asyncio.run(play()))
    assert failures(capfd.readouterr().err) == []


def test_a_socket_that_is_taken_is_an_error_of_one_line():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="cannot listen at"):
            transport.listening(f"127.0.0.1:{taken.getsockname()[1]}")
    assert "secret" not in repr(Credentials(b"", b"", b"secret", name="x"))
