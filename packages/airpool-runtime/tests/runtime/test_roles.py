"""Devices, air and server over both media, in one process."""

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from airpool import Claim, Network, Ranking, Threshold, guarantee
from airpool.network import Channel, Neighbours, NetworkError
from airpool.protocol import live
from airpool.protocol.live import live_report
from airpool.radio.link import link_of
from airpool_runtime import seeded, terms
from airpool_runtime.air import Air
from airpool_runtime.charge import Charge, Counted
from airpool_runtime.device import Device, Seen, answer
from airpool_runtime.messages import Announcement, DisconnectedError, RejectedError, SlotSignal, Withheld
from airpool_runtime.seeing import Condition, seen
from airpool_runtime.server import Server

from .systems import R, decoder, epsilon_of, latents, network, rows, simulated, small

MEDIA = ("loopback", "grpc")
NETWORKS = {
    "coin": network(participation=0.7),
    "everybody, fading": network(channel=Channel(fading="rician", noise_std=0.01)),
    "errors": network(channel=Channel(fading="rayleigh", csi_error_std=0.05, phase_error_std=0.1, noise_std=0.01)),
    "backoff": network(channel=Channel(fading="rayleigh", power_rule="backoff", outage=0.2)),
    "cover": network(participation=0.5, cover_noise=True),
    "threshold": network(scheme=Threshold(score_bound=1.0, threshold=0.5)),
    "ranking": network(scheme=Ranking(score_bound=1.0, num_selected=2)),
    "heterogeneous": network(weight=0.3, participation=0.9),
}


def run(coroutine):
    return asyncio.run(coroutine)


@pytest.mark.parametrize("medium", MEDIA)
@pytest.mark.parametrize("name", NETWORKS)
def test_one_seed_gives_what_the_simulator_gives(name, medium):
    net = NETWORKS[name]

    async def play():
        async with small(net, medium, seed=5) as system:
            return await system.infer(8)

    for result in run(play()):
        out = simulated(net, result.number)
        assert result.label == out.label[0, 0]
        np.testing.assert_allclose(result.logits, out.logits[0, 0], atol=1e-9)
        assert result.simulated
        assert "protects nobody" in result.note
        assert "protects nobody" in result.to_json()["note"]


def test_a_childs_generator_is_what_the_simulator_spawns():
    spawned = seeded.generator(3, 4).spawn(3)
    ours = [seeded.child(3, 4, k) for k in range(3)]
    assert [a.random() for a in spawned] == [b.random() for b in ours]


@pytest.mark.parametrize("medium", MEDIA)
def test_live_inferences_are_answered_with_the_guarantee(medium):
    net = network(scheme=Ranking(num_selected=3))

    async def play():
        async with small(net, medium) as system:
            return await system.infer(20)

    results = run(play())
    assert [result.number for result in results] == list(range(20))
    assert len({result.id for result in results}) == 20
    assert {result.status for result in results} == {"answered"}
    for result in results:
        assert result.devices == 4
        assert result.spent
        assert not result.simulated
        assert result.note == ""
        assert result.guarantee.device == live_report(net).worst
        assert sum(result.probabilities) == pytest.approx(1)


@pytest.mark.parametrize("rule", ["truncate", "backoff"])
def test_the_declared_scale_depends_on_public_numbers_alone(rule):
    net = network(channel=Channel(fading="rayleigh", power_rule=rule, outage=0.2))
    gains = np.geomspace(1e-3, 10, 50)
    link = link_of(net)
    sends = gains >= (link.gamma / link.transmitters.reach[2] if rule == "truncate" else 0)
    assert sends.any()
    z = np.random.default_rng(0).standard_normal((50, net.dimension))
    declared = np.array([live.signal(f, net, device=2, gain=h).scale for f, h in zip(z, gains, strict=True)])
    public = np.minimum(link.gamma / gains, link.transmitters.reach[2]) * sends
    np.testing.assert_allclose(declared, public, rtol=1e-12)


@pytest.mark.parametrize("redrawn", [True, False])
def test_gains_are_new_in_every_inference_unless_the_channel_stands_still(redrawn):
    net, told = network(1, channel=Channel(fading="rician", redrawn=redrawn)), []

    async def play():
        async with small(net, running=()) as system:
            port = await system.open_port(0)
            for _ in range(3):
                await port.ready()
                running = asyncio.create_task(system.server.infer())
                told.append((await port.announcements())[0])
                await port.transmit([SlotSignal(told[-1].id, np.zeros(R), 0.0)])
                await running

    run(play())
    assert len({each.gain for each in told}) == (3 if redrawn else 1)
    assert {bool(each.epoch) for each in told} == {not redrawn}
    assert len({each.epoch for each in told}) == 1


@pytest.mark.parametrize("medium", MEDIA)
def test_an_air_that_starts_anew_announces_a_new_epoch_and_the_device_books_it(medium):
    net, booked = network(1, channel=Channel(fading="rician", redrawn=False)), []

    class Noted(Charge):
        def charge_all(self, inferences):
            booked.extend(epoch for _, epoch in inferences)

    async def play(seed=None):
        async with small(net, medium, charges=[Noted()], seed=seed) as system:
            await system.infer(3)

    for _ in range(2):
        run(play())
    assert len(booked) == 6
    assert booked[0] == booked[1] == booked[2] != booked[3] == booked[4] == booked[5]
    assert all(booked)


@pytest.mark.parametrize("given", ["", "x" * 65, "a\nb"])
def test_a_device_that_is_told_no_epoch_counts_a_new_one(given):
    booked = []

    class Noted(Charge):
        def charge_all(self, inferences):
            booked.extend(epoch for _, epoch in inferences)

    assert answers(Device(0, network(), lambda _: Seen(np.ones(R)), Noted()), epoch=given) == ["sent"]
    assert booked == [""]


def test_live_noise_is_fresh_each_time():
    async def play():
        async with small(network()) as system:
            return await system.infer(4)

    assert len({result.logits for result in run(play())}) == 4


def test_nobody_transmits_is_no_answer():
    async def play():
        async with small(network(participation=0.0)) as system:
            return await system.infer()

    (result,) = run(play())
    assert (result.status, result.label, result.name, result.probabilities) == ("no answer", -1, None, ())


@pytest.mark.parametrize("medium", MEDIA)
def test_below_quorum_no_slot_is_held_and_nothing_is_spent(medium):
    charges = [Counted() for _ in range(4)]

    async def play():
        async with small(network(), medium, running=(0, 1, 2), charges=charges, patience=0.05) as system:
            return await system.infer()

    (result,) = run(play())
    assert result.status == "below quorum"
    assert result.reason == "below quorum: 3 devices are ready, 4 are needed"
    assert not result.spent
    assert [each.spent for each in charges] == [0, 0, 0, 0]


def test_with_dropouts_a_smaller_quorum_does_and_epsilon_is_that_of_the_fewest():
    net = network(dropouts=1)

    async def play():
        async with small(net, running=(0, 2, 3), quorum=3, patience=0.05) as system:
            return await system.infer()

    (result,) = run(play())
    assert (result.status, result.devices) == ("answered", 3)
    assert result.guarantee.device == live_report(net).worst > guarantee(network()).worst


def test_a_server_states_the_guarantee_of_its_claim():
    net, claim = network(), Claim(1e-6, Neighbours.REPLACE, 3)
    port = Air(net)
    running, seeded_one = (Server(net, decoder(), port, claim=claim, simulated=each) for each in (False, True))
    assert running.guarantee.device == live_report(net, claim).worst > live_report(net).worst
    assert seeded_one.guarantee.device == guarantee(net, claim).worst
    assert (running.guarantee.delta, running.guarantee.neighbours) == (1e-6, "replace")


def test_a_device_does_not_start_where_live_noise_does_not_support_its_claim():
    with pytest.raises(ValueError, match=r"delta=1e-60 must be >= .*, what live noise supports"):
        Device(0, network(), lambda _: Seen(np.ones(R)), claim=Claim(1e-60))


def test_a_quorum_below_what_epsilon_counts_on_is_refused():
    with pytest.raises(ValueError, match=r"quorum=2 must be from 3 to 4: .* less its dropouts=1"):
        Air(network(dropouts=1), quorum=2)


@pytest.mark.parametrize("medium", MEDIA)
def test_a_spent_budget_means_silence_and_costs_the_others_nothing(medium, tmp_path, ledgers):
    net, counts = network(noise_std=1.0), [Counted() for _ in range(3)]
    charges = [counts[0], ledgers(net, epsilon_of(net, 2))[1], *counts[1:]]

    async def play():
        async with small(net, medium, charges=charges) as system:
            return await system.infer(4)

    assert [result.status for result in run(play())] == ["answered", "answered", "below quorum", "below quorum"]
    assert [each.spent for each in counts] == [2, 2, 2]
    assert len(rows(tmp_path, 1)) == 2


def test_silent_rounds_are_spent_too():
    charges = [Counted() for _ in range(4)]

    async def play():
        async with small(network(participation=0.0), charges=charges) as system:
            await system.infer(3)

    run(play())
    assert [each.spent for each in charges] == [3] * 4


def test_the_charge_comes_before_the_view_is_taken():
    order = []

    class Noted(Charge):
        def charge_all(self, inferences):
            order.append("charge")

    def source(_):
        order.append("view")
        return Seen(np.ones(R))

    async def play():
        net = network(1)
        async with small(net, running=()) as system:
            from airpool_runtime import device as devices

            port = await system.open_port(0)
            task = asyncio.create_task(devices.run(Device(0, net, source, Noted()), port))
            await system.infer()
            task.cancel()

    run(play())
    assert order == ["charge", "view"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"noise_std": 0.02}, "asks for noise_std = 0.02, this air is set to noise_std = 0.05"),
        ({"noise_std": 0.2}, "asks for noise_std = 0.2"),
        ({"clip_norm": 2.0}, "asks for clip_norm = 2.0, this air is set to clip_norm = 1.0"),
        ({"clip_norm": 0.5}, "asks for clip_norm = 0.5"),
        ({"participation": 0.5}, "asks for participation = 0.5"),
        ({"weight": 1.0}, "asks for weight = 1.0"),
        ({"dropouts": 2}, "asks for dropouts = 2"),
        ({"scheme": Threshold()}, 'asks for name = "2.1"'),
        ({"cover_noise": True}, "asks for cover_noise = true"),
    ],
    ids=str,
)
@pytest.mark.parametrize("medium", MEDIA)
def test_a_server_that_asks_for_something_else_is_refused(change, why, medium):
    charges = [Counted() for _ in range(4)]

    async def play():
        async with small(network(), medium, charges=charges) as system:
            return await Server(network(**change), decoder(), system.server.port).infer()

    result = run(play())
    assert (result.status, result.spent) == ("failed", False)
    assert why in result.reason
    assert [each.spent for each in charges] == [0] * 4


@pytest.mark.parametrize("medium", MEDIA)
def test_a_device_of_another_network_file_is_not_welcome(medium):
    charges, other = [Counted() for _ in range(4)], network(noise_std=0.0505)

    async def play():
        async with small(network(), medium, running=(0, 1, 2), charges=charges, own={3: other}) as system:
            with pytest.raises((RejectedError, DisconnectedError), match=r"device 3 is set to noise_std = 0.0505"):
                await system.open_port(3)
            return await system.infer(3)

    assert {result.status for result in run(play())} == {"below quorum"}
    assert [each.spent for each in charges] == [0] * 4


def test_a_device_refuses_the_terms_of_another_network():
    charge = Counted()
    device = Device(0, network(), lambda _: Seen(np.ones(R)), charge)
    assert answers(device, digest=terms.stated(network(noise_std=0.0505)).digest) == ["withdrawn"]
    assert answers(device, digest="") == ["withdrawn"]
    assert charge.spent == 0


@pytest.mark.parametrize("id", ["", "x" * 65])
def test_an_id_of_no_sense_is_refused(id):
    charge = Counted()

    async def play():
        async with small(network(1), charges=[charge]) as system:
            return await system.server.infer(id or None), await system.air.run_slot(id, 1, terms.stated(network(1)))

    assert isinstance(run(play())[1], Withheld)
    assert charge.spent == (1 if id == "" else 0)


class Answers:
    """A port that keeps what a device answers."""

    def __init__(self):
        self.said = []

    async def accept(self, announced):
        pass

    async def withdraw(self, id, reason):
        self.said.append("withdrawn")

    async def transmit(self, signals):
        self.said.append("sent")


def answers(device, **told):
    port: Any = Answers()
    digest = terms.stated(device.network).digest
    one = {"id": "x", "number": 0, "gain": 1.0, "digest": digest, "devices": 4}
    run(answer(device, port, (Announcement(**(one | told)),)))
    return port.said


def test_a_device_refuses_a_slot_of_fewer_than_its_epsilon_counts_on():
    charge = Counted()
    device = Device(0, network(dropouts=1), lambda _: Seen(np.ones(R)), charge)
    assert answers(device, devices=2) == ["withdrawn"]
    assert charge.spent == 0
    assert answers(device, devices=3) == ["sent"]


@pytest.mark.parametrize("gain", [np.nan, np.inf, -1.0])
def test_a_device_refuses_a_gain_of_no_sense(gain):
    charge = Counted()
    assert answers(Device(0, network(), lambda _: Seen(np.ones(R)), charge), gain=gain) == ["withdrawn"]
    assert charge.spent == 0


def test_a_device_with_no_channel_is_silent():
    assert answers(Device(0, network(), lambda _: Seen(np.ones(R))), gain=0.0) == ["sent"]


def test_a_charge_that_fails_means_silence():
    class Broken(Charge):
        def charge_all(self, inferences):
            raise OSError("disk full")

    assert answers(Device(0, network(), lambda _: Seen(np.ones(R)), Broken())) == ["withdrawn"]


def test_targets_may_differ():
    own = replace(network(), devices=replace(network().devices, epsilon=2.0))

    async def play():
        async with small(network(), own=dict.fromkeys(range(4), own)) as system:
            return await system.infer()

    (result,) = run(play())
    assert result.status == "answered"


def test_a_source_that_fails_sends_noise_alone():
    async def play(broken):
        z = latents()
        z[:, 2] = np.nan if broken else 0.0
        async with small(network(), seed=1, z=z) as system:
            return [result.logits for result in await system.infer(3)]

    def raising(_):
        raise RuntimeError("the camera is gone")

    assert run(play(True)) == run(play(False))
    told = Announcement("a", 0, 1.0, "", 4)

    def is_noise(net, source):
        return np.isnan(seen(source, told, net, Condition(0)).latent).all()

    assert is_noise(network(), raising)
    assert is_noise(network(), lambda _: Seen(np.ones(R + 1)))
    scored = network(scheme=Threshold(score_bound=1.0, threshold=0.5))
    given: list[Any] = [None, np.ones(0), np.ones(1), np.full((1, 2), 0.5), np.float64(0.5)]
    for own in given:
        assert is_noise(scored, lambda _, own=own: Seen(np.ones(R), own))


@pytest.mark.parametrize(
    ("net", "why"),
    [
        (network(channel=Channel(access="orthogonal")), "channel.access='orthogonal' must be superposed"),
        (network(channel=Channel(power_rule="paper")), "channel.power_rule='paper' must be truncate or backoff"),
    ],
)
def test_networks_that_cannot_run_are_refused(net, why):
    with pytest.raises(NetworkError, match=why):
        Air(net)


def test_a_live_device_without_noise_is_refused():
    with pytest.raises(ValueError, match="noise_std"):
        Device(0, network(noise_std=0.0), lambda _: Seen(np.ones(R)))


def test_scheme_22_needs_a_ranking_server():
    with pytest.raises(ValueError, match=r"scheme 2.2 needs a ranking server"):
        Device(0, network(scheme=Ranking(num_selected=2)), lambda _: Seen(np.ones(R)))


def test_the_server_refuses_a_codec_of_another_dimension():
    async def play():
        async with small(Network.uniform(num_devices=2, dimension=R + 1), running=()):
            pass

    with pytest.raises(ValueError, match=r"dimension=7, the codec 'own' needs dimension=6"):
        run(play())
