"""Inferences of several slots, evaluated: what they use, and that one draw may serve all slots."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from airpool import Claim, EncodedObjects, calibrate, evaluate
from airpool.account.lifetime import one_slot_mu, stream_epsilon
from airpool.evaluation.inferences import largest_sure, traces
from airpool.network import Channel, Network, Ranking, Slots
from airpool.protocol.simulation import receive
from airpool.radio.link import level

CLASSES, DEVICES = 4, 6


def objects(count=60, seed=0):
    """Devices that all see the same corner of a simplex, decoded by its likelihood with the noise known."""
    labels = torch.arange(count) % CLASSES
    corners = torch.nn.functional.normalize(torch.eye(CLASSES) - 1 / CLASSES)
    latents = corners[labels][:, None].repeat(1, DEVICES, 1)
    return EncodedObjects(latents, labels, lambda at: lambda z: z @ corners.T * at.signal / at.noise_std**2)


ONE = Slots()


def network(slots=ONE, epsilon=3.0, **more):
    net = Network.uniform(num_devices=DEVICES, dimension=CLASSES, slots=slots, **more)
    return calibrate(net, epsilon=epsilon)


def test_asking_until_sure_spends_less_at_equal_accuracy():
    once, often = evaluate(objects(), network()), evaluate(objects(), network(Slots(16, sure=0.99)))
    assert often.slots is not None
    assert often.slots.mean < 0.8 * 16
    assert often.accuracy_mean > once.accuracy_mean - 0.02
    assert sum(often.slots.counts) == often.trials * often.objects
    assert np.average(np.arange(1, 17), weights=often.slots.counts) == pytest.approx(often.slots.mean)
    assert often.report.worst <= 3.0
    assert often.slots.mean_epsilon < often.report.worst
    assert once.slots is None


def test_the_servers_posterior_is_calibrated():
    """With the likelihood known, an answer of probability p is right in p of all cases."""
    found = evaluate(objects(400), network(Slots(8, sure=0.9), epsilon=2.0), trials=20).slots
    assert found is not None
    for confidence, risk in zip(found.confidence, found.risk, strict=True):
        assert risk <= 1 - confidence + 0.02
    assert found.coverage[0] == 1


def test_mean_spending_adds_up():
    net = network(Slots(16))
    mu = one_slot_mu(net)
    assert mu is not None
    assert stream_epsilon(net, Claim(), 16) == pytest.approx(3.0, rel=1e-3)
    assert one_slot_mu(network(Slots(16), participation=0.9)) is None
    found = evaluate(objects(), net).slots
    assert found is not None
    assert found.mean_mu_square == pytest.approx(found.mean * mu**2)


def test_one_draw_serves_all_slots():
    net = network(Slots(4, redrawn=False), participation=0.5, channel=Channel(fading="rician"))
    z, rng = objects().latents, torch.Generator().manual_seed(0)
    first = receive(z, net.one_slot, rng=rng, trials=2)
    second = receive(z[torch.tensor([0, 0, 3])], net.one_slot, rng=rng, drawn=first.drawn.of(torch.tensor([0, 1, 6])))
    assert torch.equal(second.taking_part[:, 0], torch.stack([first.taking_part[k] for k in ((0, 0), (0, 1), (3, 0))]))
    assert torch.equal(second.gain[:, 0], torch.stack([first.gain[k] for k in ((0, 0), (0, 1), (3, 0))]))
    assert not torch.equal(second.estimate[0, 0], first.estimate[0, 0])
    assert evaluate(objects(), net).slots is not None


def test_an_abstention_counts_as_no_answer():
    sure = evaluate(objects(), network(Slots(2, sure=0.999999, abstain=True)))
    assert sure.no_answer > 0.05
    assert sure.accuracy_mean <= 1 - sure.no_answer


def test_a_baseline_is_one_transmission():
    with pytest.raises(ValueError, match=r"slots\.count=4 must be 1"):
        evaluate(objects(), network(Slots(4)), instead="orthogonal")


def test_the_threshold_is_the_largest_that_is_allowed():
    rng = np.random.default_rng(0)
    traces = [torch.tensor(np.clip(rng.random(500) * n / 8, 0, 1)) for n in range(1, 9)]
    sure = largest_sure(traces, 4.0)
    running = np.maximum.accumulate(np.stack([np.asarray(t) for t in traces]), axis=0)[:-1]
    assert 1 + np.mean(np.sum(running < sure, axis=0)) <= 4.0
    assert 1 + np.mean(np.sum(running < sure + 1e-3, axis=0)) > 4.0 - 0.05
    assert largest_sure(traces, 8.0) == 1.0
    with pytest.raises(ValueError, match=r"most_slots=0\.5"):
        largest_sure(traces, 0.5)


def test_the_level_of_a_mean_is_that_of_less_noise():
    net = network(Slots(16))
    assert level(net.one_slot).noise_std == level(replace(net, slots=Slots())).noise_std


def test_traces_tell_what_any_threshold_uses_and_gives():
    net = network(Slots(8, sure=0.9), epsilon=2.0)
    traced = traces(objects(400), net, trials=10, seed=1)
    found = evaluate(objects(400), net, trials=10, seed=2)
    assert found.slots is not None
    # 4,000 inferences each: four standard errors of their difference.
    assert np.mean(traced.used(0.9)) == pytest.approx(found.slots.mean, abs=4 * 2.8 * (2 / 4000) ** 0.5)
    assert traced.accuracy(0.9) == pytest.approx(found.accuracy_mean, abs=4 * (2 * 0.09 / 4000) ** 0.5)
    assert traced.used(0.0).max() == 1
    assert traced.used(1.1).min() == 8
    assert traced.right[0].mean() < traced.right[-1].mean()


def test_the_smallest_threshold_reaches_the_accuracy_and_none_reaches_the_impossible():
    traced = traces(objects(200), network(Slots(8), epsilon=2.0), trials=5)
    wanted = (traced.right[0].mean() + traced.right[-1].mean()) / 2
    sure = traced.smallest_sure(wanted)
    assert sure is not None
    assert traced.accuracy(sure) >= wanted
    assert traced.smallest_sure(1.1) is None


def test_frames_that_are_all_the_same_are_slots_of_one_view():
    still = objects()
    frames = replace(still, frames=still.latents[:, None].repeat(1, 7, 1, 1))
    net = network(Slots(8))
    assert evaluate(frames, net).record() == evaluate(still, net).record()


def test_each_slot_sends_its_own_frame():
    """Frames that cancel the first one leave nothing to decide by; frames that agree decide."""
    seen = objects()
    net = network(Slots(2, sure=1.0), epsilon=2.0)
    assert evaluate(replace(seen, frames=seen.latents[:, None]), net).accuracy_mean > 0.5
    undone = evaluate(replace(seen, frames=-seen.latents[:, None]), net).accuracy_mean
    assert undone == pytest.approx(1 / CLASSES, abs=4 * (0.19 / 1200) ** 0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"frames": torch.zeros(60, 2, DEVICES, CLASSES)}, r"slots\.count=8 must be <= 3, the number of frames"),
        ({"frames": torch.zeros(60, 7, DEVICES, 3)}, r"frames is \(60, 7, 6, 3\), must be \(60, F, 6, 4\)"),
        ({"frames": torch.full((60, 7, DEVICES, CLASSES), torch.nan)}, "frames.*must be finite"),
    ],
)
def test_frames_that_do_not_fit_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        evaluate(replace(objects(), **change), network(Slots(8)))


def test_frames_need_draws_of_their_own():
    seen, net = objects(), network(Slots(2, redrawn=False))
    with pytest.raises(ValueError, match=r"slots\.redrawn=false must be true for frames"):
        evaluate(replace(seen, frames=seen.latents[:, None]), net)


def test_frames_are_refused_where_scores_choose():
    seen, ranked = objects(), replace(network(Slots(2)), scheme=Ranking(num_selected=3))
    scored = replace(seen, frames=seen.latents[:, None], scores=torch.zeros(60, DEVICES), num_classes=CLASSES)
    with pytest.raises(ValueError, match="schemes without scores"):
        evaluate(scored, ranked)
