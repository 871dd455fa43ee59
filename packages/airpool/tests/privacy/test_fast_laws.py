"""What is computed together or cut short, against the same computed one by one and in full."""

from typing import Any

import numpy as np
import pytest
from scipy.special import rel_entr

from airpool.privacy import gaussian, leak, unaligned
from airpool.privacy.law import Strength
from airpool.privacy.sampled import _most_likely, around


@pytest.fixture
def strength() -> Strength:
    """Two laws of strength in thirty cells, for six devices; one is more often silent."""
    edge = np.geomspace(0.05, 5.0, 30)
    above = np.exp(-edge)
    laws = (above, 0.7 * above**0.8)
    return Strength((edge, edge * 1.1), laws, (0.999, 0.75), np.array([0, 0, 0, 1, 1, 1]), 1e-10)


VARIANCE = np.array([1.0, 2.0, 2.0, 0.5, 3.0, 0.0])
PARTICIPATION = np.array([1.0, 0.5, 0.5, 0.9, 0.3, 1.0])


def kinds(strength: Strength) -> np.ndarray:
    return np.stack([VARIANCE, PARTICIPATION, strength.of_device.astype(float)], axis=1)


@pytest.mark.parametrize("down", [True, False])
def test_products_that_share_factors_are_the_products_one_by_one(strength, down):
    every = unaligned._Laws(kinds(strength), np.ones(6, int), strength, extra=0.0, absent=1, down=down)
    counts = [np.array(c) for c in ([0, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 1], [3, 2, 1, 0, 5, 1], [1, 1, 1, 1, 1, 0])]
    found = every._products(counts)
    for count, product in zip(counts, found, strict=True):
        plain = np.prod([t**n for t, n in zip(every.transforms, count, strict=True)], axis=0)
        np.testing.assert_allclose(product, plain, atol=1e-14)


def mean(floor, k: int, scale: float, *, low: bool) -> float:
    """The worst mean of a falling function over the rows of device k."""
    law = floor.low if low else floor.high
    rows = floor.row[floor.device == k]
    return max(float(law.mass[r] @ np.exp(-law.variance[r] / scale)) for r in rows)


@pytest.mark.parametrize("absent", [0, 1, 2])
def test_one_law_for_all_choices_of_absent_devices_is_on_the_safe_side(strength, monkeypatch, absent):
    monkeypatch.setattr(unaligned, "_MOST_CELLS", 2**30)
    monkeypatch.setattr(unaligned, "_unaligned", unaligned._unaligned.__wrapped__)  # nothing is kept
    each = unaligned.unaligned_floor(VARIANCE, PARTICIPATION, strength, absent=absent)
    monkeypatch.setattr(unaligned, "_SEPARATE", 0)
    together = unaligned.unaligned_floor(VARIANCE, PARTICIPATION, strength, absent=absent)
    assert each is not None
    assert together is not None
    for k in range(6):
        for scale in (0.01, 0.3, 10.0):
            truth = mean(each, k, scale, low=True), mean(each, k, scale, low=False)
            assert mean(together, k, scale, low=True) >= truth[0] * (1 - 1e-12)
            assert mean(together, k, scale, low=False) <= truth[1] * (1 + 1e-12)


def test_fewer_cells_are_on_the_safe_side_and_near(strength, monkeypatch):
    monkeypatch.setattr(unaligned, "_unaligned", unaligned._unaligned.__wrapped__)
    fine = unaligned.unaligned_floor(VARIANCE, PARTICIPATION, strength)
    monkeypatch.setattr(unaligned, "_MOST_CELLS", 2**13)
    coarse = unaligned.unaligned_floor(VARIANCE, PARTICIPATION, strength)
    assert fine is not None
    assert coarse is not None
    assert coarse.low.variance.size <= 2**13 + 6 * 2 < fine.low.variance.size
    for k in range(6):
        for scale in (0.1, 1.0):
            low, high = (mean(coarse, k, scale, low=side) for side in (True, False))
            assert mean(fine, k, scale, low=True) * (1 - 1e-12) <= low <= mean(fine, k, scale, low=True) * 1.1
            assert high <= mean(fine, k, scale, low=False) * (1 + 1e-12)


@pytest.mark.parametrize("block", [16, 64])
@pytest.mark.parametrize("epsilon", [-1.0, 0.0, 0.5, 20.0])
def test_blocks_that_do_not_decide_change_nothing(epsilon, block):
    rng = np.random.default_rng(0)
    mu = -np.sort(-np.exp(rng.uniform(-6, 1, (3, 5_000))), axis=1)
    mass = rng.dirichlet(np.ones(5_000), 3)
    blocks = np.add.reduceat(mass, np.arange(0, 5_000, block), axis=1)
    eps = np.full((3, 1), epsilon)
    plain = np.einsum("ij,ij->i", mass, gaussian.delta(eps, mu))
    up, down = (leak._by_blocks(eps, mu, mass, blocks, block, up=side) for side in (True, False))
    np.testing.assert_allclose(up, plain, rtol=2e-12)
    assert np.all(up >= plain * (1 - 1e-14))
    assert np.all(down <= plain * (1 + 1e-14))


@pytest.mark.parametrize("rate", [1e-6, 1e-3, 0.3])
def test_hoeffdings_bound_is_never_too_small(rate):
    mean = np.append(np.geomspace(1e-9, 0.99, 200), 0.0)
    u = _most_likely(mean, rate)
    assert np.all((u == 1) | (rel_entr(mean, u) + rel_entr(1 - mean, 1 - u) >= rate * (1 - 1e-6)))
    assert u[-1] <= rate * (1 + 1e-6)


def test_the_rest_is_the_inverse_of_the_others_leverage():
    rng = np.random.default_rng(0)
    v: Any = rng.standard_normal((4, 5, 2)) + 1j * rng.standard_normal((4, 5, 2))
    noise = rng.uniform(0.1, 1.0, (4, 5))
    found = around(v, noise, 0.01)
    for n in range(4):
        for k in range(5):
            others = sum(noise[n, j] * np.outer(v[n, j], v[n, j].conj()) for j in range(5) if j != k)
            g = v[n, k].conj() @ np.linalg.solve(others + 0.01 * np.eye(2), v[n, k])
            assert found[n, k] == pytest.approx(1 / g.real, rel=1e-9)
