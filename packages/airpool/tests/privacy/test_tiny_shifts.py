"""Noise far above any feature: curves keep their digits, and a law of losses stays a law."""

import mpmath as mp
import numpy as np
import pytest

from airpool.account.calibration import calibrate
from airpool.account.guarantee import guarantee
from airpool.network import Claim, Network
from airpool.privacy import compose, cover, device, gaussian
from airpool.privacy.aggregate import Aggregate


def upper(x):
    return mp.erfc(x / mp.sqrt(2)) / 2


def backward(epsilon: float, mu: float, p: float) -> float:
    """δ between N(0) and (1−p)N(0) + pN(μ), in 60 digits."""
    with mp.workdps(60):
        eps, mu, p = mp.mpf(epsilon), mp.mpf(mu), mp.mpf(p)
        c = 1 - mp.exp(eps) * (1 - p)
        inner = eps + mp.log(p / c)
        return float(c * (upper(inner / mu - mu / 2) - mp.exp(inner) * upper(inner / mu + mu / 2)))


def replaced(epsilon: float, mu: float, p: float) -> float:
    """δ between (1−p)N(0) + pN(μ) and (1−p)N(0) + pN(−μ), in 60 digits."""
    with mp.workdps(60):
        eps, mu, p = mp.mpf(epsilon), mp.mpf(mu), mp.mpf(p)
        c, s = p * mp.exp(-(mu**2) / 2), (1 - p) * mp.expm1(eps)
        t = mp.log((s + mp.sqrt(s**2 + 4 * c**2 * mp.exp(eps))) / (2 * c)) / mu
        return float(p * upper(t - mu) - mp.exp(eps) * p * upper(t + mu) - s * upper(t))


@pytest.mark.parametrize("mu", [1e-13, 1e-6, 0.0199, 0.0201])
@pytest.mark.parametrize("p", [0.01, 0.9, 1.0])
def test_curves_under_cover_keep_their_digits(mu, p):
    for times in (0.0, 0.1, 1.0, 4.0):
        eps = times * mu * p
        given = (np.array([eps]), np.array([mu]), np.array([p]))
        hidden = cover.hidden(given[0], given[2], lambda e, _: gaussian.delta(e, mu), backward=True)
        assert hidden[0] == pytest.approx(backward(eps, mu, p), rel=1e-11, abs=0)
        assert cover.delta_replace(*given)[0] == pytest.approx(replaced(eps, mu, p), rel=1e-11, abs=0)


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("noise", [1e-12, 0.1, 1e6, 1e12])
def test_probabilities_of_losses_add_up_to_one(neighbours, noise):
    twelve = Aggregate(np.full(12, 1 / 12), np.full(12, noise**2), np.full(12, 0.9), cover_noise=True)
    for loss in compose.stream(device.by_coin(twelve, neighbours)).once:
        assert float(loss.mass.sum()) + loss.infinite == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize(("neighbours", "noise"), [("zero-out", 1.365), ("replace", 2.73)])
def test_calibration_under_cover_noise_does_not_overflow(neighbours, noise):
    """Warnings are errors here. The noise that is found was right before, by the grace of comparisons with NaN."""
    network = Network.uniform(num_devices=12, participation=0.9, cover_noise=True)
    claim = Claim(neighbours=neighbours, inferences=1000)
    found = calibrate(network, claim, epsilon=2.0)
    assert 1.99 < guarantee(found, claim).worst <= 2.0
    assert found.devices.column("noise_std")[0] == pytest.approx(noise, rel=0.01)
