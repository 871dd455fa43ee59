"""A plug-in's fading law that changes between two questions is refused: ε and ledger would count on different ones."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.special import gammainc, gammaincinv

from airpool import Channel, Claim, Network, guarantee
from airpool._support import plugins
from airpool.network import NetworkError
from airpool.network.fading import LAWS
from airpool_runtime.ledger.mechanism import mechanism
from airpool_runtime.ledger.spending import total

NOW = {"m": 2.0}


@dataclass(frozen=True)
class Moody:
    """Nakagami's law, of an m that changes while nobody looks."""

    def cdf(self, gain):
        return gammainc(NOW["m"], NOW["m"] * np.asarray(gain) ** 2)

    def quantile(self, probability):
        return np.sqrt(gammaincinv(NOW["m"], probability) / NOW["m"])


@pytest.fixture(autouse=True)
def _registered():
    before = dict(LAWS._added)
    plugins.register("fading", "moody")(Moody)
    NOW["m"] = 2.0
    yield
    LAWS._added.clear()
    LAWS._added.update(before)


def test_a_law_that_changes_is_refused_by_report_and_ledger():
    """Reported were 4.80 of one law, and booked 5.12 of another: outages of .34 and .54 for one network."""
    channel = Channel(fading="moody", gamma=8.0)
    net = Network.uniform(num_devices=6, noise_std=0.3, channel=channel)
    claim = Claim(inferences=20)
    said = guarantee(net, claim).worst
    assert total({mechanism(net, device=0, live=False): 20}, claim.delta) == pytest.approx(said)
    NOW["m"] = 0.6
    with pytest.raises(NetworkError, match=r"moody.*other values now"):
        guarantee(replace(net, channel=replace(channel, gamma=7.0)))
    with pytest.raises(NetworkError, match=r"moody.*other values now"):
        total({mechanism(replace(net, dimension=65), device=0, live=False): 20}, claim.delta)
