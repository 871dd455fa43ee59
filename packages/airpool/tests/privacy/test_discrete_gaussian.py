"""The alias table against mpmath, to the last outcome, and draws from it against the exact pmf."""

import os
from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.stats import chisquare

from airpool.privacy.discrete_gaussian import SPREAD, TABLE_ERROR, combination, integers, table

ZERO = 2**15
LOW = 2**192
HEIGHT = 2**240
DEEP = [sign * round(t * SPREAD) for t in (8, 9, 10, 12, 15, 15.99) for sign in (-1, 1)]


@cache
def outcomes() -> dict[int, int]:
    """How many of the 2^256 outcomes each value has, counted in the finished table."""
    tab = table()
    count = dict.fromkeys(range(-ZERO, ZERO), 0)
    for i, (high, low, alias) in enumerate(zip(tab.high.tolist(), tab.low, tab.alias.tolist(), strict=True)):
        threshold = high * LOW + low
        assert 0 <= threshold <= HEIGHT
        count[i - ZERO] += threshold
        count[alias - ZERO] += HEIGHT - threshold
    return count


@cache
def bell_sum() -> Any:
    """Σ_i e^(−i²/2s²) to 150 digits: Poisson's form converges in one term, since e^(−2π²s²) is below 10^−35,000,000."""
    with mpmath.workdps(150):
        return SPREAD * mpmath.sqrt(2 * mpmath.pi)


def bell(j: int) -> Any:
    return mpmath.exp(-(mpmath.mpf(j) ** 2) / (2 * SPREAD**2))


def refuse(count: int) -> bytes:
    raise AssertionError(f"asked for {count} more bytes without a tie")


def word(column: int, height: int) -> np.ndarray:
    return np.array([height * 2**16 + column], dtype=np.uint64)


def test_the_table_gives_out_every_outcome_once():
    assert sum(outcomes().values()) == 2**256
    assert outcomes()[-ZERO] == 0


@pytest.mark.parametrize("j", [0, 1, -1, 777, SPREAD, -3 * SPREAD, *DEEP])
def test_the_table_is_the_exact_pmf_to_one_outcome_in_two_to_the_256(j: int):
    with mpmath.workdps(150):
        exact = 2**256 * bell(j) / bell_sum()
        # Conditioning on |j| < 16 s makes every weight larger, by 2^-188 of itself.
        conditioned = exact * (1 + mpmath.mpf(TABLE_ERROR))
        slack = 2**16 if j == 0 else 0
        assert exact - 1 <= outcomes()[j] <= conditioned + slack


def test_the_whole_table_follows_the_bell():
    j = np.arange(1 - ZERO, ZERO)
    log_weight = np.array([float(mpmath.log(outcomes()[i])) for i in j.tolist()])
    expected = 256 * np.log(2) - j**2 / (2 * SPREAD**2) - np.log(SPREAD * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(log_weight, expected, rtol=1e-13)


def test_the_table_is_closer_to_the_discrete_gaussian_than_its_stated_error():
    with mpmath.workdps(150):
        total, inside = bell_sum(), [mpmath.mpf(0)]
        ratio, step = mpmath.exp(-mpmath.mpf(1) / (2 * SPREAD**2)), mpmath.exp(-mpmath.mpf(1) / SPREAD**2)
        value = mpmath.mpf(1)
        for j in range(ZERO):
            inside.append(abs(value / total - mpmath.mpf(outcomes()[j]) / 2**256) * (1 if j == 0 else 2))
            value, ratio = value * ratio, ratio * step
        outside = 1 - (2 * sum(bell(j) for j in range(ZERO)) - 1) / total
        distance = (mpmath.fsum(inside) + outside) / 2
        assert 0 < outside < mpmath.mpf(2) ** -188.9
        assert distance < mpmath.mpf(TABLE_ERROR)


@pytest.mark.parametrize("j", DEEP)
def test_crafted_words_reach_the_deep_tails_exactly_as_often_as_they_should(j: int):
    tab = table()
    own, high, low = j + ZERO, int(tab.high[j + ZERO]), tab.low[j + ZERO]
    other = int(tab.alias[own]) - ZERO
    # So far out a column is nearly all alias, and no other column has j as its alias.
    assert other != j
    assert not np.any(np.delete(tab.alias, own) == own)
    if high > 0:
        assert integers(word(own, 0), refuse) == [j]
        assert integers(word(own, high - 1), refuse) == [j]
    assert integers(word(own, high + 1), refuse) == [other]
    assert integers(word(own, 2**48 - 1), refuse) == [other]
    assert integers(word(own, high), lambda n: (low - 1).to_bytes(n, "little")) == [j]
    assert integers(word(own, high), lambda n: low.to_bytes(n, "little")) == [other]
    # So the outcomes that give j are exactly the heights below the threshold.
    with mpmath.workdps(150):
        exact = 2**256 * bell(j) / bell_sum()
        assert abs(high * LOW + low - exact) <= 1 + exact * TABLE_ERROR


def test_ties_are_settled_one_by_one_in_an_array():
    tab = table()
    columns = [ZERO + 10 * SPREAD, ZERO - 10 * SPREAD, ZERO + 12 * SPREAD]
    words = np.concatenate([word(c, int(tab.high[c])) for c in columns])
    below = iter([True, False, True])
    settle = iter((tab.low[c] - 1 if next(below) else tab.low[c]).to_bytes(24, "little") for c in columns)
    got = integers(words, lambda n: next(settle))
    assert got.tolist() == [10 * SPREAD, int(tab.alias[columns[1]]) - ZERO, 12 * SPREAD]


def test_a_full_column_is_never_left():
    full = int(np.flatnonzero(table().high == 2**48)[0])
    assert integers(word(full, 2**48 - 1), refuse) == [full - ZERO]


@pytest.mark.parametrize("t", [0.0, 4.0, 8.0, 9.0, 10.0, 12.0])
def test_a_combination_of_two_draws_is_discrete_gaussian_far_into_its_tails(t: float):
    # Pr(aX + bY = j) over all solutions, in integers, against e^(−j²/2s²)/(s√2π), s² = (a² + b²)·SPREAD².
    a, b = 361, 12
    j = round(t * SPREAD * np.hypot(a, b)) + 1
    first = j * pow(a, -1, b) % b
    exact = sum(
        outcomes()[x] * outcomes().get((j - a * x) // b, 0) for x in range(1 - ZERO, ZERO) if (x - first) % b == 0
    )
    with mpmath.workdps(150):
        s = SPREAD * mpmath.sqrt(a * a + b * b)
        expected = mpmath.exp(-(mpmath.mpf(j) ** 2) / (2 * s * s)) / (s * mpmath.sqrt(2 * mpmath.pi))
        # At tσ each of the two still has (16² − t²)/2 nats before it is cut off.
        assert abs(mpmath.mpf(exact) / 2**512 / expected - 1) < 1e-15 * (1 if t > 10 else 1e-15)


def test_draws_pass_a_chi_square_against_every_single_integer():
    size = 2**22
    drawn = combination(1, 0, size, os.urandom)
    j = np.arange(-ZERO, ZERO)
    expected = size * np.exp(-(j**2) / (2 * SPREAD**2)) / (SPREAD * np.sqrt(2 * np.pi))
    observed = np.bincount(drawn + ZERO, minlength=2 * ZERO)
    # Live draws differ in every run: one run in a thousand million may fail by chance.
    many = expected > 25
    bins = [np.append(x[many], x[~many].sum()) for x in (observed, expected)]
    assert many.sum() > 10_000
    assert chisquare(bins[0], bins[1] * size / bins[1].sum()).pvalue > 1e-9


def test_blocks_join_without_gaps_or_repeats():
    drawn = combination(1, 0, 100_001, np.random.default_rng(0).bytes)
    assert drawn.shape == (100_001,)
    first, second = drawn[:30_000], drawn[2**15 : 2**15 + 30_000]
    assert abs(np.corrcoef(first, second)[0, 1]) < 6 / np.sqrt(30_000)
    assert combination(3, 1, 0, os.urandom).shape == (0,)
