"""Sockets of gRPC and HTTP: addresses, message sizes, deadlines, keepalive, certificates.

Without credentials both ends must be on a loopback address. With them both ends show a certificate of the same
authority, and `identify` says who the other one is: air, server, ranking, or device-K.
New keys are used from the next call on, without a restart. Every gRPC server has the standard health service.
"""

import ipaddress
import resource
import socket
import ssl
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partialmethod
from typing import Any, NoReturn

import grpc
from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection

from airpool_runtime import logs
from airpool_runtime.keys.credentials import Credentials
from airpool_runtime.logs import Bucket, SparseLog


class NamedServices:
    """A gRPC server that keeps the names of the services that are added to it."""

    def __init__(self, server: aio.Server) -> None:
        self._server: Any = server  # its type lacks registered methods
        self.names = list[str]()

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        self._server.add_generic_rpc_handlers(handlers)

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        self._server.add_registered_method_handlers(service, handlers)
        self.names.append(service)


async def add_health(server: aio.Server, services: Sequence[str]) -> None:
    """Says of a server and of each of its services that it serves, and lists them; before the server is started."""
    servicer = HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    for name in ("", *services):
        await servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
    reflection.enable_server_reflection((*services, health.SERVICE_NAME, reflection.SERVICE_NAME), server)


class RenewedChannel(aio.Channel):
    """A channel whose calls each use the newest keys; a call that has begun goes on with the keys it began with.

    opened: makes a channel. version: what its keys are now; another value than before asks for a new one.
    """

    def __init__(self, opened: Callable[[], aio.Channel], version: Callable[[], object]) -> None:
        self._opened, self._version = opened, version
        self._used, self._channels = version(), [opened()]

    def _newest(self) -> aio.Channel:
        if (version := self._version()) != self._used:
            self._channels.append(self._opened())
            self._used = version
        return self._channels[-1]

    def _method(self, kind: str, *how: Any, **more: Any) -> Any:
        made: tuple[aio.Channel | None, Any] = None, None

        def call(*args: Any, **options: Any) -> Any:
            nonlocal made
            if made[0] is not (channel := self._newest()):
                made = channel, getattr(channel, kind)(*how, **more)
            return made[1](*args, **options)

        return call

    unary_unary: Any = partialmethod(_method, "unary_unary")
    unary_stream: Any = partialmethod(_method, "unary_stream")
    stream_unary: Any = partialmethod(_method, "stream_unary")
    stream_stream: Any = partialmethod(_method, "stream_stream")

    async def close(self, grace: float | None = None) -> None:
        for channel in self._channels:
            await channel.close(grace)

    async def __aenter__(self) -> "RenewedChannel":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._newest().get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._channels[-1].wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._channels[-1].channel_ready()


MESSAGE_BYTES = 4 * 2**20
CALL_SECONDS = 10.0
HANDSHAKE_SECONDS = 5.0

_OPTIONS = [
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    ("grpc.max_metadata_size", 16 * 2**10),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),  # of a ping on an idle connection; by default a minute
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5_000),  # how long one attempt may take, TLS included; not a wait
    ("grpc.so_reuseport", 0),
    ("grpc.server_handshake_timeout_ms", int(1e3 * HANDSHAKE_SECONDS)),
    ("grpc.max_concurrent_streams", 1_000),
    ("grpc.enable_http_proxy", 0),
]


logs.install()
_log = SparseLog(Bucket(per_second=10.0, burst=200))


async def serve(
    address: str, add: Callable[[aio.Server], None], credentials: Credentials | None = None
) -> tuple[aio.Server, str]:
    """A started gRPC server and the address it listens at; port 0 is any free one. add: registers the services."""
    host, _ = split(address, credentials is not None)
    server = aio.server(options=[*_OPTIONS, ("grpc.max_allowed_incoming_connections", descriptors() * 5 // 8)])
    named = NamedServices(server)
    add(named)  # pyright: ignore[reportArgumentType]
    await add_health(server, named.names)
    try:
        if credentials is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, _server_credentials(credentials))
    except RuntimeError:
        port = 0
    if port == 0:
        raise OSError(f"cannot listen at {address}: the port is taken, or the address is not of this machine")
    await server.start()
    return server, f"{host}:{port}"


def _server_credentials(credentials: Credentials) -> grpc.ServerCredentials:
    """Both ends show certificates; the own one is looked up for every connection."""

    def configuration(of: Credentials) -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration([(of.key, of.certificate)], of.ca)

    used = credentials

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        nonlocal used
        if (newest := credentials.renewed()) == used:
            return None
        used = newest
        return configuration(newest)

    # None keeps the configuration, which the type does not say.
    return grpc.dynamic_ssl_server_credentials(configuration(credentials), fetch, True)  # pyright: ignore[reportArgumentType]


def channel(address: str, credentials: Credentials | None = None, *, role: str) -> aio.Channel:
    """A channel to a role: air, server or ranking, the name that its certificate must have."""
    split(address, credentials is not None)
    if credentials is None:
        return aio.insecure_channel(address, options=_OPTIONS)
    options = [*_OPTIONS, ("grpc.ssl_target_name_override", role)]

    def opened() -> aio.Channel:
        own = credentials.renewed()
        secure = grpc.ssl_channel_credentials(own.ca, own.key, own.certificate)
        return aio.secure_channel(address, secure, options=options)

    return RenewedChannel(opened, credentials.renewed)


async def require_peer(context: Any, name: str, credentials: Credentials | None) -> None:
    """Ends a call unless the peer's certificate has this name; without credentials any local process may call."""
    found = await _peer(context, credentials)
    if found is not None and found != name:
        await refuse(context, grpc.StatusCode.PERMISSION_DENIED, f"{found} must not speak for {name}")


async def require_known(context: Any, credentials: Credentials | None) -> str:
    """The name in the peer's certificate, or without credentials its address; ends a call unless it is valid."""
    return await _peer(context, credentials) or context.peer()


async def require_client(context: Any, credentials: Credentials | None) -> str:
    """The name in the peer's certificate, empty without credentials; ends a call unless it is valid and not a device's:
    devices do not ask for inferences."""
    found = await _peer(context, credentials) or ""
    if found.startswith("device-"):
        await refuse(context, grpc.StatusCode.PERMISSION_DENIED, f"{found} must not ask for inferences")
    return found


async def refuse(context: Any, code: grpc.StatusCode, reason: str) -> NoReturn:
    """Ends a call, and says so in the log."""
    _log.event("rejected", reason=reason)
    await context.abort(code, reason)
    raise AssertionError("abort raises")


async def _peer(context: Any, credentials: Credentials | None) -> str | None:
    """The name in the peer's certificate; None without credentials."""
    if credentials is None or (identify := credentials.renewed().identify) is None:
        return None
    shown = context.auth_context().get("x509_pem_cert") or [b""]
    try:
        return identify(shown[0])
    except Exception as error:
        await refuse(context, grpc.StatusCode.UNAUTHENTICATED, str(error)[:200])


def descriptors() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**16 if soft == resource.RLIM_INFINITY else min(soft, 2**16)


def listening(address: str, *, secured: bool = False) -> socket.socket:
    """A bound TCP socket, for HTTP. secured: it may be beyond loopback."""
    host, port = split(address, secured)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only where the protocol is named; without it each keep-alive request waits 40 ms.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host.strip("[]"), port))
    except OSError as error:
        sock.close()
        raise OSError(f"cannot listen at {address}: {error.strerror}") from None
    return sock


def http_context(credentials: Credentials) -> ssl.SSLContext:
    """TLS for HTTP, with the role's newest certificate; clients show a token instead of one."""
    first = _http_context(credentials)
    used, context = credentials, first

    def renew(connection: ssl.SSLObject, *_: object) -> None:
        nonlocal used, context
        if (newest := credentials.renewed()) != used:
            used, context = newest, _http_context(newest)
        connection.context = context

    first.sni_callback = renew  # at the start of every handshake
    return first


def _http_context(credentials: Credentials) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # OpenSSL reads files alone; this one is the owner's, and gone at once.
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(credentials.key + credentials.certificate)
        file.flush()
        context.load_cert_chain(file.name)
    return context


def split(address: str, secured: bool) -> tuple[str, int]:
    """Host and port; an error unless the host is a loopback address, or the connection is secured."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise ValueError(f"address {address!r} must be HOST:PORT, such as 127.0.0.1:0")
    if not secured and not is_loopback(host):
        raise ValueError(
            f"address {address!r} is beyond this machine: without certificates only loopback is allowed, 127.0.0.1"
        )
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether a host, by name or address, is this machine and no other."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
