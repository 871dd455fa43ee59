"""Small systems in one process, for the tests of the runtime: over loopback, or over gRPC on a free port."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from airpool import Claim, Network, guarantee
from airpool.network import Ranking
from airpool.protocol.inference import Simulation, infer_features
from airpool.schemes.scores import Uncertainty
from airpool_runtime import device as devices
from airpool_runtime import seeded, transport
from airpool_runtime.air import Air
from airpool_runtime.device import Device, Seen
from airpool_runtime.loopback import LoopbackDevice
from airpool_runtime.ranking import RankingServer
from airpool_runtime.remote import RemoteDevice, RemoteRanking, RemoteServer
from airpool_runtime.server import Server, ServerCodec
from airpool_runtime.service import AirService, RankingService
from airpool_runtime.wire_pb2_grpc import add_AirServicer_to_server, add_RankingServicer_to_server

R, CLASSES = 6, 3


def network(count=4, **rest):
    how = {"noise_std": 0.05, "dimension": R} | rest
    return Network.uniform(num_devices=count, **how)


def decoder(scale=1.0):
    rng = np.random.default_rng(7)
    matrix, bias = scale * rng.standard_normal((CLASSES, R)), rng.standard_normal(CLASSES)
    return ServerCodec(lambda estimate: matrix @ estimate + bias, ("a", "b", "c"), R)


def latents(objects=8, count=4, rng=None):
    rng = rng or np.random.default_rng(1)
    z = rng.standard_normal((objects, count, R))
    return z / np.linalg.norm(z, axis=-1, keepdims=True)


def posteriors(objects=8, count=4):
    p = np.random.default_rng(2).random((objects, count, CLASSES)) ** 4
    return p / p.sum(-1, keepdims=True)


def rows(folder, k=0):
    """The ids in the ledger of a device, of the fixture `ledgers`."""
    from airpool_runtime.ledger import backup

    return [row.inference for row in backup.content(folder / "ledgers" / f"device-{k}.db").rows]


def epsilon_of(net, slots):
    """The ε that a ledger has after so many slots."""
    return float(guarantee(net.one_slot, Claim(inferences=slots, live=True)).epsilon[0])


def simulated(net, number, seed=5):
    """What the simulator makes of an object of `latents`, from the seed of a run and the inference's number."""
    chosen_by = None if net.scheme.name == "1" else posteriors()[number : number + 1]
    return infer_features(
        latents()[number : number + 1],
        net,
        server=lambda x: np.apply_along_axis(decoder().decode, -1, x),
        rng=seeded.generator(seed, number),
        uncertainty=Uncertainty(posteriors=chosen_by),
        simulation=Simulation(path="full"),
    )


@dataclass
class Small:
    """air: the Air itself. server: a Server over the medium. ports, tasks: of the devices that run."""

    air: Air
    server: Server
    open_port: Any
    stop_air: Any = None
    stop_ranking: Any = None
    channel: Any = None
    ports: dict = field(default_factory=dict)
    tasks: list = field(default_factory=list)

    async def infer(self, times=1):
        return [await self.server.infer() for _ in range(times)]


@asynccontextmanager
async def small(
    net,
    medium="loopback",
    *,
    seed=None,
    running=None,
    charges=None,
    z=None,
    p=None,
    own=None,
    secured=None,
    codec=None,
    medium_rules=None,
    **air,
):
    """A system of the devices `running` (all). own: a network of its own for some device, by index.

    secured: makes the port of secure access out of a device's port and index. codec: of the server.
    medium_rules: a registered medium.
    """
    count = net.devices.count
    z = latents(count=count) if z is None else z
    p = posteriors(count=count) if p is None else p
    it = Air(net, seed=seed, medium=medium_rules, **{"patience": 0.5, "slot_seconds": 2.0, **air})
    rank = RankingServer(net, seconds=1.0) if isinstance(net.scheme, Ranking) else None
    grpc_servers, channels = [], []
    if medium == "grpc":
        server, at = await transport.serve("127.0.0.1:0", lambda s: add_AirServicer_to_server(AirService(it), s))
        grpc_servers.append(server)
        channel = transport.channel(at, role="air")
        channels.append(channel)
        port = RemoteServer(channel, slot_seconds=2.0)
        if rank is not None:
            service = RankingService(rank)
            server, at = await transport.serve("127.0.0.1:0", lambda s: add_RankingServicer_to_server(service, s))
            grpc_servers.append(server)
            channels.append(transport.channel(at, role="ranking"))
            rank = RemoteRanking(channels[-1])

    else:
        port = it

    async def open_port(k):
        mine = (own or {}).get(k, net)
        if medium == "grpc":
            return await RemoteDevice.opened(channels[0], k, simulated=seed is not None, network=mine)
        return LoopbackDevice(it, k, mine)

    system = Small(it, Server(net, codec or decoder(), port, simulated=seed is not None, deadline=10.0), open_port)
    if medium == "grpc":
        system.channel = channels[0]
        system.stop_air, system.stop_ranking = (lambda s=s: s.stop(0) for s in (grpc_servers[0], grpc_servers[-1]))
    try:
        for k in range(count) if running is None else running:
            extra = {} if charges is None else {"charge": charges[k]}
            mine = (own or {}).get(k, net)
            device = Device(
                k, mine, lambda i, k=k: Seen(z[i % len(z), k], p[i % len(p), k]), ranking=rank, seed=seed, **extra
            )
            system.ports[k] = await open_port(k)
            port = system.ports[k] if secured is None else secured(system.ports[k], k)
            system.tasks.append(asyncio.create_task(devices.run(device, port)))
        await asyncio.sleep(0)
        yield system
    finally:
        for task in system.tasks:
            task.cancel()
        await asyncio.gather(*system.tasks, return_exceptions=True)
        for each in system.ports.values():
            each.close()
        for channel in channels:
            await channel.close()
        for server in grpc_servers:
            await server.stop(0)
