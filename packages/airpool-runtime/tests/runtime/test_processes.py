"""The running system as real processes: kills, stalls, load, memory. Every test stops what it starts."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import airpool
from airpool import Network, Ranking, calibrate
from airpool.protocol.inference import Simulation, infer_features
from airpool.radio.link import level
from airpool_runtime import seeded, sources, transport, up
from airpool_runtime import wire_pb2 as wire
from airpool_runtime.up import RunTally
from airpool_runtime.wire_pb2_grpc import InferencesStub

pytestmark = pytest.mark.check

R = 40  # of the shipped vote
DEADLINE = 60.0


def network(count, **rest):
    return Network.uniform(num_devices=count, dimension=R, **({"noise_std": 0.05} | rest))


async def infer(client):
    return await client.Infer(wire.Nothing(), timeout=DEADLINE)


async def answered_again(client, devices, seconds=60.0):
    """The first answer from all devices, within so many seconds: they reconnect one by one."""
    until = time.monotonic() + seconds
    while (result := await infer(client)).devices < devices:
        assert time.monotonic() < until, result.reason
        await asyncio.sleep(0.1)
    return result


def stopped(pids):
    return [pid for pid in pids if not Path(f"/proc/{pid}").exists()]


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
def test_kill_9_and_stalls_of_every_role_cost_one_inference_at_most():
    net = network(4, scheme=Ranking(num_selected=3, score_noise_std=2.0), dropouts=1)
    setup = up.Setup(net, 4, quorum=3, slot_seconds=10.0)

    async def play():
        seen = {}
        async with up.running(setup) as system:
            pids = [each.pid for each in system.roles.values()]
            async with up.client(system) as client:
                assert (await infer(client)).devices == 4

                async def during(name, what):
                    """What a client is told while this happens in mid-inference, again and again until it hits one."""
                    running = asyncio.create_task(_until_failure(client))
                    await asyncio.sleep(0.2)
                    await what(system.roles[name])
                    return await asyncio.wait_for(running, DEADLINE)

                seen["device"] = await _killed_device(system, client)
                seen["stall"] = await _stalled_device(system, client)
                for name in ("ranking", "air"):
                    seen[name] = await during(name, up.Process.kill)
                    pids.append((await system.start(name)).pid)
                    await system.ready(4)
                    seen[f"after {name}"] = await answered_again(client, 4)
            seen["server"] = await _killed_server(system)
            pids.append(system.roles["server"].pid)
        return seen, pids

    seen, pids = asyncio.run(play())
    assert [seen["device"][k].devices for k in ("without", "back")] == [3, 4]
    assert [seen["stall"][k].devices for k in ("without", "back")] == [3, 4]
    assert seen["ranking"].status == "withheld"
    assert seen["air"].status == "failed"
    assert seen["after ranking"].status == seen["after air"].status == "answered"
    assert seen["server"].status == "answered"
    assert stopped(pids) == pids


async def _until_failure(client):
    """The first inference that is not answered."""
    for _ in range(10_000):
        result = await infer(client)
        if result.status != "answered":
            return result
    raise AssertionError("nothing failed")


async def _killed_device(system, client):
    running = asyncio.create_task(_until_devices(client, 3))
    await asyncio.sleep(0.2)
    await system.roles["device 2-2"].kill()
    without = await running
    await system.start("device 2-2")
    return {"without": without, "back": await _until_devices(client, 4)}


async def _stalled_device(system, client):
    pid = system.roles["device 1-1"].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        without = await _until_devices(client, 3)
    finally:
        os.kill(pid, signal.SIGCONT)
    return {"without": without, "back": await _until_devices(client, 4)}


async def _until_devices(client, devices, seconds=60.0):
    """The first answer from so many devices; no inference before it is lost."""
    until = time.monotonic() + seconds
    while True:
        result = await infer(client)
        assert result.status == "answered", result.reason
        if result.devices == devices:
            return result
        assert time.monotonic() < until


async def _killed_server(system):
    """Its clients get an error at once; a new one answers."""
    async with transport.channel(system.address("server"), role="server") as channel:
        client = InferencesStub(channel)
        running = asyncio.create_task(_until_failure(client))
        await asyncio.sleep(0.2)
        await system.roles["server"].kill()
        with pytest.raises(Exception, match=r"UNAVAILABLE|CANCELLED"):
            await asyncio.wait_for(running, DEADLINE)
        await system.start("server")
        await system.ready(4)
        return await InferencesStub(channel).Infer(wire.Nothing(), timeout=DEADLINE, wait_for_ready=True)


def test_a_thousand_inferences_of_twelve_processes():
    """None lost, none doubled, and as accurate as the simulator."""
    net, labels = calibrate(network(12), epsilon=2.0), sources.held_out_labels("modelnet40", "test")
    count = 1_000

    async def play():
        tally, numbers, ids = RunTally(labels), [], set()
        async with up.running(up.Setup(net, 12)) as system, up.client(system) as client:
            for _ in range(count):
                result = await infer(client)
                tally.add(result)
                numbers.append(result.number)
                ids.add(result.id)
        return tally, numbers, ids

    tally, numbers, ids = asyncio.run(play())
    assert numbers == list(range(count))
    assert len(ids) == tally.distinct == count
    assert dict(tally.statuses) == {"answered": count}
    model = airpool.load("modelnet40")
    held = model.held_out("test")
    from airpool.evaluation.evaluate import evaluate
    from airpool.evaluation.objects import EncodedObjects

    first = sources.order(len(held.labels))[:count]
    expected = evaluate(
        EncodedObjects(held.latents[first], held.labels[first], model.codec().server), net, trials=20, seed=0
    ).record()["accuracy_mean"]
    # The same objects: what differs is the noise alone. Four standard errors of a binomial are more than enough.
    assert abs(tally.right / count - expected) < 4 * np.sqrt(expected * (1 - expected) / count)


def test_two_hundred_devices_in_four_processes():
    net = network(200, noise_std=0.01)

    async def play():
        async with up.running(up.Setup(net, 4, slot_seconds=20.0)) as system, up.client(system) as client:
            return [await infer(client) for _ in range(5)]

    assert [(each.status, each.devices) for each in asyncio.run(play())] == [("answered", 200)] * 5


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_memory_is_flat_over_thousands_of_inferences():
    """`python -m benchmarks.runtime --inferences 10000` does it with twelve processes: docs/howto/runtime.md."""

    def resident(system):
        page = os.sysconf("SC_PAGE_SIZE")
        return {
            name: int(Path(f"/proc/{each.pid}/statm").read_text().split()[1]) * page
            for name, each in system.roles.items()
        }

    async def play():
        async with up.running(up.Setup(network(1), 1)) as system, up.client(system) as client:
            for _ in range(1_500):
                await infer(client)
            before = resident(system)
            for _ in range(3_000):
                assert (await infer(client)).status == "answered"
            return before, resident(system)

    before, after = asyncio.run(play())
    growth = {name: (after[name] - before[name]) / 2**20 for name in before}
    assert max(growth.values()) < 4, growth  # MiB: the server keeps its last 1,000 results, and nothing else grows


def airpool_up(*args):
    command = [sys.executable, "-m", "airpool", "up", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_up_runs_the_whole_system_with_one_command():
    done = airpool_up("--devices", "3", "--inferences", "20", "--scheme", "2.2", "--num-selected", "2", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["inferences"] == record["distinct"] == 20
    assert record["statuses"] == {"answered": 20}
    assert record["epsilon"]["device"] <= 2
    assert not record["simulated"]


@pytest.mark.parametrize("radio", ["--power-rule backoff", "--csi-error-std 0.05"])
def test_up_keeps_its_target_where_signals_arrive_unaligned(radio):
    done = airpool_up("--epsilon", "2", "--fading", "rician", *radio.split(), "--inferences", "2", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert 1.9 < record["epsilon"]["device"] <= 2
    assert not record["simulated"]


def test_a_simulated_run_of_processes_gives_what_the_simulator_gives():
    net = network(3, participation=0.8)
    model = airpool.load("modelnet40")
    held = model.held_out("test").fitted(3)
    server = model.codec().server(level(net))

    async def play():
        async with up.running(up.Setup(net, 2, simulate=3)) as system, up.client(system) as client:
            return [await infer(client) for _ in range(12)]

    for result in asyncio.run(play()):
        i = result.number
        place = sources.order(len(held.labels))[i]
        out = infer_features(
            held.latents[place : place + 1].double().numpy(),
            net,
            server=lambda estimate: server(torch.from_numpy(estimate)).numpy(),
            rng=seeded.generator(3, i),
            simulation=Simulation(path="full"),
        )
        assert result.label == out.label[0, 0]
        np.testing.assert_allclose(result.logits, out.logits[0, 0], atol=1e-5)
        assert result.simulated
        assert "protects nobody" in result.note


def test_up_shows_a_model_its_own_objects():
    """By default: objects of another model have latents of another length, and would be noise alone."""
    done = airpool_up("--model", "wearables", "--devices", "3", "--noise-std", "0.02", "--inferences", "20", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["accuracy"] > 0.5


def test_up_says_in_one_line_why_a_role_does_not_start():
    done = airpool_up("--devices", "3", "--noise-std", "0", "--inferences", "2")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "noise_std" in done.stderr


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_up_stops_everything_when_it_is_killed_or_interrupted(sign):
    command = [sys.executable, "-m", "airpool", "up", "--devices", "3", "--noise-std", "0.05", "--http", "127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "HTTP API" in line)
        assert "http://127.0.0.1:" in line
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(children) == 6  # air, server, three devices, and the process that removes the folder
        process.send_signal(sign)
        process.wait(60)
        assert sign == signal.SIGKILL or process.returncode == 0
        until = time.monotonic() + 30
        while len(stopped(children)) < 6:
            assert time.monotonic() < until
            time.sleep(0.1)
    finally:
        process.kill()
        process.communicate()


def test_up_that_is_told_to_end_leaves_nothing_behind(tmp_path):
    """Neither processes nor its folder, which holds the keys of secure access."""
    command = [sys.executable, "-m", "airpool", "up", "--devices", "2", "--access", "secure", "--noise-std", "0.05"]
    with (tmp_path / "out").open("w") as out:
        running = subprocess.Popen(command, stdout=out, env={**os.environ, "TMPDIR": str(tmp_path)})
        try:
            for _ in range(1200):
                if list(tmp_path.glob("airpool-*/device 1-1.log")):
                    break
                time.sleep(0.1)
            running.terminate()
            assert running.wait(60) == 0
        finally:
            running.kill()
            running.wait()
    assert "inferences" in (tmp_path / "out").read_text()
    assert not list(tmp_path.glob("airpool-*"))


def test_an_air_that_is_stopped_logs_json_alone():
    async def play():
        async with up.running(up.Setup(network(2), 1)) as system:
            await system.roles["air"].stop()
            return (system.folder / "air.log").read_text().splitlines()

    assert [json.loads(line)["event"] for line in asyncio.run(play())][-1] == "disconnected"
