"""Inferences a second over the waveform, impaired, from symbols to samples and back."""

import numpy as np

from airpool.network import Network
from airpool.protocol.simulation import receive
from airpool_lab.waveform.frame import Frame
from airpool_lab.waveform.reception import Waveform
from airpool_lab.waveform.uplink import Impairments

from . import Row, privacy

DEVICES, DIMENSION, INFERENCES = 12, 40, 2_000


def rows() -> list[Row]:
    net = Network.uniform(num_devices=DEVICES, noise_std=0.05, participation=0.9, dimension=DIMENSION)
    latents = np.random.default_rng(0).standard_normal((INFERENCES // 4, DEVICES, DIMENSION))
    off = Impairments(num_taps=4, direct=0.8, pilot_noise_std=0.1, timing=2, carrier_std=0.001)
    radio, rng = Waveform(Frame(guard=4, guard_db=18.0), off), np.random.default_rng(1)
    took, _ = privacy.timed(lambda: radio.receive(latents, net, rng=rng, trials=4))
    plain, _ = privacy.timed(lambda: receive(latents, net, rng=rng, trials=4, path="full"))
    what = f"{INFERENCES} inferences, {DEVICES} devices, r = {DIMENSION}, 64 subcarriers, multipath and guards"
    return [
        Row(
            "waveform",
            what,
            took,
            "s",
            f"{INFERENCES / took:.0f} a second",
            1.0,
            plain,
            "the same sums without samples",
        )
    ]
