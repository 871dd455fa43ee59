"""Our own special functions, against mpmath at 40 digits, and where SciPy stands in for them."""

from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special
from scipy.stats import ncx2

from airpool._support import plain, special


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(40):
        yield


def exact(function, *columns):
    return np.array([float(function(*map(mp.mpf, map(float, each)))) for each in zip(*columns, strict=True)])


def error(found, true):
    """The largest relative error where the truth is a normal float."""
    there = np.isfinite(true) & (np.abs(true) > 1e-300)
    assert there.sum() > len(true) / 2
    return np.max(np.abs(np.asarray(found)[there] / true[there] - 1))


NORMAL = np.concatenate([np.linspace(-37, 8, 91), [-1e-9, 0.0, 1e-300, 0.3, -5.2]])


def test_the_normal_law_has_its_digits_in_both_tails():
    below = exact(lambda x: mp.erfc(-x / mp.sqrt(2)) / 2, NORMAL)
    assert error(plain.ndtr(NORMAL), below) < 2e-15
    logarithm = exact(lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2), NORMAL)
    assert error(plain.log_ndtr(NORMAL), logarithm) < 2e-15
    scaled = exact(lambda x: mp.exp(x**2) * mp.erfc(x), NORMAL[NORMAL > -26])
    assert error(plain.erfcx(NORMAL[NORMAL > -26]), scaled) < 2e-15


def test_the_coefficients_of_erfcx_are_those_of_its_chebyshev_series():
    nodes = [mp.cos(mp.pi * (j + mp.mpf(1) / 2) / 60) for j in range(60)]
    x = [4 * (1 + t) / (1 - t) for t in nodes]
    at = [(1 + 2 * each) * mp.exp(each**2) * mp.erfc(each) for each in x]
    for k in (0, 1, 7, 20):
        series = sum(f * mp.cos(k * mp.acos(t)) for f, t in zip(at, nodes, strict=True)) / (60 if k == 0 else 30)
        assert plain._ERFCX[k] == pytest.approx(float(series), rel=1e-12, abs=1e-22)


def test_the_ends_of_the_normal_law_are_those_of_scipy():
    ends = np.array([np.inf, -np.inf, np.nan, 40.0, -40.0, -1e200, 1e10])
    for name in ("ndtr", "log_ndtr", "erfcx"):
        np.testing.assert_allclose(getattr(plain, name)(ends), getattr(scipy.special, name)(ends), rtol=1e-14)
    p = np.array([0.0, 0.5, 1.0])
    np.testing.assert_array_equal(plain.ndtri(p), [-np.inf, 0.0, np.inf])


def test_quantiles_lead_back_to_their_probabilities():
    p = np.concatenate([np.logspace(-280, -1, 30), np.linspace(0.11, 0.99, 30)])
    assert error(plain.ndtr(plain.ndtri(p)), p) < 1e-12  # a quantile's last digit is worth this much
    few = np.array([1e-9, 0.01, 0.5, 0.99])
    for df in (1, 2, 40, 784):
        assert error(plain.chdtrc(df, plain.chdtri(df, few)), few) < 1e-11
        assert error(plain.chndtr(plain.chndtrix(few, df, 6.0), df, 6.0), few) < 1e-11
    assert error(plain.gammainc(2.5, plain.gammaincinv(2.5, few)), few) < 1e-11


def test_the_gamma_law_has_its_digits_in_both_tails():
    a = np.repeat([0.5, 1.0, 3.5, 15.9, 16.0, 20.0, 392.0, 31360.0], 6)
    x = np.abs(a + np.tile([-5.0, -2.0, 0.0, 1.0, 4.0, 9.0], 8) * np.sqrt(a)) + 1e-3
    lower = exact(lambda a, x: mp.gammainc(a, 0, x, regularized=True), a, x)
    upper = exact(lambda a, x: mp.gammainc(a, x, mp.inf, regularized=True), a, x)
    assert error(plain.gammainc(a, x), lower) < 1e-12
    assert error(plain.gammaincc(a, x), upper) < 1e-12


def test_the_noncentral_law_has_its_digits_in_both_tails():
    df, nc, k = (each.ravel() for each in np.meshgrid([1, 2, 40, 784], [1e-3, 6.0, 800.0], [-6.0, -2.0, 0.0, 3.0, 8.0]))
    x = df + nc + k * np.sqrt(2 * df + 4 * nc)
    x = np.where(x > 0, x, (df + nc) / 1e5)
    for upper, theirs in ((False, ncx2.cdf), (True, ncx2.sf)):
        found = plain.noncentral_tail(x, df, nc, upper=upper)
        assert error(found, theirs(x, df, nc)) < 1e-11
    one = plain.noncentral_tail(7.0, 2, 6.0, upper=True)  # Marcum's Q, by its integral
    marcum: Any = mp.quad(lambda t: t * mp.exp(-(t**2 + 6) / 2) * mp.besseli(0, mp.sqrt(6) * t), [mp.sqrt(7), 10, 30])
    assert float(one) == pytest.approx(float(marcum), rel=1e-13)


def test_the_rest_agrees_with_scipy():
    x = np.concatenate([[0.0], np.logspace(-6, 8, 60)])
    np.testing.assert_allclose(plain.i0e(x), scipy.special.i0e(x), rtol=1e-14)
    np.testing.assert_allclose(plain.gammaln(x[1:]), scipy.special.gammaln(x[1:]), rtol=1e-14, atol=1e-15)
    share = np.linspace(0, 1, 41)
    for a, b in ((0.5, 0.5), (10.0, 1.0), (5.5, 0.5), (40.0, 2.0)):
        np.testing.assert_allclose(plain.betainc(a, b, share), scipy.special.betainc(a, b, share), rtol=1e-12)
    y = np.array([-800.0, -1.0, 0.0, 3.0, 800.0])
    np.testing.assert_allclose(plain.expit(y), scipy.special.expit(y), rtol=1e-14)
    np.testing.assert_allclose(plain.xlogy([0, 2, 0], [0, 3, 5]), [0, 2 * np.log(3), 0])
    np.testing.assert_allclose(plain.xlog1py([0, 2], [-1, 3]), [0, 2 * np.log(4)])


def test_scipys_functions_are_used_where_it_is_installed():
    ours = [name for name, each in vars(plain).items() if getattr(each, "__module__", "") == plain.__name__]
    shared = {name for name in ours if not name.startswith("_")} - {"noncentral_tail", "poisson"}
    assert len(shared) > 15
    for name in shared:
        assert getattr(special, name) is getattr(scipy.special, name)
