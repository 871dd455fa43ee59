"""Half of the devices sensitive: every way keeps every promise by its own knob."""

import numpy as np
import pytest

from airpool.account.guarantee import guarantee
from airpool.network import Network
from airpool_lab.paper.figures.fig_hetero_16 import WAYS, designed


def test_each_way_turns_only_its_own_knob():
    z = np.random.default_rng(0).standard_normal((6, 4, 5))
    base = Network.uniform(num_devices=4, dimension=5)
    sensitive = np.array([True, False, True, False])
    targets = np.where(sensitive, 0.5, 5.0)
    nets = {way: designed(way, base, z, targets=targets, sensitive=sensitive) for way in WAYS}
    for net in nets.values():
        assert np.all(guarantee(net).epsilon <= targets)
        assert len(set(net.devices.column("noise_std"))) == 1
    assert set(nets["weights"].devices.column("clip_norm")) == {1.0}
    assert set(nets["clipping"].devices.column("weight")) == {0.25}
    assert nets["without"].devices.weight == (0.0, 0.5, 0.0, 0.5)
    with pytest.raises(ValueError, match="way='magic' must be one of uniform, weights, clipping, without"):
        designed("magic", base, z, targets=targets, sensitive=sensitive)  # pyright: ignore[reportArgumentType]
