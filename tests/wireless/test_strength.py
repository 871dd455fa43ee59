"""The law of received strength: its quadratures against more nodes, and against a simulation."""

import numpy as np
import pytest

from airpool.wireless import strength
from airpool.wireless.fading import Fading, path
from airpool.wireless.strength import survival

CASES = [
    (Fading("none"), 0.0, 0.1),
    (Fading("none"), 0.9, 0.3),
    (Fading("none"), 0.5, 0.01),
    (Fading("rician"), 0.3, 0.1),
    (Fading("rician", k_factor_db=12.0), 0.5, 0.02),
    (Fading("rayleigh"), 0.1, 0.1),
    (Fading("rayleigh"), 0.3, 0.5),
    (Fading("rayleigh"), 0.01, 0.03),
    (Fading("rayleigh"), 0.1, 0.0003),
]


@pytest.mark.parametrize("silent", [True, False])
@pytest.mark.parametrize(("fading", "threshold", "csi"), CASES)
def test_more_nodes_change_less_than_the_stated_error(fading, threshold, csi, silent, monkeypatch):
    law = survival(fading, threshold, csi, silent=silent)
    points = law.edge[:: max(len(law.edge) // 60, 1)]
    coarse = strength._above(fading, threshold, csi, points, silent=silent)
    monkeypatch.setattr(strength, "_GAINS", np.polynomial.legendre.leggauss(160))
    monkeypatch.setattr(strength, "_PARTS", np.polynomial.legendre.leggauss(96))
    fine = strength._above(fading, threshold, csi, points, silent=silent)
    assert np.max(np.abs(fine - coarse)) < law.error


@pytest.mark.parametrize(("fading", "threshold", "csi"), CASES[1::2])
def test_the_law_is_that_of_drawn_gains_and_estimates(fading, threshold, csi):
    rng, n = np.random.default_rng(1), 40_000
    mean, variance = path(fading)
    c = rng.standard_normal((4, n)) / np.sqrt(2)
    h = np.abs(mean + np.sqrt(variance) * (c[0] + 1j * c[1]))
    estimate = np.abs(h + csi * (c[2] + 1j * c[3]))
    s = np.where(estimate >= threshold, (h / estimate) ** 2, 0.0)
    law = survival(fading, threshold, csi, silent=True)
    points = law.edge[:: len(law.edge) // 30]
    found = strength._above(fading, threshold, csi, points, silent=True)
    drawn = np.array([np.mean(s > x) for x in points])
    assert np.all(np.abs(drawn - found) < 5 * np.sqrt(found * (1 - found) / n) + 1e-4)
