"""The distinguishing game played over real processes: one honest device, all others colluding with the server."""

import asyncio
import os
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from airpool import Channel, Claim, Network
from airpool.evaluation.audit.bound import audit
from airpool.network import file as network_file
from airpool.protocol.live import live_report
from airpool_runtime import terms, transport, up
from airpool_runtime.messages import SlotSignal, Sum
from airpool_runtime.options import AirOptions, DeviceOptions
from airpool_runtime.remote import RemoteDevice, RemoteServer

from .game_source import R

pytestmark = pytest.mark.check

DEVICES, DELTA, RUNS = 3, 0.05, 2_000
NETWORK = Network.uniform(
    num_devices=DEVICES,
    weight=1.0,
    noise_std=1 / 1.02,
    dimension=R,
    power_dbm=60.0,
    colluders=DEVICES - 1,
    channel=Channel(gamma=1.0),
)
CLAIM = live_report(NETWORK, Claim(DELTA)).worst


async def _colluding(port):
    """Sends nothing: what the adversary knows of its own noise, it can subtract."""
    while True:
        await port.ready()
        await port.transmit([SlotSignal((await port.announcements())[0].id, np.zeros(R), 0.0)])


async def _played(file, network, rounds):
    """What the server receives in so many rounds from a real device that was started with this network file."""
    network_file.write(network, file)
    started = []
    async with AsyncExitStack() as stack:
        try:
            started.append(await up.Process.started(AirOptions(network=file), file.with_suffix(".air")))
            address = started[0].said["address"]
            honest = DeviceOptions(network=file, air=address, device="0", source="game_source:alternating")
            started.append(await up.Process.started(honest, file.with_suffix(".device")))
            channel = await stack.enter_async_context(transport.channel(address, role="air"))
            ports = [await RemoteDevice.opened(channel, k, simulated=False, network=network) for k in range(1, DEVICES)]
            tasks = [asyncio.create_task(_colluding(port)) for port in ports]
            server = RemoteServer(channel, slot_seconds=5.0)
            async with asyncio.timeout(60):
                while (await server.status()).ready < DEVICES:
                    await asyncio.sleep(0.05)
            asked, seen = terms.stated(network), []
            for number in range(rounds):
                got = await server.run_slot(f"round {number}", number, asked)
                assert isinstance(got, Sum), got
                seen.append(got.y)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return np.array(seen)
        finally:
            await asyncio.gather(*(each.stop() for each in started))


def game(tmp_path, monkeypatch, network):
    here = str(Path(__file__).parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]))
    seen = asyncio.run(_played(tmp_path / "network.toml", network, 2 * RUNS))
    left = {world: iter(seen[world::2]) for world in (0, 1)}

    def mechanism(world, n, _):
        return np.array([next(left[int(world)]) for _ in range(n)])

    rng = np.random.default_rng(0)
    return audit(mechanism, 1.0, 0.0, runs=RUNS, rng=rng, delta=DELTA, score=lambda y: y[:, 0], claimed_epsilon=CLAIM)


def test_the_claim_is_that_of_own_noise_alone():
    assert pytest.approx(1.618, abs=0.01) == CLAIM
    assert pytest.approx(live_report(NETWORK, Claim(DELTA)).epsilon_local[0], rel=1e-6) == CLAIM


def test_a_running_device_keeps_its_promise(tmp_path, monkeypatch):
    report = game(tmp_path, monkeypatch, NETWORK)
    print(report)
    assert not report.violated
    assert report.epsilon_lower > 0  # the game is played, and it does tell the worlds apart


def test_a_device_started_with_half_its_noise_is_caught(tmp_path, monkeypatch):
    half = replace(NETWORK, devices=replace(NETWORK.devices, noise_std=NETWORK.devices.column("noise_std")[0] / 2))
    report = game(tmp_path, monkeypatch, half)
    print(report)
    assert report.violated
