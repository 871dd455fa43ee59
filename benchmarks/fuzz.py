"""Random and mutated messages against running roles, over gRPC and HTTPS, half of them before authentication.

    python -m benchmarks.fuzz [--messages 100000] [--seed 1] [--out FILE]

Starts an air, a server (gRPC, HTTPS with a token, a fleet view) and three devices as processes with certificates, on
loopback. Meanwhile /healthz is asked over new connections. Reports crashes, tracebacks, memory and the slowest answer.
"""

import argparse
import asyncio
import os
import random
import re
import secrets
import ssl
import struct
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from grpc import aio

from airpool import Network
from airpool._support.version import __version__
from airpool.network import file as network_file
from airpool_runtime import secured, terms, transport
from airpool_runtime import wire_pb2 as wire
from airpool_runtime.keys import authority
from airpool_runtime.keys.credentials import Credentials
from airpool_runtime.options import AirOptions, DeviceOptions, RoleOptions, ServerOptions, role_of
from airpool_runtime.remote import PROTOCOL
from airpool_runtime.up import Process

from . import record

DEVICES, DIMENSION, WORKERS, PARTS = 4, 40, 16, 10
NET = Network.uniform(num_devices=DEVICES, dimension=DIMENSION, noise_std=0.05, dropouts=1)
_REPLY_SECONDS, _CALL_SECONDS, _PROBE_SECONDS = 0.05, 5.0, 0.25
_TEXTS = ("", "x", "0" * 32, "\x00" * 10, "é" * 100, "../../etc/passwd", "[" * 5000, "a." * 20_000, "version = 3")
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def message(what: Descriptor, rng: random.Random, depth: int = 0) -> Any:
    """A message of a type with anything in its fields."""
    made = GetMessageClass(what)()
    chosen = {rng.choice(each.fields).name for each in what.oneofs}
    for each in what.fields:
        if rng.random() < 0.2 or depth > 4 or (each.containing_oneof is not None and each.name not in chosen):
            continue
        for _ in range(rng.randrange(4) if each.is_repeated else 1):
            if each.message_type is not None:
                part = message(each.message_type, rng, depth + 1)
                (getattr(made, each.name).add() if each.is_repeated else getattr(made, each.name)).CopyFrom(part)
            elif each.is_repeated:
                getattr(made, each.name).append(_value(each, rng))
            else:
                setattr(made, each.name, _value(each, rng))
    return made


def _value(what: FieldDescriptor, rng: random.Random) -> Any:
    match what.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING if what.type == FieldDescriptor.TYPE_BYTES:
            size = rng.choice((0, 3, 8 * DIMENSION, 8 * DIMENSION, 80_000))
            return rng.choice((bytes(size), rng.randbytes(size), struct.pack("<d", float("nan")) * (size // 8)))
        case FieldDescriptor.CPPTYPE_STRING:
            return rng.choice(_TEXTS)
        case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
            return rng.choice((0.0, -1.0, 1.0, 1e308, float("nan"), float("inf"), 1e-308))
        case FieldDescriptor.CPPTYPE_BOOL:
            return rng.random() < 0.5
        case FieldDescriptor.CPPTYPE_INT32 | FieldDescriptor.CPPTYPE_INT64:
            return rng.choice((0, 1, -1, 2**31 - 1))
        case FieldDescriptor.CPPTYPE_ENUM:
            return rng.randrange(20)
        case _:
            return rng.choice((0, 1, 2, 3, 99, 2**32 - 1))


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Bytes with a few of them changed, doubled or cut off; now and then wholly random ones."""
    if rng.random() < 0.1:
        return rng.randbytes(rng.randrange(300))
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(content) + 1)
        new = rng.choice((b"", rng.randbytes(rng.randrange(1, 6)), content[:at][-50:]))
        content = content[:at] + new + content[at + rng.randrange(4) :]
    return content if rng.random() < 0.9 else content[: rng.randrange(len(content) + 1)]


def http_request(rng: random.Random, token: str) -> bytes:
    """A request of HTTP/1.1, mostly well formed."""
    method = rng.choice(("GET", "GET", "POST", "PUT", "HEAD", "OPTIONS", "x", "é"))
    paths = (
        "/healthz",
        "/readyz",
        "/metrics",
        "/results/x",
        "/openapi.json",
        "/infer",
        "/infer?wait=false",
        "/%00",
        "/..",
    )
    path = rng.choice(paths) + rng.choice(("", "", "?x=y", "%", "/" * 100, "x" * 20_000))
    headers = [f"Host: {rng.choice(('127.0.0.1', '127.0.0.1', 'evil.example'))}", f"Authorization: Bearer {token}"]
    more = (
        "Content-Length: 5",
        "Content-Length: -1",
        "Transfer-Encoding: chunked",
        "Origin: null",
        "Host: evil.example",
    )
    more += (
        "Idempotency-Key: k",
        "Idempotency-Key: " + "k" * 300,
        "X: " + "x" * 20_000,
        "Connection: close",
        "\x00: y",
    )
    more += ("Upgrade: websocket\r\nConnection: upgrade", "Expect: 100-continue", "Authorization: Basic eDp5")
    headers += rng.sample(more, rng.randrange(3))
    text = f"{method} {path} HTTP/1.{rng.choice('1110')}\r\n" + "".join(f"{each}\r\n" for each in headers) + "\r\n"
    content = text.encode() + (b"5\r\nhello\r\n0\r\n\r\n" if rng.random() < 0.1 else b"")
    return mutated(content, rng) if rng.random() < 0.5 else content


def frames(rng: random.Random) -> bytes:
    """The beginning of HTTP/2, and frames of any kind."""
    out = b"" if rng.random() < 0.1 else _HTTP2
    for _ in range(rng.randrange(6)):
        body = rng.randbytes(rng.randrange(60))
        size = len(body) if rng.random() < 0.8 else rng.randrange(2**24)
        head = struct.pack(">I", size)[1:] + bytes([rng.randrange(11), rng.randrange(256)])
        out += head + struct.pack(">I", rng.choice((0, 1, 3, 2**31 - 1))) + body
    return out


@dataclass
class Target:
    """Addresses of the running roles, and what it takes to be let in."""

    air: str
    server: str
    http: str
    keys: Path
    token: str
    channels: dict[tuple[str, str], aio.Channel] = field(default_factory=dict)
    contexts: dict[str | None, ssl.SSLContext] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)

    def own(self, name: str) -> Credentials:
        return secured.credentials(self.keys / name, name)

    def channel(self, role: str, name: str) -> aio.Channel:
        if (role, name) not in self.channels:
            at = self.air if role == "air" else self.server
            self.channels[role, name] = transport.channel(at, self.own(name), role=role)
        return self.channels[role, name]

    def context(self, name: str | None) -> ssl.SSLContext:
        """TLS of a client: with the certificate of this name, or without one."""
        if name in self.contexts:
            return self.contexts[name]
        context = self.contexts[name] = ssl.create_default_context(cafile=self.keys / "ca.crt")
        context.check_hostname = False
        if name is not None:
            context.load_cert_chain(self.keys / name / "tls.crt", self.keys / name / "tls.key")
            context.set_alpn_protocols(["h2"])
        return context


async def _sent(at: str, content: bytes, context: ssl.SSLContext | None = None) -> str:
    """Sends bytes over a connection of their own; the first word that comes back."""
    host, _, port = at.rpartition(":")
    try:
        reader, writer = await asyncio.wait_for(
            asyncio.open_connection(host, int(port), ssl=context, limit=2**16), _CALL_SECONDS
        )
    except (OSError, TimeoutError) as error:
        return type(error).__name__
    try:
        writer.write(content)
        said = await asyncio.wait_for(reader.read(64), _REPLY_SECONDS)
        return said[:12].decode("latin-1") if said.startswith(b"HTTP") else "bytes" if said else "closed"
    except TimeoutError:
        return "waits"
    except OSError as error:
        return type(error).__name__
    finally:
        writer.transport.abort()


@cache
def _client_hello() -> bytes:
    """The first bytes of TLS."""
    out = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname="air").do_handshake()
    return out.read()


async def unknown_bytes(target: Target, rng: random.Random) -> int:
    """No TLS, or a broken beginning of it, at any of the three ports."""
    at = rng.choice((target.air, target.server, target.http))
    content = rng.choice((mutated(_client_hello(), rng), frames(rng), http_request(rng, "x"), rng.randbytes(100), b""))
    target.outcomes["no TLS: " + await _sent(at, content)] += 1
    return 1


async def no_certificate(target: Target, rng: random.Random) -> int:
    """TLS without a certificate, to gRPC."""
    said = await _sent(rng.choice((target.air, target.server)), frames(rng), target.context(None))
    target.outcomes["no certificate: " + said] += 1
    return 1


async def no_token(target: Target, rng: random.Random) -> int:
    said = await _sent(target.http, http_request(rng, secrets.token_hex(16)), target.context(None))
    target.outcomes["no token: " + said] += 1
    return 1


async def with_token(target: Target, rng: random.Random) -> int:
    said = await _sent(target.http, http_request(rng, target.token), target.context(None))
    target.outcomes["token: " + said] += 1
    return 1


async def with_certificate(target: Target, rng: random.Random) -> int:
    """Frames of HTTP/2 over a connection that is let in."""
    said = await _sent(rng.choice((target.air, target.server)), frames(rng), target.context("device-3"))
    target.outcomes["frames: " + said] += 1
    return 1


async def calls(target: Target, rng: random.Random) -> int:
    """Calls of every method of the roles, by a device, a client or the server."""
    for _ in range(20):
        service = wire.DESCRIPTOR.services_by_name[rng.choice(("Air", "Inferences", "Fleet"))]
        method = rng.choice(service.methods)
        role = "air" if service.name == "Air" else "server"
        channel = target.channel(role, rng.choice(("device-3", "client-1", "server")))
        content = message(method.input_type, rng).SerializeToString()
        content = mutated(content, rng) if rng.random() < 0.5 else content
        path = f"/{service.full_name}/{method.name}"
        try:
            if method.client_streaming:
                await asyncio.wait_for(_streamed(channel, path, method.input_type, rng), _CALL_SECONDS)
            else:
                await channel.unary_unary(path)(content, timeout=_CALL_SECONDS)
            target.outcomes["call: OK"] += 1
        except aio.AioRpcError as error:
            target.outcomes[f"call: {error.code().name}"] += 1
        except (TimeoutError, asyncio.InvalidStateError) as error:
            target.outcomes[f"call: {type(error).__name__}"] += 1
    return 20


async def _streamed(channel: aio.Channel, path: str, what: Descriptor, rng: random.Random) -> None:
    """A stream of messages, read to its end or for a moment."""
    sent = [message(what, rng).SerializeToString() for _ in range(rng.randrange(8))]
    sent = [mutated(each, rng) if rng.random() < 0.3 else each for each in sent]
    if rng.random() < 0.8:
        hello = wire.Hello(device=3, protocol=PROTOCOL, digest=terms.stated(NET).digest)
        sent.insert(0, wire.FromDevice(hello=hello).SerializeToString())
    stays = rng.random() < 0.5

    async def messages() -> AsyncIterator[bytes]:
        for each in sent:
            yield each
        if stays:
            await asyncio.sleep(_CALL_SECONDS)

    stream = channel.stream_stream(path)(messages())
    try:
        async with asyncio.timeout(_REPLY_SECONDS):
            async for _ in stream:
                pass
    except TimeoutError:
        pass
    finally:
        stream.cancel()


# Each with its share. The first three are before authentication: half of all messages.
STROKES: tuple[tuple[Callable[[Target, random.Random], Awaitable[int]], float], ...] = (
    (unknown_bytes, 0.25),
    (no_certificate, 0.10),
    (no_token, 0.15),
    (with_token, 0.15),
    (with_certificate, 0.05),
    (calls, 0.30 / 20),
)


async def fuzzed(target: Target, messages: int, seed: str) -> int:
    """Sends at least so many messages; returns their number."""
    sent = 0

    async def worker(k: int) -> None:
        nonlocal sent
        rng = random.Random(f"{seed}/{k}")
        kinds, shares = zip(*STROKES, strict=True)
        while sent < messages:
            new = await rng.choices(kinds, shares)[0](target, rng)
            sent += new

    try:
        await asyncio.gather(*(worker(k) for k in range(WORKERS)))
    finally:
        for channel in target.channels.values():
            await channel.close()
        target.channels.clear()
    return sent


async def probed(target: Target, seconds: list[float]) -> None:
    """Asks /healthz over new connections, without end, and writes down how long each answer took."""
    host, _, port = target.http.rpartition(":")
    while True:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(60):
                reader, writer = await asyncio.open_connection(host, int(port), ssl=target.context(None))
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                if not (await reader.readline()).startswith(b"HTTP/1.1 200"):
                    raise ConnectionError
                writer.transport.abort()
            seconds.append(time.perf_counter() - began)
        except (OSError, TimeoutError):
            seconds.append(60.0)
        await asyncio.sleep(_PROBE_SECONDS)


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[tuple[Target, dict[str, Process]]]:
    """Air, server and three of four devices, with keys; the fourth device is the attacker."""
    keys, network, token = folder / "keys", folder / "net.toml", secrets.token_hex(16)
    network_file.write(NET, network)
    authority.create(keys)
    for name in (*(f"device-{k}" for k in range(DEVICES)), "client-1"):
        authority.add(keys, name)
    secret = folder / "token"
    secret.touch(0o600)
    secret.write_text(token)
    roles: dict[str, Process] = {}

    async def start(options: RoleOptions) -> Process:
        role = role_of(type(options))
        roles[role] = await Process.started(options, folder / f"{role}.log")
        return roles[role]

    try:
        options: RoleOptions = AirOptions(network=network, keys=keys / "air", quorum=3, slot_seconds=0.5)
        air = (await start(options)).said["address"]
        view = f"sqlite:///{folder / 'fleet.db'}"
        http = ServerOptions(network=network, keys=keys / "server", air=air, slot_seconds=0.5, http="127.0.0.1:0")
        server = await start(replace(http, token_file=secret, fleet=view))
        await start(DeviceOptions(network=network, keys=keys, air=air, device="0-2"))
        yield Target(air, server.said["address"], server.said["http"], keys, token), roles
    finally:
        await asyncio.gather(*(each.stop() for each in roles.values()))


def resident(pid: int) -> float:
    """Memory of a process, MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def run(messages: int, seed: int) -> dict[str, Any]:
    with TemporaryDirectory(prefix="airpool-fuzz-") as name:
        folder, began = Path(name), time.perf_counter()
        async with running(folder) as (target, roles):
            seconds: list[float] = []
            probing = asyncio.create_task(probed(target, seconds))
            sent, memory = 0, {role: list[float]() for role in roles}
            for part in range(PARTS):
                sent += await fuzzed(target, messages // PARTS, f"{seed}/{part}")
                for role, each in roles.items():
                    memory[role].append(round(resident(each.pid), 1) if each.alive else 0.0)
            crashed = [role for role, each in roles.items() if not each.alive]
            probing.cancel()
        logs = {role: (folder / f"{role}.log").read_text("utf-8", "replace") for role in roles}
    seconds.sort()
    return {
        "version": __version__,
        "date": datetime.now(UTC).date().isoformat(),
        "seed": seed,
        "messages": sent,
        "seconds": round(time.perf_counter() - began, 1),
        "outcomes": dict(sorted(target.outcomes.items())),
        "crashed": crashed,
        "tracebacks": [
            text[at.start() : at.start() + 2_000] for text in logs.values() for at in re.finditer("Traceback", text)
        ],
        "failures": sorted({line[:300] for text in logs.values() for line in text.splitlines() if '"failed"' in line}),
        "log_bytes": {role: len(text.encode()) for role, text in logs.items()},
        "memory_mib": memory,  # after each tenth of the messages
        "healthz": {
            "probes": len(seconds),
            "p50_ms": round(1e3 * seconds[len(seconds) // 2], 1),
            "max_ms": round(1e3 * seconds[-1], 1),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Random and mutated messages against running roles.")
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="JSON; left out: printed")
    options = parser.parse_args()
    record.write(asyncio.run(run(options.messages, options.seed)), options.out)


if __name__ == "__main__":
    main()
