"""Slots until sure: when the server stops, and what its mean over slots is."""

import numpy as np
import pytest
import torch

from airpool import Network, NetworkError, guarantee
from airpool.network import Slots
from airpool.protocol.inference import BySlots, Simulation, infer_features
from airpool.protocol.server import NO_ANSWER
from airpool.protocol.slots import SlotEstimate, until_sure


def asked(values, slots, kind=np.asarray, carried=None):
    """Inferences whose slots bring values (N, m): one coordinate, whose logits are (n·mean, 0)."""
    carried = np.ones_like(values, dtype=bool) if carried is None else carried
    taken = np.zeros(values.shape[1], dtype=int)

    def slot(which):
        which = np.asarray(which)
        at = taken[which]
        taken[which] += 1
        parts = values[at, which][:, None], carried[at, which], np.ones(len(which))
        return SlotEstimate(*(kind(part) for part in parts))

    def decode(mean, number, which):
        assert len(mean) == len(which)
        both = np.stack((number * np.asarray(mean)[:, 0], np.zeros(len(mean))), axis=1)
        return kind(both)

    return until_sure(slot(np.arange(values.shape[1])), slots, slot, decode), taken


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
def test_each_inference_ends_when_the_server_is_sure_of_it(kind):
    values = np.array([[5.0, 1.0, 0.1], [9.0, 1.0, 0.1], [9.0, 2.0, 0.1]])
    found, taken = asked(values, Slots(3, sure=0.97), kind)
    assert found.slots.tolist() == [1, 3, 3]
    assert taken.tolist() == [1, 3, 3]  # nothing more is sent once it is decided
    assert found.sure.tolist() == [True, True, False]
    np.testing.assert_allclose(np.asarray(found.estimate)[:, 0], [5.0, 4 / 3, 0.1])
    np.testing.assert_allclose(np.asarray(found.probability), 1 / (1 + np.exp(-np.array([5.0, 4.0, 0.3]))))
    assert found.energy.tolist() == [1, 3, 3]
    assert found.labels().tolist() == [0, 0, 0]
    assert found.labels(abstain=True).tolist() == [0, 0, NO_ANSWER]


def test_a_slot_without_a_signal_is_spent_and_tells_nothing():
    values = np.array([[7.0, 7.0], [1.0, 7.0], [3.0, 7.0]])
    carried = np.array([[False, False], [True, False], [True, False]])
    found, _ = asked(values, Slots(3, sure=0.999), carried=carried)
    assert found.slots.tolist() == [3, 3]
    np.testing.assert_allclose(found.estimate[:, 0], [2.0, 0.0])
    assert found.labels().tolist() == [0, NO_ANSWER]
    assert found.sure.tolist() == [False, False]


def test_one_slot_is_the_inference_that_it_always_was():
    found, taken = asked(np.array([[0.5, -2.0]]), Slots())
    assert found.slots.tolist() == taken.tolist() == [1, 1]
    assert found.labels().tolist() == [0, 1]


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("redrawn", [True, False], ids=["anew", "once"])
def test_an_inference_decodes_the_mean_over_its_slots(kind, redrawn):
    net = Network.uniform(num_devices=3, dimension=2, noise_std=1.0, slots=Slots(4, sure=1.0, redrawn=redrawn))
    rng = np.random.default_rng(0) if kind == "numpy" else torch.Generator().manual_seed(0)
    latents = np.zeros((2, 3, 2)) if kind == "numpy" else torch.zeros((2, 3, 2), dtype=torch.float64)
    decoded = []

    def decoder(slots):
        decoded.append(slots)
        return lambda mean: mean

    out = infer_features(latents, net, server=BySlots(decoder), rng=rng, simulation=Simulation(trials=2000))
    assert decoded == [1, 2, 3, 4]
    assert tuple(out.label.shape) == tuple(out.slots.shape) == (2, 2000)
    assert float(out.slots.min()) == 4
    assert not bool(out.sure.any())
    # 3 devices of noise 1 in 4 slots, 8,000 numbers: the variance is 3/4 within 5 standard errors, √(2/n) each.
    assert float(out.estimate.var()) == pytest.approx(0.75, rel=5 * (2 / 8000) ** 0.5)
    assert out.report.worst == guarantee(net).worst


def test_an_inference_of_several_slots_has_no_baseline():
    net = Network.uniform(num_devices=3, dimension=2, slots=Slots(4))
    how = Simulation(baseline="centralised")
    with pytest.raises(NetworkError, match=r"slots.count=4 must be 1: a baseline is one slot"):
        infer_features(np.zeros((1, 3, 2)), net, server=np.eye(2), rng=np.random.default_rng(0), simulation=how)
