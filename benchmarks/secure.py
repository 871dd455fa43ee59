"""How long a secure sum takes: in one process, and over processes beside the air in the same run."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack

import numpy as np

from airpool import Channel, Network, calibrate
from airpool.network import Slots
from airpool.protocol.ring import Ring
from airpool_runtime import up
from airpool_runtime import wire_pb2 as wire
from airpool_runtime.secure.group import Terms
from airpool_runtime.secure.rehearsal import Rehearsal, rehearse_slots, sessions

from . import Row

SECURE = Channel(access="secure")
ONE_SLOT = Slots()
ROUNDS, SKIPPED = 60, 10
SLOTS, HELD = 16, 7  # of an inference: the most, and those that an inference at the cap ε = 2 takes on average


def rows() -> list[Row]:
    (small, bytes_small), (large, bytes_large), (many, bytes_many) = (
        alone(*size) for size in ((12, 40, 4, 15), (12, 784, 4, 15), (100, 40, 33, 3))
    )
    batch, bytes_batch = alone(12, 40, 4, 5, slots=SLOTS, held=HELD)
    air, secure, long = asyncio.run(taking_turns([_air(), _secure(), _secure(784, codec="q16")], ROUNDS))
    one, slot = asyncio.run(taking_turns([_secure(), _secure(slots=Slots(SLOTS, sure=1.0))], ROUNDS // 2))
    told = f"12 processes, medians of {ROUNDS - SKIPPED} inferences that take turns"

    def traffic(what: str, found: Rehearsal) -> Row:
        sent, received = found.sent[0], found.received[0]
        return Row(
            "secure", f"- bytes per device, {what}", sent + received, "B", f"{sent:,} sent, {received:,} received"
        )

    return [
        Row("secure", "a round, 12 devices, r = 40, in one process", small, "s", "CPU time, 8 survive", limit=0.06),
        traffic("12 devices, r = 40", bytes_small),
        Row("secure", "- r = 784, relative to r = 40", large / small, "times the time", limit=2.0),
        traffic("12 devices, r = 784", bytes_large),
        Row("secure", "a round, 100 devices, r = 40, in one process", many, "s", "CPU time, 67 survive"),
        traffic("100 devices, r = 40", bytes_many),
        Row("secure", f"an inference, {HELD} of {SLOTS} slots, in one process", batch, "s", "CPU time"),
        Row("secure", f"- relative to {HELD} rounds", batch / (HELD * small), "times the time"),
        traffic(f"{HELD} of {SLOTS} slots", bytes_batch),
        Row(
            "secure",
            "an inference by a secure sum, r = 40",
            secure,
            "s",
            told + "; aim 40 ms",
            5 * air,
            air,
            "the simulated air, in turns",
        ),
        Row("secure", "- r = 784, relative to r = 40", long / secure, "times the time", limit=2.0),
        Row("secure", f"a slot of {SLOTS}, keys shared once", slot, "s", f"12 processes, {ROUNDS // 2} inferences"),
        Row("secure", "- relative to an inference of one slot", slot / one, "times the time", "in turns with these"),
    ]


def alone(
    count: int, dimension: int, dropouts: int, repeat: int, *, slots: int = 1, held: int = 1
) -> tuple[float, Rehearsal]:
    """Median CPU time of an inference of all devices in this process, one after the other, and its bytes."""
    terms = Terms(count, count - dropouts, count, 0, dimension, Ring(2.0**-24, 32), slots=slots)
    fleet, rng = sessions(count), np.random.default_rng(0)
    values = {k: terms.ring.encode(rng.normal(0, 0.1, dimension)) for k in range(count)}
    done = rehearse_slots([values] * held, terms, fleet)  # certificates are checked once
    times = []
    for _ in range(repeat):
        start = time.process_time()
        rehearse_slots([values] * held, terms, fleet)
        times.append(time.process_time() - start)
    return float(np.median(times)), done


async def taking_turns(setups: Sequence[up.Setup], rounds: int) -> list[float]:
    """Median seconds of a slot of each system; they take turns, so that a slow moment hits all of them."""
    times = np.empty((rounds, len(setups)))
    async with AsyncExitStack() as stack:
        clients = []
        for setup in setups:
            system = await stack.enter_async_context(up.running(setup))
            clients.append(await stack.enter_async_context(up.client(system)))
        for row in times:
            for i, client in enumerate(clients):
                result = await client.Infer(wire.Nothing(), timeout=60)
                if result.status != "answered":
                    raise RuntimeError(f"{setups[i].network.channel.access}: {result.reason}")
                row[i] = result.seconds / result.slots
    return np.median(times[SKIPPED:], axis=0).tolist()


def _air() -> up.Setup:
    return up.Setup(_network(40, Channel()), 12)


def _secure(dimension: int = 40, *, codec: str | None = None, slots: Slots = ONE_SLOT) -> up.Setup:
    return up.Setup(_network(dimension, SECURE, slots), 12, codec=codec)


def _network(dimension: int, channel: Channel, slots: Slots = ONE_SLOT) -> Network:
    net = Network.uniform(num_devices=12, dimension=dimension, channel=channel, slots=slots)
    return calibrate(net, epsilon=2.0)
