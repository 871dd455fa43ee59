"""A device by itself is the simulator's device: the same coins, noise and power from the same generator."""

from typing import Any

import numpy as np
import pytest

from airpool.network import Channel, Network, Ranking, Threshold
from airpool.protocol import alone
from airpool.protocol.alone import Choice
from airpool.protocol.device import Seeded
from airpool.protocol.simulation import receive

R, K = 5, 3
CASES = [
    {},
    {"participation": (0.5, 1.0, 0.2), "cover_noise": True},
    {"channel": Channel(fading="rician", power_rule="backoff", outage=0.3)},
    {"channel": Channel(fading="rayleigh", csi_error_std=0.1), "participation": 0.6},
    {"scheme": Threshold(threshold=0.5, score_noise_std=0.3)},
    {"scheme": Threshold(threshold=0.5, score_noise_std=0.0)},
    {"scheme": Ranking(num_selected=2, score_noise_std=0.3)},
]


@pytest.mark.parametrize("case", CASES)
def test_a_seeded_device_sends_what_the_simulator_sends_to_the_last_bit(case: dict[str, Any]):
    given: dict[str, Any] = {"noise_std": (0.1, 0.2, 0.05), "weight": (0.2, 0.3, 0.5)} | case
    net = Network.uniform(num_devices=K, dimension=R, **given)
    data = np.random.default_rng(1)
    z, bits = data.standard_normal((1, K, R)), data.uniform(0, 1.5, (1, K))
    scored, ranked = "scheme" in case, isinstance(net.scheme, Ranking)
    for seed in range(20):
        got = receive(z, net, rng=np.random.default_rng(seed), path="full", scores=bits if scored else None)
        assert got.signals is not None
        _, *own = np.random.default_rng(seed).spawn(K + 1)
        for k, rng in enumerate(own):
            source, choice = Seeded([rng]), Choice(score=float(bits[0, k]) if scored else None)
            if ranked:
                u = alone.noisy_score(float(bits[0, k]), net, source)
                assert got.noisy_scores is not None
                assert u == got.noisy_scores[0, 0, k]
                choice = Choice(selected=bool(got.taking_part[0, 0, k]))
            sent = alone.signal(z[0, k], net, source, device=k, gain=float(got.sent.known[0, 0, k]), choice=choice)
            np.testing.assert_array_equal(sent.samples, got.scale[0, 0, k] * got.signals[0, 0, k])
            assert sent.scale == got.scale[0, 0, k]
            assert sent.report is None
