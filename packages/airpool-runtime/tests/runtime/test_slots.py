"""Inferences of several slots in the running system: until the server is sure, each slot booked before it is sent."""

import asyncio
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from airpool import Claim, Ranking, Threshold, guarantee
from airpool.network import Channel, Slots
from airpool.protocol import alone, live
from airpool_runtime import device as devices
from airpool_runtime.charge import Counted
from airpool_runtime.device import Device, Seen
from airpool_runtime.messages import Announcement, DisconnectedError, Sum, Withheld
from airpool_runtime.server import Server
from airpool_runtime.service import to_device
from airpool_runtime.terms import stated
from airpool_runtime.under_way import AskedSlot, UnderWay, parts, slot_name

from .systems import R, decoder, epsilon_of, latents, network, posteriors, rows, simulated, small

MEDIA = ("loopback", "grpc")
SIXTEEN = Slots(16, sure=0.95)
SCHEMES = {
    "coins": {"participation": 0.7},
    "scores": {"scheme": Threshold(threshold=1.0, score_noise_std=0.5)},
    "ranking": {"scheme": Ranking(num_selected=2, score_noise_std=0.5)},
    "fading": {"channel": Channel(fading="rayleigh", noise_std=0.01)},
}


@pytest.mark.parametrize("redrawn", [True, False], ids=["anew", "once"])
@pytest.mark.parametrize("name", SCHEMES)
def test_one_seed_gives_what_the_simulator_gives_slot_by_slot(name, redrawn):
    net = network(noise_std=0.4, slots=Slots(6, sure=0.9, redrawn=redrawn), **SCHEMES[name])

    async def play():
        async with small(net, seed=5) as system:
            return await system.infer(6)

    used = []
    for number, found in enumerate(asyncio.run(play())):
        wanted = simulated(net, number)
        assert (found.slots, found.sure) == (int(wanted.slots[0, 0]), bool(wanted.sure[0, 0]))
        np.testing.assert_allclose(found.logits, wanted.logits[0, 0], rtol=1e-9)
        assert found.label == int(wanted.label[0, 0])
        assert found.probability == pytest.approx(float(wanted.probability[0, 0]))
        used.append(found.slots)
    assert max(used) > 1


@pytest.mark.parametrize("medium", MEDIA)
def test_the_server_stops_when_it_is_sure_and_says_so(medium):
    net = network(noise_std=1.0, slots=SIXTEEN)
    charges = [Counted() for _ in range(4)]

    async def play():
        async with small(net, medium, charges=charges) as system:
            return await asyncio.gather(*(system.server.infer() for _ in range(12)))

    found = asyncio.run(play())
    assert {each.status for each in found} == {"answered"}
    assert all(each.sure == (each.probability >= 0.95) for each in found)
    assert all(each.sure or each.slots == 16 for each in found)
    assert max(each.slots for each in found) > 1
    spent = sum(each.slots for each in found)
    assert [each.spent for each in charges] == [spent] * 4
    told = found[0].to_json()
    assert (told["cap"], told["guarantee"]["device"]) == (16, guarantee(net, Claim(live=True)).worst)


def test_a_server_that_abstains_gives_no_answer_where_it_is_not_sure():
    net = network(slots=Slots(2, sure=0.999999, abstain=True))

    async def play():
        async with small(net, codec=decoder(0.01)) as system:
            return (await system.infer())[0]

    found = asyncio.run(play())
    assert (found.status, found.reason, found.label, found.slots, found.sure) == ("no answer", "not sure", -1, 2, False)


class Scripted:
    """A port that brings what a list says, slot by slot."""

    def __init__(self, *outcomes):
        self.outcomes, self.asked = list(outcomes), []

    async def run_slot(self, id, number, asked, of=None):
        self.asked.append((id, of or AskedSlot()))
        got = self.outcomes.pop(0)
        if isinstance(got, Exception):
            raise got
        return got


BRINGS = Sum(0.01 * np.ones(R), 4, True)
LOST = Withheld("withheld: 1 of 4 devices is missing", spent=True)
FEW = Withheld("below quorum: 3 devices are ready, 4 are needed", spent=False)


@pytest.mark.parametrize("abstain", [False, True])
@pytest.mark.parametrize(
    ("outcomes", "status", "slots", "reason"),
    [
        ([BRINGS, LOST, BRINGS], "answered", 3, ""),
        ([LOST, LOST, LOST], "withheld", 3, LOST.reason),
        ([BRINGS, FEW], "answered", 1, f"not sure: {FEW.reason}"),
        ([FEW], "below quorum", 0, FEW.reason),
        ([LOST, FEW], "withheld", 1, f"{LOST.reason}; {FEW.reason}"),
        ([BRINGS, DisconnectedError("the air is gone")], "answered", 2, "not sure: the air is gone"),
        ([DisconnectedError("the air is gone")], "failed", 1, "the air is gone"),
        ([BRINGS, Sum(np.ones(R + 1), 4, True)], "failed", 2, "a sum of 7 numbers, must be 6: the air has another"),
        ([Sum(np.ones(R), 4, False)] * 3, "no answer", 3, "no device transmitted"),
    ],
)
def test_what_becomes_of_a_slot_that_is_lost(outcomes, status, slots, reason, abstain):
    net = network(slots=Slots(3, sure=1.0, abstain=abstain))
    port: Any = Scripted(*outcomes)
    found = asyncio.run(Server(net, decoder(0.1), port).infer())
    if abstain and status == "answered":
        status, reason = "no answer", reason or "not sure"
    assert (found.status, found.slots, found.sure, found.spent) == (status, slots, False, slots > 0)
    assert found.reason.startswith(reason)
    assert bool(found.reason) == bool(reason)
    assert [of.slot for _, of in port.asked] == list(range(1, len(outcomes) + 1))


def test_the_deadline_is_that_of_the_whole_inference():
    class Slow:
        async def run_slot(self, id, number, asked, of=None):
            await asyncio.sleep(0.05)
            return BRINGS

    net, slow = network(slots=Slots(4096, sure=1.0)), cast("Any", Slow())
    found = asyncio.run(Server(net, decoder(0.1), slow, deadline=0.3).infer())
    assert found.status == "answered"
    assert 1 <= found.slots <= 7
    assert found.reason == "not sure: no sum within 0.3 s"


def test_the_medium_hears_which_inferences_are_over():
    port: Any = Scripted(BRINGS, BRINGS)
    net = network(slots=Slots(3, sure=0.01))
    server = Server(net, decoder(100.0), port)

    async def play():
        return [await server.infer("a"), await server.infer("b")]

    assert [each.slots for each in asyncio.run(play())] == [1, 1]
    assert port.asked == [("a", AskedSlot()), ("b", AskedSlot(1, ("a",)))]


# What is reserved


def test_the_id_of_a_slot_belongs_to_one_slot_of_one_inference():
    assert parts(slot_name("a/1", 2, SIXTEEN), SIXTEEN) == ("a/1", 2)
    assert slot_name("a", 1, Slots()) == "a"


def test_slots_to_come_are_reserved_until_the_inference_is_over():
    now = [0.0]
    it = UnderWay(SIXTEEN, lambda: now[0])
    it.note("a", 1)
    it.note("b", 3)
    assert (it.reserved, it.needed()) == (15 + 13, 15 + 13 + 16)
    it.note("a", 16)
    it.end("b")
    assert it.reserved == 0
    it.note("c", 1)
    now[0] = 61.0
    assert (it.reserved, it.get("c")) == (0, None)
    assert UnderWay(Slots(16, redrawn=False)).needed() == 1


# What is booked


@pytest.mark.parametrize("medium", MEDIA)
def test_a_device_starts_no_inference_whose_cap_is_not_left(medium, tmp_path, ledgers):
    net = network(noise_std=1.0, slots=Slots(4, sure=0.999999))
    charges = ledgers(net, epsilon_of(net, 11))

    async def play():
        async with small(net, medium, charges=charges, patience=0.2) as system:
            return await system.infer(4)

    found = asyncio.run(play())
    assert [(each.status, each.slots) for each in found] == [("answered", 4)] * 2 + [("below quorum", 0)] * 2
    for k in range(4):
        assert rows(tmp_path, k) == [f"{each.id}/{slot}" for each in found[:2] for slot in range(1, 5)]
    assert charges[0]._ledger.epsilon(1e-5) == epsilon_of(net, 8)


def test_what_an_inference_did_not_use_is_there_for_the_next(tmp_path, ledgers):
    net = network(noise_std=1.0, slots=Slots(8, sure=0.01))
    charges = ledgers(net, epsilon_of(net, 10))

    async def play():
        async with small(net, charges=charges, codec=decoder(100.0), patience=0.2) as system:
            return await system.infer(5)

    found = asyncio.run(play())  # of one slot each: 10, 9, 8 slots are left before them
    assert [each.status for each in found] == ["answered"] * 3 + ["below quorum"] * 2
    assert len(rows(tmp_path)) == 3
    assert "its budget does not cover another inference" in found[-1].reason


def test_inferences_side_by_side_all_get_to_their_cap(tmp_path, ledgers):
    net = network(noise_std=1.0, slots=Slots(4, sure=0.999999))
    charges = ledgers(net, epsilon_of(net, 14))

    async def play():
        async with small(net, charges=charges, patience=0.2) as system:
            return await asyncio.gather(*(system.server.infer() for _ in range(6)))

    found = asyncio.run(play())
    assert sorted((each.status, each.slots) for each in found) == [("answered", 4)] * 3 + [("below quorum", 0)] * 3
    assert len(rows(tmp_path)) == 12


@pytest.mark.parametrize("medium", MEDIA)
def test_an_inference_waits_for_slots_that_another_has_reserved_and_does_not_use(medium, ledgers):
    net = network(noise_std=1.0, slots=Slots(4, sure=0.01))
    charges = ledgers(net, epsilon_of(net, 6))

    async def play():
        async with small(net, medium, charges=charges, codec=decoder(100.0), patience=0.2) as system:
            together = await asyncio.gather(*(system.server.infer() for _ in range(3)))
            return together, await system.server.infer()

    together, after = asyncio.run(play())  # of one slot each: 6, 5, 4 and 3 slots are left before them
    assert [(each.status, each.slots) for each in together] == [("answered", 1)] * 3
    assert (after.status, after.slots) == ("below quorum", 0)


@pytest.mark.parametrize("later", [True, False], ids=["goes on", "vanishes"])
def test_a_hub_waits_for_an_inference_under_way_as_long_as_its_patience(later, ledgers):
    net = network(noise_std=1.0, slots=Slots(4, sure=0.999999))
    asked, charges = stated(net), ledgers(net, epsilon_of(net, 7))

    async def play():
        async with small(net, charges=charges, patience=1.0) as system:
            air = system.air
            assert isinstance(await air.run_slot("a", 0, asked), Sum)
            waits = asyncio.create_task(air.run_slot("b", 1, asked))
            while (await air.status()).ready < 4:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.05)
            held = not waits.done()
            for slot in (2, 3, 4) if later else ():
                assert isinstance(await air.run_slot("a", 0, asked, AskedSlot(slot)), Sum)
            return held, await waits

    held, found = asyncio.run(play())
    assert held
    assert isinstance(found, Withheld)
    assert found.reason.startswith("below quorum: 0 devices are ready")


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("redrawn", [True, False], ids=["anew", "once"])
def test_the_ledger_is_never_below_what_was_sent(name, redrawn, tmp_path, ledgers):
    net = network(noise_std=1.0, slots=Slots(3, sure=0.9999, redrawn=redrawn), **SCHEMES[name])
    charges = ledgers(net, 1e6)

    async def play():
        async with small(net, charges=charges, patience=0.2) as system:
            return await system.infer(2)

    used = sum(each.slots for each in asyncio.run(play()))
    spent = charges[0]._ledger.epsilon(1e-5)
    if redrawn:
        assert len(rows(tmp_path)) == used
        assert spent == epsilon_of(net, used)
    else:
        assert len(rows(tmp_path)) == 2  # the first slot pays for all
        assert spent == float(guarantee(net, Claim(inferences=2, live=True)).epsilon[0])


# A hostile server


class Told:
    """A device's port that notes what is sent and why a slot is left."""

    def __init__(self):
        self.sent, self.left = [], []

    async def accept(self, announced):
        pass

    async def transmit(self, signals):
        self.sent += [each.id for each in signals]

    async def withdraw(self, id, reason):
        self.left.append((id, reason.value))


def announced(net, inference, slot, id=None, **rest):
    name = id or slot_name(inference, slot, net.slots)
    return Announcement(name, 0, 1.0, stated(net).digest, 4, inference=inference, slot=slot, **rest)


def asked_by(net, charge, *announcements, source=None):
    """A device that answers these, one after the other, and its port."""
    port: Any = Told()
    device = Device(0, net, source or (lambda _: Seen(latents()[0, 0], posteriors()[0, 0])), charge)
    for each in announcements:
        asyncio.run(devices.answer(device, port, (each,)))
    return port


@pytest.mark.parametrize("redrawn", [True, False], ids=["anew", "once"])
def test_a_server_that_never_stops_gets_n_slots_and_none_twice(redrawn):
    net = network(slots=Slots(3, redrawn=redrawn))
    asked = [announced(net, "a", slot) for slot in (1, 1, 2, 2, 3, 3, 4, 0, 1)]
    asked += [announced(net, "a", 2, id="a"), announced(net, "a", 2, id="a/9"), announced(net, "", 2)]
    charge = Counted()
    assert asked_by(net, charge, *asked).sent == ["a/1", "a/2", "a/3"]
    assert charge.spent == (3 if redrawn else 1)


def test_a_server_that_opens_inference_after_inference_gets_what_the_budget_allows(tmp_path, ledgers):
    net = network(noise_std=1.0, slots=Slots(4))
    (charge,) = ledgers(net, epsilon_of(net, 10), count=1)
    asked = [announced(net, f"{i}", slot, ended=(f"{i - 1}",)) for i in range(9) for slot in (1, 2, 3, 4, 5)]
    port = asked_by(net, charge, *asked)
    assert port.sent == [f"{i}/{slot}" for i in range(2) for slot in (1, 2, 3, 4)] + ["2/3", "2/4"]
    assert len(rows(tmp_path)) == 10
    assert {why for id, why in port.left if id in ("2/1", "8/4")} == {"budget"}


def test_a_server_that_vanishes_between_slots_does_not_keep_a_device_without_a_limit_from_the_next():
    net = network(slots=Slots(8))

    async def play():
        async with small(net, patience=0.2) as system:
            for number in range(20):  # of each one slot, and never an end
                await system.air.run_slot(f"{number}", number, stated(net))
            return await system.infer(2)

    assert [each.status for each in asyncio.run(play())] == ["answered"] * 2


@pytest.mark.parametrize("redrawn", [True, False], ids=["anew", "once"])
def test_a_device_that_restarts_between_slots_repeats_none(redrawn, tmp_path, ledgers):
    net = network(slots=Slots(3, redrawn=redrawn))
    (charge,) = ledgers(net, 1e6, count=1)
    first = asked_by(net, charge, *(announced(net, "a", slot) for slot in (1, 2)))
    charge.close()
    (charge,) = ledgers(net, 1e6, count=1)
    again = asked_by(net, charge, *(announced(net, "a", slot) for slot in (1, 2, 3, 4)))
    then = asked_by(net, charge, announced(net, "b", 1))
    assert (first.sent, again.sent, then.sent) == (["a/1", "a/2"], ["a/3"] if redrawn else [], ["b/1"])
    assert rows(tmp_path) == (["a/1", "a/2", "a/3", "b/1"] if redrawn else ["a/1", "b/1"])


def test_all_slots_of_an_inference_send_one_view():
    net, taken = network(slots=Slots(3)), []

    def source(number):
        taken.append(number)
        return Seen(latents()[0, 0])

    asked_by(net, Counted(), *(announced(net, "a", slot) for slot in (1, 2, 3)), source=source)
    assert len(taken) == 1
    ended = announced(net, "b", 2, ended=("b",))
    asked_by(net, Counted(), announced(net, "b", 1), ended, announced(net, "c", 1), source=source)
    assert len(taken) == 4  # of b, of b again that was said to be over, of c


def test_one_slot_is_announced_as_it_always_was():
    one = to_device((announced(network(), "a", 1),)).turn.announcements[0]
    assert {field.name for field, _ in one.ListFields()} == {"id", "gain", "devices", "digest"}
    third = to_device((announced(network(slots=SIXTEEN), "a", 3),)).turn.announcements[0]
    assert (third.id, third.inference, third.slot) == ("a/3", "a", 3)


def test_a_server_that_is_surer_than_the_devices_is_welcome():
    net = network(slots=SIXTEEN)
    assert stated(net).digest == stated(replace(net, slots=replace(SIXTEEN, sure=0.5, abstain=True))).digest
    assert stated(net).digest != stated(replace(net, slots=replace(SIXTEEN, count=17))).digest


@pytest.mark.parametrize("gain", [0.0, 1e-12, 1e12, 0.5])
def test_without_a_radio_no_gain_takes_a_device_out_of_the_sum(gain):
    """A hub that could scale the others' noise away would hear one device alone."""
    net = network(channel=Channel(access="secure"), slots=Slots(3))
    charge = Counted()
    told = replace(announced(net, "a", 1), gain=gain)
    port = asked_by(net, charge, told)
    assert (port.sent, port.left, charge.spent) == ([], [("a/1", "terms")], 0)
    with pytest.raises(ValueError, match=r"gain=.* must be 1: access = secure has no radio"):
        alone.signal(np.zeros(R), net, live.LIVE, device=0, gain=gain)


def answered(net, charge, *turns):
    """A device that answers these turns one after the other, and its port."""
    device = Device(0, net, lambda _: Seen(latents()[0, 0], posteriors()[0, 0]), charge)
    port: Any = Told()
    for turn in turns:
        asyncio.run(devices.answer(device, port, turn))
    return device, port


def test_an_air_that_ends_an_inference_in_a_turn_gets_no_second_draw_of_it():
    """Where one draw serves all slots, the first pays for all: a fresh coin in a later one would be free."""
    net = network(slots=Slots(8, redrawn=False))
    later = tuple(announced(net, "a", slot) for slot in range(2, 8))
    _, port = answered(net, Counted(), (announced(net, "a", 1),), (*later, announced(net, "b", 1, ended=("a",))))
    assert port.sent == ["a/1", "b/1"]
    crowd = tuple(announced(net, f"{k}", 1) for k in range(70))
    device, port = answered(net, Counted(), (announced(net, "a", 1),), (*crowd, *later))
    assert "a/2" not in port.sent
    assert device.under_way.get("a") is None


def test_a_slot_that_comes_again_burns_no_row_of_its_turn(tmp_path, ledgers):
    net = network(slots=Slots(3))
    (charge,) = ledgers(net, 1e6, count=1)
    again = tuple(announced(net, name, 1) for name in "abcd")
    _, port = answered(net, charge, (announced(net, "a", 1),), again)
    assert port.sent == ["a/1", "b/1", "c/1", "d/1"]
    assert port.left == [("a/1", "repeated")]
    assert rows(tmp_path) == ["a/1", "b/1", "c/1", "d/1"]


def test_a_slot_that_is_refused_reserves_nothing():
    net = network(slots=Slots(4))
    device, _ = answered(net, Counted(), (announced(net, "a", 1),))
    going = device.under_way.get("a")
    assert going is not None
    going.until -= 50
    before = going.until
    asyncio.run(devices.answer(device, Told(), (announced(net, "a", 1),)))  # pyright: ignore[reportArgumentType]
    assert (going.slot, going.until) == (1, before)
    assert device.under_way.reserved == 3


@pytest.mark.parametrize("budget", [7, 8])
def test_inferences_begin_only_if_the_caps_of_all_are_left(budget, ledgers):
    net = network(noise_std=1.0, slots=Slots(4))
    (charge,) = ledgers(net, epsilon_of(net, budget), count=1)
    _, port = answered(net, charge, (announced(net, "a", 1), announced(net, "b", 1)))
    assert port.sent == ["a/1", "b/1"][: 1 + (budget == 8)]


def test_an_inference_goes_on_only_where_its_slots_to_come_are_covered(ledgers):
    net = network(noise_std=1.0, slots=Slots(4))
    (charge,) = ledgers(net, epsilon_of(net, 2), count=1)
    _, port = answered(net, charge, (announced(net, "a", 2),), (announced(net, "a", 3),))
    assert port.sent == ["a/3"]
