"""The law of received strength: its quadratures against more nodes, and against a simulation."""

from functools import partial

import numpy as np
import pytest

from airpool.radio import strength
from airpool.radio.fading import Fading, path
from airpool.radio.strength import survival

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


@pytest.mark.parametrize("silent", [True, False])
@pytest.mark.parametrize(
    ("model", "decibels", "threshold", "csi"),
    [
        ("rayleigh", 0.0, 0.3, 0.1),
        ("rayleigh", 0.0, 2.0, 0.7),
        ("rician", 5.0, 0.01, 0.02),
        ("rician", 23.8, 0.275, 0.615),
        ("rician", 23.9, 0.53, 2.65),
    ],
)
def test_the_integral_of_the_density_is_the_quadrature(model, decibels, threshold, csi, silent):
    fading = Fading(model, k_factor_db=decibels)
    direct = partial(strength._above, fading, threshold, csi, silent=silent)
    fast = strength._integrated(fading, threshold, csi, direct, silent=silent)
    assert fast is not None
    points = np.exp(np.concatenate([np.linspace(-9.0, 13.5, 12), np.linspace(-0.5, 0.5, 8) * csi]))
    np.testing.assert_allclose(fast(points), direct(points), atol=1e-11)


def test_an_integral_that_disagrees_with_the_quadrature_is_not_taken():
    fading = Fading("rayleigh")
    assert strength._integrated(fading, 0.3, 0.1, lambda x: np.full(len(x), 0.5), silent=True) is None
    # So narrow a law that panels cannot hold it.
    direct = partial(strength._above, fading, 0.3, 1e-12, silent=True)
    assert strength._integrated(fading, 0.3, 1e-12, direct, silent=True) is None
