"""One device that refuses does not spend the others' budgets, and is named."""

import asyncio
import errno
from contextlib import suppress

import numpy as np
import pytest

from airpool import Ranking
from airpool_runtime import device as devices
from airpool_runtime import logs, terms
from airpool_runtime.air import Air
from airpool_runtime.charge import Counted, NotSentError
from airpool_runtime.device import Device, Seen
from airpool_runtime.http import app
from airpool_runtime.keys import authority
from airpool_runtime.ledger import head
from airpool_runtime.messages import DisconnectedError, RejectedError, SlotSignal, WithdrawalReason
from airpool_runtime.server import Server
from airpool_runtime.standing import FIRST_SECONDS, FORGIVEN_AFTER, Standing

from .systems import R, decoder, epsilon_of, latents, network, rows, small

MEDIA = ("loopback", "grpc")


@pytest.fixture
def quick(monkeypatch):
    """Devices that wait a hundredth of the time."""
    monkeypatch.setattr(devices, "_SHORTEST_WAIT", 0.01)
    monkeypatch.setattr(devices, "_LONGEST_WAIT", 0.1)


class Refusing(Counted):
    """A charge that always fails, and does not foresee it."""

    def refusal(self, *, probe=False):
        return None

    def charge_all(self, inferences) -> None:
        raise NotSentError("the disk is full", WithdrawalReason.DISK)


async def readiness(server):
    import httpx

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app(server)), base_url="http://127.0.0.1") as client:
        return await client.get("/readyz"), await client.get("/metrics")


@pytest.mark.parametrize("medium", MEDIA)
def test_a_device_that_always_refuses_costs_the_others_two_inferences_and_is_named(medium, quick, capsys, monkeypatch):
    monkeypatch.setattr(logs, "_state", {"role": "air", "on": True})
    charges = [Counted(), Refusing(), Counted()]

    async def play():
        async with small(network(3), medium, charges=charges, patience=0.3) as system:
            results = [await system.server.infer() for _ in range(6)]
            return results, *await readiness(system.server)

    results, ready, metrics = asyncio.run(play())
    assert [each.status for each in results] == ["withheld"] * 2 + ["below quorum"] * 4
    assert [each.spent for each in charges] == [2, 0, 2]
    assert "device 1: it withdrew (disk)" in results[0].reason
    assert all("device 1: set aside: it withdrew (disk)" in each.reason for each in results[2:])
    assert ready.status_code == 503
    assert ready.json()["faults"] == {"1": "set aside: it withdrew (disk)"}
    assert 'airpool_device_fault{device="1",reason="set aside"} 1.0' in metrics.text
    assert '"event": "set aside", "device": 1, "reason": "it withdrew (disk)"' in capsys.readouterr().err


def test_a_device_that_tries_again_every_second_is_rejected_in_one_line(capsys, monkeypatch):
    monkeypatch.setattr(logs, "_state", {"role": "air", "on": True})

    async def play():
        async with small(network(3), running=(), own={1: network(3, noise_std=0.0505)}) as system:
            for _ in range(4):
                with pytest.raises(RejectedError, match="device 1 is set to noise_std"):
                    await system.open_port(1)

    asyncio.run(play())
    assert capsys.readouterr().err.count('"event": "rejected"') == 1


@pytest.mark.parametrize("medium", MEDIA)
def test_another_noise_in_one_network_file_costs_the_others_nothing(medium):
    charges = [Counted() for _ in range(3)]

    async def play():
        other = {1: network(3, noise_std=0.0505)}
        async with small(network(3), medium, running=(0, 2), charges=charges, own=other, patience=0.1) as system:
            with pytest.raises((RejectedError, DisconnectedError), match="device 1 is set to noise_std"):
                await system.open_port(1)
            return await system.infer(11), await readiness(system.server)

    results, (ready, metrics) = asyncio.run(play())
    assert {each.status for each in results} == {"below quorum"}
    assert all("device 1: not connected: device 1 is set to noise_std" in each.reason for each in results)
    assert ready.status_code == 503
    assert ready.json()["faults"]["1"].startswith("not connected: device 1 is set to noise_std")
    assert 'airpool_device_fault{device="1",reason="not connected"} 1.0' in metrics.text
    assert [each.spent for each in charges] == [0, 0, 0]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS], ids=["full", "read-only"])
def test_a_disk_that_takes_no_charge_costs_the_others_at_most_two_inferences(
    number, tmp_path, monkeypatch, quick, booked
):
    """The device is not ready until its ledger can be written again, and comes back by itself."""
    net = network(3)
    authority.create(tmp_path / "keys")
    authority.add(tmp_path / "keys", "device-1")
    ledger = booked(tmp_path / "one.db", tmp_path / "keys/device-1/identity.key", net, 1, [])
    charges = [Counted(), ledger, Counted()]
    write, broken = head.write, [False]

    def failing(path, content):
        if broken[0]:
            raise OSError(number, "no")
        write(path, content)

    monkeypatch.setattr(head, "write", failing)

    async def play():
        async with small(net, charges=charges, patience=0.2) as system:
            first = await system.infer(2)
            broken[0] = True
            during = await system.infer(5)
            named = (await readiness(system.server))[0].json()["faults"]
            broken[0] = False
            system.air._standing._failures.clear()  # as after the time for which it is set aside
            async with asyncio.timeout(20):
                while (after := await system.server.infer()).status != "answered":
                    await asyncio.sleep(0.05)
            return first, during, named, after

    first, during, named, _ = asyncio.run(play())
    assert {each.status for each in first} == {"answered"}
    lost = [each for each in during if each.spent]
    assert len(lost) <= 2
    assert not any(each.status == "answered" for each in during)
    assert "it withdrew (disk)" in named["1"]


def test_devices_are_not_ready_while_the_ranking_server_is_gone(quick):
    net, charges = network(scheme=Ranking(num_selected=2)), [Counted() for _ in range(4)]

    async def play():
        async with small(net, "grpc", charges=charges, patience=0.3) as system:
            await system.infer(2)
            await system.stop_ranking()
            return [await system.server.infer() for _ in range(6)]

    results = asyncio.run(play())
    assert not any(each.status == "answered" for each in results)
    assert [each.status for each in results[2:]] == ["below quorum"] * 4
    assert all(2 <= each.spent <= 4 for each in charges)


def test_a_withdrawal_says_why_and_never_of_the_view(capsys, monkeypatch):
    monkeypatch.setattr(logs, "_state", {"role": "air", "on": True})
    assert {each.name for each in WithdrawalReason} == set(wire_reasons())

    async def play():
        async with small(network(1), "grpc", running=(), patience=0.1) as system:
            port = await system.open_port(0)
            await port.ready()
            running = asyncio.create_task(system.server.infer())
            (told,) = await port.announcements()
            await port.withdraw(told.id, WithdrawalReason.BUDGET)
            result = await running
            port.close()
            return result

    assert asyncio.run(play()).reason.endswith("device 0: it withdrew (budget)")


def wire_reasons():
    from airpool_runtime import wire_pb2 as wire

    return wire.Reason.keys()


def test_who_serves_again_is_forgiven_and_who_does_not_is_set_aside_for_longer_each_time():
    now = [0.0]
    standing = Standing(2, 1.0, lambda: now[0])
    standing.failed(0, "x")
    assert standing.named() == "; device 0: x"
    standing.served(0)
    assert standing.named() == ""
    for _ in range(FORGIVEN_AFTER):
        standing.served(0)
    standing.failed(0, "x")
    assert standing.aside(0) is None
    for wait in (FIRST_SECONDS, 2 * FIRST_SECONDS, 4 * FIRST_SECONDS):
        standing.failed(0, "x")
        fault = standing.aside(0)
        assert fault is not None
        assert fault.seconds == wait
        now[0] += wait
        assert standing.aside(0) is None
    for _ in range(FORGIVEN_AFTER):
        standing.served(0)
    standing.failed(0, "x")
    assert standing.aside(0) is None


def test_a_device_that_is_late_every_time_is_set_aside_where_all_must_answer():
    async def play():
        async with small(network(2), running=(0,), slot_seconds=0.2, patience=0.2) as system:
            port, results = await system.open_port(1), []
            for _ in range(4):
                await port.ready()
                results.append(await system.server.infer())
            return results

    results = asyncio.run(play())
    assert [each.status for each in results] == ["withheld"] * 2 + ["below quorum"] * 2
    assert "device 1: set aside: it did not answer in time" in results[-1].reason


# Readiness


def test_readiness_holds_under_load():
    async def play():
        async with small(network(3), "grpc") as system:
            working = asyncio.gather(*(system.server.infer() for _ in range(60)))
            codes = []
            while not working.done():
                codes.append((await readiness(system.server))[0].status_code)
            return codes, await working

    codes, results = asyncio.run(play())
    assert {each.status for each in results} == {"answered"}
    assert len(codes) > 2
    assert set(codes) == {200}


def test_readiness_goes_by_the_quorum_of_the_air():
    async def play(quorum):
        async with small(network(3, dropouts=1), running=(0, 1), quorum=quorum, patience=0.1) as system:
            return (await readiness(system.server))[0].status_code, (await system.infer())[0].status

    assert asyncio.run(play(3)) == (503, "below quorum")
    assert asyncio.run(play(2)) == (200, "answered")


# Slow devices, and several inferences at once


def test_a_slot_ends_early_once_those_have_come_that_epsilon_counts_on(capsys, monkeypatch):
    monkeypatch.setattr(logs, "_state", {"role": "air", "on": True})
    net = network(3, dropouts=1)

    async def play():
        async with small(net, running=(0, 1), quorum=2, slot_seconds=600.0, patience=30.0) as system:
            slow = await system.open_port(2)
            await slow.ready()
            async with asyncio.timeout(60):  # a tenth of a slot
                return await system.infer(3)

    results = asyncio.run(play())
    assert [(each.status, each.devices) for each in results] == [("answered", 2)] * 3
    assert '"event": "slow", "id": ' in (said := capsys.readouterr().err)
    assert '"device": 2' in said


@pytest.mark.parametrize("medium", MEDIA)
def test_several_inferences_are_announced_together_and_each_gets_its_own_answer(medium):
    """As many charges as inferences, each number once, and the labels that the simulator gives."""
    from .systems import simulated

    net, charges, turns = network(participation=0.7), [Counted() for _ in range(4)], []

    async def play():
        async with small(net, medium, seed=5, charges=charges) as system:
            hub = system.air._turn

            async def noted(turn, there):
                turns.append(len(turn))
                await hub(turn, there)

            system.air._turn = noted
            return await asyncio.gather(*(system.server.infer() for _ in range(8)))

    results = asyncio.run(play())
    assert sorted(each.number for each in results) == list(range(8))
    assert max(turns) > 1
    assert sum(turns) == 8
    assert [each.spent for each in charges] == [8] * 4
    for result in results:
        out = simulated(net, result.number)
        assert result.label == out.label[0, 0]
        np.testing.assert_allclose(result.logits, out.logits[0, 0], atol=1e-9)


def test_a_turn_is_no_longer_than_any_budget_covers(tmp_path, ledgers):
    net, count = network(2, noise_std=1.0), Counted()
    charges = [count, ledgers(net, epsilon_of(net, 3), count=2)[1]]

    async def play():
        async with small(net, charges=charges, patience=0.2) as system:
            return await asyncio.gather(*(system.server.infer() for _ in range(20)))

    results = asyncio.run(play())
    assert sum(each.status == "answered" for each in results) == 3
    assert (count.spent, len(rows(tmp_path, 1))) == (3, 3)


def test_ranked_inferences_run_together_too():
    net = network(scheme=Ranking(score_bound=1.0, num_selected=2))

    async def play():
        async with small(net, "grpc", seed=5) as system:
            return await asyncio.gather(*(system.server.infer() for _ in range(8)))

    from .systems import simulated

    for result in asyncio.run(play()):
        assert result.label == simulated(net, result.number).label[0, 0]


def test_an_announcement_that_comes_again_is_not_answered_twice():
    async def play():
        charge, net = Counted(), network(1)
        device = Device(0, net, lambda _: Seen(latents(1, 1)[0, 0]), charge)
        said = []

        class Port:
            async def accept(self, announced):
                pass

            async def transmit(self, signals):
                said.extend(each.id for each in signals)

            async def withdraw(self, id, reason):
                said.append((id, reason))

        from airpool_runtime.messages import Announcement

        told = [Announcement(name, 0, 1.0, terms.stated(net).digest, 1) for name in "aba"]
        await devices.answer(device, Port(), tuple(told))  # pyright: ignore[reportArgumentType]
        return said, charge.spent

    said, spent = asyncio.run(play())
    assert said == ["b", ("a", WithdrawalReason.REPEATED)]
    assert spent == 2


# What was never announced


def test_an_air_that_was_never_reached_costs_nothing():
    async def play():
        async with small(network(), "grpc", running=()) as system:
            await system.stop_air()
            await asyncio.sleep(0.1)
            return [await system.server.infer() for _ in range(2)]

    results = asyncio.run(play())
    assert {each.status for each in results} == {"failed"}
    assert not results[-1].spent


def test_inferences_that_wait_are_answered_when_the_server_stops():
    class Slow:
        async def run_slot(self, id, number, asked, of=None):
            await asyncio.sleep(3600)

    async def play():
        server = Server(network(), decoder(), Slow(), deadline=30.0)  # pyright: ignore[reportArgumentType]
        asked = [asyncio.create_task(server.infer()) for _ in range(20)]
        await asyncio.sleep(0.05)
        server.stop()
        done, running = await asyncio.wait(asked, timeout=0.5)
        late = await server.infer()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        return [task.result() for task in done], late

    done, late = asyncio.run(play())
    assert len(done) == 4  # the others are at the medium
    assert {(each.status, each.spent, each.reason) for each in (*done, late)} == {
        ("failed", False, "the server is stopping")
    }


def test_a_signal_of_a_slot_that_is_over_is_not_added_to_the_next():
    async def play():
        air = Air(network(1), patience=0.1, slot_seconds=0.1)
        air.connect(0, lambda _: None, simulated=False, stated=terms.stated(air.network))
        with pytest.raises(RejectedError, match="late, or of another slot"):
            air.take(0, SlotSignal("x", np.zeros(R), 0.0))

    asyncio.run(play())


def test_texts_of_peers_are_cut_in_logs(capsys, monkeypatch):
    monkeypatch.setattr(logs, "_state", {"role": "air", "on": True})
    logs.event("rejected", reason="x" * 10**6)
    assert len(capsys.readouterr().err) < 400


def test_a_device_that_hangs_up_in_every_slot_costs_the_others_two_inferences_and_is_named():
    """As one that crashes at each announcement, and is started again."""
    charges = [Counted() for _ in range(3)]

    async def play():
        async with small(network(3), "grpc", running=(0, 2), charges=charges, patience=0.3) as system:
            results = []
            for _ in range(5):
                port = await system.open_port(1)
                await port.ready()
                running = asyncio.create_task(system.server.infer())
                with suppress(TimeoutError):
                    await asyncio.wait_for(port.announcements(), 0.5)
                port.close()
                results.append(await running)
            return results, await system.air.status()

    results, status = asyncio.run(play())
    assert [each.status for each in results] == ["withheld"] * 2 + ["below quorum"] * 3
    assert [each.spent for each in charges] == [2, 0, 2]
    assert "device 1: it hung up in a slot" in results[0].reason
    assert [(each.device, each.reason) for each in status.faults] == [(1, "set aside: it hung up in a slot")]


def test_a_device_that_refuses_every_other_inference_is_set_aside_too(quick):
    class Alternating(Refusing):
        def charge_all(self, inferences):
            self.spent += 1
            if self.spent % 2 == 0:
                super().charge_all(inferences)

    charges = [Counted(), Alternating(), Counted()]

    async def play():
        async with small(network(3), charges=charges, patience=0.3) as system:
            return [await system.server.infer() for _ in range(8)]

    results = asyncio.run(play())
    assert [each.status for each in results] == ["answered", "withheld"] * 2 + ["below quorum"] * 4


@pytest.mark.parametrize("without", [(0, 1, 2), (1,)], ids=["all", "one"])
def test_no_device_is_set_aside_where_the_ranking_server_is_gone_for_most(without):
    """A turn of eight inferences is lost. If one device alone had no ranking, it is at fault."""

    async def play():
        async with small(network(3, scheme=Ranking(num_selected=2)), running=()) as system:
            ports = [await system.open_port(k) for k in range(3)]
            for port in ports:
                await port.ready(8)
            running = [asyncio.create_task(system.server.infer()) for _ in range(8)]
            for k, port in enumerate(ports):
                for told in await port.announcements():
                    if k in without:
                        await port.withdraw(told.id, WithdrawalReason.RANKING)
                    else:
                        await port.transmit([SlotSignal(told.id, np.zeros(R), 0.0)])
            return await asyncio.gather(*running), await system.air.status()

    results, status = asyncio.run(play())
    assert all("it withdrew (ranking)" in each.reason for each in results)
    aside = [each.device for each in status.faults if "set aside" in each.reason]
    assert aside == ([] if len(without) > 1 else [1])
