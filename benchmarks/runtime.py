"""How fast the running system is: twelve device processes over gRPC, beside the same roles in one process.

    python -m benchmarks.runtime [--inferences 1000] [--devices 12] [--processes 12] [--slots 1]   more, with memory

Live noise on shipped latents, one inference after the other. The share of time in transport is that of the processors'
time of all processes together which the same work takes no part of in one process.
"""

import argparse
import asyncio
import json
import os
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from airpool import Network, calibrate
from airpool.network import Slots
from airpool_runtime import device as devices
from airpool_runtime import sources, up
from airpool_runtime import wire_pb2 as wire
from airpool_runtime.air import Air
from airpool_runtime.device import Device
from airpool_runtime.loopback import LoopbackDevice
from airpool_runtime.server import Server, codec_of
from airpool_runtime.sources import Place, source_of
from airpool_runtime.up import RunTally

from . import Row

DEVICES, INFERENCES, WARM = 12, 300, 20
ONE, SIXTEEN = Slots(), Slots(16, sure=0.9895)


def network(count: int, slots: Slots = ONE) -> Network:
    return calibrate(Network.uniform(num_devices=count, dimension=40, slots=slots), epsilon=2.0)


async def loopback(count: int, inferences: int) -> dict[str, float]:
    """Latency, rate and processor time of an inference, all roles in this process."""
    net = network(count)
    air = Air(net)
    hosted = [Device(k, net, source_of("latents:modelnet40/test", Place(k, count))[0]) for k in range(count)]
    tasks = [asyncio.create_task(devices.run(each, LoopbackDevice(air, each.index))) for each in hosted]
    server = Server(net, codec_of("modelnet40", net), air)
    try:
        for _ in range(WARM):
            await server.infer()
        used = time.process_time()
        seconds = np.array([(await server.infer()).seconds for _ in range(inferences)])
        used = (time.process_time() - used) / inferences
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    p50, p99 = np.percentile(seconds, (50, 99)) * 1e3
    return {"p50_ms": p50, "p99_ms": p99, "per_second": float(1 / seconds.mean()), "processor_ms": 1e3 * used}


async def over_grpc(count: int, processes: int, inferences: int, slots: Slots = ONE) -> dict[str, float]:
    """The same of a system of processes, with accuracy, and by how many MiB the one that grew most did."""
    setup = up.Setup(network(count, slots), processes, slot_seconds=20.0)
    tally = RunTally(sources.held_out_labels("modelnet40", "test"))
    async with up.running(setup) as system, up.client(system) as client:
        for _ in range(WARM):
            await client.Infer(wire.Nothing())
        before, began = used_by(system), time.perf_counter()
        for _ in range(inferences):
            tally.add(await client.Infer(wire.Nothing()))
        took, after = time.perf_counter() - began, used_by(system)
    if tally.statuses["answered"] != inferences or tally.distinct != inferences:
        raise RuntimeError(f"of {inferences} inferences {dict(tally.statuses)}, {tally.distinct} distinct")
    record = tally.record(took)
    found = {name: record[name] for name in ("p50_ms", "p99_ms", "per_second", "accuracy")}
    return found | {
        "slots": record["slots"]["mean"],
        "processor_ms": 1e3 * (after[0] - before[0]).sum() / inferences,
        "grown_mib": (after[1] - before[1]).max() / 2**20,
    }


def used_by(system: up.System) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Processor time in seconds and resident memory in bytes of each process; NaN where there is no /proc."""
    seconds, memory = [], []
    for process in system.roles.values():
        stat = Path(f"/proc/{process.pid}/stat")
        if not stat.exists():
            return np.array([np.nan]), np.array([np.nan])
        field = stat.read_text().rpartition(")")[2].split()  # from the third on
        seconds.append((int(field[11]) + int(field[12])) / os.sysconf("SC_CLK_TCK"))
        memory.append(int(field[21]) * os.sysconf("SC_PAGE_SIZE"))
    return np.array(seconds, np.float64), np.array(memory, np.float64)


def rows() -> list[Row]:
    alone = asyncio.run(loopback(DEVICES, INFERENCES))
    beside = asyncio.run(over_grpc(DEVICES, DEVICES, INFERENCES))
    asked = asyncio.run(over_grpc(DEVICES, DEVICES, INFERENCES // 4, SIXTEEN))
    share = 100 * (1 - alone["processor_ms"] / beside["processor_ms"])
    return [
        Row("runtime", f"loopback, {DEVICES} devices, r = 40: median", alone["p50_ms"] / 1e3, "s"),
        Row("runtime", "- 99th percentile", alone["p99_ms"] / 1e3, "s"),
        Row("runtime", "- rate", alone["per_second"], "/s"),
        Row(
            "runtime",
            f"gRPC, {DEVICES} device processes: median",
            beside["p50_ms"] / 1e3,
            "s",
            rival=alone["p50_ms"] / 1e3,
            beside="the same roles in one process",
        ),
        Row("runtime", "- 99th percentile", beside["p99_ms"] / 1e3, "s"),
        Row("runtime", "- rate", beside["per_second"], "/s"),
        Row(
            "runtime",
            "- share of time in transport",
            None if np.isnan(share) else share,
            "%",
            "of processor time; the rest is what loopback takes",
        ),
        Row(
            "runtime",
            "- time, relative to loopback's",
            alone["per_second"] / beside["per_second"],
            "times",
            "5 is a fifth of the rate",
            limit=5.0,
        ),
        Row("runtime", "gRPC, until sure, at most 16 slots: median", asked["p50_ms"] / 1e3, "s"),
        Row("runtime", "- 99th percentile", asked["p99_ms"] / 1e3, "s"),
        Row("runtime", "- slots of an inference", asked["slots"], "slots", "a mean, not a promise"),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("inferences", 1000), ("devices", DEVICES), ("processes", DEVICES), ("slots", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    until = ONE if given.slots == 1 else Slots(given.slots, sure=SIXTEEN.sure)
    print(json.dumps(asyncio.run(over_grpc(given.devices, given.processes, given.inferences, until))))
