"""A leaf and a view of one's own, as docs/theory/leaks.md says, against oracles that share no code with airpool."""

from dataclasses import dataclass
from math import ceil
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from airpool import Claim, Network, guarantee
from airpool.account.views import VIEWS, Situation, beside
from airpool.privacy.epsilon import epsilon
from airpool.privacy.leak import OverTime, PerDevice, Signal, Times, given

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Laplace(Signal):
    """Laplace noise on a number that the data moves by `reach` scales."""

    reach: Floats

    @property
    def symmetric(self) -> bool:
        return True


@given.register
def _(leak: Laplace, epsilon: Floats, case: Any, noise: Floats, *, backward: bool) -> Floats:
    a = leak.reach[case]
    return np.where(epsilon < -a, -np.expm1(np.minimum(epsilon, 0.0)), np.maximum(-np.expm1((epsilon - a) / 2), 0.0))


def loss(reach: float, cells: int, *, up: bool) -> Floats:
    """The privacy loss of one use on a grid of [−reach, reach], moved up or down to it: two atoms and a density."""
    at = np.linspace(-reach, reach, cells + 1)
    below = np.exp((at - reach) / 2) / 2  # Pr(loss ≤ at), but for the atom of ½ at the upper end
    between = np.diff(below)
    mass = np.append(0.0, between) if up else np.append(between, 0.0)
    mass[0] += below[0]
    mass[-1] += 0.5
    return mass


def laplace_delta(at: float, reach: float, times: int, *, up: bool, cells: int = 1000) -> float:
    law = np.ones(1)
    for _ in range(times):
        law = np.convolve(law, loss(reach, cells, up=up))
    losses = np.linspace(-reach * times, reach * times, len(law))
    return float(law @ np.maximum(-np.expm1(at - losses), 0.0))


@pytest.mark.parametrize("reach", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("times", [1, 10])
@pytest.mark.parametrize("delta", [1e-2, 1e-5])
def test_laplace_noise_as_a_leaf_has_the_epsilon_of_its_convolved_loss(reach: float, times: int, delta: float) -> None:
    one = np.zeros(1, dtype=np.int64)
    found = float(epsilon(Times(times, PerDevice(Laplace(np.array([reach])), one, one)), delta)[0])
    assert laplace_delta(found, reach, times, up=False) <= delta * (1 + 1e-9)
    assert laplace_delta(found * (1 - 1e-4), reach, times, up=True) > delta


def gaussian_delta(at: float, mu: float) -> float:
    low, high = mu / 2 - at / mu, mu / 2 + at / mu
    return float(mpmath.ncdf(low) - mpmath.exp(at) * mpmath.ncdf(-high))


def in_the_log(situation: Situation) -> OverTime:
    """What a maintenance engineer reads: the device's own signal in every third use, the first one included."""
    return beside(situation.over(-(-situation.uses // 3)))


@pytest.mark.parametrize(("sigma", "times"), [(0.05, 100), (1.0, 100), (0.5, 1), (2.0, 10)])
def test_a_view_of_a_log_is_as_many_signals_as_it_holds(
    sigma: float, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VIEWS, "epsilon_log", in_the_log)
    net = Network.uniform(num_devices=12, noise_std=sigma)
    claim = Claim(inferences=times)
    found = float(epsilon(guarantee(net, claim).leaks["epsilon_log"], claim.delta)[0])
    mu = ceil(times / 3) ** 0.5 / 12 / sigma
    assert gaussian_delta(found, mu) <= claim.delta * (1 + 1e-9)
    assert gaussian_delta(found * (1 - 1e-9), mu) > claim.delta


@pytest.mark.parametrize("neighbours", ["zero-out", "remove"])
def test_a_view_of_a_log_counts_what_its_claim_asks_for(neighbours: str) -> None:
    claim = Claim(neighbours=neighbours, inferences=9)
    situation = guarantee(Network.uniform(num_devices=12), claim).question.situation
    assert np.isinf(epsilon(in_the_log(situation), claim.delta)[0]) == (neighbours == "remove")
