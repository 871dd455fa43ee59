"""Shipped latents through live devices and the secure sum: the accuracy of the ideal channel at the same ε."""

import numpy as np
import torch

from airpool import Channel, Network, calibrate, load
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import EncodedObjects
from airpool.protocol.live import signal
from airpool.radio.link import level
from airpool_runtime.secure.group import terms_of
from airpool_runtime.secure.rehearsal import rehearse

OBJECTS = 200


def test_accuracy_is_that_of_the_ideal_channel_and_sums_are_exact(fleet):
    model = load("modelnet40")
    held = model.held_out("test").fitted(12)
    pick = torch.arange(0, len(held.labels), len(held.labels) // OBJECTS)[:OBJECTS]
    latents, labels = held.latents[pick], held.labels[pick]
    secure = calibrate(Network.uniform(num_devices=12, dimension=40, channel=Channel(access="secure")), epsilon=1.0)
    ideal = calibrate(Network.uniform(num_devices=12, dimension=40), epsilon=1.0)
    assert secure.devices == ideal.devices
    terms = terms_of(secure)
    received = np.empty((OBJECTS, 40))
    for i, views in enumerate(latents.double().numpy()):
        sent = [signal(views[k], secure, device=k, gain=1.0).samples for k in range(12)]
        values = {k: terms.ring.encode(x) for k, x in enumerate(sent)}
        total = terms.ring.total(list(values.values()))
        if i % 8 == 0:
            opened = rehearse(values, terms, fleet).outcome.total
            assert opened is not None
            assert np.array_equal(opened, total)
        received[i] = terms.ring.decode(total)
        assert np.array_equal(received[i], np.sum(sent, axis=0))  # multiples of one step: float64 is exact too
    codec = model.codec(None)
    logits = codec.server(level(secure))(torch.from_numpy(received).to(latents.dtype))
    right = float((logits.argmax(-1) == labels).double().mean())
    simulated = [
        evaluate(EncodedObjects(latents, labels, codec.server), net, trials=100, seed=1) for net in (ideal, secure)
    ]
    accuracy = simulated[0].accuracy_mean
    assert simulated[1].accuracy_mean == accuracy  # the same law, the same draws
    # One draw of every object against the mean of many: at most p(1 − p)/N in variance.
    assert abs(right - accuracy) < 3.5 * np.sqrt(accuracy * (1 - accuracy) / OBJECTS)
