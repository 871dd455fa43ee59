"""ε of a waveform against real covariances of every sample that is transmitted."""

from dataclasses import replace

import numpy as np
import pytest

from airpool.network import Claim, Neighbours, Network
from airpool_lab.waveform.frame import Frame
from airpool_lab.waveform.reception import Waveform, waveform_epsilon
from airpool_lab.waveform.uplink import Impairments, uplink

from .curves import gaussian
from .samples import leverages


@pytest.fixture
def coordinates(monkeypatch):
    """How many real coordinates a device really sends: read off the transmission itself."""
    import airpool_lab.waveform.reception as sending

    def of(network: Network) -> int:
        seen, pack = [], sending.pack

        def reading(reals):
            seen.append(int(np.count_nonzero(np.any(reals != 0, axis=tuple(range(reals.ndim - 1))))))
            return pack(reals)

        with monkeypatch.context() as patch:
            patch.setattr(sending, "pack", reading)
            Waveform().receive(
                np.zeros((1, network.devices.count, network.dimension)), network, rng=np.random.default_rng()
            )
        return seen[0]

    return of


def drawn(seed: int):
    rng = np.random.default_rng([282, seed])
    count, r = int(rng.integers(2, 7)), int(rng.integers(1, 12))
    devices = Network.uniform(num_devices=count).devices
    network = Network(
        devices=replace(
            devices,
            weight=tuple(rng.uniform(0.1, 1.0, count)),
            noise_std=tuple(np.exp(rng.uniform(-2, 1, count))),
        ),
        dimension=r,
    )
    claim = Claim(
        delta=float(10 ** rng.uniform(-9, -2)),
        neighbours=Neighbours.REPLACE if rng.random() < 0.5 else Neighbours.ZERO_OUT,
        inferences=int(rng.choice([1, 10, 1000])),
    )
    frame = Frame(subcarriers=16, active=5, prefix=4, guard=int(rng.choice([0, 3])), guard_db=float(rng.uniform(0, 18)))
    imperfect = Impairments(
        num_taps=int(rng.integers(1, 4)),
        direct=float(rng.choice([1.0, 0.8])),
        timing=int(rng.choice([0, 2])),
        carrier_std=float(rng.choice([0.0, 0.01])),
        phase_std=float(rng.choice([0.0, 0.01])),
        pilot_noise_std=float(rng.choice([0.0, 0.1])),
    )
    return network, claim, uplink((1, count), -(-r // 2), frame, imperfect, rng)


def length(network: Network, claim: Claim, k: int) -> float:
    """How far a changed feature may lie from the old one."""
    d = network.devices
    return d.column("weight")[k] * d.column("clip_norm")[k] * (2 if claim.neighbours == "replace" else 1)


def refuted(network, claim, link, noisy: int) -> list[str]:
    """Devices whose ε every sample together refutes."""
    claims = waveform_epsilon(network, link, claim)
    lever = leverages(network, link, noisy=noisy)
    out = []
    for k, epsilon in enumerate(claims):
        mu = length(network, claim, k) * np.sqrt(lever[k] * claim.inferences)
        if (delta := float(gaussian(epsilon * (1 + 1e-5), mu))) > claim.delta * (1 + 1e-9):
            out.append(f"device {k}: ε = {epsilon:.4g}, but δ = {delta:.3g} > {claim.delta:.3g}")
    return out


@pytest.mark.parametrize("seed", range(16))
def test_no_sample_tells_more_than_is_claimed(seed, coordinates):
    network, claim, link = drawn(seed)
    assert refuted(network, claim, link, coordinates(network)) == []


@pytest.mark.parametrize("seed", [seed for seed in range(16) if drawn(seed)[0].dimension % 2 == 0])
def test_no_more_is_claimed_than_samples_tell(seed):
    """Every sample counts, and no bound is in between: two per cent less would be false, except beside the local ε."""
    network, claim, link = drawn(seed)
    claims, lever = waveform_epsilon(network, link, claim), leverages(network, link, noisy=network.dimension)
    std = network.devices.column("noise_std")
    for k, epsilon in enumerate(claims):
        alone = std[k] ** 2 * lever[k]  # 1 where the device is heard alone
        mu = length(network, claim, k) * np.sqrt(lever[k] * claim.inferences)
        assert alone > 0.99 or epsilon < 0.05 or gaussian(0.98 * epsilon, mu) > claim.delta


def test_the_oracle_finds_the_devices_that_are_heard_alone():
    """The numbers of the specification: 1.000 in unison, 4.018 where one device is a sample early."""
    network = Network.uniform(num_devices=12, noise_std=0.08975, dimension=40)
    link = uplink((1, 12), 20, Frame(), Impairments(timing=4), np.random.default_rng(0))
    on_time = replace(link, paths=replace(link.paths, timing=np.zeros((1, 12))))
    early = replace(link, paths=replace(link.paths, timing=np.where(np.arange(12) == 0, -1.0, 0.0)[None]))
    mu = [np.sqrt(leverages(network, each, noisy=40)[0]) / 12 for each in (on_time, early)]
    assert gaussian([1.0, 4.018], mu) == pytest.approx(1e-5, rel=2e-2)


@pytest.mark.parametrize(("r", "claimed", "true"), [(3, 1.239, 3.297), (1, 1.235, 2.086)])
def test_an_odd_dimension_is_filled_up_with_noise(r, claimed, true, coordinates):
    """Issue 28, item 6: numbers like these were claimed where the last symbol has noise in one component alone."""
    rng = np.random.default_rng(1)
    network = Network.uniform(num_devices=12, noise_std=0.08975, dimension=r)
    link = uplink((1, 12), -(-r // 2), Frame(), Impairments(pilot_noise_std=0.1), rng)
    assert refuted(network, Claim(), link, coordinates(network)) == []
